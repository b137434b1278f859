# SPDX-License-Identifier: GPL-2.0
"""Results as tables, for the terminal and for the page."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from wqlab.ground.stats import Spread
from wqlab.report.compare import CHANCE, Better, Comparable, Compared, Panel, compare
from wqlab.report.labels import DEFAULT_SCOPES, LOCKS, RANKS, TIMES, rank_name
from wqlab.report.varied import Sweep
from wqlab.results.metrics import METRICS, Metric


@dataclass(frozen=True)
class Cell:
    """What a table has in one place. A claim is a difference that is more than chance."""

    text: str
    claim: bool = False
    better: Better = ""
    link: str = ""  # in the page, to what is called so


@dataclass(frozen=True)
class Table:
    """What the page, the terminal and report.txt show as a table."""

    title: str
    columns: list[str]
    rows: list[list[Cell]]
    note: str = ""
    words: int = 2  # leading columns that hold words, not figures
    short: bool = False  # for the terminal too
    name: str = ""  # that rows link to

    def left(self, column: int) -> bool:
        """Read down its left side: words and ratios are, figures are not."""
        name = self.columns[column]
        return column < self.words or " to " in f" {name}" or name == "ratio"


def cells(*texts: object) -> list[Cell]:
    """A cell for each text."""
    return [Cell(str(text)) for text in texts]


def ratio_cell(compared: Compared) -> Cell:
    """A ratio, marked if it differs."""
    return Cell(str(compared), compared.ratio.differs, compared.better)


def figure(value: float, like: float | None = None) -> str:
    """A figure with three digits at least; like decides how many follow the point."""
    size = abs(value if like is None else like)
    return f"{value:,.{0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3}f}"


def median(counts: Sequence[float]) -> str:
    """Of whole numbers."""
    return f"{statistics.median(counts):,.1f}".removesuffix(".0")


def spread(values: Sequence[float]) -> str:
    """Median [lowest - highest], or the one figure that there is."""
    if not values:
        return "-"
    found = Spread.of(values)
    whole = all(value == int(value) for value in values)
    low, middle, high = (
        f"{value:,.0f}" if whole and value == int(value) else figure(value, found.median)
        for value in (found.low, found.median, found.high)
    )
    return middle if found.low == found.high else f"{middle} [{low} - {high}]"


# --- kernels side by side ----------------------------------------------------------------


def short_label(metric: Metric) -> str:
    """A metric's name with its unit, for a column."""
    names = {
        "items_per_sec": "items/s",
        "lock_acquisitions": "acquisitions per item",
        "lock_contentions": "contentions per item",
        "lock_hold_ns": "held, ns per item",
        "lock_wait_ns": "waited for, ns per item",
        "instructions": "instructions per item",
        "moves_per_item": "lines that move per item",
        "moves_wait_ns": "waited for lines, ns per item",
    }
    if metric.key in names:
        return names[metric.key]
    time, _, rank = metric.key.removesuffix("_ns").partition("_")
    if time in TIMES and rank:
        return f"{time} {rank_name(rank)} ns"
    between = {"per item": " ", "ns": ", "}.get(metric.unit)
    return f"{metric.label}{between}{metric.unit}" if between else metric.label


def kernel_table(
    panel: Comparable,
    title: str,
    metrics: Sequence[str],
    ratio: str = "",
    *,
    groups: Iterable[str] | None = None,
    of: str = "scope",
    short: bool = False,
) -> Table:
    """Rows, group by kernel: the medians of the metrics, and the ratios of one of them."""
    pairs = panel.pairs() if ratio else []
    olds = list(dict.fromkeys(old for _, old in pairs))
    columns = [of, "kernel", "n", *(short_label(panel.metrics[m]) for m in metrics)]
    columns += [f"to {panel.label(old)}" for old in olds]
    rows = []
    for group in panel.groups if groups is None else groups:
        for kernel in panel.by_kernel:
            first = kernel == next(iter(panel.by_kernel))
            row = cells(group if first else "", panel.label(kernel))
            values = [panel.figures(kernel, group, metric) for metric in metrics]
            if any(values):
                row += cells(len(next(filter(None, values))), *map(spread, values))
                for old in olds:
                    wanted = (kernel, old) in pairs
                    compared = panel.compared(kernel, old, group, ratio) if wanted else None
                    row.append(ratio_cell(compared) if compared else Cell(""))
            else:
                row += cells(0, f"no such {of}" if panel.lacks(kernel, group) else "not measured")
                row += cells(*[""] * (len(columns) - len(row)))
            rows.append(row)
    name = panel.name(ratio, panel.title) if ratio else ""
    return Table(title, columns, rows, panel.about, short=short, name=name)


def ratio_table(
    panel: Comparable, what: str, metric: str, of: str = "scope", short: bool = True
) -> Table:
    """One metric, with its ratios."""
    return kernel_table(panel, f"{panel.title}: {what}", [metric], metric, of=of, short=short)


def throughput_table(panel: Panel) -> Table:
    """Items/s by scope and kernel."""
    return ratio_table(panel, "throughput", "items_per_sec")


def latency_table(panel: Panel) -> Table:
    """The percentiles that published tables have."""
    metrics = [f"queue_{rank}_ns" for rank in ("p50", "p90", "p95")]
    metrics += ["kworkers_before", "kworkers_peak"]
    title = f"{panel.title}: what queue_work() took, and kworkers"
    return kernel_table(panel, title, metrics, short=panel.mode == "serial")


def time_tables(panel: Panel) -> list[Table]:
    """Each percentile of each time, with its ratios."""
    return [
        ratio_table(panel, f"{what}, {rank_name(rank)}", f"{time}_{rank}_ns", short=False)
        for time, what in TIMES.items()
        for rank in RANKS
    ]


def running_table(panel: Panel) -> Table | None:
    """Mode sleep: the most items that ran at once, against max_active."""
    if not (limits := panel.limits if panel.mode == "sleep" else []):
        return None
    shown = ", ".join(f"{limit:,}" for limit in limits)
    title = f"sleep: items running at once, max_active {shown}"
    return kernel_table(panel, title, ["running_peak"], short=True)


def kworkers_table(panel: Panel) -> Table:
    """Kworkers before, at most and after, and pools."""
    metrics = ["kworkers_before", "kworkers_peak", "kworkers_after", "pools"]
    return kernel_table(panel, f"{panel.title}: kworkers and pools", metrics)


def costs_table(panel: Panel) -> Table | None:
    """What an item takes of the CPUs, of results that have it."""
    metrics = ["switches_per_item", "cpu_ns_per_item"]
    if not any(panel.figures(k, s, metrics[0]) for k in panel.by_kernel for s in panel.scopes):
        return None
    return kernel_table(panel, f"{panel.title}: context switches and CPU time", metrics)


def lock_tables(panel: Panel) -> list[Table]:
    """What lock statistics say of pool->lock, per item."""
    labels = {key: f"{METRICS[key].label}, {METRICS[key].unit}" for key in LOCKS}
    return [
        ratio_table(panel, label, key, short=key != "lock_wait_ns") for key, label in labels.items()
    ]


def instruction_table(panel: Panel) -> Table:
    """Instructions per item."""
    what = "instructions from queueing an item to its completion"
    return ratio_table(panel, what, "instructions")


def sweep_table(sweep: Sweep, scope: str) -> Table:
    """One scope with shards of different size."""
    metrics = ["items_per_sec", "queue_p50_ns", "queue_p95_ns", "start_p95_ns"]
    metrics += ["kworkers_before", "kworkers_peak"]
    title = f"{sweep.first.title}: scope {scope} with shards of different size"
    parts = [
        kernel_table(panel, title, metrics, "items_per_sec", groups=[scope], short=True)
        for panel in sweep.panels
    ]
    columns = max((part.columns for part in parts), key=len)
    rows = []
    for panel, part in zip(sweep.panels, parts, strict=True):
        for i, (_, *row) in enumerate(part.rows):
            padding = cells(*[""] * (len(columns) - 1 - len(row)))
            rows.append([Cell("" if i else str(panel.size)), *row, *padding])
    return replace(parts[0], columns=["cores per shard", *columns[1:]], rows=rows, note=sweep.about)


# --- kernels in their default scopes -----------------------------------------------------


def ratio_row(
    panel: Comparable, metric: str, new: tuple[str, str], old: tuple[str, str]
) -> list[Cell] | None:
    """The medians of two kernels, each in a scope, how many boots of each, and the ratio."""
    named = [
        (panel.label(kernel), panel.figures(kernel, scope, metric)) for kernel, scope in (new, old)
    ]
    if not (compared := compare(panel.metrics[metric], *named)):
        return None
    medians = " / ".join(figure(Spread.of(values).median) for _, values in named)
    return [*cells(medians, " / ".join(map(str, compared.ratio.n))), ratio_cell(compared)]


def default_pairs(panel: Panel) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    """New and old, each a kernel with the scope that it uses by default."""
    pairs = []
    for pair in panel.pairs():
        names = [panel.results.kernel(key).name for key in pair]
        if all(name in DEFAULT_SCOPES for name in names):
            new, old = ((key, DEFAULT_SCOPES[name]) for key, name in zip(pair, names, strict=True))
            pairs.append((new, old))
    return pairs


def shard_table(panel: Panel) -> Table | None:
    """What the scope cache_shard does against cache, in each kernel and by default."""
    asked = {
        f"{panel.label(kernel)}: cache_shard to cache": ((kernel, "cache_shard"), (kernel, "cache"))
        for kernel in panel.by_kernel
    }
    for new, old in default_pairs(panel):
        if new[1] != old[1]:
            what = " to ".join(f"{panel.label(kernel)} in {scope}" for kernel, scope in (new, old))
            asked[f"{what}, the default scopes"] = (new, old)
    found = {what: ratio_row(panel, "items_per_sec", *pair) for what, pair in asked.items()}
    rows = [[Cell(what), *row] for what, row in found.items() if row]
    title = f"{panel.title}: throughput of cache_shard to that of cache"
    columns = ["", "medians", "n", "ratio"]
    return Table(title, columns, rows, panel.about, words=1, short=True) if rows else None


# --- the rest ----------------------------------------------------------------------------


def claim_lines(panel: Panel) -> list[str]:
    """How much can be said of times, for where there is no room for all the tables."""
    tried = [
        compared
        for time in TIMES
        for rank in RANKS
        for scope in panel.scopes
        for new, old in panel.pairs()
        if (compared := panel.compared(new, old, scope, f"{time}_{rank}_ns"))
    ]
    if not tried:
        return []
    found = sum(compared.ratio.differs for compared in tried)
    outside = f"of {len(tried)} intervals of ratios of times, {found} exclude 1"
    return [f"{panel.title}: {outside}; about {len(tried) * CHANCE:.0f} would if nothing differed"]
