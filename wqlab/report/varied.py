# SPDX-License-Identifier: GPL-2.0
"""What was measured with several values of one number: shard sizes, CPUs, max_active."""

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, TypeVar

from wqlab.guests.scenario import SCOPES
from wqlab.report.compare import Comparable, Counted, Panel, counted_panels, panels
from wqlab.report.labels import ordered_kernels
from wqlab.results.model import Host, Results
from wqlab.results.module import words

WITH_CORES = re.compile(r"-cores-\d+$")  # of the name of a machine that is a part of one
P = TypeVar("P", bound=Comparable)


@dataclass(frozen=True)
class Series(Generic[P]):
    """Panels that differ in one number only."""

    panels: list[P]  # by that number

    @property
    def first(self) -> P:
        """That with the least of what varies."""
        return self.panels[0]

    @property
    def results(self) -> Results:
        """What all of it is from."""
        return self.first.results

    @property
    def machine(self) -> Host:
        """The host."""
        return self.first.machine

    @cached_property
    def kernels(self) -> list[str]:
        """Ids, in the order of the report."""
        seen = {key for panel in self.panels for key in panel.by_kernel}
        return [k.id for k in ordered_kernels(self.results) if k.id in seen]


@dataclass(frozen=True)
class Sweep(Series[Panel]):
    """Panels that differ in the shard size only."""

    @cached_property
    def scopes(self) -> list[str]:
        """Those that were measured, in the kernel's order."""
        return [s for s in SCOPES if any(s in panel.scopes for panel in self.panels)]

    @cached_property
    def n(self) -> str:
        """How many boots there are of each size."""
        counts = {panel.n for panel in self.panels}
        what = self.first.unit
        numbers = [len(b) for panel in self.panels for b in panel.by_kernel.values()]
        if len(counts) == 1:
            n = counts.pop()
            return f"{n} and size" if " of " in n else f"{n} of each size"
        return f"n = {min(numbers)} to {max(numbers)} {what}s of each kernel and size"

    @cached_property
    def about(self) -> str:
        """What a caption says."""
        return "; ".join([self.n, *self.first.about.split("; ")[1:]])


def sweeps(results: Results) -> list[Sweep]:
    """Runs that differ in the shard size alone."""
    found: dict[tuple, list[Panel]] = {}
    for panel in panels(results, "sizes"):
        if panel.size is not None:
            runs = tuple(words(run) for run in panel.boots[0].runs)
            key = (panel.machine.id, panel.scenario, panel.mode, runs)
            found.setdefault(key, []).append(panel)
    return [Sweep(sorted(group, key=lambda panel: panel.size or 0)) for group in found.values()]


# Numbers that a load is made with, and how the axis is called that they are on
OVER = {"threads": "CPUs, with a producer each (log)", "max_active": "max_active (items, log)"}


@dataclass(frozen=True)
class Scaling(Series[Counted]):
    """Counts of section sim that differ in one number of OVER: with that of the producers goes
    the number of CPUs."""

    over: str

    @cached_property
    def scopes(self) -> list[str]:
        """Those that were measured."""
        return list(dict.fromkeys(scope for panel in self.panels for scope in panel.groups))

    @property
    def whole(self) -> str:
        """The machine, or that which the others are parts of."""
        return _whole(self.first, self.over)

    @property
    def machine(self) -> Host:
        """That which the others are parts of."""
        whole = self.first.machine
        return replace(
            whole, emulation=re.sub(r"-cores-\d+(?= )", "", whole.emulation or "") or None
        )

    @property
    def about(self) -> str:
        """What a caption says."""
        run = self.first.boots[0].runs[0]
        same = {key: value for key, value in run.items() if key not in (self.over, "scopes")}
        return f"{self.first.n} and point; {words(same)}"

    def figures(self, kernel: str, scope: str, metric: str) -> dict[int, list[float]]:
        """By the number."""
        found = {
            _number(panel, self.over): panel.figures(kernel, scope, metric)
            for panel in self.panels
            if kernel in panel.by_kernel and scope in panel.groups
        }
        return {number: values for number, values in found.items() if values}


def _number(panel: Counted, over: str) -> int:
    return int(str(panel.boots[0].runs[0].get(over, 0)))


def _whole(panel: Counted, over: str) -> str:
    return WITH_CORES.sub("", panel.where) if over == "threads" else panel.where


def scalings(results: Results) -> list[Scaling]:
    """From three numbers on."""
    found: dict[tuple, list[Counted]] = {}
    simulated = counted_panels(results, "sim")
    for over in OVER:
        for panel in simulated:
            run = panel.boots[0].runs[0]
            same = words({key: value for key, value in run.items() if key != over})
            if over in run:
                key = (over, _whole(panel, over), panel.append, same)
                found.setdefault(key, []).append(panel)
    return [
        Scaling(sorted(group, key=lambda panel: _number(panel, over)), over)
        for (over, *_), group in found.items()
        if len({_number(panel, over) for panel in group}) > 2
    ]
