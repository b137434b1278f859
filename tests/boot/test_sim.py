# SPDX-License-Identifier: GPL-2.0
"""A machine in simulated time: the same figures in each run, a lock that is seen, how the series
scales, and what items cost that stock's do as well: wakeups, and below max_active lines and locks.

Seen failing: with CPUs that start at other times in the second boot, and where QEMU had to wait
until what the guest has said was read, as with a Unix socket between them; and against
tests/mutants/series/global-counter.diff, wakeup-under-lock.diff, slots-not-held.diff and
woken-twice.diff.
"""

import time
from dataclasses import dataclass
from statistics import median

import pytest
import scaling
from farm import Making, Need
from needs import TEST, Kernel, Simulator

from wqlab.ground.places import BUILD
from wqlab.measure.sim.machine import find_machine
from wqlab.measure.sim.simulate import Measured, Moved, simulate
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
    assert wakeups(made) < 0.1


STOCK = Kernel("test", 0, modules=("test_workqueue",))
SMALL, TWO_NODES = MACHINE.with_cores(8), find_machine("two-sockets-32").with_cores(16)
# A boot of the same kernel gives the same figures, so it is the runs that have to differ.
MODES: list[Run] = [{"threads": 8, "items": 150, "warmup": warmup} for warmup in (100, 120, 140)]
FANOUTS: list[Run] = [
    {"mode": "fanout", "threads": 1, "items": 1200, "warmup": warmup} for warmup in (800, 820, 840)
]
LOADS: dict[str, list[Run]] = {
    "modes": [
        load | run
        for load in (
            *(
                {"mode": mode, "scopes": [scope]}
                for scope in ("cpu", "cache")
                for mode in ("serial", "burst", "chain")
            ),
            {"mode": "sleep", "scopes": ["cpu"], "window": 8, "sleep_us": 100},
            {"mode": "burst", "scopes": ["cpu"], "max_active": 2},
        )
        for run in MODES
    ],
    "fanout": [{"scopes": [scope]} | run for scope in ("cpu", "cache") for run in FANOUTS],
    # half of the slots are used
    "below the limit": [
        {
            "mode": "serial",
            "scopes": ["cpu"],
            "threads": 32,
            "items": 100,
            "warmup": 20,
            "max_active": 64,
        }
    ]
    * 2,
}


@dataclass(frozen=True)
class Compared(Need):
    """What the series and stock make of a load."""

    load: str
    guess = 60.0
    before = (TEST, STOCK, Simulator())

    def make(self, farm: Making) -> list[tuple[Measured, Measured]]:
        machine = TWO_NODES if self.load == "below the limit" else SMALL
        out = BUILD / f"test/{self.load.replace(' ', '-')}"
        series, stock = (
            simulate(farm[kernel], machine, LOADS[self.load], out / name)[0]
            for name, kernel in (("series", TEST), ("stock", STOCK))
        )
        return list(zip(series, stock, strict=True))


def wakeups(one: Measured) -> float:
    """Per item. try_to_wake_up() takes the lock of the task each time."""
    took = one.locks.get("try_to_wake_up")
    return took.taken / one.items if took else 0.0


# A thread or worker that goes to sleep just before it's woken up, or not. In serial in scope cpu, 15 runs
# had 1.05 times stock's in the middle, 1.00 at least and 1.07 at most; in all other modes it's less.
WAKEUPS_SPREAD = 1.08


@pytest.mark.parametrize(
    "load",
    [pytest.param(load, marks=pytest.mark.needs(Compared(load))) for load in ("modes", "fanout")],
)
def test_no_more_wakeups(made: list[tuple[Measured, Measured]], load: str) -> None:
    """Per item than in stock, of workers and of threads that wait for them, in each mode: medians."""
    found: dict[str, tuple[list[float], list[float]]] = {}
    for run, measured in zip(LOADS[load], made, strict=True):
        what = f"{run['mode']} {run['scopes']} {run.get('max_active', '')}"
        for some, one in zip(found.setdefault(what, ([], [])), measured, strict=True):
            some.append(wakeups(one))
    print(*found.items(), sep="\n")
    middle = {what: (median(one), median(stock)) for what, (one, stock) in found.items()}
    assert all(stock > 0.5 for _, stock in middle.values())
    assert not [what for what, (one, stock) in middle.items() if one > WAKEUPS_SPREAD * stock]


# Of both kernels, lines vary by 10 % between runs, of which the series has 70 to 80 % of stock's, and
# instructions by 2 %.
INSTRUCTIONS_SPREAD = 1.04
MOST_LOCKS = 0.01  # of nodes and workqueues, per item


@pytest.mark.needs(Compared("below the limit"))
def test_below_the_limit(made: list[tuple[Measured, Measured]]) -> None:
    """An item takes no lock that pools share, and no more lines from other CPUs or instructions than
    in stock, on 32 CPUs of two nodes."""
    for one, stock in made:
        moves, stocks = (sum(Moved.sum(of.lines.values()).moves) / of.items for of in (one, stock))
        shared = one.kinds["max_active"].taken / one.items if "max_active" in one.kinds else 0
        insns, base = one.insns / one.items, stock.insns / stock.items
        print(f"lines {moves:.1f} {stocks:.1f}, locks {shared:.3f}, insns {insns:.0f} {base:.0f}")
        assert one.kinds["pool->lock"].taken > one.items  # as kinds are told apart at all
        assert shared <= MOST_LOCKS
        assert moves <= stocks
        assert insns <= INSTRUCTIONS_SPREAD * base


@pytest.mark.needs(Scaled())
def test_scaling(made: float) -> None:
    print(f"{made:.0f} ns")
    assert not scaling.complaint(made)
