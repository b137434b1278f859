# SPDX-License-Identifier: GPL-2.0
"""A machine in simulated time: the same figures in each run, a lock that is seen, and how the
series scales, which tests/mutants/series/global-counter.diff and wakeup-under-lock.diff break.

Seen failing: with CPUs that start at other times in the second boot, and where QEMU had to wait
until what the guest has said was read, as with a Unix socket between them.
"""

import time
from dataclasses import dataclass

import pytest
import scaling
from farm import Making, Need
from needs import TEST, Simulator

from wqlab.ground.places import BUILD
from wqlab.measure.sim.machine import find_machine
from wqlab.measure.sim.simulate import Measured, simulate
from wqlab.results.model import Run

MACHINE = find_machine("grace-72").with_cores(16)
RUNS: list[Run] = [
    {"mode": "serial", "scopes": [scope], "threads": 16, "items": 30, "warmup": 10}
    for scope in ("cpu", "cache_shard", "cache")
]
CHAIN: Run = {"mode": "chain", "scopes": ["cpu"], "threads": 8, "items": 300, "warmup": 100}


@dataclass(frozen=True)
class Simulated(Need):
    """The runs, in one boot."""

    slow: float = 0.0  # seconds after the first line until the next one is read
    guess = 60.0
    before = (TEST, Simulator())

    def make(self, farm: Making) -> list[Measured]:
        out = BUILD / f"test/sim{'-slow' * bool(self.slow)}"

        def on_line(line: str) -> None:
            if "scopes=cpu" in line:
                time.sleep(self.slow)

        return simulate(farm[TEST], MACHINE, RUNS, out, on_line=on_line)[0]


@dataclass(frozen=True)
class Twice(Need):
    before = (Simulated(), Simulated(slow=4.0))

    def make(self, farm: Making) -> tuple[list[Measured], list[Measured]]:
        one, other = self.before
        return farm[one], farm[other]


@dataclass(frozen=True)
class Scaled(Need):
    """What an item costs on many CPUs, in ns."""

    guess = 60.0
    before = (TEST, Simulator())

    def make(self, farm: Making) -> float:
        return scaling.cost(farm[TEST], BUILD / "test/scaling")


@pytest.mark.needs(Twice())
def test_same_figures(made: tuple[list[Measured], list[Measured]]) -> None:
    one, other = made
    assert one == other


@pytest.mark.needs(Simulated())
def test_lock_is_seen(made: list[Measured]) -> None:
    """16 CPUs wait for one pool->lock, less where there are two, and hardly where each has one."""
    cpu, shard, cache = (sum(took.waited_ps for took in one.locks.values()) for one in made)
    assert cpu < shard < cache
    assert made[2].locks["__queue_work"].waited_ps > cache / 4


@dataclass(frozen=True)
class Chained(Need):
    """Items that queue themselves again, one on each CPU."""

    guess = 30.0
    before = (TEST, Simulator())

    def make(self, farm: Making) -> Measured:
        machine, out = MACHINE.with_cores(8), BUILD / "test/chain"
        return simulate(farm[TEST], machine, [CHAIN], out)[0][0]


@pytest.mark.needs(Chained())
def test_chain_wakes_up_nobody(made: Measured) -> None:
    """A worker that is on its way isn't woken up again for each item that another executes first.

    try_to_wake_up() takes the lock of a task to find out that it's awake. Seen failing: on stock,
    where it does so once for each item.
    """
    took = made.locks.get("try_to_wake_up")
    assert not took or took.taken < made.items / 10


@pytest.mark.needs(Scaled())
def test_scaling(made: float) -> None:
    print(f"{made:.0f} ns")
    assert not scaling.complaint(made)
