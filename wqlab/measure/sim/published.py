# SPDX-License-Identifier: GPL-2.0
"""What others have measured, from results/published.toml."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field

from wqlab.ground.places import ROOT
from wqlab.ground.problem import Problem
from wqlab.guests.scenario import reading
from wqlab.measure.sim.machine import Machine, find_machine
from wqlab.results.module import MEASURED

PATH = ROOT / "results/published.toml"


@dataclass(frozen=True)
class Published:
    """One table, of one kernel on one machine. The figures are by scope."""

    name: str
    machine: Machine
    patches: int  # of the series
    to: str  # what ratios are to: a scope of this table, or another table
    items_per_sec: Mapping[str, float]
    queue_p50_ns: Mapping[str, float] = field(default_factory=dict)
    threads: int = 0  # as many as CPUs
    size: int | None = None
    note: str = ""

    @property
    def producers(self) -> int:
        """How many CPUs queued."""
        return self.threads or self.machine.scenario.cpus


def load_published() -> dict[str, Published]:
    """All tables by name."""
    with reading(PATH):
        data = tomllib.loads(PATH.read_text())
        found = {
            name: Published(name, find_machine(table.pop("machine")), **table)
            for name, table in data.items()
        }
    for name, one in found.items():
        if one.to not in one.items_per_sec and one.to not in found:
            raise Problem(f"{PATH}: {name}: to = {one.to!r} is neither a scope of it nor a table")
        for scope in {*one.items_per_sec, *one.queue_p50_ns} - {*MEASURED}:
            raise Problem(f"{PATH}: {name}: {scope!r} is no scope: {', '.join(MEASURED)}")
    return found
