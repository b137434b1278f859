# SPDX-License-Identifier: GPL-2.0
"""Each patch of the series builds, and all KUnit cases that are there pass after it. `make test` runs
those of the first parts alone, which are sent first, and of the whole.

Seen failing: with a patch that uses an undeclared name (test_compiles_for_smp), that has an
unused variable (test_compiles_for), that adds a function without prototype and a parameter that
is not documented (test_no_new_warning), that has a space at the end of a line (test_checkpatch),
that refers to a page which isn't there (test_no_new_remark); with a kernel that prints no result
(test_kunit).
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace

import checks
import pytest
from farm import Making, Need
from needs import OTHERS, SOURCE, Boot, Kernel, UmlSeries
from test_kunit import Suites as BootSuites

from series.check import checkpatch
from series.parts import parts_of
from wqlab.ground.places import BUILD
from wqlab.ground.problem import Skipped
from wqlab.ground.run import CORES
from wqlab.guests.kunit import Report, Uml, build_uml, run_uml
from wqlab.guests.vm import Record
from wqlab.kernels.arch import find_arch
from wqlab.kernels.bases import Base, Patch

# Each build has a checkout of its own: a few of them are enough.
JOBS = max(1, CORES // 4)
# What changes nothing that is built
UNBUILT = ("Documentation/", "tools/", "MAINTAINERS")


@dataclass(frozen=True)
class UmlKernel(Need):
    """User Mode Linux with the first patches.

    Each file is compiled again when workqueue.h is another one. So the first build with a
    header goes ahead: the others find in ccache what it has compiled.
    """

    patches: int
    first: int  # with how many the same header is built first; 0 if that is the whole series'
    cores = JOBS

    @property
    def guess(self) -> float:
        return 120.0 if self.first == self.patches else 20.0

    @property
    def before(self) -> tuple[Need, ...]:
        if not self.first:
            return SOURCE, UmlSeries()
        alone = self.first == self.patches
        return (SOURCE,) if alone else (SOURCE, UmlKernel(self.first, self.first))

    def make(self, farm: Making) -> Uml:
        with farm.place("patches") as place:
            return build_uml(farm[SOURCE], patches=self.patches, place=place, jobs=JOBS)


@dataclass(frozen=True)
class Suites(Need):
    """The KUnit cases after a patch."""

    kernel: UmlKernel | UmlSeries

    @property
    def before(self) -> tuple[Need, ...]:
        return (self.kernel,)

    def make(self, farm: Making) -> Report:
        number = self.kernel.patches if isinstance(self.kernel, UmlKernel) else "series"
        return run_uml(farm[self.kernel], log=BUILD / f"test/kunit/{number}.log")


@dataclass(frozen=True)
class Compiled(Need):
    """The files of the series compiled for SMP."""

    patches: int
    cores = JOBS
    before = (SOURCE,)

    def make(self, farm: Making) -> None:
        with farm.place("patches") as place:
            checks.compiles(farm[SOURCE], self.patches, place, JOBS)


@dataclass(frozen=True)
class Elsewhere(Need):
    """The warnings of the series compiled for another architecture."""

    arch: str
    cores = CORES
    guess = 60.0
    before = (SOURCE,)

    def make(self, farm: Making) -> frozenset[str]:
        arch, source = find_arch(self.arch), farm[SOURCE]
        if arch.cross and not shutil.which(f"{arch.cross}gcc"):
            raise Skipped(f"no {arch.cross}gcc: scripts/setup test installs it where it can")
        with farm.place("patches") as place:
            return checks.compiles(source, source.count(None), place, CORES, arch)


@dataclass(frozen=True)
class Warnings(Need):
    patches: int | None
    cores = JOBS
    guess = 40.0
    before = (SOURCE,)

    def make(self, farm: Making) -> checks.Warnings:
        with farm.place("patches") as place:
            return checks.warnings(farm[SOURCE], self.patches, place, JOBS)


@dataclass(frozen=True)
class NewWarnings(Need):
    before = (Warnings(0), Warnings(None))

    def make(self, farm: Making) -> checks.Warnings:
        base, series = self.before
        return replace(farm[series], lines=farm[series].lines - farm[base].lines)


@dataclass(frozen=True)
class Remarks(Need):
    """What Sphinx says of the series and does not say of the base."""

    before = (SOURCE,)

    def make(self, farm: Making) -> frozenset[str]:
        source = farm[SOURCE]
        return checks.documentation(source, None) - checks.documentation(source, 0)


@dataclass(frozen=True)
class Findings(Need):
    """What Coccinelle reports of the series and does not report of the base."""

    cores = CORES
    guess = 300.0
    before = (SOURCE,)

    def make(self, farm: Making) -> frozenset[str]:
        source = farm[SOURCE]
        series, base = (checks.findings(source, number, CORES) for number in (None, 0))
        return series - base


@dataclass(frozen=True)
class Checkpatch(Need):
    number: int
    before = (SOURCE,)

    def make(self, farm: Making) -> str:
        source = farm[SOURCE]
        with source.hold() as tree:
            return checkpatch(tree, source.base.patches[self.number - 1])


@dataclass(frozen=True)
class Checked(Need):
    """What checkpatch says of each of these patches, by their numbers."""

    numbers: tuple[int, ...]

    def __str__(self) -> str:
        return "checkpatch of all patches"

    @property
    def before(self) -> tuple[Need, ...]:
        return tuple(map(Checkpatch, self.numbers))

    def make(self, farm: Making) -> dict[int, str]:
        return {number: farm[Checkpatch(number)] for number in self.numbers}


def is_built(patch: Patch) -> bool:
    """It changes more than documentation and tools."""
    return any(not name.startswith(UNBUILT) for name in patch.files)


def booted(base: Base, number: int, alone: bool) -> Need:
    """A boot with lockdep after a patch, and its KUnit cases as soon as there are some."""
    has_suite = any("+config WORKQUEUE_KUNIT_TEST" in p.text for p in base.patches[:number])
    kernel = Kernel("debug", patches=number, alone=alone)
    boot = Boot("one-llc-12", "kunit", kernel, timeout=300)
    return BootSuites(boot) if has_suite else replace(boot, job="hello")


ALONE = 3  # parts of a series that also have to be right without those behind them


def end_of_parts(base: Base, built: list[int]) -> int:
    """The last patch of the first ALONE parts that changes what is built."""
    last = max(part.last for part in parts_of(base) if part.number <= ALONE)
    return max(number for number in built if number <= last)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each patch, or for each that changes what is built."""
    base: Base = metafunc.config.getoption("--base")
    built = [patch.number for patch in base.patches if is_built(patch)]

    headers = [built[0]] + [
        patch.number
        for patch in base.patches
        if any(name.startswith("include/") for name in patch.files)
    ]

    alone = end_of_parts(base, built)

    def suites(number: int) -> Suites:
        if number == built[-1]:  # what comes after it changes no kernel
            return Suites(UmlSeries())
        first, early = (max(other for other in headers if other <= n) for n in (number, alone))
        if first == headers[-1]:
            return Suites(UmlKernel(number, 0))
        return Suites(UmlKernel(number, alone if first == early else first))

    def params(numbers: list[int], need: Callable[[int], Need], tiers: dict[int, str]) -> list:
        return [
            pytest.param(
                need(number),
                id=base.patches[number - 1].path.stem,
                marks=[
                    pytest.mark.needs(need(number)),
                    pytest.mark.tier(tiers[number]),
                ],
            )
            for number in numbers
        ]

    if "suites" in metafunc.fixturenames:
        tiers = dict.fromkeys(built, "full") | {alone: "test", built[-1]: "quick"}
        metafunc.parametrize("suites", params(built, suites, tiers))
    if "compiled" in metafunc.fixturenames:
        metafunc.parametrize("compiled", params(built, Compiled, dict.fromkeys(built, "test")))
    if "booted" in metafunc.fixturenames:
        tiers = dict.fromkeys(built, "full") | {alone: "test"}
        needs = params(built, lambda number: booted(base, number, number == alone), tiers)
        metafunc.parametrize("booted", needs)
    if "checked" in metafunc.fixturenames:
        need = Checked(tuple(patch.number for patch in base.patches))
        marks = [pytest.mark.needs(need), pytest.mark.tier("quick")]
        metafunc.parametrize("checked", [pytest.param(need, id=base.name, marks=marks)])


def test_kunit(made: Report, suites: Suites, each_case: Callable[[Report], None]) -> None:
    each_case(made)


def test_compiles_for_smp(made: None, compiled: Compiled) -> None:
    """Its making is the test."""


@pytest.mark.parametrize(
    "arch",
    [
        pytest.param(kernel.arch, marks=pytest.mark.needs(Elsewhere(kernel.arch)))
        for kernel in OTHERS
    ],
)
def test_compiles_for(made: frozenset[str], arch: str) -> None:
    """Without a warning, as the base does."""
    assert not made, "\n".join(sorted(made))


@pytest.mark.needs(NewWarnings())
def test_no_new_warning(made: checks.Warnings) -> None:
    """Of sparse, W=1 and kernel-doc."""
    assert not made.lines, "\n".join(sorted(made.lines))


@pytest.mark.needs(NewWarnings())
def test_sparse_was_run(made: checks.Warnings) -> None:
    if not made.sparse:
        pytest.skip("this kernel needs a newer sparse")


@(
    pytest.mark.needs(Remarks())
    if shutil.which("sphinx-build")
    else pytest.mark.skip("no sphinx-build here")
)
def test_no_new_remark(made: frozenset[str]) -> None:
    """Of Sphinx about the documentation."""
    assert not made, "\n".join(sorted(made))


@pytest.mark.tier("full")
@(pytest.mark.needs(Findings()) if shutil.which("spatch") else pytest.mark.skip("no spatch here"))
def test_no_new_finding(made: frozenset[str]) -> None:
    """Of Coccinelle."""
    assert not made, "\n".join(sorted(made))


def test_checkpatch(made: dict[int, str], checked: Checked) -> None:
    assert made.keys() == set(checked.numbers)
    said = "".join(made.values())
    assert not said, said


def test_boots_with_lockdep(
    made: Record | tuple[Record, Report], booted: Need, each_case: Callable[[Report], None]
) -> None:
    record, cases = made if isinstance(made, tuple) else (made, None)
    assert record.verdict != "lost", f"{record.reason}: {record.tail}"
    if cases:
        each_case(cases)
    assert record.verdict == "pass", record.reason
