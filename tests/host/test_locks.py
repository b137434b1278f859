# SPDX-License-Identifier: GPL-2.0
"""wq_contention.py on locks that are made up: how often they were held and waited for, and by how
many. In the memory of real kernels, tests/boot/test_contention.py has them.

Seen failing: with the mutants contention-*.diff of tests/mutants/scripts.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace

import drgn
import pytest

from wqlab.ground.places import ROOT

sys.path.insert(0, str(ROOT / "tools/workqueue"))
import wq_contention
from wq_contention import Lock, Sampler, Tracer

HELD, PENDING = 0x1, 0x100
FIRST, SECOND = 0x1000, 0x2000


def tail(cpu: int, nested: int = 0) -> int:
    return (cpu + 1 << 2 | nested) << 16


class Node(SimpleNamespace):
    """What a CPU waits with, at an address; `next` waits behind it."""

    def __init__(self, address: int, behind: int = 0, count: int = 1) -> None:
        super().__init__(address_=address, next=Number(behind), count=Number(count))


class Number(int):
    def value_(self) -> int:
        return int(self)


class Words(Sampler):
    """Samples locks that have these words in turn, on CPUs 0-7. CPU 3 waits, 7 behind it and 1
    behind that; 0 has waited ahead of 1 before."""

    def __init__(self, **words: list[int]) -> None:
        self.prog = drgn.Program(drgn.Platform(drgn.Architecture.X86_64))
        self.locks, self.pwqs, self.cpus = {}, {}, set(range(8))
        self.nodes = {
            cpu: [Node(0x100 * (cpu + 1), behind, count)]
            for cpu, behind, count in ((3, 0x800, 1), (7, 0x200, 1), (1, 0, 1), (0, 0x200, 0))
        }
        self.rounds, self.spent, self.longest, self.pv = 0, 0.0, 0.0, False
        for number, (name, turns) in enumerate(words.items(), 1):
            self.put(number * 0x1000, cycle(turns))
            self.locks[number * 0x1000] = Lock(name, number * 0x1000)

    def put(self, address: int, turn: Iterator[int]) -> None:
        def read(_: int, count: int, offset: int, __: bool) -> bytes:
            return next(turn).to_bytes(4, "little")[offset : offset + count]

        self.prog.add_memory_segment(address, 4, read)

    def find(self) -> None:
        pass


def test_shares() -> None:
    turns = [0, HELD, HELD | PENDING, HELD | tail(1), HELD | PENDING | tail(1)]
    sampler = Words(busy=turns, calm=[0, 0, 0, 0, HELD], waited=[PENDING], free=[0])
    for _ in range(100):
        sampler.round()
    assert [lock.name for lock in sampler.hottest(10)] == ["waited", "busy", "calm"]
    assert [lock.name for lock in sampler.hottest(1)] == ["waited"]
    waited, busy, calm = sampler.hottest(10)
    assert (busy.samples, busy.held, busy.waited) == (100, 80, 60)
    assert busy.queued == 20 * 1 + 20 * 3 + 20 * (1 + 3)
    assert (calm.held, calm.waited, waited.held, waited.waited) == (20, 0, 0, 100)
    header, _, line, last = sampler.table(10)
    assert header.split()[:6] == ["LOCK", "HELD", "WAITED", "95", "%", "QUEUE"]
    assert line.split() == ["busy", "80.00", "60.00", "50.20-69.06", "2.7", "-", "-", "-"]
    assert last.split()[3:] == ["0.00-3.70", "-", "-", "-", "-"]
    fields = sampler.fields(busy)
    assert (fields["samples"], fields["held"], fields["waited"]) == (100, 80, 60)
    assert fields["queue"] == pytest.approx(160 / 60)
    assert fields["waited_interval"] == pytest.approx((0.5020, 0.6906), abs=1e-4)


@pytest.mark.parametrize("word", [HELD | 0x6B6B_6B00, 0x4, HELD | tail(48), 0x3_0000])
def test_what_is_no_lock(word: int) -> None:
    """The memory of a lock is freed, and has something else in it before that is noticed."""
    sampler = Words(freed=[word])
    sampler.round()
    assert not sampler.hottest(10) and not sampler.locks[FIRST].samples


def test_paravirtualised() -> None:
    """The first one of the queue sets the pending bit, and says so in the locked byte if its vCPU
    is about to halt."""
    sampler = Words(halted=[0x3 | PENDING | tail(1)])
    sampler.pv = True
    sampler.round()
    (lock,) = sampler.hottest(10)
    assert (lock.held, lock.waited, lock.queued) == (1, 1, 3)


def test_memory_that_is_gone() -> None:
    """The others are read all the same."""
    sampler = Words(held=[HELD])
    sampler.locks = {0x9000: Lock("gone", 0x9000), **sampler.locks}
    sampler.round()
    assert [lock.name for lock in sampler.hottest(10)] == ["held"]
    assert sampler.rounds == 1


def test_a_queue_that_is_bent() -> None:
    """It is read while it changes."""
    sampler = Words(busy=[HELD | tail(1)])
    sampler.nodes[1][0].next = Number(0x400)  # a circle
    assert sampler.waiting(tail(1)) == 3
    assert sampler.waiting(tail(5)) == 1  # a CPU whose nodes are not known


def test_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends after that time, or is one sample of a dump."""
    sampler = Words(busy=[HELD])
    monkeypatch.setattr(wq_contention, "REFRESH", 0.02)
    assert 0.1 <= wq_contention.watch(sampler, True, 0.1, 0.01, 10) < 5
    assert 2 < sampler.rounds <= 11
    assert f"{sampler.rounds} samples of 1 locks in 0.1 s" in sampler.overhead(0.1)
    dump = Words(busy=[HELD])
    wq_contention.watch(dump, False, 0.1, 0.01, 10)
    assert dump.rounds == 1


# --- with BPF ---------------------------------------------------------------------------------


class Traced(Tracer):
    """Has these locks."""

    def __init__(self, *_: object) -> None:
        self.locks = {at: Lock(f"pool {at >> 12}", at) for at in (FIRST, SECOND)}
        self.pwqs, self.counted = {}, {}
        self.first_ns = self.last_ns = self.waits = self.wait_ns = 0

    def find(self) -> None:
        pass


@pytest.fixture
def bpftrace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes one that does this in place of counting."""

    def make(*commands: str) -> None:
        fake = tmp_path / "bpftrace"
        fake.write_text("\n".join(["#!/bin/sh", *commands, ""]))
        fake.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    return make


def counted(second: int, waits: dict[int, tuple[int, int]]) -> str:
    """That bpftrace has counted so many waits that took so many ns."""
    data = {
        hex(address): {"count": count, "average": 0, "total": total}
        for address, (count, total) in waits.items()
    }
    lines = [
        {"type": "stats", "data": {"@waits": data}},
        {"type": "printf", "data": str(10**15 + second * 10**9)},
    ]
    return "\n".join(["cat <<'END'", *map(json.dumps, lines), "END"])


COUNTED = [
    counted(0, {FIRST: (7, 7_000_000_000), SECOND: (1, 1000)}),
    counted(1, {FIRST: (8, 7_000_001_000), SECOND: (1, 1000), 0x10: (1, 100)}),
    counted(2, {FIRST: (57, 8_500_000_000), SECOND: (101, 500_001_000), 0x10: (1, 100)}),
    "exec sleep 60",
]


def test_bpf(bpftrace: Callable[..., None]) -> None:
    """What is shown is of whole seconds, from when all is in place."""
    bpftrace(*COUNTED)
    tracer = Traced()
    wq_contention.trace(tracer, 2, 10)
    header, first, second, last = [*tracer.table(10), tracer.overhead()]
    assert header.split()[:5] == ["LOCK", "WAITS", "WAITED", "MEAN", "SHARE"]
    assert first.split()[:6] == ["pool", "1", "50", "75.00", "30000.0", "75.00"]
    assert second.split()[:6] == ["pool", "2", "100", "25.00", "5000.0", "25.00"]
    assert last == "151 waits for 3 spinlocks in 2.0 s"
    tracer.counted = dict.fromkeys(range(wq_contention.MAX_KEYS), (1, 1))
    assert tracer.overhead().endswith(", and for more that were not counted")


@pytest.mark.parametrize(
    ("commands", "says"),
    [
        ([COUNTED[0], "echo 'ERROR: no BPF' >&2", "exit 1"], "bpftrace has ended: ERROR: no BPF"),
        (["exit 0"], "bpftrace has ended: it said nothing"),
        (["exec sleep 60"], "bpftrace has said nothing for 1 s"),
    ],
)
def test_no_bpf(
    bpftrace: Callable[..., None], commands: list[str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bpftrace(*commands)
    monkeypatch.setattr(wq_contention, "BPF_LIMIT", 1)
    with pytest.raises(wq_contention.Unknown, match=f"^{says}$"):
        wq_contention.trace(Traced(), 2, 10)


# --- main -------------------------------------------------------------------------------------


def program(live: bool) -> object:
    return SimpleNamespace(flags=drgn.ProgramFlags.IS_LIVE if live else drgn.ProgramFlags(0))


def test_json(
    bpftrace: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bpftrace(*COUNTED)
    monkeypatch.setattr(wq_contention, "Tracer", Traced)
    words = ["wq_contention.py", "--bpf", "--json", "--for", "2", "--top", "1"]
    monkeypatch.setattr(sys, "argv", words)
    assert wq_contention.main(program(live=True)) == 0
    said = json.loads(capsys.readouterr().out)
    (lock,) = said["locks"]
    assert (lock["lock"], lock["waits"], lock["wait_ns"]) == ("pool 1", 50, 1_500_000_000)
    assert said["overhead"] == "151 waits for 3 spinlocks in 2.0 s"


def test_bpf_of_a_dump(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["wq_contention.py", "--bpf"])
    assert wq_contention.main(program(live=False)) == 2
    assert "a dump tells of no waits: do without --bpf" in capsys.readouterr().err


@pytest.mark.parametrize(
    "error",
    [LookupError("no nodes"), drgn.FaultError("not there", 1), AttributeError("no member")],
)
def test_kernel_that_cannot_be_read(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(prog: object) -> Sampler:
        raise error

    monkeypatch.setattr(wq_contention, "Sampler", fail)
    monkeypatch.setattr(sys, "argv", ["wq_contention.py", "--json"])
    assert wq_contention.main(program(live=True)) == 2
    said = capsys.readouterr()
    assert "wq_contention.py: drgn can't read this kernel: " in said.err and not said.out


def test_wrong_words(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["wq_contention.py", "--top", "-1"])
    with pytest.raises(SystemExit, match="^2$"):
        wq_contention.main(program(live=True))
    assert "--top -1 is not a number above 0" in capsys.readouterr().err
