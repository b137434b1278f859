# SPDX-License-Identifier: GPL-2.0
"""Each diff of series/ breaks the kernel, and what its first line names notices.

A break that nothing catches is a test that cannot fail. Those that take a kernel for x86, or a test
of pytest, are for --tier full.

Seen failing: with a diff that changes a comment, with one that names another case than the one that
catches it, and with a case that fails on a machine whatever is broken.

--mutants=PATH takes other diffs than series/: a folder of them, or one.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from farm import ALL, Making, Need
from mutants import (
    ORIGINAL,
    Found,
    Kernel,
    Plan,
    Run,
    check_original,
    find_diffs,
    look,
    look_by_test,
    named_run,
    plan,
    verdict,
)
from needs import SOURCE, Boot, UmlSeries
from schemata import Mutant

from wqlab.ground.places import BUILD

SERIES = Path(__file__).parent / "series"


@dataclass(frozen=True)
class Planned(Need):
    """The mutants, all in one source."""

    path: Path  # of the diffs
    guess = 5.0
    before = (SOURCE,)

    def __str__(self) -> str:
        return f"mutants of {self.path.name}"

    def make(self, farm: Making) -> Plan:
        diffs = find_diffs(self.path).values()
        return plan(farm[SOURCE], [diff for diff in diffs if not is_for_test(diff)])


def is_for_test(diff: Path) -> bool:
    """What catches it is a test of pytest, which has kernels built for it."""
    named = named_run(diff)
    return bool(named and named.is_test)


@dataclass(frozen=True)
class MutantKernel(Need):
    """A kernel with all mutants."""

    path: Path
    flavour: str  # "" is User Mode Linux
    cores = ALL
    guess = 90.0

    def __str__(self) -> str:
        return f"kernel: {self.flavour or 'uml'} with mutants of {self.path.name}"

    @property
    def tier(self) -> str:
        return "full" if self.flavour else "quick"

    @property
    def before(self) -> tuple[Need, ...]:
        uml = () if self.flavour else (UmlSeries(),)
        return SOURCE, Planned(self.path), *uml

    def make(self, farm: Making) -> Kernel:
        with farm.place("uml") as place:
            return farm[Planned(self.path)].kernel(farm[SOURCE], self.flavour, place=place)


@dataclass(frozen=True)
class Tried(Need):
    """A boot of one mutant; "" is the original, which has to pass what catches a mutant."""

    path: Path
    name: str
    run: Run = field(default_factory=Run)

    def __str__(self) -> str:
        return f"mutant: {self.name or original(self.run).name}"

    @property
    def cores(self) -> int:
        return Boot(self.run.machine, "").cores if self.run.machine else 1

    @property
    def before(self) -> tuple[Need, ...]:
        return SOURCE, Planned(self.path), MutantKernel(self.path, self.run.flavour)

    def make(self, farm: Making) -> Found:
        made: Plan = farm[Planned(self.path)]
        mutant = made.mutants[self.name] if self.name else original(self.run)
        if mutant.unshared:
            kernel = made.kernel(farm[SOURCE], self.run.flavour, mutant, "mutant")
        else:
            kernel = farm[MutantKernel(self.path, self.run.flavour)]
        return look(kernel, mutant, self.run, BUILD / "test/mutants")


def original(run: Run) -> Mutant:
    name = f"original-{run.case}-{run.machine}"
    return replace(ORIGINAL, name=name) if run.machine else ORIGINAL


@dataclass(frozen=True)
class TriedByTest(Need):
    """A run of pytest on kernels with one mutant."""

    diff: Path
    run: Run
    tier = "full"
    cores = ALL
    guess = 120.0
    before = (SOURCE,)

    def __str__(self) -> str:
        return f"mutant: {self.diff.stem}"

    def make(self, farm: Making) -> Found:
        options, words = farm.options, [f"--base={farm.options.base.name}"]
        words += [f"--ksrc={options.ksrc}"] if options.ksrc else []
        return look_by_test(self.diff, self.run, words)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    path: Path = metafunc.config.getoption("--mutants") or SERIES
    if metafunc.function is test_original_is_not_broken:
        named = {named_run(diff) for diff in find_diffs(path).values()}
        boots = {replace(run, text="") for run in named if run and run.machine}
        cases = [
            pytest.param(None, id=original(run).name, marks=pytest.mark.needs(Tried(path, "", run)))
            for run in (Run(), *sorted(boots, key=str))
        ]
    else:
        cases = []
        for name, diff in find_diffs(path).items():
            run = named_run(diff)
            need = Tried(path, name, run or Run())
            if run and run.is_test:
                need = TriedByTest(diff, run)
            cases.append(pytest.param(run, id=name, marks=pytest.mark.needs(need)))
    metafunc.parametrize("named", cases)


def test_original_is_not_broken(made: Found, named: None) -> None:
    check_original(made)


def test_caught(made: Found, named: Run | None, request: pytest.FixtureRequest) -> None:
    """By what the first line of a diff names; those of other folders need not name anything."""
    if not request.config.getoption("--mutants"):
        assert named, "its first line does not name what catches it"
    well, words = verdict(named, [made])
    assert well, words
