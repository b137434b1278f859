# SPDX-License-Identifier: GPL-2.0
"""The figures of the page: times by percentile, and what was measured by the size of shards, by CPUs and
by max_active."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from wqlab.ground.stats import Spread
from wqlab.report import canvas
from wqlab.report.compare import Panel
from wqlab.report.labels import RANKS, TIMES, kernel_label, rank_name
from wqlab.report.varied import OVER, Scaling, Sweep


def percentile_lines(
    axes: Axes, panel: Panel, kernel: str, scope: str, time: str, series: int
) -> None:
    """Medians over the boots of each percentile, in a band from lowest to highest."""
    figures = [panel.figures(kernel, scope, f"{time}_{rank}_ns") for rank in RANKS]
    if not all(figures):
        return
    found = [Spread.of(values) for values in figures]
    places, paint = range(len(found)), canvas.SERIES[series]
    low, high = [f.low for f in found], [f.high for f in found]
    axes.fill_between(places, low, high, color=paint, alpha=0.16, lw=0)
    middle = [f.median for f in found]
    axes.plot(places, middle, canvas.MARKERS[series] + "-", color=paint, ms=3.6, lw=1.4)


def percentile_axes(axes: Axes, tilt: int) -> None:
    """Percentiles across, ns upwards."""
    names = [rank_name(rank) for rank in RANKS]
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(canvas.nanoseconds))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xticks(range(len(names)), names, rotation=tilt, fontsize=8)
    axes.grid(axis="x", visible=True)


def latency(panel: Panel, name: str) -> canvas.Drawing:
    """Kernels beside each other in each scope; of one kernel alone, its scopes."""
    scopes = [s for s in panel.scopes if any(panel.figures(k, s, "items") for k in panel.by_kernel)]
    colour = canvas.colours(panel)
    kernels = [(panel.label(kernel), colour[kernel]) for kernel in panel.by_kernel]
    names = ("queue_work() took (time, log)", "queue_work() to start (time, log)")

    def of_kernels(figure: Figure) -> None:
        grid = figure.subplots(2, len(scopes), sharex=True, sharey="row", squeeze=False)
        for row, time in zip(grid, TIMES, strict=True):
            for axes, scope in zip(row, scopes, strict=True):
                for kernel in panel.by_kernel:
                    percentile_lines(axes, panel, kernel, scope, time, colour[kernel])
                percentile_axes(axes, 60)
        for axes, scope in zip(grid[0], scopes, strict=True):
            axes.set_title(scope)
            lacking = [panel.label(k) for k in panel.by_kernel if panel.lacks(k, scope)]
            if lacking:
                text = f"{', '.join(lacking)}:\nno such scope"
                place = {"transform": axes.transAxes, "va": "top"}
                axes.text(0.04, 0.96, text, fontsize=7.5, color=canvas.FAINT, **place)
        for row, label in zip(grid, names, strict=True):
            row[0].set_ylabel(label)
        for axes in grid[1]:
            axes.set_xlabel("percentile")
        figure.legend(
            handles=canvas.keys(kernels), loc="upper right", ncols=len(kernels), fontsize=8.5
        )

    def of_scopes(figure: Figure) -> None:
        kernel = next(iter(panel.by_kernel))
        grid = figure.subplots(1, 2)
        for axes, time, label in zip(grid, TIMES, names, strict=True):
            for i, scope in enumerate(scopes):
                percentile_lines(axes, panel, kernel, scope, time, i % len(canvas.SERIES))
            percentile_axes(axes, 0)
            axes.set_ylabel(label)
            axes.set_xlabel("percentile")
        canvas.legend(grid[0], [(scope, i % len(canvas.SERIES)) for i, scope in enumerate(scopes)])

    title = f"{panel.title}: times of queueing and of starting, median and range over the "
    one = len(panel.by_kernel) == 1
    size, paint = ((canvas.WIDE, 4.2), of_scopes) if one else ((canvas.WIDE, 6.4), of_kernels)
    return canvas.draw(name, f"{title}{panel.unit}s", canvas.source(panel), size, paint)


def spread_line(axes: Axes, found: dict[float, Spread], series: int, **look: Any) -> None:
    """A line through medians, from lowest to highest at each."""
    spreads = found.values()
    axes.errorbar(
        list(found),
        [each.median for each in spreads],
        yerr=[[s.median - s.low for s in spreads], [s.high - s.median for s in spreads]],
        color=canvas.SERIES[series % len(canvas.SERIES)],
        marker=canvas.MARKERS[series % len(canvas.MARKERS)],
        **{"ms": 5, "lw": 1.5, "elinewidth": 1, "capsize": 2, **look},
    )


def sweep_figure(sweep: Sweep, scope: str, name: str) -> canvas.Drawing | None:
    """Throughput and kworkers, and times, by the size of a shard."""
    colour = canvas.colours(sweep)

    def spreads(kernel: str, metric: str) -> dict[int, Spread]:
        return {
            place: Spread.of(values)
            for place, panel in enumerate(sweep.panels)
            if kernel in panel.by_kernel and (values := panel.figures(kernel, scope, metric))
        }

    kernels = [k for k in sweep.kernels if spreads(k, "items_per_sec")]
    if not kernels:
        return None

    def line(axes: Axes, n: int, metric: str, look: str, **more: Any) -> None:
        nudge = (n - (len(kernels) - 1) / 2) * 0.09
        found = {place + nudge: each for place, each in spreads(kernels[n], metric).items()}
        spread_line(axes, found, colour[kernels[n]], ls=look, **more)

    def paint(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
        workers = left.twinx()
        for n in range(len(kernels)):
            line(left, n, "items_per_sec", "-")
            line(workers, n, "kworkers_peak", ":", mfc=canvas.PAPER)
            line(right, n, "queue_p50_ns", "-")
            line(right, n, "queue_p95_ns", "--", mfc=canvas.PAPER)
        workers.grid(visible=False)
        workers.spines["right"].set_visible(True)
        workers.yaxis.set_major_locator(MaxNLocator(integer=True))
        workers.set_ylabel("kworkers, most at once (dotted, hollow)")
        left.set_ylabel("throughput (items/s; full lines)")
        left.yaxis.set_major_formatter(FuncFormatter(canvas.short))
        right.set_ylabel("queue_work() took (p50 full, p95 dashed)")
        right.yaxis.set_major_formatter(FuncFormatter(canvas.nanoseconds))
        for axes in (left, workers, right):
            axes.set_ylim(0, 1.05 * axes.get_ylim()[1])  # no marker is cut off
        for axes in (left, right):
            axes.set_xticks(range(len(sweep.panels)), [str(panel.size) for panel in sweep.panels])
            axes.set_xlabel("workqueue.cache_shard_size (cores)")
            axes.set_xlim(-0.4, len(sweep.panels) - 0.6)
        shown = [(kernel_label(sweep.results, k), colour[k]) for k in kernels]
        canvas.legend(left, shown, f"median; lowest to highest {sweep.first.unit}")

    title = f"{sweep.first.title}: shards of different size, scope {scope}"
    return canvas.draw(name, title, canvas.source(sweep), (canvas.WIDE, 3.8), paint)


def number_axes(axes: Axes, over: str) -> None:
    """For a figure by CPUs or by max_active."""
    if over == "threads":
        axes.set_xlim(left=0)
    else:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(FuncFormatter(canvas.short))
    axes.yaxis.set_major_formatter(FuncFormatter(canvas.short))
    axes.set_ylim(bottom=0)


def scaling(one: Scaling, name: str) -> canvas.Drawing:
    """Throughput, and cache lines that move for an item: a column for each scope, a line for
    each kernel."""
    colour = canvas.colours(one)
    metrics = {
        "steady_items_per_sec": "throughput (items/s)",
        "moves_per_item": "cache lines that move (per item)",
    }

    def paint(figure: Figure) -> None:
        grid = figure.subplots(
            len(metrics), len(one.scopes), sharex=True, sharey="row", squeeze=False
        )
        for row, (metric, label) in zip(grid, metrics.items(), strict=True):
            for axes, scope in zip(row, one.scopes, strict=True):
                for kernel in one.kernels:
                    found = one.figures(kernel, scope, metric).items()
                    spreads: dict[float, Spread] = {n: Spread.of(values) for n, values in found}
                    spread_line(axes, spreads, colour[kernel])
                number_axes(axes, one.over)
            row[0].set_ylabel(label)
        for axes, scope in zip(grid[0], one.scopes, strict=True):
            axes.set_title(scope, loc="right", fontweight="normal")
        for axes in grid[-1]:
            axes.set_xlabel(OVER[one.over])
        canvas.legend(grid[0][0], [(kernel_label(one.results, k), colour[k]) for k in one.kernels])

    what = OVER[one.over].split(" (")[0].split(",")[0]
    return canvas.draw(
        name, f"{one.whole}: by {what}", canvas.source(one), (canvas.WIDE, 5.6), paint
    )
