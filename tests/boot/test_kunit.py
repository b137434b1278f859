# SPDX-License-Identifier: GPL-2.0
"""The KUnit suites, as a real boot runs them, each suite to the end of its plan.

Seen failing: against a kernel without one of the suites.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import checks
import pytest
from farm import ALL, Making, Need
from needs import DEBUG, FIND, NATIVE, OTHERS, RT, SOURCE, TEST, Boot

from wqlab.ground.problem import Skipped
from wqlab.guests.kunit import Report, parse, run_kunit_py
from wqlab.guests.vm import Record
from wqlab.kernels.arch import find_arch
from wqlab.kernels.build import build
from wqlab.kernels.builddir import BuildDir, find_build


@dataclass(frozen=True)
class GateKernel(Need):
    """A kernel with the series in a configuration of configs/gates.toml."""

    gate: str
    cores = ALL
    guess = 200.0
    before = (SOURCE,)

    @property
    def name(self) -> str:
        """In the names of tests."""
        return f"gate-{self.gate}"

    def __str__(self) -> str:
        return f"kernel: {self.name}"

    def make(self, farm: Making) -> BuildDir:
        gate = checks.gates()[self.gate]
        if reason := gate.unfit(farm.options.base):
            raise Skipped(reason)
        # a flavour may have the same name
        return find_build(build(farm[SOURCE], replace(gate, name=self.name)))


@dataclass(frozen=True)
class Suites(Need):
    """What the KUnit suites of a boot came to."""

    boot: Boot

    def __str__(self) -> str:
        return f"KUnit of {self.boot}"

    @property
    def before(self) -> tuple[Need, ...]:
        return self.boot, SOURCE

    def make(self, farm: Making) -> tuple[Record, Report]:
        record = farm[self.boot]
        return record, parse(farm[SOURCE].repo, "\n".join([*record.lines, ""]))


APPEND = {NATIVE: "kunit.filter_glob=*workqueue*"}  # without KUnit's own example
BOOTS = {
    f"{machine}-{kernel.name}": Boot(machine, "kunit", kernel, APPEND.get(kernel, ""), timeout=600)
    for kernel, machines in (
        (TEST, ("single", "one-llc-12", "llc-4x3x2", "two-nodes-4x11", "nodes-4", "nodes-8")),
        # larger machines take minutes to come up with these
        (DEBUG, ("single",)),
        (FIND, ("single", "one-llc-12")),
        (RT, ("one-llc-12",)),
        (NATIVE, ("bench-2",)),
        *((kernel, ("single", "clusters-5x4", "nodes-2")) for kernel in OTHERS),
    )
    for machine in machines
} | {
    f"{gate.machine}-gate-{gate.name}": Boot(
        gate.machine, "kunit", GateKernel(gate.name), timeout=600
    )
    for gate in checks.gates().values()
    if gate.machine
}
QUICK = (TEST, DEBUG)
SUITES = {
    *(f"workqueue_{part}" for part in ("wakeups", "pods", "max_active", "picked", "shards")),
    "test_workqueue",
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=[
                boot.mark if boot.unfit else pytest.mark.needs(Suites(boot)),
                pytest.mark.tier("test" if boot.kernel in QUICK else "full"),
            ],
        )
        for name, boot in BOOTS.items()
    ],
)
def test_kunit(made: tuple[Record, Report], name: str, each_case: Callable[[Report], None]) -> None:
    record, found = made
    assert record.verdict != "lost", f"{record.reason}: {record.tail}"
    each_case(found)
    assert {case.suite for case in found.cases} >= SUITES
    assert record.verdict == "pass", record.reason


@dataclass(frozen=True)
class KunitPy(Need):
    """What kunit.py of the kernel makes of the suites, on a machine of another architecture."""

    arch: str
    cores = ALL
    guess = 400.0
    before = (SOURCE,)

    def make(self, farm: Making) -> Report:
        return run_kunit_py(farm[SOURCE], find_arch(self.arch))


@pytest.mark.parametrize(
    "arch",
    [pytest.param(kernel.arch, marks=pytest.mark.needs(KunitPy(kernel.arch))) for kernel in OTHERS],
)
@pytest.mark.tier("full")
def test_kunit_py(made: Report, arch: str, each_case: Callable[[Report], None]) -> None:
    each_case(made)
    assert {case.suite for case in made.cases} >= SUITES
