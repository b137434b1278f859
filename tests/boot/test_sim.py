# SPDX-License-Identifier: GPL-2.0
"""A machine in simulated time: the same figures in each run, and a lock that is seen.

Seen failing: with CPUs that start at other times in the second boot.
"""

from dataclasses import dataclass

import pytest
from farm import Making, Need
from needs import Kernel

from wqlab import sim
from wqlab.places import BUILD
from wqlab.results import Run
from wqlab.sim.emulator import emulator
from wqlab.sim.machine import find_machine

MACHINE = find_machine("grace-72").with_cores(16)
RUNS: list[Run] = [
    {"mode": "serial", "scopes": [scope], "threads": 16, "items": 30, "warmup": 10}
    for scope in ("cpu", "cache_shard", "cache")
]


@dataclass(frozen=True)
class Simulated(Need):
    """The runs, in one boot."""

    number: int  # tells boots apart
    guess = 60.0
    before = (Kernel("sim"),)

    def make(self, farm: Making) -> list[sim.Measured]:
        program, plugin = emulator()
        out = BUILD / f"test/sim-{self.number}"
        return sim.simulate(farm[Kernel("sim")], MACHINE, RUNS, out, program, plugin)


@dataclass(frozen=True)
class Twice(Need):
    before = (Simulated(1), Simulated(2))

    def make(self, farm: Making) -> tuple[list[sim.Measured], list[sim.Measured]]:
        one, other = self.before
        return farm[one], farm[other]


pytestmark = pytest.mark.tier("full")


@pytest.mark.needs(Twice())
def test_same_figures(made: tuple[list[sim.Measured], list[sim.Measured]]) -> None:
    one, other = made
    assert one == other


@pytest.mark.needs(Simulated(1))
def test_lock_is_seen(made: list[sim.Measured]) -> None:
    """16 CPUs wait for one pool->lock, less where there are two, and hardly where each has one."""
    cpu, shard, cache = (sum(took.waited_ps for took in one.locks.values()) for one in made)
    assert cpu < shard < cache
    assert made[2].locks["__queue_work"].waited_ps > cache / 4
