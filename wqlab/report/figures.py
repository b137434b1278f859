# SPDX-License-Identifier: GPL-2.0
"""The figures of the page, drawn as SVG that needs nothing else."""

import re
import textwrap
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter, NullLocator

from wqlab.ground.stats import LEVEL, Spread
from wqlab.report.compare import (
    LOCKS,
    OVER,
    RANKS,
    TIMES,
    Compared,
    Panel,
    Scaling,
    Sweep,
    kernel_label,
    machine_line,
    ordered_kernels,
    rank_name,
)

# Figures are drawn in the colours of the light page. In the page each becomes a variable of
# its style sheet, which has another value where the reader prefers dark.
INK, FAINT, GRID, PAPER = "#1c2128", "#59636e", "#d8dee4", "#fefefe"
GAIN, LOSS = "#1a7f37", "#cf222e"
SERIES = ("#737b85", "#0b62c4", "#c2600c", "#7a3fb0", "#0f7d7d", "#a0356b")
VARIABLES = {
    INK: "ink",
    FAINT: "faint",
    GRID: "grid",
    PAPER: "paper",
    GAIN: "gain",
    LOSS: "loss",
    **{colour: f"series{i}" for i, colour in enumerate(SERIES)},
}
MARKERS = "osD^vP"
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "unbound-workqueue",
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.edgecolor": FAINT,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}
SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
WIDE, NARROW = 10.6, 7.6  # inches; the page is as wide as WIDE


@dataclass(frozen=True)
class Drawing:
    """A figure of the report."""

    name: str  # of the file, without .svg
    title: str
    source: str  # n and machine
    svg: str  # as a file of its own


# --- drawing -----------------------------------------------------------------------------


def short(value: float, _: object = None) -> str:
    """A number on an axis."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:g}{unit}"
    return f"{value:g}"


def nanoseconds(value: float, _: object = None) -> str:
    for limit, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if abs(value) >= limit:
            return f"{value / limit:g} {unit}"
    return f"{value:g} ns"


def source(panel: Panel | Sweep | Scaling) -> str:
    """How often, with what, and on what machine."""
    line = machine_line(panel.machine)
    about = [part for part in panel.about.split("; ") if part not in line]
    return "; ".join([*about, line])


def colours(panel: Panel | Sweep | Scaling) -> dict[str, int]:
    """By the id of a kernel its place among SERIES: the same in all figures."""
    named = ("stock", "patched", "mainline")
    kernels = ordered_kernels(panel.results)
    others = [k for k in kernels if k.name not in named]
    first = len(named) if len(others) < len(kernels) else 1
    places = {k.id: named.index(k.name) for k in kernels if k.name in named}
    return places | {k.id: (first + i) % len(SERIES) for i, k in enumerate(others)}


def draw(
    name: str, title: str, about: str, size: tuple[float, float], paint: Callable[[Figure], None]
) -> Drawing:
    """A figure with its title above and where it comes from below."""
    with mpl.rc_context(STYLE):
        lines = textwrap.wrap(about, int(size[0] * 14.5))
        foot = (0.17 * len(lines) + 0.06) / size[1]
        head = 0.3 / size[1]
        inside = (0, foot, 1, 1 - foot - head)
        layout = ConstrainedLayoutEngine(rect=inside, w_pad=0.06, h_pad=0.05)
        figure = Figure(figsize=size, layout=layout)
        paint(figure)
        figure.text(0.008, 1 - 0.06 / size[1], title, va="top", fontsize=11.5, fontweight="bold")
        figure.text(0.008, 0.03 / size[1], "\n".join(lines), va="bottom", fontsize=8.5, color=FAINT)
        out = StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    return Drawing(name, title, about, tidy(out.getvalue(), name, title, about))


def tidy(svg: str, name: str, title: str, about: str) -> str:
    """What matplotlib wrote, with ids of its own, a description, and no metadata."""
    root = ET.fromstring(svg)
    for metadata in root.findall(f"{{{SVG}}}metadata"):
        root.remove(metadata)
    # what its style sheet says, which would be one for the whole page
    for parent in root.findall(f"{{{SVG}}}defs"):
        for style in parent.findall(f"{{{SVG}}}style"):
            parent.remove(style)
    root.set("stroke-linejoin", "round")
    # Their ids are made of coordinates in full, whose last digits differ from run to run.
    clips = root.iter(f"{{{SVG}}}clipPath")
    numbers = {clip.attrib["id"]: f"clip{number}" for number, clip in enumerate(clips, 1)}

    def own(theirs: str) -> str:
        return f"{name}-{numbers.get(theirs, theirs)}"

    for element in root.iter():
        for key, value in list(element.attrib.items()):
            if key == "id":
                element.set(key, own(value))
            elif key == f"{{{XLINK}}}href" and value.startswith("#"):
                del element.attrib[key]
                element.set("href", f"#{own(value[1:])}")
            elif "url(#" in value:
                url = re.sub(r"(?<=url\(#)[^)]*", lambda found: own(found[0]), value)
                element.set(key, url)
    root.set("role", "img")
    for tag, text in (("desc", about), ("title", title)):
        child = ET.Element(f"{{{SVG}}}{tag}")
        child.text = text
        root.insert(0, child)
    ET.register_namespace("", SVG)
    return ET.tostring(root, encoding="unicode") + "\n"


def on_paper(svg: str) -> str:
    """As a file of its own, which has a background."""
    paper = f'<rect width="100%" height="100%" fill="{PAPER}"/>'
    return re.sub(r"(</desc>)", rf"\1{paper}", svg, count=1)


def in_page(svg: str) -> str:
    """As part of the page: in its colours, and all figures at the same scale."""
    for colour, name in VARIABLES.items():
        svg = re.sub(f'(?<=[:" ]){colour}(?=[;"])', f"var(--{name})", svg)
    # a presentation attribute takes no variable, a style does
    svg = re.sub(r'(fill|stroke)="(var\([^"]*\))"', r'style="\1: \2"', svg)
    start, end = svg.split(">", 1)
    points = float(re.findall(r'width="([\d.]+)pt"', start)[0])
    start = re.sub(r' (width|height)="[^"]*"', "", start)
    share = points / (WIDE * 72)
    return f'{start} style="width: {share:.0%}; min-width: {44 * share:.0f}rem">{end}'


def keys(series: Sequence[tuple[str, int]]) -> list[Line2D]:
    """What a legend says of each series."""
    return [
        Line2D([], [], color=SERIES[i], marker=MARKERS[i], linestyle="-", label=text)
        for text, i in series
    ]


def legend(axes: Axes, series: Sequence[tuple[str, int]], extra: str = "") -> None:
    """Above the axes."""
    handles = keys(series)
    if extra:
        handles.append(Line2D([], [], linestyle="none", label=extra))
    axes.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        ncols=len(handles),
        fontsize=8.5,
        borderaxespad=0.2,
        handlelength=1.4,
        columnspacing=1.2,
    )


def bars(axes: Axes, panel: Panel, metric: str, scopes: Sequence[str]) -> None:
    """Medians by scope and kernel, from lowest to highest, and each boot."""
    colour, kernels = colours(panel), list(panel.by_kernel)
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
                    color=FAINT,
                )
                continue
            found, paint = Spread.of(values), SERIES[colour[kernel]]
            axes.bar(at, found.median, width * 0.88, color=paint, alpha=0.35, linewidth=0)
            axes.hlines(found.median, at - width * 0.44, at + width * 0.44, color=paint, lw=1.8)
            axes.vlines(at, found.low, found.high, color=paint, lw=1.2)
            aside = width * 0.07 if len(values) > 1 else 0
            spots = [at + (n * 5 % 7 - 3) * aside for n in range(len(values))]
            axes.plot(spots, values, MARKERS[colour[kernel]], color=paint, ms=2.6, alpha=0.8, mew=0)
    axes.set_xticks(range(len(scopes)), scopes)
    axes.tick_params(axis="x", length=0)
    axes.set_ylim(bottom=0)
    few = max(0, 3 - len(scopes)) / 2  # bars are not to be as wide as the figure
    axes.set_xlim(-0.55 - few, len(scopes) - 0.45 + few)


def forest(axes: Axes, lines: Sequence[tuple[str, Compared, int]]) -> None:
    """Ratios with their intervals, one below the other."""
    for place, (_, compared, series) in enumerate(lines):
        ratio, paint = compared.ratio, SERIES[series]
        strong = ratio.differs
        axes.hlines(place, ratio.low, ratio.high, color=paint, lw=2.2 if strong else 1.2)
        axes.plot(
            ratio.ratio,
            place,
            MARKERS[series],
            ms=5.5,
            mew=1.3,
            color=paint,
            mfc=paint if strong else PAPER,
        )
    axes.axvline(1, color=INK, lw=0.9)
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
    colour = colours(panel)
    return [(panel.label(kernel), colour[kernel]) for kernel in panel.by_kernel]


def ratio_lines(panel: Panel, metric: str) -> list[tuple[str, Compared, int]]:
    """Each pair in each scope; coloured as the newer one."""
    colour, lines = colours(panel), []
    for scope in panel.scopes:
        for new, old in panel.pairs():
            compared = panel.compared(new, old, scope, metric)
            if compared:
                text = f"{scope}: {compared.new} / {compared.old}"
                lines.append((text, compared, colour[new]))
    return lines


def throughput(panel: Panel, name: str) -> Drawing:
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
        bars(axes, panel, "items_per_sec", panel.scopes)
        axes.set_ylabel("throughput (items/s)")
        axes.set_xlabel("affinity scope")
        axes.yaxis.set_major_formatter(FuncFormatter(short))
        legend(axes, labels(panel), "median; lowest to highest; each " + panel.unit)

    width = WIDE if lines else NARROW
    return draw(name, f"{panel.title}: throughput", source(panel), (width, height), paint)


def percentile_lines(
    axes: Axes, panel: Panel, kernel: str, scope: str, time: str, series: int
) -> None:
    """Medians over the boots of each percentile, in a band from lowest to highest."""
    figures = [panel.figures(kernel, scope, f"{time}_{rank}_ns") for rank in RANKS]
    if not all(figures):
        return
    found = [Spread.of(values) for values in figures]
    places, paint = range(len(found)), SERIES[series]
    low, high = [f.low for f in found], [f.high for f in found]
    axes.fill_between(places, low, high, color=paint, alpha=0.16, lw=0)
    middle = [f.median for f in found]
    axes.plot(places, middle, MARKERS[series] + "-", color=paint, ms=3.6, lw=1.4)


def percentile_axes(axes: Axes, tilt: int) -> None:
    names = [rank_name(rank) for rank in RANKS]
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(nanoseconds))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xticks(range(len(names)), names, rotation=tilt, fontsize=8)
    axes.grid(axis="x", visible=True)


def latency(panel: Panel, name: str) -> Drawing:
    """Kernels beside each other in each scope; of one kernel alone, its scopes."""
    scopes = [s for s in panel.scopes if any(panel.figures(k, s, "items") for k in panel.by_kernel)]
    colour = colours(panel)
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
                axes.text(0.04, 0.96, text, fontsize=7.5, color=FAINT, **place)
        for row, label in zip(grid, names, strict=True):
            row[0].set_ylabel(label)
        for axes in grid[1]:
            axes.set_xlabel("percentile")
        figure.legend(
            handles=keys(labels(panel)), loc="upper right", ncols=len(labels(panel)), fontsize=8.5
        )

    def of_scopes(figure: Figure) -> None:
        kernel = next(iter(panel.by_kernel))
        grid = figure.subplots(1, 2)
        for axes, time, label in zip(grid, TIMES, names, strict=True):
            for i, scope in enumerate(scopes):
                percentile_lines(axes, panel, kernel, scope, time, i % len(SERIES))
            percentile_axes(axes, 0)
            axes.set_ylabel(label)
            axes.set_xlabel("percentile")
        legend(grid[0], [(scope, i % len(SERIES)) for i, scope in enumerate(scopes)])

    title = f"{panel.title}: times of queueing and of starting, median and range over the "
    one = len(panel.by_kernel) == 1
    size, paint = ((WIDE, 4.2), of_scopes) if one else ((WIDE, 6.4), of_kernels)
    return draw(name, f"{title}{panel.unit}s", source(panel), size, paint)


def running(panel: Panel, name: str) -> Drawing | None:
    limits = panel.limits
    if len(limits) != 1:
        return None
    limit = limits[0]

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        bars(axes, panel, "running_peak", panel.scopes)
        axes.axhline(limit, color=LOSS, lw=1.2, ls="--")
        axes.annotate(
            f"max_active {limit}",
            (1, limit),
            xycoords=("axes fraction", "data"),
            ha="right",
            va="bottom",
            fontsize=8.5,
            color=LOSS,
        )
        axes.set_ylim(top=max(axes.get_ylim()[1], limit * 1.15))
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylabel("most items running at once (items)")
        axes.set_xlabel("affinity scope")
        legend(axes, labels(panel), "median; lowest to highest; each " + panel.unit)

    return draw(
        name, "sleep: items running at once, and max_active", source(panel), (NARROW, 3.6), paint
    )


def locks(panel: Panel, name: str) -> Drawing:
    units = {
        "lock_acquisitions": ("taken", "acquisitions (per item)"),
        "lock_contentions": ("waited for", "contentions (per item)"),
        "lock_hold_ns": ("held", "time held (ns per item)"),
        "lock_wait_ns": ("waited", "time waited (ns per item)"),
    }

    def paint(figure: Figure) -> None:
        grid = figure.subplots(2, 2).ravel()
        for axes, metric in zip(grid, LOCKS, strict=True):
            bars(axes, panel, metric, panel.scopes)
            axes.set_ylabel(units[metric][1])
            axes.yaxis.set_major_formatter(FuncFormatter(short))
            if metric in LOCKS[2:]:
                axes.set_xlabel("affinity scope")
        legend(grid[0], labels(panel))

    title = f"{panel.title}: what happens to pool->lock, with lock statistics"
    return draw(name, title, source(panel), (WIDE, 5.6), paint)


def instructions(panel: Panel, name: str) -> Drawing:
    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        bars(axes, panel, "instructions", panel.scopes)
        axes.set_ylabel("instructions per item")
        axes.set_xlabel("affinity scope")
        axes.yaxis.set_major_formatter(FuncFormatter(short))
        legend(axes, labels(panel))

    title = f"{panel.title}: instructions from queueing an item to its completion"
    return draw(name, title, source(panel), (NARROW, 3.4), paint)


def sweep_figure(sweep: Sweep, scope: str, name: str) -> Drawing | None:
    """Throughput and kworkers, and times, by the size of a shard."""
    colour = colours(sweep)
    sizes = [panel.size for panel in sweep.panels]

    def series(kernel: str, metric: str) -> tuple[list[int], list[Spread]]:
        found = [
            (place, Spread.of(values))
            for place, panel in enumerate(sweep.panels)
            if kernel in panel.by_kernel and (values := panel.figures(kernel, scope, metric))
        ]
        return [place for place, _ in found], [spread for _, spread in found]

    kernels = [k for k in sweep.kernels if series(k, "items_per_sec")[0]]
    if not kernels:
        return None

    def line(axes: Axes, kernel: str, metric: str, nudge: float, look: str, fill: bool) -> None:
        places, found = series(kernel, metric)
        i = colour[kernel]
        axes.errorbar(
            [place + nudge for place in places],
            [f.median for f in found],
            yerr=[[f.median - f.low for f in found], [f.high - f.median for f in found]],
            color=SERIES[i],
            marker=MARKERS[i],
            ms=5,
            mfc=SERIES[i] if fill else PAPER,
            ls=look,
            lw=1.5,
            elinewidth=1,
            capsize=2,
        )

    def paint(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
        workers = left.twinx()
        for n, kernel in enumerate(kernels):
            nudge = (n - (len(kernels) - 1) / 2) * 0.09
            line(left, kernel, "items_per_sec", nudge, "-", True)
            line(workers, kernel, "kworkers_peak", nudge, ":", False)
            line(right, kernel, "queue_p50_ns", nudge, "-", True)
            line(right, kernel, "queue_p95_ns", nudge, "--", False)
        workers.grid(visible=False)
        workers.spines["right"].set_visible(True)
        workers.yaxis.set_major_locator(MaxNLocator(integer=True))
        workers.set_ylabel("kworkers, most at once (dotted, hollow)")
        left.set_ylabel("throughput (items/s; full lines)")
        left.yaxis.set_major_formatter(FuncFormatter(short))
        right.set_ylabel("queue_work() took (p50 full, p95 dashed)")
        right.yaxis.set_major_formatter(FuncFormatter(nanoseconds))
        for axes in (left, workers, right):
            axes.set_ylim(0, 1.05 * axes.get_ylim()[1])  # no marker is cut off
        for axes in (left, right):
            axes.set_xticks(range(len(sizes)), [str(size) for size in sizes])
            axes.set_xlabel("workqueue.cache_shard_size (cores)")
            axes.set_xlim(-0.4, len(sizes) - 0.6)
        legend(
            left,
            [(kernel_label(sweep.results, k), colour[k]) for k in kernels],
            f"median; lowest to highest {sweep.first.unit}",
        )

    title = f"{sweep.first.title}: shards of different size, scope {scope}"
    return draw(name, title, source(sweep), (WIDE, 3.8), paint)


def by_number(axes: Axes, one: Scaling, found: dict[int, list[float]], series: int) -> None:
    """A line through medians, from lowest to highest at each."""
    spreads = [Spread.of(values) for values in found.values()]
    axes.errorbar(
        list(found),
        [each.median for each in spreads],
        yerr=[
            [each.median - each.low for each in spreads],
            [each.high - each.median for each in spreads],
        ],
        color=SERIES[series % len(SERIES)],
        marker=MARKERS[series % len(MARKERS)],
        ms=5,
        lw=1.5,
        elinewidth=1,
        capsize=2,
    )
    if one.over == "threads":
        axes.set_xlim(left=0)
    else:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(FuncFormatter(short))
    axes.yaxis.set_major_formatter(FuncFormatter(short))


def scaling(one: Scaling, name: str) -> Drawing:
    """Throughput, and cache lines that move for an item: a column for each scope, a line for
    each kernel."""
    colour = colours(one)
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
                    by_number(axes, one, one.figures(kernel, scope, metric), colour[kernel])
                axes.set_ylim(bottom=0)
            row[0].set_ylabel(label)
        for axes, scope in zip(grid[0], one.scopes, strict=True):
            axes.set_title(scope, loc="right", fontweight="normal")
        for axes in grid[-1]:
            axes.set_xlabel(OVER[one.over])
        legend(grid[0][0], [(kernel_label(one.results, k), colour[k]) for k in one.kernels])

    what = OVER[one.over].split(" (")[0].split(",")[0]
    return draw(name, f"{one.whole}: by {what}", source(one), (WIDE, 5.6), paint)


def waiting(one: Scaling, scope: str, name: str) -> Drawing:
    """What an item waits for, in one scope: a column for each kernel, lines for what is most."""
    rows = (
        ("locks", "lock_wait_ns", "locks waited for (ns per item)"),
        ("lines", "moves_wait_ns", "lines waited for (ns per item)"),
    )

    def paint(figure: Figure) -> None:
        kernels = [k for k in one.kernels if one.figures(k, scope, "moves_per_item")]
        grid = figure.subplots(len(rows), len(kernels), sharex=True, sharey="row", squeeze=False)
        for row, (of, metric, label) in zip(grid, rows, strict=True):
            places = one.places(scope, of, metric, len(SERIES))
            for axes, kernel in zip(row, kernels, strict=True):
                for i, place in enumerate(places):
                    by_number(axes, one, one.at_place(kernel, scope, of, place, metric), i)
                axes.set_ylim(bottom=0)
            row[0].set_ylabel(label)
            row[-1].legend(
                handles=keys([(place, i) for i, place in enumerate(places)]),
                loc="center left",
                bbox_to_anchor=(1, 0.5),
                fontsize=8,
            )
        for axes, kernel in zip(grid[0], kernels, strict=True):
            axes.set_title(kernel_label(one.results, kernel), fontweight="normal")
        for axes in grid[-1]:
            axes.set_xlabel(OVER[one.over])

    title = f"{one.whole}: what an item waits for in scope {scope}"
    return draw(name, title, source(one), (WIDE, 5.6), paint)
