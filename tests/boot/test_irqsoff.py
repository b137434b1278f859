# SPDX-License-Identifier: GPL-2.0
"""For how long interrupts are off at most while 10,000 items wait for max_active, are cancelled,
activated and executed: no longer than in stock, with 128 pool_workqueues.

Seen failing: with stock in place of the series and the other way round.
"""

from dataclasses import dataclass

import pytest
from farm import Making, Need
from needs import Boot, Kernel

from wqlab.guests.scenario import find_scenario
from wqlab.guests.vm import Record
from wqlab.measure.counts.irqsoff import IRQSOFF, commands, counts

KERNELS = {
    "stock": Kernel("irqsoff", 0, modules=("wqcrowd",)),
    "series": Kernel("irqsoff", modules=("wqcrowd",)),
}
SLACK = 1.2  # simulated boots of one kernel agree; another kernel may shift a step a little
Figures = dict[str, float]  # us, by what is done


@dataclass(frozen=True)
class Longest(Need):
    """What the tracer has seen in each kernel."""

    machine: str

    @property
    def boots(self) -> dict[str, Boot]:
        scenario = find_scenario(self.machine)
        more = (IRQSOFF.append, commands(scenario), IRQSOFF.slower * scenario.timeout)
        return {
            name: Boot(self.machine, IRQSOFF.job, kernel, *more) for name, kernel in KERNELS.items()
        }

    @property
    def before(self) -> tuple[Need, ...]:
        return tuple(self.boots.values())

    def make(self, farm: Making) -> dict[str, Figures]:
        return {name: figures(farm[boot]) for name, boot in self.boots.items()}


def figures(record: Record) -> Figures:
    assert record.verdict == "pass", f"{record.verdict}: {record.reason}"
    found = counts(find_scenario(record.scenario), record.lines)
    return {str(count.labels["load"]): count.figures["irqs_off_us"] for count in found}


@pytest.mark.tier("full")
@pytest.mark.parametrize(
    "machine",
    [pytest.param(name, marks=pytest.mark.needs(Longest(name))) for name in IRQSOFF.machines],
)
def test_no_longer_than_stock(made: dict[str, Figures], machine: str) -> None:
    print(made)
    stock, series = made["stock"], made["series"]
    # The scheduler has them off for some time in each step, and that varies.
    longer = {step: us for step, us in series.items() if us > SLACK * stock[step]}
    assert not longer, f"longer than {stock}"
