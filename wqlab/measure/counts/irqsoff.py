# SPDX-License-Identifier: GPL-2.0
"""For how long interrupts are off at most while many work items wait for max_active, are cancelled,
activated and executed, by the tracer irqsoff in simulated time."""

import re

from wqlab.ground.problem import Problem
from wqlab.guests.scenario import Scenario
from wqlab.measure.counts.kind import Kind
from wqlab.results.model import Count

# Of guest/wqcrowd, in order
STEPS = ("queue", "cancel", "end", "queue", "raise", "lower", "end")
LINE = re.compile(r"irqsoff (\w+) (\d+)( .*)?")


def commands(scenario: Scenario) -> str:
    """The input of guest/jobs/irqsoff."""
    return "".join(f"{step}\n" for step in STEPS)


def longest(lines: list[str]) -> list[tuple[str, int]]:
    """Each of STEPS and the us that it was at most, by what the job has printed, or Problem."""
    found = [match for line in lines if (match := LINE.fullmatch(line))]
    if [match[1] for match in found] != list(STEPS):
        raise Problem(f"steps are missing: {', '.join(match[1] for match in found) or 'all'}")
    return [(match[1], int(match[2])) for match in found]


def counts(scenario: Scenario, lines: list[str]) -> list[Count]:
    """The longest of each step."""
    most: dict[str, int] = {}
    for step, us in longest(lines):
        most[step] = max(most.get(step, 0), us)
    return [
        Count({"load": f"{step} 10,000 items"}, {"irqs_off_us": us}) for step, us in most.items()
    ]


IRQSOFF = Kind(
    "irqsoff",
    ("nodes-8x16",),
    "irqsoff",
    commands,
    counts,
    append="workqueue.default_affinity_scope=cpu",
    module="wqcrowd",
    slower=4,
    simulated=True,
)
