# SPDX-License-Identifier: GPL-2.0
"""The loads of loads/ in short form, on Debian's own kernel and with the series: that each does what
it says, and leaves nothing behind, whatever happens to it; and the exact max_active under btrfs
and ext4.

Seen failing: test_on_debians_kernel without its modules; test_the_limit_is_exact_and_used on stock
with two nodes, where 12 items of btrfs run and not 6; test_faults_leave_nothing with a device too
many, with an error that came before the load had begun, without the undo of a mount, without those
of what serves NVMe, and with issuers of dm-crypt-verify that all write the whole device.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from farm import Making
from needs import Boot, DebianKernel, Kernel, Need

from wqlab.guests.qemu import BootOptions
from wqlab.guests.scenario import find_scenario
from wqlab.guests.vm import Record
from wqlab.measure.counts.loads import MODULES, counts, guest, parameters
from wqlab.measure.load import LOADS, Load, assignments
from wqlab.results.model import Number, Run, Value

SERIES = Kernel("loads")
STOCK = DebianKernel(
    (*MODULES, *sorted({name for load in LOADS.values() for name in load.modules}))
)
LESS: Run = {"RW": "randrw"}  # where there is RW, in place of three ways
TIMEOUT = 600.0

Fault = tuple[str, str, dict[str, Value]]  # the load, what happens to it, other parameters

FAULTS: tuple[Fault, ...] = (
    ("btrfs-raid0", "few", {}),
    ("btrfs-raid0", "twice", {}),
    ("btrfs-raid0", "TERM", {"SECS": 60}),
    ("btrfs-raid0", "error", {"SECS": 60}),
    ("dm-crypt-verify", "mounted", {}),
    ("dm-crypt-verify", "held", {}),
    ("dm-crypt-verify", "signature", {}),
    ("dm-crypt-verify", "HUP", {"SECS": 60}),
    ("dm-crypt-verify", "error", {"SECS": 60}),
    ("nfs-loopback", "TERM", {"SECS": 60}),
    ("nfs-loopback", "none", {"SERVED": "8M"}),
    ("nvme-tcp", "TERM", {"SECS": 60}),
    ("nvme-tcp", "error", {"SECS": 60}),
    ("ext4-writeback", "TERM", {"SECS": 60}),
    ("ext4-writeback", "error", {"SECS": 60}),
    ("ext4-writeback", "none", {"DEVICE_MIB": 16, "SECS": 60}),
)
SAID = {  # regular expressions
    "few": "5 devices are given, 6 are needed",
    "twice": "/dev/load1 is given twice",
    "mounted": "/dev/load0 is in use: load0 is mounted on /mounted",
    "held": "/dev/load0 is in use: load0 is held by dm-0",
    "signature": r"/dev/load0 holds something \(swap\): --force overwrites it",
    "error": "Input/output error",
    # as soon as ext4 has given up
    "ext4-writeback error": "Input/output error|Read-only file system",
    "none": "No space left on device",
}
STATUS = {"TERM": 143, "HUP": 143}


@dataclass(frozen=True)
class Loaded(Boot):
    """A boot in which loads run."""

    load: str = ""
    memory: int = field(default=2500, init=False)

    def make(self, farm: Making, keep: bool = False, on_hold: Any = None) -> Record:
        return guest(
            farm[self.kernel],
            find_scenario(self.scenario),
            self.job,
            self.out,
            BootOptions(commands=self.commands, timeout=self.timeout),
            loads=[LOADS[name] for name in self.load.split(",")],
        )


def loaded(load: Load, machine: str, kernel: Need) -> Loaded:
    less = LESS if kernel == STOCK else {}
    line = assignments({"LOAD": load.name, **parameters(load), **less})
    return Loaded(machine, "load", kernel, commands=line, timeout=TIMEOUT, load=load.name)


def figures(record: Record, load: Load) -> dict[str, dict[str, Number]]:
    """Those of each case. Fails if something was left set up."""
    found = counts(find_scenario(record.scenario), record.lines, load)
    return {str(count.labels["load"]): count.figures for count in found}


def each_run(kernel: Need, *names: str) -> Callable:
    """Loads, on each of their machines; in --tier test on the largest, of stock's only btrfs."""

    def tier(load: Load, machine: str) -> str:
        quick = kernel != STOCK or load.name == "btrfs-raid0"
        return "test" if quick and machine == load.machines[-1] else "full"

    return pytest.mark.parametrize(
        ("load", "machine"),
        [
            pytest.param(
                load,
                machine,
                id=f"{load.name}-{machine}",
                marks=[
                    pytest.mark.needs(loaded(load, machine, kernel)),
                    pytest.mark.tier(tier(load, machine)),
                ],
            )
            for load in LOADS.values()
            for machine in load.machines
            if load.name in names or not names
        ],
    )


@each_run(SERIES)
def test_each_load_reports_its_figures(record: Record, load: Load, machine: str) -> None:
    check_figures(record, load)


@each_run(STOCK)
def test_on_debians_kernel(record: Record, load: Load, machine: str) -> None:
    check_figures(record, load)


def check_figures(record: Record, load: Load) -> None:
    found = figures(record, load)
    print(*found.items(), sep="\n")
    for case, had in found.items():
        moved = had.get("read_mib", 0) + had.get("write_mib", 0)
        assert moved > 0, case
        assert had["kworkers"] > 0, case
        assert had["switches_per_io"] > 0, case
        assert 0 < had["cpu_percent"] <= 100, case


@each_run(SERIES, "btrfs-raid0", "ext4-writeback")
def test_the_limit_is_exact_and_used(record: Record, load: Load, machine: str) -> None:
    for case, had in figures(record, load).items():
        assert had["peak"] == had["limit"], case


@each_run(STOCK, "btrfs-raid0", "ext4-writeback")
def test_stock_exceeds_it_on_several_nodes(record: Record, load: Load, machine: str) -> None:
    """What the test above would see without the series."""
    nodes = len(find_scenario(machine).nodes)
    for case, had in figures(record, load).items():
        assert (had["peak"] > had["limit"]) == (nodes > 1), case


@dataclass
class End:
    """What came of a load that met with a fault."""

    status: int = -1
    said: str = ""
    left: list[str] = field(default_factory=list)


def ends(lines: list[str]) -> dict[str, End]:
    """By load and fault."""
    found: dict[str, End] = {}
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "run":
            end = found[rest] = End()
        elif word == "left":
            end.left.append(rest)
        elif word == "status":
            end.status = int(rest)
        elif word == "said":
            end.said = rest
    return found


@pytest.mark.needs(
    Loaded(
        "bench-2",
        "load",
        SERIES,
        commands="".join(
            assignments({"LOAD": name, **parameters(LOADS[name]), **changed, "FAULT": fault})
            for name, fault, changed in FAULTS
        ),
        timeout=TIMEOUT,
        load=",".join(LOADS),
    )
)
@pytest.mark.parametrize(("load", "fault", "changed"), FAULTS)
def test_faults_leave_nothing(record: Record, load: str, fault: str, changed: object) -> None:
    end = ends(record.lines)[f"{load} {fault}"]
    print(end)
    assert end.status == STATUS.get(fault, 1)
    assert re.search(SAID.get(f"{load} {fault}", SAID.get(fault, "")), end.said)
    assert not end.left
