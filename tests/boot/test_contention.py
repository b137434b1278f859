# SPDX-License-Identifier: GPL-2.0
"""wq_contention.py: from the words that a lock has had one after the other, how often it was held
and waited for, and by how many. The words are put in the memory that drgn reads, over a dump of a
machine.

Seen failing: with the pending bit not counted, with a queue walked from its head, with the interval
of a share taken for symmetric, with locks that were never held shown, with what bpftrace counted
before the first time taken for new, with its end taken for ours, with its silence waited for, with
any word taken for one of a lock, with locks that are waited for taken for held, with twice as many
who wait, and with a guest's spinlocks taken for those of the machine.
"""

import json
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any

import drgn
import pytest
from drgn.helpers.linux.percpu import per_cpu
from farm import Making
from live import END_LIMIT, Looking
from memory import Memory, wq_contention
from needs import Boot, Kernel
from test_verify import SERIES_CORE, STOCK_CORE

from wqlab.guests import vm
from wqlab.guests.scenario import find_scenario
from wqlab.kernels.builddir import BuildDir
from wqlab.measure.tasks import parse_lock_stat

SEEN = Kernel("seen")  # where lock statistics are
HELD, PENDING = 0x1, 0x100


def tail(cpu: int, nested: int = 0) -> int:
    return (cpu + 1 << 2 | nested) << 16


@pytest.fixture
def memory(made: tuple[BuildDir, Path]) -> Memory:
    return Memory(*made)


def words(memory: Memory, lock: drgn.Object, values: Sequence[int]) -> None:
    """What a lock has, each value for one reading."""
    turn = cycle(values)
    memory.prog.add_memory_segment(
        lock.raw_lock.val.address_of_().value_(),
        4,
        lambda _, count, offset, __: next(turn).to_bytes(4, "little")[offset : offset + count],
    )


def define(memory: Memory, name: str, kind: str, value: Any) -> None:
    """A variable of kernels whose configuration differs."""

    def find(prog: drgn.Program, asked: str, *_: Any) -> drgn.Object | None:
        return drgn.Object(prog, kind, value) if asked == name else None

    memory.prog.register_object_finder(name, find, enable_index=0)


def queue(memory: Memory, *cpus: int) -> None:
    """These CPUs wait behind each other. Another one has been before the last, and is no more."""
    nodes = {cpu: per_cpu(memory.prog["qnodes"], cpu)[0].mcs for cpu in (*cpus, 0)}
    for cpu in cpus:
        memory.poke(nodes[cpu].count, 1)
    memory.poke(nodes[cpus[-1]].next, 0)
    for cpu, behind in [*pairwise(cpus), (0, cpus[-1])]:
        memory.poke(nodes[cpu].next, nodes[behind].address_)


@pytest.mark.needs(SERIES_CORE)
def test_shares(memory: Memory) -> None:
    pool = memory.pwq().pool
    queue(memory, 3, 7, 1)
    words(memory, pool.lock, [0, HELD, HELD | PENDING, HELD | tail(1), HELD | PENDING | tail(1)])
    words(memory, memory.node().lock, [0, 0, 0, 0, HELD])
    sampler = wq_contention.Sampler(memory.prog)
    for _ in range(100):
        sampler.round()
    first, second = sampler.hottest(10)
    assert first.name == f"pool {pool.id.value_()}"
    assert (first.samples, first.held, first.waited) == (100, 80, 60)
    assert first.queued == 20 * 1 + 20 * 3 + 20 * (1 + 3)
    assert second.name == "writeback node 0"
    assert (second.held, second.waited) == (20, 0)
    assert sampler.hottest(1) == [first]
    header, line, _ = sampler.table(10)
    print(header, line, sep="\n")
    shown = line.split()
    assert shown[2:4] == ["80.00", "60.00"]
    assert shown[5:9] == ["2.7", str(pool.nr_idle.value_()), "0", "0"]
    assert "writeback" in line


@pytest.mark.needs(SERIES_CORE)
def test_paravirtualised(memory: Memory) -> None:
    """The first one of the queue sets the pending bit, and says so in the locked byte if its vCPU
    is about to halt."""
    define(memory, "pv_lock_hash", "void *", 0x1000)
    queue(memory, 3, 1)
    words(memory, memory.pwq().pool.lock, [0x3 | PENDING | tail(1)])
    sampler = wq_contention.Sampler(memory.prog)
    sampler.round()
    (lock,) = sampler.hottest(10)
    assert (lock.held, lock.waited, lock.queued) == (1, 1, 2)


@pytest.mark.needs(SERIES_CORE)
@pytest.mark.parametrize("kind", [wq_contention.Sampler, wq_contention.Tracer])
def test_test_and_set(memory: Memory, kind: type[wq_contention.Locks]) -> None:
    """Where a hypervisor offers nothing better, no waiter leaves a trace."""
    key = {"key": {"enabled": {"counter": 0}}}
    define(memory, "virt_spin_lock_key", "struct static_key_true", key)
    assert kind(memory.prog).locks
    key["key"]["enabled"]["counter"] = 1
    with pytest.raises(wq_contention.Unknown, match="don't tell who waits"):
        kind(memory.prog)


@pytest.mark.needs(SERIES_CORE)
@pytest.mark.parametrize("word", [HELD | 0x6B6B_6B00, 0x4, HELD | tail(48), 0x3_0000])
def test_what_is_no_lock(memory: Memory, word: int) -> None:
    """The memory of a lock is freed, and has something else in it before that is noticed."""
    words(memory, memory.pwq().pool.lock, [word])
    sampler = wq_contention.Sampler(memory.prog)
    sampler.round()
    assert not sampler.hottest(10)


@pytest.mark.needs(STOCK_CORE)
def test_locks_of_nodes(memory: Memory) -> None:
    words(memory, memory.node().lock, [HELD])
    sampler = wq_contention.Sampler(memory.prog)
    sampler.round()
    assert [lock.name for lock in sampler.hottest(10)] == ["writeback node 0"]


@pytest.mark.needs(SERIES_CORE)
def test_a_while(memory: Memory, capsys: pytest.CaptureFixture[str]) -> None:
    """Locks that come and go are found anew, and what is known of the others stays."""
    words(memory, memory.pwq().pool.lock, [HELD])
    sampler = wq_contention.Sampler(memory.prog)
    elapsed = wq_contention.watch(sampler, True, 0.2, 0.01, 10)
    assert 0.2 <= elapsed < 5
    (lock,) = sampler.hottest(10)
    sampler.find()
    assert sampler.hottest(10) == [lock] and lock.held == sampler.rounds > 2
    assert f"{sampler.rounds} samples of {len(sampler.locks)} locks" in sampler.overhead(elapsed)
    assert wq_contention.watch(sampler, True, 0.2, 60, 10) < 5


@pytest.mark.needs(SERIES_CORE)
def test_json(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dump is one sample."""
    words(memory, memory.pwq().pool.lock, [HELD | PENDING])
    monkeypatch.setattr(sys, "argv", ["wq_contention.py", "--json", "--for", "60"])
    assert wq_contention.main(memory.prog) == 0
    (lock,) = json.loads(capsys.readouterr().out)["locks"]
    assert (lock["samples"], lock["held"], lock["waited"], lock["queue"]) == (1, 1, 1, 1)
    assert lock["waited_interval"] == pytest.approx([0.2065, 1], abs=1e-4)


def bpftrace(folder: Path, monkeypatch: pytest.MonkeyPatch, *commands: str) -> None:
    """One that does this in place of counting."""
    fake = folder / "bpftrace"
    fake.write_text("\n".join(["#!/bin/sh", *commands, ""]))
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def counted(second: int, **waits: tuple[int, int]) -> str:
    """That bpftrace has counted so many waits that took so many ns."""
    data = {
        address: {"count": count, "average": 0, "total": total}
        for address, (count, total) in waits.items()
    }
    lines = [
        {"type": "stats", "data": {"@waits": data}},
        {"type": "printf", "data": str(10**15 + second * 10**9)},
    ]
    return "\n".join(["cat <<'END'", *map(json.dumps, lines), "END"])


@pytest.mark.needs(SERIES_CORE)
def test_bpf(memory: Memory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is shown is of whole seconds, from when all is in place."""
    pool, node = memory.pwq().pool, memory.node()
    first, second = (
        hex(lock.raw_lock.val.address_of_().value_()) for lock in (pool.lock, node.lock)
    )
    bpftrace(
        tmp_path,
        monkeypatch,
        counted(0, **{first: (7, 7_000_000_000), second: (1, 1000)}),
        counted(1, **{first: (8, 7_000_001_000), second: (1, 1000), "0x10": (1, 100)}),
        counted(2, **{first: (57, 8_500_000_000), second: (101, 500_001_000), "0x10": (1, 100)}),
        "trap 'kill $!; head -c 1000000 /dev/zero; exit' INT",  # more than a pipe takes
        "sleep 60 & wait",
    )
    tracer = wq_contention.Tracer(memory.prog)
    began = time.monotonic()
    wq_contention.trace(tracer, 2, 10)
    assert time.monotonic() - began < 10
    header, *lines, last = [*tracer.table(10), tracer.overhead()]
    print(header, *lines, last, sep="\n")
    assert header.split()[:5] == ["LOCK", "WAITS", "WAITED", "MEAN", "SHARE"]
    assert [line[:24].strip() for line in lines] == [
        f"pool {pool.id.value_()}",
        "writeback node 0",
    ]
    assert lines[0][24:].split()[:4] == ["50", "75.00", "30000.0", "75.00"]
    assert lines[1][24:].split()[:4] == ["100", "25.00", "5000.0", "25.00"]
    assert last == "151 waits for 3 spinlocks in 2.0 s"


@pytest.mark.needs(SERIES_CORE)
@pytest.mark.parametrize(
    ("commands", "says"),
    [
        ([counted(0), "echo 'ERROR: no BPF' >&2", "exit 1"], "bpftrace has ended: ERROR: no BPF"),
        (["sleep 60"], "bpftrace has said nothing for 1 s"),
    ],
)
def test_no_bpf(
    memory: Memory,
    commands: list[str],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    bpftrace(tmp_path, monkeypatch, *commands)
    monkeypatch.setattr(wq_contention, "BPF_LIMIT", 1)
    with pytest.raises(wq_contention.Unknown, match=f"^{says}$"):
        wq_contention.trace(wq_contention.Tracer(memory.prog), 2, 10)


@pytest.mark.needs(SERIES_CORE)
def test_bpf_of_a_dump(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["wq_contention.py", "--bpf"])
    assert wq_contention.main(memory.prog) == 2
    assert "a dump tells of no waits: do without --bpf" in capsys.readouterr().err


class Sampling(Looking):
    """Reads the locks of a guest's workqueues between two lines of its job."""

    def __init__(self) -> None:
        self.started, self.ended = threading.Event(), threading.Event()
        self.rounds, self.seconds = 0, 0.0
        self.classes: dict[str, Counter[str]] = {}

    def said(self, line: str) -> None:
        if line == "begin":
            self.started.set()
        elif line == "end":
            self.ended.set()
            self.end()

    def look(self, prog: drgn.Program) -> None:
        sampler = wq_contention.Sampler(prog)
        if not self.started.wait(END_LIMIT):
            return
        began = found = time.monotonic()
        locks: dict[int, wq_contention.Lock] = {}
        while not self.ended.wait(random.uniform(0, 0.002)):
            if (now := time.monotonic()) - found > 0.2:
                found = now
                sampler.find()
            sampler.round()
            locks |= {id(lock): lock for lock in sampler.locks.values()}
        self.rounds, self.seconds = sampler.rounds, time.monotonic() - began
        for lock in locks.values():
            counts = self.classes.setdefault("pool->lock" if lock.pool else "nna->lock", Counter())
            counts["held"] += lock.held
            counts["queued"] += lock.queued


@dataclass(frozen=True)
class Sampled(Boot):
    """A boot of guest/jobs/contention, and what wq_contention.py has seen of its locks between the
    lines "begin" and "end": how many samples, of each class how often it was held and how many
    waited in all, and the seconds that it took."""

    def make(self, farm: Making, **_: Any) -> tuple[vm.Record, int, dict[str, Counter[str]], float]:
        sampling = Sampling()
        with sampling.of(farm[self.kernel], find_scenario(self.scenario).memory) as begin:
            record = super().make(farm, on_hold=begin, on_line=sampling.said)
        return record, sampling.rounds, sampling.classes, sampling.seconds


# parameters of test_workqueue
LOAD = "mode=fanout window=16 max_active=2 wq_items=300000 scopes=cache"
BEYOND = 1.1  # the interval of a share: samples are not independent


@pytest.mark.needs(Sampled("one-llc-12", "contention", SEEN, commands=f"{LOAD}\n"))
def test_lock_statistics(made: tuple[vm.Record, int, dict[str, Counter[str]], float]) -> None:
    """The kernel's lock statistics of the same load have the same locks held for the same shares of
    the time, and as many waiting. They leave out what they themselves take with a lock held, and
    that of who is about to wait counts as waiting, a third at most each. All CPUs are emulated by
    one thread, so that what reads their memory stops none of them."""
    record, rounds, seen, seconds = made
    assert record.verdict == "pass", record.reason
    lines = [line.removeprefix("lock ") for line in record.lines if line.startswith("lock ")]
    told = {name: parse_lock_stat(lines)[f"&{name}"] for name in ("pool->lock", "nna->lock")}
    print(rounds, seconds, seen, told, sep="\n")
    assert rounds > 1000
    for name, lock in told.items():
        low, high = wq_contention.wilson(seen[name]["held"], rounds)
        assert low / 1.35 <= lock.hold_total_ns / 1e9 / seconds <= high * BEYOND, name
    assert seen["pool->lock"]["held"] > seen["nna->lock"]["held"]
    waited = told["pool->lock"].wait_total_ns / 1e9 / seconds
    queued = seen["pool->lock"]["queued"] / rounds
    assert queued / BEYOND <= waited <= queued * 1.5
