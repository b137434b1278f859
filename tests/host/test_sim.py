# SPDX-License-Identifier: GPL-2.0
"""Simulated machines: their files, and how what the plugin counts is read.

Seen failing: with a cost that is left out, with the middle half counted from the first call, and
with the callers of locks looked up behind the call instead of in it, with the verdict over
virtio; and with all locks taken for a load's pool->lock.
"""

import json
from pathlib import Path

import pytest

from wqlab.ground.places import ROOT
from wqlab.ground.problem import Problem
from wqlab.guests import vm
from wqlab.kernels.arch import ARCHES
from wqlab.measure.counts.loads import pool_lock
from wqlab.measure.sim.machine import COSTS, load_machine
from wqlab.measure.sim.simulate import Symbols, counted, counts, read_run
from wqlab.results import Row

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


@pytest.mark.parametrize("path", MACHINES, ids=lambda path: path.stem)
def test_each_machine(path: Path) -> None:
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


@pytest.mark.parametrize("path", MACHINES, ids=lambda path: path.stem)
def test_same_cores_same_machine(path: Path) -> None:
    machine = load_machine(path)
    smp = machine.scenario.smp
    assert machine.with_cores(smp["cores"]).cpus == machine.cpus
    smaller = machine.with_cores(4)
    assert smaller.scenario.cpus == 4 * smp["sockets"] * smp["dies"] * smp["threads"]
    assert len(smaller.cpus.splitlines()) == smaller.scenario.cpus


def test_middle_half_is_counted() -> None:
    first, last = counted(threads=4, items=100, warmup=20)
    assert (first, last) == (80 + 100, 80 + 300)


def test_nothing_of_the_host_gets_in(tmp_path: Path) -> None:
    """virtio depends on threads of QEMU, and the machine's own QEMU knows no simulated time."""
    kernel = vm.Kernel(tmp_path, ARCHES[0], "6.12", ())
    emulator = vm.Emulator(Path("/other/qemu"), ("-seed", "1"))
    scenario = load_machine(MACHINES[0]).scenario
    command = vm.qemu_command(kernel, scenario, "tcg", "", tmp_path, (3, 4), emulator)
    assert command[0] == "/other/qemu" and "-seed" in command
    assert "chardev:verdict" in command and not [word for word in command if "virt" in word]
    usual = vm.qemu_command(kernel, scenario, "tcg", "", tmp_path, (3, 4))
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
