# SPDX-License-Identifier: GPL-2.0
"""While no worker can be created, a rescuer gets as many work items done as stock's, though both
nodes share one slot: guest/wqreclaim, ten seconds of items that sleep for a millisecond.

Seen failing: against a kernel that doesn't summon the rescuer to the pool that a slot is passed to,
and one that doesn't to another pool_workqueue of the same pool.
"""

from dataclasses import dataclass

import pytest
from farm import Making, Need
from needs import STOCK, TEST, Boot, Kernel

from wqlab.guests.scenario import find_scenario
from wqlab.guests.vm import Record
from wqlab.measure.counts.reclaim import RECLAIM, counts

MACHINE = "nodes-2x1"
ONE_POOL = Boot("nodes-1", RECLAIM.job, TEST, RECLAIM.append)
BOOTS: dict[Kernel, Boot] = {
    kernel: Boot(MACHINE, RECLAIM.job, kernel, RECLAIM.append) for kernel in (TEST, STOCK)
}
LEAST = 300.0  # items per second; it's 20 if the rescuer waits for the next mayday each time
SPREAD = 0.9  # of stock's, in which one boot differs from another


def rate(record: Record) -> float:
    """Items per second."""
    assert record.verdict == "pass", f"{record.verdict}: {record.reason}"
    [count] = counts(find_scenario(record.scenario), record.lines)
    return float(count.figures["rescued_per_sec"])


@dataclass(frozen=True)
class Rates(Need):
    """Items per second of the series and of stock."""

    before = tuple(BOOTS.values())

    def make(self, farm: Making) -> list[float]:
        return [rate(farm[boot]) for boot in BOOTS.values()]


@pytest.mark.parametrize(
    "pools",
    [pytest.param(2, marks=BOOTS[TEST].mark), pytest.param(1, marks=ONE_POOL.mark)],
)
def test_rescuer_is_summoned(record: Record, pools: int) -> None:
    assert rate(record) > LEAST


@pytest.mark.tier("full")
@pytest.mark.needs(Rates())
def test_no_fewer_than_stock(made: list[float]) -> None:
    print(made)
    series, stock = made
    assert series >= SPREAD * stock
