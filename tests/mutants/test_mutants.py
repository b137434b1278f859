# SPDX-License-Identifier: GPL-2.0
"""Each diff of series/ breaks the kernel, and what its first line names notices.

A break that nothing catches is a test that cannot fail. Those that take a kernel for x86 are for
--tier full.

Seen failing: with a diff that changes a comment, and with one that names another case than the one
that catches it.
"""

from dataclasses import dataclass
from pathlib import Path

import pytest
from farm import ALL, Making, Need
from mutants import (
    ORIGINAL,
    SCALING,
    Found,
    Kernel,
    Plan,
    Run,
    check_original,
    find_diffs,
    look,
    named_run,
    plan,
    verdict,
)
from needs import SOURCE, Boot, Simulator, UmlSeries

from wqlab.ground.places import BUILD

DIFFS = {diff.stem: diff for diff in find_diffs(Path(__file__).parent / "series")}
RUNS = {name: named_run(diff) for name, diff in DIFFS.items()}


@dataclass(frozen=True)
class Planned(Need):
    """The mutants, all in one source."""

    guess = 5.0
    before = (SOURCE,)

    def make(self, farm: Making) -> Plan:
        return plan(farm[SOURCE], list(DIFFS.values()))


@dataclass(frozen=True)
class MutantKernel(Need):
    """A kernel with all mutants."""

    flavour: str  # "" is User Mode Linux
    cores = ALL
    guess = 90.0

    @property
    def tier(self) -> str:
        return "full" if self.flavour else "quick"

    @property
    def before(self) -> tuple[Need, ...]:
        return (SOURCE, Planned()) if self.flavour else (SOURCE, Planned(), UmlSeries())

    def make(self, farm: Making) -> Kernel:
        with farm.place("uml") as place:
            return farm[Planned()].kernel(farm[SOURCE], self.flavour, place=place)


@dataclass(frozen=True)
class Tried(Need):
    """A boot of one mutant; "" is the original."""

    name: str

    @property
    def run(self) -> Run:
        return RUNS.get(self.name) or Run()

    @property
    def cores(self) -> int:
        return Boot(self.run.machine, "").cores if self.run.machine else 1

    @property
    def before(self) -> tuple[Need, ...]:
        simulator = (Simulator(),) if self.run.case == SCALING else ()
        return SOURCE, Planned(), MutantKernel(self.run.flavour), *simulator

    def make(self, farm: Making) -> Found:
        made: Plan = farm[Planned()]
        mutant = made.mutants[self.name] if self.name else ORIGINAL
        if mutant.unshared:
            kernel = made.kernel(farm[SOURCE], self.run.flavour, mutant, "mutant")
        else:
            kernel = farm[MutantKernel(self.run.flavour)]
        return look(kernel, mutant, self.run, BUILD / "test/mutants")


@pytest.mark.needs(Tried(""))
def test_original_is_not_broken(made: Found) -> None:
    check_original(made)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.needs(Tried(name))) for name in DIFFS]
)
def test_caught(made: Found, name: str) -> None:
    assert RUNS[name], "its first line does not name what catches it"
    well, words = verdict(RUNS[name], [made])
    assert well, words
