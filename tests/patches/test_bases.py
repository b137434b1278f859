# SPDX-License-Identifier: GPL-2.0
"""The series of each other base applies to its source, and what it touches compiles for SMP.

`make test BASE=...` proves all the rest for one of them.

Seen failing: with a patch of 7.3 left out.
"""

from dataclasses import dataclass

import pytest
from farm import Making, Need

from wqlab import checks
from wqlab.apt import Unreachable
from wqlab.bases import load_base, series_names
from wqlab.obtain import obtain


@dataclass(frozen=True)
class Ported(Need):
    """The files of a base's series compiled; why its source could not be had, if so."""

    base: str
    guess = 120.0

    def make(self, farm: Making) -> str:
        try:
            source = obtain(load_base(self.base))
        except Unreachable as reason:
            return str(reason)
        with farm.place("patches") as place:
            checks.compiles(source, source.count(None), place, 1)  # most of it is to unpack
        return ""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    chosen = metafunc.config.getoption("--base").name
    others = [] if metafunc.config.getoption("--ksrc") else series_names()
    needs = [Ported(name) for name in others if name != chosen]
    metafunc.parametrize(
        "ported",
        [pytest.param(need, id=need.base, marks=pytest.mark.needs(need)) for need in needs],
    )


def test_series_compiles(made: str, ported: Ported) -> None:
    if made:
        pytest.skip(f"no source of {ported.base}: {made}")
