# SPDX-License-Identifier: GPL-2.0
"""What files of results/ say, asked in a few words, as tests/claims.toml does.

A query is words; those of the row and of the claim hold where it has no other:

  patched                a kernel, by its name, or by name and number of patches (patched-48)
  patched/stock          the ratio of the medians of two
  lock_hold_ns           a figure of wqlab/results/metrics.py
  key=value              what the boots are of (file, section, scenario, size, append), a parameter of
                         their runs (mode, max_active), or a label of what was counted (scope, load)
  key=1|2|4              a number for each, one after the other
  []                     with its interval in brackets; of one kernel, from its lowest to its highest boot
  low, high, range       of the boots, instead of their median; the highest over the lowest
  least, middle, most, sum
                         of all that the words fit; with these, key=1|2 is either
  alike, unlike          in how many of all these a ratio is 1, or is not
  per=1000               divided by that
  more                   how much above or below 1 a ratio is
  A / B                  the ratio of two queries; what A says holds for B
  path=a>b=c>0           in a file that is not of results: this entry of a TOML or JSON file; b=c are
                         those of a list whose b is c or has it, and a list stands for its length
"""

import json
import math
import shlex
import statistics
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, get_args

from wqlab.ground import stats
from wqlab.ground.places import ROOT
from wqlab.ground.stats import Spread
from wqlab.report.compare import PARAMETERS, Comparable, Counted, Panel, counted_panels, panels
from wqlab.results.file import load
from wqlab.results.metrics import FIGURES, METRICS, counted
from wqlab.results.model import Results, Section

OVER_ALL = {"least", "middle", "most", "sum", "alike", "unlike"}
FLAGS = {"[]", "low", "high", "range", "more", *OVER_ALL}
KNOWN = {*METRICS, *FIGURES, "wakeups_per_item"}
NO_LABELS = {*FLAGS, "kernels", "figure", "file", "per"}
# What two or three runs tell: it's counted, or in simulated time
EXACT = {"sim", "icount", "costs", "hotplug", "irqsoff", "peaks"}

Words = dict[str, str]


class ClaimError(Exception):
    """One line about a query that has no answer, or a text that is not there."""


def words(text: str) -> Words:
    """A query by its keys: a flag is its own key."""
    found: Words = {}
    for word in shlex.split(text):
        key, equals, value = word.partition("=")
        if equals:
            found[key] = value
        else:
            found[word if word in FLAGS else "figure" if word in KNOWN else "kernels"] = word
    return found


@cache
def results(name: str) -> Results:
    """A file of results/."""
    return load(ROOT / "results" / name)


@dataclass(frozen=True)
class Cell:
    """A place in a file that figures are in: a panel, and in it a scope or labels."""

    file: str
    panel: Comparable = field(repr=False)
    labels: Mapping[str, Any]

    @property
    def exact(self) -> bool:
        """Whether it was counted or simulated."""
        boots = self.panel.results.boots
        return self.panel.section in EXACT or any(boot.section == "sim" for boot in boots)

    def kernel(self, name: str) -> str:
        """The id of the kernel of that name, "" without one."""
        found = {key: self.panel.results.kernel(key) for key in self.panel.by_kernel}
        mine = (key for key, k in found.items() if name in (k.name, f"{k.name}-{k.patches}"))
        return next(mine, "")

    def values(self, name: str, figure: str) -> list[float]:
        """The figure in each boot of a kernel."""
        kernel, labels = self.kernel(name), dict(self.labels)
        if not kernel or figure not in self.panel.metrics:
            return []
        if isinstance(self.panel, Counted) and "reason" in labels:
            return self.panel.by_reason(kernel, labels["load"], labels["reason"], figure)
        if isinstance(self.panel, Counted) and figure in FIGURES:
            return counted(self.panel.by_kernel[kernel], labels, figure)
        return self.panel.figures(kernel, ", ".join(map(str, labels.values())), figure)

    def parameters(self, name: str) -> set[str]:
        """Those of the runs of a kernel, as far as they may differ from those of the others."""
        if not isinstance(self.panel, Panel):
            return set()
        asked, found = (self.panel.mode, self.labels["scope"]), set()
        boots = self.panel.by_kernel[self.kernel(name)]
        rows = [row for boot in boots for row in boot.rows if (row.mode, row.scope) == asked]
        for values in (row.values for row in rows):
            flight = values.get("threads", 1) * values.get("window", 1)
            same = {key: values.get(key, 0) for key in PARAMETERS}
            same["max_active"] = min(same["max_active"], flight)  # more than that is no limit
            if not {"secs", "each"} & boots[0].runs[0].keys() and self.panel.section != "icount":
                same["each"] = values["items"] // values.get("threads", 1)
            found.add(str(same))
        return found

    def known(self) -> dict[str, str]:
        """What words may say of it."""
        boot, panel = self.panel.boots[0], self.panel
        found: dict[str, Any] = {
            key: getattr(boot, key) for key in ("section", "scenario", "append", "flavour", "size")
        }
        mode = panel.mode if isinstance(panel, Panel) else None
        runs = [run for run in boot.runs if mode in (None, run.get("mode", "serial"))]
        for run in runs[:1]:
            found |= {key: value for key, value in run.items() if key not in ("scopes", "load")}
        found |= ({"mode": mode} if mode else {}) | dict(self.labels)
        return {key: str(value) for key, value in found.items() if value is not None}


@cache
def all_cells(name: str) -> list[tuple[dict[str, str], Cell]]:
    """The cells of a file, with what words may say of each."""
    sections: tuple[Section, ...] = get_args(Section)
    found = [
        Cell(name, panel, {"scope": scope})
        for panel in panels(results(name), *sections)
        for scope in panel.groups
    ]
    for counted_panel in counted_panels(results(name), *sections):
        counts = [count.labels for boot in counted_panel.boots for count in boot.counts]
        found += [Cell(name, counted_panel, one) for one in {str(c): c for c in counts}.values()]
    return [(cell.known(), cell) for cell in found]


def cells(query: Words) -> list[Cell]:
    """Those that the words fit and that have the figure for all kernels. Parts, such as a lock's or
    a reason's, only if the words name one."""
    asked = {key: value.split("|") for key, value in query.items() if key not in NO_LABELS}
    parts = {"reason"} if "in" in asked else {"reason", "in"} - asked.keys()
    return [
        cell
        for file in query["file"].split("|")
        for known, cell in all_cells(file)
        if all(known.get(key, "") in values for key, values in asked.items())
        and not parts & cell.labels.keys()
        and all(cell.values(name, query["figure"]) for name in query["kernels"].split("/"))
    ]


# --- answers ------------------------------------------------------------------------------------


@dataclass
class Answer:
    """The numbers of a query, and the figures that they are from: place, kernel, and boots."""

    numbers: list[float]
    used: list[tuple[Cell, str, int]] = field(default_factory=list)


def worked_out(places: list[tuple[Cell, Words]]) -> Answer:
    """What the last of the words want of the figures of one kernel, or of two."""
    used: list[tuple[Cell, str, int]] = []
    figures: list[list[float]] = []
    for cell, query in places:
        for name in query["kernels"].split("/"):
            figures.append(cell.values(name, query["figure"]))
            used.append((cell, name, len(figures[-1])))
    query, spreads = places[-1][1], [Spread.of(one) for one in figures]
    if len(figures) == 1:
        end = next((flag for flag in ("low", "high") if flag in query), "median")
        numbers = [getattr(spreads[0], end), spreads[0].low, spreads[0].high]
        if "range" in query:
            numbers = [spreads[0].high / spreads[0].low]
    else:
        numbers = [spreads[0].median / spreads[1].median if spreads[1].median else math.inf]
        if "[]" in query:
            ratio = stats.compare(*figures)
            numbers += [ratio.low, ratio.high] if ratio else [math.nan, math.nan]
    if "more" in query:
        numbers = [abs(number - 1) for number in numbers]
    wanted = numbers[: 3 if "[]" in query else 1]
    return Answer([number / float(query.get("per", 1)) for number in wanted], used)


def over_all(found: list[Cell], queries: list[Words]) -> Answer:
    """The least, most or sum of all of them, or how many are alike."""
    answers = [worked_out([(cell, query) for query in queries]) for cell in found]
    numbers, flags = [one.numbers[0] for one in answers], queries[0].keys()
    [flag] = OVER_ALL & flags
    alike = sum(number == 1 for number in numbers)
    over = {"least": min(numbers), "middle": statistics.median(numbers), "most": max(numbers)}
    over |= {"sum": sum(numbers), "alike": alike, "unlike": len(numbers) - alike}
    return Answer([over[flag]], [one for each in answers for one in each.used])


def answer(base: Words, text: str) -> Answer:
    """The numbers that stand for a query. ClaimError if nothing fits it, or more than one place."""
    first, *second = map(words, text.split(" / "))
    queries = [base | first, *(base | first | one for one in second)]
    if "path" in queries[0]:
        return Answer([entry(queries[0]) / float(queries[0].get("per", 1))])
    found = [cells(query) for query in queries]
    if OVER_ALL & queries[0].keys() and all(found):
        return over_all(found[0], queries)
    for fit, query in zip(found, queries, strict=True):
        if len(fit) != 1:
            some = "; ".join(str(cell.known()) for cell in fit[:3])
            raise ClaimError(f"{len(fit)} places fit {{{text}}}, of {query}: {some}")
    return worked_out([(fit[0], query) for fit, query in zip(found, queries, strict=True)])


def as_list(value: Any) -> list[Any]:
    """Itself, or none."""
    return value if isinstance(value, list) else []


def entry(query: Words) -> float:
    """That of a file which is not of results."""
    text = (ROOT / "results" / query["file"]).read_text()
    data: Any = tomllib.loads(text) if query["file"].endswith(".toml") else json.loads(text)
    for part in query["path"].split(">"):
        key, equals, value = part.partition("=")
        if equals:
            data = [one for one in data if value == str(one[key]) or value in as_list(one[key])]
        else:
            data = data[int(part)] if isinstance(data, list) else data[part]
    return len(data) if isinstance(data, list) else float(data)
