# SPDX-License-Identifier: GPL-2.0
"""How many work items of an unbound workqueue run at once, by max_active and where they come from.

test_workqueue queues a number of items that sleep and logs the most that were running at
once. What max_active promises is min(max_active, items), whatever the machine.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from wqboot import sections
from wqtopology import Cpus, Scenario, format_cpulist

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


class PeaksError(Exception):
    """One line about why there is no table."""


@dataclass(frozen=True)
class Cell:
    """One run of test_workqueue."""

    max_active: int
    issuers: str  # "all CPUs", "one node" or "last node"
    cpus: Cpus
    scope: str
    window: int  # items that each CPU queues
    sleep_ms: int

    @property
    def items(self) -> int:
        return self.window * len(self.cpus)

    @property
    def wanted(self) -> int:
        return min(self.max_active, self.items)

    @property
    def command(self) -> str:
        """For guest/jobs/maxactive."""
        return (
            f"run mode=sleep scopes={self.scope} max_active={self.max_active} "
            f"cpus={format_cpulist(self.cpus)} items={self.window} window={self.window} "
            f"sleep_us={self.sleep_ms * 1000}"
        )


def cells(scenario: Scenario) -> Iterator[Cell]:
    """Those of one machine; on a single node all issuers are on it."""
    nodes = [cpus for cpus in scenario.nodes if cpus]
    issuers = {"all CPUs": frozenset(range(scenario.cpus))}
    if len(nodes) > 1:
        issuers |= {"one node": nodes[0], "last node": nodes[-1]}
    for max_active, items, sleep_ms in LIMITS:
        for name, cpus in issuers.items():
            for scope in SCOPES:
                window = -(-items // len(cpus))
                yield Cell(max_active, name, cpus, scope, window, sleep_ms)


def commands(scenario: Scenario) -> str:
    """The input of guest/jobs/maxactive."""
    runs = [cell.command for cell in cells(scenario)]
    return "\n".join(["load items=1 scopes=default", *runs, ""])


def peaks(scenario: Scenario, lines: list[str]) -> dict[Cell, int]:
    """What the job has printed. Each item must have run once."""
    answers = sections(lines)
    found = {}
    for cell in cells(scenario):
        start = "kernel test_workqueue: scope="
        said = [line for line in answers.get(cell.command, []) if line.startswith(start)]
        if len(said) != 1:
            raise PeaksError(f"{len(said)} results, not 1, for: {cell.command}")
        row = dict(word.split("=") for word in said[0].split()[2:])
        if (int(row["items"]), row["lost"], row["twice"]) != (cell.items, "0", "0"):
            raise PeaksError(f"not every item ran once: {said[0]}")
        if int(row["max_active"]) != cell.max_active:
            raise PeaksError(f"the workqueue has another max_active: {said[0]}")
        found[cell] = int(row["running_peak"])
    return found


def table(found: dict[Cell, list[int]]) -> list[str]:
    """One line for each max_active, a column for issuers and scope; "*" is not what is wanted."""
    columns = list(dict.fromkeys((cell.issuers, cell.scope) for cell in found))
    rows = [["max_active", "items", "wanted", *(f"{who}, {scope}" for who, scope in columns)]]
    keys = dict.fromkeys((cell.max_active, cell.sleep_ms, cell.wanted) for cell in found)
    for key in keys:
        row = {
            (cell.issuers, cell.scope): (cell, values)
            for cell, values in found.items()
            if (cell.max_active, cell.sleep_ms, cell.wanted) == key
        }
        shown = []
        for column in columns:
            cell, values = row[column]
            text = "-".join(map(str, sorted({min(values), max(values)})))
            shown.append(text + ("" if set(values) == {cell.wanted} else "*"))
        items = sorted({cell.items for cell, _ in row.values()})
        rows.append([str(key[0]), "-".join(map(str, items)), str(key[2]), *shown])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(f"{text:>{width}}" for text, width in zip(row, widths, strict=True))
        for row in rows
    ]
