# SPDX-License-Identifier: GPL-2.0
"""SVG that needs nothing else: colours, titles, legends, and what becomes of it in a page."""

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

from wqlab.report.compare import Panel
from wqlab.report.labels import machine_line, ordered_kernels
from wqlab.report.varied import Scaling, Sweep

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
WIDE = 10.6  # inches, as the page is


@dataclass(frozen=True)
class Drawing:
    """A figure of the report."""

    name: str  # of the file, without .svg
    title: str
    source: str  # n and machine
    svg: str  # as a file of its own


def short(value: float, _: object = None) -> str:
    """A number on an axis."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:g}{unit}"
    return f"{value:g}"


def nanoseconds(value: float, _: object = None) -> str:
    """As 1.5 µs; for an axis."""
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
