# SPDX-License-Identifier: GPL-2.0
"""How many work items of an unbound workqueue run at once, by max_active and where they come from.

test_workqueue queues a number of items that sleep and logs the most that were running at
once. What max_active promises is min(max_active, items), whatever the machine.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from wqlab.guests.scenario import Cpus, Scenario, format_cpulist
from wqlab.guests.vm import sections
from wqlab.measure.counts.kind import Kind
from wqlab.results.model import Count, ResultsError, Run
from wqlab.results.module import PREFIX, rows_of, words

MACHINES = ("nodes-1", "nodes-2", "nodes-4", "nodes-8", "nodes-4-cpuless", "nodes-4-memoryless")
# Two scopes whose pods are within nodes, and one whose only pod is no node's.
SCOPES = ("default", "cpu", "system")
# max_active, items to be queued at least, and for how many ms they sleep at least
LIMITS = (
    (1, 8, 20),
    (3, 12, 20),
    (4, 16, 20),
    (8, 32, 20),
    (16, 48, 20),
    (64, 48, 50),
    (64, 144, 50),
    (512, 640, 250),
)


@dataclass(frozen=True)
class Limited:
    """One run of test_workqueue with a max_active."""

    max_active: int
    issuers: str  # "all CPUs", "one node" or "last node"
    cpus: Cpus
    scope: str
    window: int  # items that each CPU queues
    sleep_ms: int

    @property
    def items(self) -> int:
        """How many items are queued."""
        return self.window * len(self.cpus)

    @property
    def wanted(self) -> int:
        """How many must run at once."""
        return min(self.max_active, self.items)

    @property
    def run(self) -> Run:
        """The parameters of test_workqueue."""
        return {
            "mode": "sleep",
            "scopes": [self.scope],
            "max_active": self.max_active,
            "cpus": format_cpulist(self.cpus),
            "items": self.window,
            "warmup": 0,
            "window": self.window,
            "sleep_us": self.sleep_ms * 1000,
        }

    @property
    def command(self) -> str:
        """For guest/jobs/maxactive."""
        return f"run {words(self.run)}"

    @property
    def labels(self) -> dict[str, str | int]:
        """What tells its row from others."""
        return {
            "max_active": self.max_active,
            "items": self.items,
            "issuers": self.issuers,
            "scope": self.scope,
        }


def cases(scenario: Scenario) -> Iterator[Limited]:
    """Those of one machine; on a single node all issuers are on it."""
    nodes = [cpus for cpus in scenario.nodes if cpus]
    issuers = {"all CPUs": frozenset(range(scenario.cpus))}
    if len(nodes) > 1:
        issuers |= {"one node": nodes[0], "last node": nodes[-1]}
    for max_active, items, sleep_ms in LIMITS:
        for name, cpus in issuers.items():
            for scope in SCOPES:
                window = -(-items // len(cpus))
                yield Limited(max_active, name, cpus, scope, window, sleep_ms)


def commands(scenario: Scenario) -> str:
    """The input of guest/jobs/maxactive."""
    return "".join(f"{case.command}\n" for case in cases(scenario))


def peaks(scenario: Scenario, lines: list[str]) -> dict[Limited, int]:
    """What the job has printed. Each item must have run once."""
    answers = sections(lines)
    found = {}
    for case in cases(scenario):
        said = [
            line.removeprefix("kernel ")
            for line in answers.get(case.command, [])
            if line.startswith(f"kernel {PREFIX}scope=")
        ]
        if len(said) != 1:
            raise ResultsError(f"{len(said)} results, not 1, for: {case.command}")
        (row,) = rows_of(case.run, said)
        if row.values.get("max_active") != case.max_active:
            raise ResultsError(f"the workqueue has another max_active: {said[0]}")
        found[case] = row.values["running_peak"]
    return found


def counts(scenario: Scenario, lines: list[str]) -> list[Count]:
    """The most that ran at once in each case, and how many should have."""
    return [
        Count(case.labels, {"wanted": case.wanted, "peak": peak}, case.run)
        for case, peak in peaks(scenario, lines).items()
    ]


PEAKS = Kind("peaks", MACHINES, "maxactive", commands, counts, slower=2, at_once=2)
