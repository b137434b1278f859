# SPDX-License-Identifier: GPL-2.0
"""The figures of the page, drawn as SVG that needs nothing else."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter, NullLocator

from wqlab.ground.stats import LEVEL, Spread
from wqlab.report import canvas
from wqlab.report.compare import Compared, Panel
from wqlab.report.labels import RANKS, TIMES, rank_name


def bars(axes: Axes, panel: Panel, metric: str, scopes: Sequence[str]) -> None:
    """Medians by scope and kernel, from lowest to highest, and each boot."""
    colour, kernels = canvas.colours(panel), list(panel.by_kernel)
    width = 0.8 / len(kernels)
    for i, kernel in enumerate(kernels):
        for place, scope in enumerate(scopes):
            at = place + (i - (len(kernels) - 1) / 2) * width
            values = panel.figures(kernel, scope, metric)
            if not values:
                why = "no such scope" if panel.lacks(kernel, scope) else "not measured"
                axes.annotate(
                    f"{panel.label(kernel)}: {why}",
                    (at, 0),
                    xytext=(0, 3),
                    textcoords="offset points",
                    rotation=90,
                    ha="center",
                    va="bottom",
                    fontsize=7.5,
                    color=canvas.FAINT,
                )
                continue
            found, paint = Spread.of(values), canvas.SERIES[colour[kernel]]
            axes.bar(at, found.median, width * 0.88, color=paint, alpha=0.35, linewidth=0)
            axes.hlines(found.median, at - width * 0.44, at + width * 0.44, color=paint, lw=1.8)
            axes.vlines(at, found.low, found.high, color=paint, lw=1.2)
            aside = width * 0.07 if len(values) > 1 else 0
            spots = [at + (n * 5 % 7 - 3) * aside for n in range(len(values))]
            axes.plot(
                spots, values, canvas.MARKERS[colour[kernel]], color=paint, ms=2.6, alpha=0.8, mew=0
            )
    axes.set_xticks(range(len(scopes)), scopes)
    axes.tick_params(axis="x", length=0)
    axes.set_ylim(bottom=0)
    few = max(0, 3 - len(scopes)) / 2  # bars are not to be as wide as the figure
    axes.set_xlim(-0.55 - few, len(scopes) - 0.45 + few)


def forest(axes: Axes, lines: Sequence[tuple[str, Compared, int]]) -> None:
    """Ratios with their intervals, one below the other."""
    for place, (_, compared, series) in enumerate(lines):
        ratio, paint = compared.ratio, canvas.SERIES[series]
        strong = ratio.differs
        axes.hlines(place, ratio.low, ratio.high, color=paint, lw=2.2 if strong else 1.2)
        axes.plot(
            ratio.ratio,
            place,
            canvas.MARKERS[series],
            ms=5.5,
            mew=1.3,
            color=paint,
            mfc=paint if strong else canvas.PAPER,
        )
    axes.axvline(1, color=canvas.INK, lw=0.9)
    axes.set_yticks(range(len(lines)), [text for text, _, _ in lines], fontsize=8)
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", visible=True)
    ends = [end for _, c, _ in lines for end in (c.ratio.low, c.ratio.high, 1)]
    if max(ends) / min(ends) > 4:
        axes.set_xscale("log")
        ticks = [
            t for t in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20) if min(ends) / 1.3 < t < max(ends) * 1.3
        ]
        axes.set_xticks(ticks)
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.margins(x=0.06)
    axes.set_xlabel(f"ratio of medians, {LEVEL * 100:.0f} % interval")


def labels(panel: Panel) -> list[tuple[str, int]]:
    """The kernels of the legend, and their colours."""
    colour = canvas.colours(panel)
    return [(panel.label(kernel), colour[kernel]) for kernel in panel.by_kernel]


def ratio_lines(panel: Panel, metric: str) -> list[tuple[str, Compared, int]]:
    """Each pair in each scope; coloured as the newer one."""
    colour, lines = canvas.colours(panel), []
    for scope in panel.scopes:
        for new, old in panel.pairs():
            compared = panel.compared(new, old, scope, metric)
            if compared:
                text = f"{scope}: {compared.new} / {compared.old}"
                lines.append((text, compared, colour[new]))
    return lines


def scope_axes(axes: Axes, panel: Panel, metric: str, label: str) -> None:
    """A bar for each kernel and scope."""
    bars(axes, panel, metric, panel.scopes)
    axes.set_ylabel(label)
    axes.set_xlabel("affinity scope")
    axes.yaxis.set_major_formatter(FuncFormatter(canvas.short))


EACH = "median; lowest to highest; each "  # what bars() shows


def throughput(panel: Panel, name: str) -> canvas.Drawing:
    """Items/s, and the ratios of kernels beside them."""
    lines = ratio_lines(panel, "items_per_sec")
    height = max(3.6, 1.3 + 0.19 * len(lines))

    def paint(figure: Figure) -> None:
        if lines:
            axes, ratios = figure.subplots(1, 2, width_ratios=(1.7, 1))
            forest(ratios, lines)
            ratios.set_title(
                "above 1: the first is faster; filled: the interval excludes 1",
                fontweight="normal",
                fontsize=8.5,
                loc="right",
            )
        else:
            axes = figure.subplots()
        scope_axes(axes, panel, "items_per_sec", "throughput (items/s)")
        canvas.legend(axes, labels(panel), EACH + panel.unit)

    width = canvas.WIDE if lines else canvas.NARROW
    return canvas.draw(
        name, f"{panel.title}: throughput", canvas.source(panel), (width, height), paint
    )


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
            handles=canvas.keys(labels(panel)),
            loc="upper right",
            ncols=len(labels(panel)),
            fontsize=8.5,
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


def running(panel: Panel, name: str) -> canvas.Drawing | None:
    """The most items that ran at once, and the limit; None where limits differ."""
    limits = panel.limits
    if len(limits) != 1:
        return None
    limit = limits[0]

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        scope_axes(axes, panel, "running_peak", "most items running at once (items)")
        axes.axhline(limit, color=canvas.LOSS, lw=1.2, ls="--")
        axes.annotate(
            f"max_active {limit}",
            (1, limit),
            xycoords=("axes fraction", "data"),
            ha="right",
            va="bottom",
            fontsize=8.5,
            color=canvas.LOSS,
        )
        axes.set_ylim(top=max(axes.get_ylim()[1], limit * 1.15))
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        canvas.legend(axes, labels(panel), EACH + panel.unit)

    return canvas.draw(
        name,
        "sleep: items running at once, and max_active",
        canvas.source(panel),
        (canvas.NARROW, 3.6),
        paint,
    )


def locks(panel: Panel, name: str) -> canvas.Drawing:
    """What lock statistics say of pool->lock, per item."""
    names = {
        "lock_acquisitions": "acquisitions (per item)",
        "lock_contentions": "contentions (per item)",
        "lock_hold_ns": "time held (ns per item)",
        "lock_wait_ns": "time waited (ns per item)",
    }

    def paint(figure: Figure) -> None:
        grid = figure.subplots(2, 2).ravel()
        for axes, (metric, label) in zip(grid, names.items(), strict=True):
            scope_axes(axes, panel, metric, label)
        for axes in grid[:2]:
            axes.set_xlabel("")
        canvas.legend(grid[0], labels(panel))

    title = f"{panel.title}: what happens to pool->lock, with lock statistics"
    return canvas.draw(name, title, canvas.source(panel), (canvas.WIDE, 5.6), paint)


def instructions(panel: Panel, name: str) -> canvas.Drawing:
    """Instructions per item."""

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        scope_axes(axes, panel, "instructions", "instructions per item")
        canvas.legend(axes, labels(panel))

    title = f"{panel.title}: instructions from queueing an item to its completion"
    return canvas.draw(name, title, canvas.source(panel), (canvas.NARROW, 3.4), paint)
