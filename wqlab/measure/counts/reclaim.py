# SPDX-License-Identifier: GPL-2.0
"""How many work items a rescuer gets done per second while no worker can be created."""

import re

from wqlab.ground.problem import Problem
from wqlab.guests.scenario import Scenario
from wqlab.measure.counts.kind import Kind
from wqlab.results.model import Count

SECS = 10
LINE = re.compile(r"reclaim (\d+) ([\d.]+)")


def counts(scenario: Scenario, lines: list[str]) -> list[Count]:
    """What guest/jobs/reclaim says: items, and seconds."""
    found = [match for line in lines if (match := LINE.fullmatch(line))]
    if len(found) != 1:
        raise Problem(f"{len(found)} lines of guest/jobs/reclaim, not one")
    rate = round(int(found[0][1]) / float(found[0][2]), 1)
    return [Count({"load": "items of 1 ms, no workers"}, {"rescued_per_sec": rate})]


RECLAIM = Kind(
    "reclaim",
    ("nodes-1", "bench-2", "nodes-2x1"),
    "reclaim",
    lambda scenario: "",
    counts,
    append=f"reclaim.secs={SECS}",
    module="wqreclaim",
)
