# SPDX-License-Identifier: GPL-2.0
"""What a reader in a hurry wants: the default scopes, the largest losses and gains, max_active."""

from collections.abc import Iterator
from math import log

from wqlab.report.compare import Comparable, Panel, counted_panels, panels
from wqlab.report.counts import COUNTED
from wqlab.report.labels import hosts, machine_line
from wqlab.report.tables import (
    Cell,
    Table,
    cells,
    default_pairs,
    ratio_row,
    shard_table,
    short_label,
)
from wqlab.results.model import Results, Section

LARGEST = 6  # rows of losses, and of gains
COLUMNS = ["figure", "compared", "medians", "n", "ratio"]

ASKED: dict[Section, tuple[str, ...]] = {
    "locks": ("lock_contentions", "lock_hold_ns"),
    "icount": ("instructions",),
    "time": ("items_per_sec", "queue_p50_ns", "queue_p95_ns", "start_p95_ns"),
    "local": ("items_per_sec", "queue_p95_ns", "start_p95_ns"),
}


def shown_in(panel: Comparable, metric: str) -> str:
    """The name of the figure of a panel, or of its table where it has none."""
    if isinstance(panel, Panel) and panel.section in ("time", "local"):
        return panel.name("times", panel.title)
    return panel.name(metric, panel.title)


def row_of(
    panel: Comparable, metric: str, new: tuple[str, str], old: tuple[str, str]
) -> list[Cell] | None:
    """Two kernels, each in its group, by a metric; None if either lacks it."""
    title = panel.title if panel.where in panel.title else f"{panel.where}, {panel.title}"
    what = " to ".join(f"{panel.label(kernel)} ({group})" for kernel, group in (new, old))
    text = f"{title}: {short_label(panel.metrics[metric])}"
    row = ratio_row(panel, metric, new, old)
    return [Cell(text, link=shown_in(panel, metric)), Cell(what), *row] if row else None


def default_rows(panel: Panel) -> list[list[Cell]]:
    """Kernels in their default scopes, or in the one that there is."""
    if panel.section == "local":
        shards, link = shard_table(panel), shown_in(panel, "")
        return [[Cell("serial: items/s", link=link), *row] for row in shards.rows] if shards else []
    rows: list[list[Cell]] = []
    for metric in ASKED[panel.section]:
        first = True
        for new, old in default_pairs(panel):
            if not {new[1], old[1]} <= set(panel.scopes):  # where one was enough
                new, old = (new[0], panel.scopes[0]), (old[0], panel.scopes[0])
            if row := row_of(panel, metric, new, old):
                rows.append(row if first else [Cell(""), *row[1:]])
                first = False
    return rows


def defaults(results: Results) -> list[Table]:
    """Kernels in their default scopes, by host, of mode serial."""
    tables = []
    serial = [p for section in ASKED for p in panels(results, section) if p.mode == "serial"]
    for machines in hosts(results):
        rows = [row for p in serial if p.machine in machines for row in default_rows(p)]
        title = "; ".join(machine_line(machine) for machine in machines)
        tables += [Table(title, COLUMNS, rows)] if rows else []
    return tables


def extremes(panel: Comparable, metric: str, sign: int) -> Iterator[tuple[float, list[Cell]]]:
    """The largest gain that the series has by this metric, or with sign -1 the largest loss, if
    there is one: the logarithm of its factor, and a row."""
    upwards = {"higher": sign, "lower": -sign, "": 0}[panel.metrics[metric].better]
    found = [
        (upwards * log(compared.ratio.ratio), (new, group), (old, group))
        for new, old in panel.pairs()
        for group in panel.groups
        if panel.results.kernel(new).name != "mainline"
        if (compared := panel.compared(new, old, group, metric))
        if not compared.ratio.low <= 1 <= compared.ratio.high
    ]
    size, *pair = max(found, default=(0, None, None))
    if size > 0 and (row := row_of(panel, metric, *pair)):
        yield size, row


def largest(results: Results) -> list[Table]:
    """The largest losses and gains of the series, one of each table at most."""
    tables = []
    every = [*panels(results, *ASKED), *counted_panels(results, *COUNTED)]
    asked = [(panel, metric) for panel in every for metric in (ASKED | COUNTED)[panel.section]]
    for what, sign in (("largest losses", -1), ("largest gains", 1)):
        found = [each for panel, metric in asked for each in extremes(panel, metric, sign)]
        rows = [row for _, row in sorted(found, key=lambda each: -each[0])[:LARGEST]]
        tables += [Table(what, COLUMNS, rows)] if rows else []
    return tables


def at_once(results: Results) -> Iterator[tuple[Comparable, str, str, list[tuple[float, float]]]]:
    """Panel, kernel, what has more of it, and of each count or row how many items ran at once, and
    how many should have."""
    for counted in counted_panels(results, "peaks"):
        for kernel, boots in counted.by_kernel.items():
            figures = [count.figures for boot in boots for count in boot.counts]
            both = [(one["peak"], one["wanted"]) for one in figures]
            yield counted, kernel, counted.name("peak", kernel), both
    for panel in panels(results, "time", "local"):
        for kernel, boots in panel.by_kernel.items() if panel.mode == "sleep" else ():
            rows = [row.values for b in boots for row in b.rows if row.mode == panel.mode]
            both = [(v.get("running_peak", 0), v.get("max_active", 0)) for v in rows]
            yield panel, kernel, shown_in(panel, ""), [each for each in both if all(each)]


def limits(results: Results) -> list[Table]:
    """How many items ran at once, of how many could by max_active."""
    rows = []
    for panel, kernel, link, both in (each for each in at_once(results) if each[-1]):
        kept = sum(peak == wanted for peak, wanted in both)
        ends = [f(both, key=lambda each: each[0] / each[1]) for f in (min, max)]
        first = kernel == next(iter(panel.by_kernel))
        row = [panel.label(kernel), f"{kept} of {len(both)}"]
        row += [f"{peak} of {wanted}" for peak, wanted in ends]
        rows.append([Cell(panel.where if first else "", link=link), *cells(*row)])
    title = "max_active: items running at once, of as many as should"
    columns = ["scenario", "kernel", "as many as should", "fewest", "most"]
    return [Table(title, columns, rows)] if rows else []


def glance(results: Results) -> list[Table]:
    """All of it."""
    return [*defaults(results), *largest(results), *limits(results)]
