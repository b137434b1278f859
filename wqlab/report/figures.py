# SPDX-License-Identifier: GPL-2.0
"""The figures of the page: times by percentile, and what was measured by the size of shards, by CPUs
and by max_active. A line has the colour of its kernel, whatever the figure."""

from math import nan

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from wqlab.ground.stats import Spread
from wqlab.report import canvas
from wqlab.report.compare import Panel
from wqlab.report.labels import RANKS, TIMES, rank_name
from wqlab.report.varied import OVER, Scaling, Sweep

WHAT = {
    "items_per_sec": "throughput (items/s, log)",
    "steady_items_per_sec": "throughput (items/s, log)",
    "moves_per_item": "lines that move (per item, log)",
    "kworkers_peak": "kworkers at most (log)",
    "queue_p50_ns": "queue_work(), p50 (log)",
    "queue_p95_ns": "queue_work(), p95 (log)",
    "queue": "queue_work() took (time, log)",
    "start": "queue_work() to start (time, log)",
}


def spread_line(axes: Axes, found: dict[float, Spread], series: int, band: bool = False) -> None:
    """A line through medians, from lowest to highest at each, or in a band of those."""
    places, spreads = list(found), list(found.values())
    colour, marker = canvas.SERIES[series], canvas.MARKERS[series]
    low, high = [s.low for s in spreads], [s.high for s in spreads]
    if band:
        axes.fill_between(places, low, high, color=colour, alpha=0.16, lw=0)
    else:  # all in one line that is interrupted, which takes the least
        ends = [end for both in zip(low, high, strict=True) for end in (*both, nan)]
        axes.plot([place for place in places for _ in range(3)], ends, color=colour, lw=1)
    axes.plot(places, [s.median for s in spreads], color=colour, marker=marker, ms=4.2)


def latency(panel: Panel) -> canvas.Drawing:
    """Kernels beside each other in each scope: a row for each time, by percentile."""
    scopes = [s for s in panel.scopes if any(panel.figures(k, s, "items") for k in panel.by_kernel)]
    colour = canvas.colours(panel.results)

    def paint(figure: Figure) -> None:
        grid = figure.subplots(2, len(scopes), sharex=True, sharey="row", squeeze=False)
        for row, time in zip(grid, TIMES, strict=True):
            for axes, scope in zip(row, scopes, strict=True):
                for kernel in panel.by_kernel:
                    ranks = [panel.figures(kernel, scope, f"{time}_{rank}_ns") for rank in RANKS]
                    found = {float(i): Spread.of(each) for i, each in enumerate(ranks) if each}
                    spread_line(axes, found, colour[kernel], band=True)
            canvas.by_factor(row, canvas.nanoseconds)
            row[0].set_ylabel(WHAT[time])
        for axes, scope in zip(grid[0], scopes, strict=True):
            axes.set_title(scope)
            if lacking := [panel.label(k) for k in panel.by_kernel if panel.lacks(k, scope)]:
                text = f"{', '.join(lacking)}:\nno such scope"
                place = {"transform": axes.transAxes, "va": "top"}
                axes.text(0.04, 0.96, text, fontsize=7.5, color=canvas.FAINT, **place)
        for axes in grid[1]:
            axes.set_xticks(range(len(RANKS)), map(rank_name, RANKS), rotation=60, fontsize=8)
            axes.set_xlabel("percentile")

    title = f"{panel.title}: times of queueing and of starting, median and range over the "
    name = panel.name("times", panel.title)
    return canvas.draw(name, f"{title}{panel.unit}s", panel, list(panel.by_kernel), 5.6, paint)


def sweep(by_size: Sweep, scope: str) -> canvas.Drawing | None:
    """Throughput, kworkers, and times, by the size of a shard."""
    colour = canvas.colours(by_size.results)
    metrics = ("items_per_sec", "kworkers_peak", "queue_p50_ns", "queue_p95_ns")

    def spreads(kernel: str, metric: str) -> dict[float, Spread]:
        return {
            place: Spread.of(values)
            for place, panel in enumerate(by_size.panels)
            if kernel in panel.by_kernel and (values := panel.figures(kernel, scope, metric))
        }

    kernels = [k for k in by_size.kernels if spreads(k, metrics[0])]

    def paint(figure: Figure) -> None:
        for axes, metric in zip(figure.subplots(1, len(metrics)), metrics, strict=True):
            for kernel in kernels:
                spread_line(axes, spreads(kernel, metric), colour[kernel])
            canvas.by_factor([axes], canvas.nanoseconds if metric.endswith("_ns") else canvas.short)
            axes.set_title(WHAT[metric])
            axes.set_xticks(range(len(by_size.panels)), [str(p.size) for p in by_size.panels])
            axes.set_xlabel("workqueue.cache_shard_size (cores)", fontsize=7.5)

    title = (
        f"{by_size.first.title}: shards of different size, scope {scope}, median and range over "
    )
    name = by_size.first.name("sizes", by_size.first.mode, scope)
    title += f"the {by_size.first.unit}s"
    return canvas.draw(name, title, by_size, kernels, 3.0, paint) if kernels else None


def scaling(one: Scaling) -> canvas.Drawing:
    """Throughput, and cache lines that move for an item: a column for each scope, a line for
    each kernel."""
    colour = canvas.colours(one.results)
    metrics = ("steady_items_per_sec", "moves_per_item")

    def paint(figure: Figure) -> None:
        grid = figure.subplots(
            len(metrics), len(one.scopes), sharex=True, sharey="row", squeeze=False
        )
        for row, metric in zip(grid, metrics, strict=True):
            for axes, scope in zip(row, one.scopes, strict=True):
                for kernel in one.kernels:
                    found = one.figures(kernel, scope, metric).items()
                    spreads: dict[float, Spread] = {n: Spread.of(values) for n, values in found}
                    spread_line(axes, spreads, colour[kernel])
            canvas.by_factor(row, canvas.short)
            row[0].set_ylabel(WHAT[metric])
        for axes, scope in zip(grid[0], one.scopes, strict=True):
            axes.set_title(scope)
        for axes in grid[-1]:
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter(FuncFormatter(canvas.short))
            axes.set_xlabel(OVER[one.over])

    what = OVER[one.over].split(" (")[0].split(",")[0]
    title = f"{one.whole}: by {what}, median and range over the {one.first.unit}s"
    name = one.first.name(one.over, one.whole)
    return canvas.draw(name, title, one, one.kernels, 5.2, paint)
