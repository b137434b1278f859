# SPDX-License-Identifier: GPL-2.0
"""Simulated machines: their files, and how what the plugin counts is read.

Seen failing: with a cost that is left out, with the middle half counted from the first call, and
with the callers of locks looked up behind the call instead of in it, with the verdict over
virtio; with all locks taken for a load's pool->lock; and, of the command, with a boot made again
that is kept, stock with sizes, and repetitions within scopes.
"""

import argparse
import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from each import each_holds
from guests import make_kernel

from wqlab import report
from wqlab.ground import program
from wqlab.ground.places import ROOT
from wqlab.ground.problem import Problem, Usage
from wqlab.guests import vm
from wqlab.guests.qemu import BootOptions, Emulator, qemu_command
from wqlab.kernels.arch import ARCHES
from wqlab.kernels.builddir import BuildDir
from wqlab.measure import sim
from wqlab.measure.counts.loads import pool_lock
from wqlab.measure.sim.machine import COSTS, load_machine
from wqlab.measure.sim.simulate import Measured, Symbols, counts, read_run
from wqlab.measure.sim.simulate import counted as counted_calls
from wqlab.measure.subjects import Subject, find_subject
from wqlab.results.file import load
from wqlab.results.metrics import counted
from wqlab.results.model import Results, Row

MACHINES = sorted((ROOT / "machines").glob("*.toml"))
COSTLY = "".join(f"{name} = 1\n" for name in COSTS)
SYMBOLS = Symbols(
    [
        (0x100, 0x140, "_raw_spin_lock_irq"),
        (0x140, 0x180, "queue_work_on"),
        (0x200, 0x2FF, "__x64_sys_sethostname"),
        (0x300, 0x340, "worker_thread"),
        (0x340, 0x380, "pwq_dec_nr_active"),
    ],
    frozenset({"worker_thread", "pwq_dec_nr_active"}),
)
ROW = Row("cpu", "serial", values={"threads": 4, "items": 400, "warmup": 20})
COUNTED = {
    "calls": 480,
    "first_ps": 1_000_000_000,
    "last_ps": 3_000_000_000,
    "insns": 20_000,
    "sites": [
        [0x150, 10_000_000, 0, 200, 0, 0, 0],
        [0x160, 0, 0, 0, 200, 0, 0],
        [0x250, 20_000_000, 0, 200, 0, 0, 0],
    ],
    "locks": [
        [1, 0x180, 200, 50, 4_000_000, 8_000_000],
        [2, 0x180, 200, 0, 0, 2_000_000],
        [1, 0x310, 100, 0, 0, 1_000_000],
        [3, 0x350, 100, 0, 0, 3_000_000],
    ],
}


def test_each_machine() -> None:
    def check(path: Path) -> None:
        machine = load_machine(path)
        places = [tuple(map(int, line.split())) for line in machine.cpus.splitlines()]
        assert len(places) == machine.scenario.cpus
        # cores are within LLCs, and those within nodes
        for inner, outer in ((0, 1), (1, 2), (2, 3)):
            assert len({(place[inner], place[outer]) for place in places}) == len(
                {place[inner] for place in places}
            )
        assert len({place[0] for place in places}) * machine.scenario.smp["threads"] == len(places)
        costs = machine.costs
        assert costs["core"] <= costs["cluster"] <= costs["llc"] <= costs["node"] <= costs["far"]

    each_holds(MACHINES, check)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (f'scenario = "one-llc-12"\n[costs]\n{COSTLY}', ""),
        (f'scenario = "no-such"\n[costs]\n{COSTLY}', "no machine 'no-such'"),
        (f"[costs]\n{COSTLY}", "no 'scenario'"),
        ('scenario = "one-llc-12"\n', "no 'costs'"),
        (f'scenario = "one-llc-12"\n[costs]\n{COSTLY}ipis = 1\n', "ipis is no cost that is known"),
        (
            'scenario = "one-llc-12"\n[costs]\n' + COSTLY.replace("ipi = 1\n", ""),
            "ipi is not given",
        ),
        (f'scenario = "one-llc-12"\n[costs]\n{COSTLY}'.replace("1\n", "x\n", 1), "machine.toml: "),
        (f'scenario = "bench-2"\n[costs]\n{COSTLY}', "does not say its pods"),
    ],
)
def test_file_of_a_machine(tmp_path: Path, text: str, wrong: str) -> None:
    path = tmp_path / "machine.toml"
    path.write_text(text)
    if not wrong:
        assert load_machine(path).costs == dict.fromkeys(COSTS, 1.0)
        return
    with pytest.raises(Problem) as caught:
        load_machine(path)
    assert wrong in str(caught.value) and "\n" not in str(caught.value)


def test_same_cores_same_machine() -> None:
    def check(path: Path) -> None:
        machine = load_machine(path)
        smp = machine.scenario.smp
        assert machine.with_cores(smp["cores"]).cpus == machine.cpus
        smaller = machine.with_cores(4)
        assert smaller.scenario.cpus == 4 * smp["sockets"] * smp["dies"] * smp["threads"]
        assert len(smaller.cpus.splitlines()) == smaller.scenario.cpus

    each_holds(MACHINES, check)


def test_middle_half_is_counted() -> None:
    first, last = counted_calls(threads=4, items=100, warmup=20)
    assert (first, last) == (80 + 100, 80 + 300)


def test_nothing_of_the_host_gets_in(tmp_path: Path) -> None:
    """virtio depends on threads of QEMU, and the machine's own QEMU knows no simulated time."""
    kernel = BuildDir(tmp_path, ARCHES[0], "6.12", ())
    emulator = Emulator(Path("/other/qemu"), ("-seed", "1"))
    scenario = load_machine(MACHINES[0]).scenario
    command = qemu_command(
        kernel, scenario, "tcg", "", tmp_path, (3, 4), BootOptions(emulator=emulator)
    )
    assert command[0] == "/other/qemu" and "-seed" in command
    assert "chardev:verdict" in command and not [word for word in command if "virt" in word]
    usual = qemu_command(kernel, scenario, "tcg", "", tmp_path, (3, 4))
    assert usual[0] == ARCHES[0].qemu and "virtio-serial-pci" in usual


def test_symbols() -> None:
    assert SYMBOLS.name(0x13F) == "_raw_spin_lock_irq"
    assert SYMBOLS.name(0x180) == "(module)"
    assert SYMBOLS.file == "lock 100 140\nqueue 140 180\nswitch 200 2ff\n"


def test_counts() -> None:
    one = read_run(json.dumps(COUNTED), ROW, SYMBOLS)
    assert one.items == 200 and one.items_per_sec == pytest.approx(100_000)
    found = {tuple(count.labels.items())[1:]: count.figures for count in counts(one)}
    assert found[()]["moves_per_item"] == 3
    assert found[()]["instructions_per_item"] == 100
    assert found[(("of", "distance"), ("in", "cluster"))] == {"moves_per_item": 2}
    assert (("of", "distance"), ("in", "far")) not in found
    assert found[(("of", "lines"), ("in", "queue_work_on"))] == {
        "moves_per_item": 2,
        "moves_wait_ns": 50,
    }
    held = {
        of[1][1]: figures["lock_hold_ns"] for of, figures in found.items() if ("of", "locks") in of
    }
    assert held == {"pool->lock": 45, "max_active": 15, "others": 10}
    assert found[(("of", "lock"), ("in", "queue_work_on"))] == {
        "taken_per_item": 2,
        "contended_per_item": 0.25,
        "lock_wait_ns": 20,
        "lock_hold_ns": 50,
    }


def test_one_cpu() -> None:
    """Nothing moves there."""
    total, *_ = counts(read_run(json.dumps(COUNTED | {"sites": []}), ROW, SYMBOLS))
    assert total.figures["moves_per_item"] == total.figures["moves_wait_ns"] == 0


def test_too_few_items() -> None:
    with pytest.raises(Problem, match="fewer items"):
        read_run(json.dumps(COUNTED | {"last_ps": 0}), ROW, SYMBOLS)


def test_pool_lock_of_a_load() -> None:
    """Of items that others queued too, and of the lock that workers take."""
    told = pool_lock(json.dumps(COUNTED), 200, SYMBOLS)
    figures = dict(pair.split("=") for pair in told.split())
    assert {key: float(value) for key, value in figures.items()} == {
        "steady_items_per_sec": 100_000,
        "taken_per_item": 1.5,
        "contended_per_item": 0.25,
        "lock_wait_ns": 20,
        "lock_hold_ns": 45,
    }
    assert "contended_per_item=0.0000" in pool_lock(
        json.dumps(COUNTED | {"locks": []}), 200, SYMBOLS
    )
    for text in ("", json.dumps(COUNTED | {"last_ps": 0})):
        with pytest.raises(Problem, match="fewer items"):
            pool_lock(text, 200, SYMBOLS)


# --- the command -------------------------------------------------------------------------


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Results]:
    """wqlab sim on the kernels stock and patched, without a simulator; `simulated.boots` has the
    boot parameters of each boot."""
    boots: list[str] = []

    def build(name: str, source: object, patches: int | None) -> Subject:
        path = make_kernel(tmp_path / name, name, "bench", 5 if patches is None else patches)
        return find_subject(name, [path])

    def simulate(kernel, machine, asked, out, append) -> tuple[list[Measured], vm.Record]:
        boots.append(append)
        rows = [Row(run["scopes"][0], run["mode"], values={"items": 1}) for run in asked]
        command = ["/usr/bin/qemu"]
        record = vm.Record("", "sim", "pass", "", 1.0, "tcg", "6.12", command, [], [], [])
        return [Measured(row, 10 * len(row.scope), 1e-3) for row in rows], record

    for name, stand_in in (
        ("sources", lambda args, notes: {"stock": (None, 0), "patched": (None, None)}),
        ("emulator", lambda: (tmp_path / "qemu", tmp_path / "wqtime.so")),
        ("build_subject", build),
        ("simulate", simulate),
        ("BUILD", tmp_path),
    ):
        monkeypatch.setattr(sim, name, stand_in)
    monkeypatch.setattr(report, "write_report", lambda files, out: None)

    def run(*words: str) -> Results:
        boots.clear()
        parser = argparse.ArgumentParser()
        sim.add_options(parser)
        args = parser.parse_args([f"--out={tmp_path / 'sim.json'}", *words])
        args.typed = program.typed("wqlab sim", words)
        assert sim.command(args) == 0
        return load(tmp_path / "sim.json")

    run.boots = boots  # type: ignore[attr-defined]
    return run


def test_each_run_in_each_scope(simulated) -> None:
    """In one boot of each kernel, which is made once."""
    words = ["--scopes=cpu,cache", "--repeat=2", "--mode=burst", "--items=9", "--warmup=3"]
    words += ["--words", "max_active=1", "--words", "max_active=2 window=4"]
    found = simulated(*words)
    assert simulated.boots == [""] * 2
    assert shlex.split(found.made[0].command) == ["scripts/wqlab", "sim", *words]
    stock = [boot for boot in found.boots if boot.kernel == found.kernels[0].id]
    assert [(boot.section, boot.number, boot.runs[0]["max_active"]) for boot in stock] == [
        (section, number, limit)
        for number in (1, 2)
        for limit in (1, 2)
        for section in ("time", "sim")
    ]
    first = {"mode": "burst", "threads": 72, "items": 9, "warmup": 3, "max_active": 1}
    assert stock[0].runs == [first | {"scopes": [scope]} for scope in ("cpu", "cache")]
    assert [row.scope for row in stock[0].rows] == ["cpu", "cache"]
    rates = counted(stock[1:2], {"scope": "cache"}, "steady_items_per_sec")
    assert rates == pytest.approx([50_000])
    assert simulated(*words).boots == found.boots and simulated.boots == []


def test_sizes_and_costs(simulated, capsys: pytest.CaptureFixture[str]) -> None:
    """Stock has no shards to size, and each cost that is varied has a machine of its own."""
    found = simulated("--sizes=1,2", "--scopes=cache_shard", "--cores=4,8")
    size = "workqueue.cache_shard_size="
    assert sorted(simulated.boots) == [f"{size}1"] * 2 + [f"{size}2"] * 2
    assert {boot.section for boot in found.boots} == {"sizes", "sim"}
    found = simulated("--vary=wake", "--cost=insn=0.5", "--mode=fanout")
    assert len(found.machines) == 3 and all("insn=0.5," in m.emulation for m in found.machines)
    assert found.boots[0].runs[0]["threads"] == 1
    assert "other order" in capsys.readouterr().out
    with pytest.raises(Usage, match="--vary is for one number of cores"):
        simulated("--vary=wake", "--cores=4,8")
