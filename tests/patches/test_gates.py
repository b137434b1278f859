# SPDX-License-Identifier: GPL-2.0
"""The series compiles in each configuration of configs/gates.toml, without a warning.

Seen failing: with a gate that wants a symbol which there is not, and with macros that are not used
made a warning.
"""

import shutil
from dataclasses import dataclass

import checks
import pytest
from farm import Making, Need
from needs import OTHERS, SOURCE

from wqlab.ground.problem import Skipped
from wqlab.ground.run import CORES
from wqlab.kernels.arch import find_arch
from wqlab.kernels.bases import Base

JOBS = max(1, CORES // 2)


@dataclass(frozen=True)
class Passed(Need):
    """A gate that the whole series has passed."""

    name: str
    arch: str = ""  # "" is the usual one
    cores = JOBS
    guess = 40.0
    before = (SOURCE,)

    def make(self, farm: Making) -> None:
        with farm.place("patches") as place:
            arch = find_arch(self.arch) if self.arch else None
            if arch and arch.cross and not shutil.which(f"{arch.cross}gcc"):
                raise Skipped(f"no {arch.cross}gcc: scripts/setup test installs it where it can")
            checks.pass_gate(farm[SOURCE], checks.gates()[self.name], None, place, JOBS, arch)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    base: Base = metafunc.config.getoption("--base")
    params = []
    for gate in checks.gates().values():
        marks = [pytest.mark.tier("test" if gate.quick else "full")]
        reason = gate.unfit(base)
        marks.append(pytest.mark.skip(reason) if reason else pytest.mark.needs(Passed(gate.name)))
        params.append(pytest.param(gate.name, id=gate.name, marks=marks))
        for other in OTHERS if gate.debian else ():
            marks = [pytest.mark.tier("full"), pytest.mark.needs(Passed(gate.name, other.arch))]
            params.append(pytest.param(gate.name, id=f"{gate.name}-{other.arch}", marks=marks))
    metafunc.parametrize("gate", params)


def test_gate(made: None, gate: str) -> None:
    """Its making is the test."""
