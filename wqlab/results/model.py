# SPDX-License-Identifier: GPL-2.0
"""Results of measurements: the one format of all files that measured figures are in.

The dataclasses from Made to Results are the format. Their comments are its documentation, also
in schema.json, which tests/proof/results_schema.py makes of them. Only what was measured is in
a file: medians, intervals and whatever else is said of figures are worked out when it is read.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from wqlab.ground.problem import Problem

SCHEMA = 3

Value = int | str | list[str]
# parameters of test_workqueue, results/module.py has what insmod takes; or of a load of loads/
Run = dict[str, Value]
Number = int | float

Section = Literal[
    "time",
    "locks",
    "icount",
    "loads",
    "sizes",
    "local",
    "costs",
    "hotplug",
    "irqsoff",
    "peaks",
    "reclaim",
    "wakeups",
    "setup",
    "sim",
]
Verdict = Literal["pass", "fail", "lost"]


class ResultsError(Problem):
    """One line about a file or a log that can't be used."""


@dataclass(frozen=True)
class Made:
    """What made the file."""

    date: str  # YYYY-MM-DD
    command: str
    # of this repository, with "-dirty" where it had changes; null where that is not known
    commit: str | None


@dataclass(frozen=True)
class Host:
    """A computer that was measured on. null is what is not known."""

    # made of all below but kernel, microcode, governor and load: the same machine has it elsewhere
    id: str
    cpu_model: str  # of the host, where the measured kernel ran under emulation
    cpus: int  # that could be used
    memory_mib: int | None
    system: str | None  # the distribution
    kernel: str | None  # release; the host's, where the measured one ran under emulation
    microcode: str | None  # its revision, as /proc/cpuinfo has it
    governor: str | None  # of CPU frequency
    load: float | None  # average of the last minute, when measuring began
    topology: str | None  # "1 socket, 2 cores, 2 CPUs, 1 LLC, 1 node"
    emulation: str | None  # "QEMU 7.2.22 tcg,thread=multi, 2 vCPUs"; null is bare metal


@dataclass(frozen=True)
class Build:
    """A kernel in one flavour. null is what is not known."""

    flavour: str | None  # of configs/flavours.toml; null where it was not built here
    key: str | None  # of all that went into it
    compiler: str | None
    config_sha256: str | None  # of its .config


@dataclass(frozen=True)
class Kernel:
    """A source that was measured."""

    id: str  # unique in the file: the name, and a part of the keys of its builds
    # stock is the base without the series, patched with it; of a kernel that was found running
    # it is the release
    name: str
    release: str  # as uname -r says
    base: str | None  # of bases/; null where it was not built here, or is not known
    patches: int | None  # how many of patches/BASE it has; null where that is not known
    builds: list[Build] = field(default_factory=list)  # one for each flavour that is known


@dataclass(frozen=True)
class Lock:
    """What /proc/lock_stat says of one class of locks, in steps of 10 ns."""

    acquisitions: int
    contentions: int
    hold_total_ns: int
    hold_max_ns: int
    wait_total_ns: int
    wait_max_ns: int
    acq_bounces: int  # acquisitions on another CPU than the last one
    con_bounces: int


@dataclass(frozen=True)
class Row:
    """One run of test_workqueue in one scope: a line that it has logged."""

    scope: str
    mode: str  # "" if missing
    missing: bool = False  # the kernel does not have the scope, and nothing else is in the row
    values: dict[str, int] = field(default_factory=dict)  # see lib/test_workqueue.c
    locks: dict[str, Lock] | None = None  # by class, of this run alone, as &pool->lock/1


@dataclass(frozen=True)
class Contention:
    """A place where a lock was waited for, as perf lock contention reports it."""

    caller: str
    contended: int
    wait_total_ns: int


@dataclass(frozen=True)
class Perf:
    """What perf saw while test_workqueue or a load ran."""

    slowpath_percent: float | None  # of cycles, in native_queued_spin_lock_slowpath
    contention: list[Contention] | None
    why_not: str  # one line about what is null, "" if nothing is


@dataclass(frozen=True)
class Count:
    """Something that was counted."""

    # of what: {"load": "serial", "reason": "item queued"}, {"max_active": 8, "scope": "cpu"}
    labels: dict[str, str | int]
    figures: dict[str, Number]  # by name; FIGURES in wqlab/results/metrics.py says what they are
    run: Run | None = None  # during which; null where there was none, or it is not known


@dataclass(frozen=True)
class Boot:
    """One boot of one kernel. Without a scenario it is one load of the module, in section setup
    one run of a KUnit case, in section loads one run of a load."""

    machine: str  # id
    kernel: str  # id
    section: Section
    flavour: str | None  # which of the kernel's builds; null where that is not known
    scenario: str | None  # of scenarios/; null without one
    append: str | None  # boot parameters beyond those that every boot has; null if not known
    runs: list[Run]  # parameters of test_workqueue, of each load of it; or of a load of loads/
    # from 1, within what is otherwise the same; boots of several kernels with the same number
    # were made one after the other
    number: int
    seconds: float | None
    # fail: the guest said so, or items were lost or ran twice; lost: it died, or said nothing in
    # time. Only boots that passed count
    verdict: Verdict
    reason: str  # one line, "" if passed
    qemu: str | None = None  # its command line without directories; null without it, or if unknown
    rows: list[Row] = field(default_factory=list)  # of a boot that passed
    counts: list[Count] = field(default_factory=list)  # of a boot that passed
    size: int | None = None  # in section sizes: workqueue.cache_shard_size
    perf: Perf | None = None  # in sections local and loads

    @property
    def passed(self) -> bool:
        """Whether the guest ended as it should."""
        return self.verdict == "pass"

    @property
    def why(self) -> str:
        """Why it does not count."""
        return f"{self.verdict}: {self.reason}"

    def by_run(self) -> Iterator[tuple[Run, Row]]:
        """The rows, each with the run that it is of."""
        rows = iter(self.rows)
        for asked in self.runs:
            scopes = asked.get("scopes")
            count = len(scopes) if isinstance(scopes, list) else len(self.rows)
            yield from ((asked, row) for row in islice(rows, count))


@dataclass(frozen=True)
class Layout:
    """The pods of each scope on a large machine, read from the memory of the guest."""

    kernel: str  # id
    scenario: str
    default: str  # scope
    pods: dict[str, list[str]]  # by scope: cpulists


@dataclass(frozen=True)
class Results:
    """Results of the unbound workqueue benchmark."""

    schema: int
    made: list[Made]  # one for each file that was merged into this one
    machines: list[Host]
    kernels: list[Kernel]
    boots: list[Boot]
    layouts: list[Layout] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # such as what was not measured

    def machine(self, key: str) -> Host:
        """The host with this id."""
        return next(machine for machine in self.machines if machine.id == key)

    def kernel(self, key: str) -> Kernel:
        """The kernel with this id."""
        return next(kernel for kernel in self.kernels if kernel.id == key)

    def passed(self, *sections: Section) -> Iterator[Boot]:
        """The boots that count."""
        return (b for b in self.boots if b.passed and b.section in sections)

    def not_passed(self) -> Iterator[Boot]:
        """The boots that don't, to be reported."""
        return (boot for boot in self.boots if not boot.passed)
