# SPDX-License-Identifier: GPL-2.0
"""SVG that needs nothing else: colours, titles, legends, and what becomes of it in a page."""

import re
import textwrap
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from io import StringIO
from itertools import groupby
from math import ceil
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from wqlab.report.compare import Comparable
from wqlab.report.labels import DEFAULT_SCOPES, kernel_label, machine_line, ordered_kernels
from wqlab.report.varied import Scaling, Sweep
from wqlab.results.model import Results

# Figures are drawn in the colours of the light page. In the page each becomes a variable of
# its style sheet, which has another value where the reader prefers dark.
INK, FAINT, GRID, PAPER = "#1c2128", "#59636e", "#d8dee4", "#fefefe"
GAIN, LOSS = "#1a7f37", "#cf222e"
SERIES = ("#737b85", "#0b62c4", "#c2600c", "#7a3fb0", "#0f7d7d", "#a0356b")
NAMES = (
    "ink",
    "faint",
    "grid",
    "paper",
    "gain",
    "loss",
    *(f"series{i}" for i in range(len(SERIES))),
)
VARIABLES = dict(zip((INK, FAINT, GRID, PAPER, GAIN, LOSS, *SERIES), NAMES, strict=True))
MARKERS = "osD^vP"
STYLE: Any = mpl.rc_params_from_file(
    Path(__file__).with_name("figure.mplstyle"), use_default_template=False
)
SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
WIDE = 10.6  # inches, as the page is


@dataclass(frozen=True)
class Drawing:
    """A figure of the report."""

    name: str  # of the file, without .svg
    svg: str  # as a file of its own


def scaled(value: float, units: Sequence[str]) -> str:
    """With a unit, of which each is a thousand times the one before."""
    power = max((n for n in range(len(units)) if abs(value) >= 1000**n), default=0)
    return f"{value / 1000**power:g}{units[power]}"


def short(value: float, _: object = None) -> str:
    """A number on an axis."""
    return scaled(value, ("", "k", "M", "G"))


def nanoseconds(value: float, _: object = None) -> str:
    """As 1.5 µs; for an axis."""
    return scaled(value, (" ns", " µs", " ms", " s"))


def source(panel: Comparable | Sweep | Scaling) -> str:
    """How often, with what, and on what machine."""
    line = machine_line(panel.machine)
    about = [part for part in panel.about.split("; ") if part not in line]
    return "; ".join([*about, line])


def colours(results: Results) -> dict[str, int]:
    """By the id of a kernel its place among SERIES: the first three are those of stock, patched and
    mainline, and of nothing else."""
    named, kernels = list(DEFAULT_SCOPES), ordered_kernels(results)
    first = {k.name: k.id for k in reversed(kernels) if k.name in named}
    rest = [k.id for k in kernels if k.id not in first.values()]
    places = {key: named.index(name) for name, key in first.items()}
    left = len(SERIES) - len(named)
    return places | {key: len(named) + i % left for i, key in enumerate(rest)}


def by_factor(row: Sequence[Axes], shown: Callable[[float, object], str]) -> None:
    """Make the y-axis that these share logarithmic, and linear below 1 where there are zeros; to be
    called when all is painted."""
    low, high = min(axes.dataLim.y0 for axes in row), max(axes.dataLim.y1 for axes in row)
    factor = high / max(low, 1)
    subs = (1, 2, 5) if factor <= 100 else (1, 3) if factor <= 1000 else (1,)
    for axes in row:
        places: ticker.Locator = ticker.LogLocator(subs=subs)
        if low > 0:
            axes.set_yscale("log")
            places = ticker.MaxNLocator(6) if high < 10 * low else places
        else:
            axes.set_yscale("symlog", linthresh=1, linscale=0.5)
            places = ticker.SymmetricalLogLocator(base=10, linthresh=1, subs=subs)
        axes.yaxis.set_major_locator(places)
        axes.yaxis.set_major_formatter(ticker.FuncFormatter(shown))
        axes.yaxis.set_minor_locator(ticker.NullLocator())


def draw(
    name: str,
    title: str,
    of: Comparable | Sweep | Scaling,
    kernels: Sequence[str],
    height: float,
    paint: Callable[[Figure], None],
) -> Drawing:
    """A figure, so many inches high without its title and the legend of these kernels, which are
    above, and without where it comes from, which is below."""
    about = source(of)
    place_of, labels = colours(of.results), [kernel_label(of.results, key) for key in kernels]
    titles, sources = textwrap.wrap(title, 105), textwrap.wrap(about, 153)
    columns = max(1, int(WIDE / (0.6 + max(map(len, labels)) * 0.085)))
    lines = 0.1 + 0.2 * len(titles)
    head = lines + 0.2 * ceil(len(kernels) / columns)
    foot = 0.17 * len(sources) + 0.06
    whole = head + height + foot
    with mpl.rc_context(STYLE):
        inside = (0, foot / whole, 1, height / whole)
        layout = ConstrainedLayoutEngine(rect=inside, w_pad=0.06, h_pad=0.05)
        figure = Figure(figsize=(WIDE, whole), layout=layout)
        paint(figure)
        top, left = 1 - 0.06 / whole, 0.008
        figure.text(left, top, "\n".join(titles), va="top", fontsize=11.5, fontweight="bold")
        figure.text(left, 0.03 / whole, "\n".join(sources), va="bottom", fontsize=8.5, color=FAINT)
        figure.legend(
            handles=[
                Line2D([], [], color=SERIES[place], marker=MARKERS[place], label=label)
                for key, label in zip(kernels, labels, strict=True)
                for place in [place_of[key]]
            ],
            loc="upper left",
            bbox_to_anchor=(0.004, 1 - lines / whole),
            ncols=columns,
            fontsize=8.5,
            borderpad=0.2,
            borderaxespad=0.2,
        )
        out = StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    return Drawing(name, tidy(out.getvalue(), name, title, about))


def unwrapped(element: ET.Element) -> list[ET.Element]:
    """It, or what is in it, where it is a group that says nothing; without metadata, and without a
    style sheet, which would be one for the whole page."""
    tag = element.tag.removeprefix(f"{{{SVG}}}")
    if tag in ("metadata", "style"):
        return []
    element[:] = [part for child in element for part in unwrapped(child)]
    for text in ("text", "tail"):
        setattr(element, text, (getattr(element, text) or "").strip())
    hollow = not (element.attrib if tag == "g" else len(element) or tag != "defs")
    return list(element) if hollow else [element]


def together(element: ET.Element) -> None:
    """Paths and marks that follow each other and look the same, into a group that says how."""
    parts: list[ET.Element] = []
    for look, some in groupby(element, lambda child: (child.get("style"), child.get("clip-path"))):
        same = list(some)
        if len(same) > 1 and any(look) and not any(child.get("id") for child in same):
            group = ET.Element(f"{{{SVG}}}g")
            for key in ("style", "clip-path"):
                for child in same if key in same[0].attrib else ():
                    group.set(key, child.attrib.pop(key))
            group.extend(same)
            same = [group]
        parts += same
    element[:] = parts


def tidy(svg: str, name: str, title: str, about: str) -> str:
    """What matplotlib wrote, with a description, in as little as it takes: ids of what is referred
    to, which no other figure has, one font, and tenths of a point."""
    # Theirs are made of coordinates in full, whose last digits differ from run to run.
    used = dict.fromkeys(re.findall(r"(?:href=\"|url\()#([^\")]*)", svg))
    own = "g" + sha256(name.encode()).hexdigest()[:6]
    ids = {theirs: f"{own}-{number}" for number, theirs in enumerate(used, 1)}

    def shorter(value: str) -> str:
        value = re.sub(r"font-family: [^;]*;? ?", "", value)
        value = re.sub(r"-?\d+\.\d{3,}", lambda number: f"{float(number[0]):.1f}", value)
        value = re.sub(r"(?<=url\(#)[^)]*", lambda found: ids[found[0]], value)
        return re.sub(r" *([:;MLCz]) +", r"\1", value).strip()

    root = ET.fromstring(svg)
    for element in root.iter():
        for key, value in list(element.attrib.items()):
            del element.attrib[key]
            if key == "id" and value in ids:
                element.set(key, ids[value])
            elif key == f"{{{XLINK}}}href":
                element.set("href", f"#{ids[value[1:]]}")
            elif key != "id" and not value.startswith("rotate(-0 "):
                element.set(key, shorter(value))
    unwrapped(root)
    for group in list(root.iter(f"{{{SVG}}}g")) + [root]:
        together(group)
    root.set("stroke-linejoin", "round")
    root.set("font-family", "DejaVu Sans, sans-serif")
    root.set("role", "img")
    for tag, text in (("desc", about), ("title", title)):
        child = ET.Element(f"{{{SVG}}}{tag}")
        child.text = text
        root.insert(0, child)
    ET.register_namespace("", SVG)
    return ET.tostring(root, encoding="unicode").replace(" />", "/>") + "\n"


def on_paper(svg: str) -> str:
    """As a file of its own, which has a background."""
    paper = f'<rect width="100%" height="100%" fill="{PAPER}"/>'
    return re.sub(r"(</desc>)", rf"\1{paper}", svg, count=1)


def in_page(svg: str) -> str:
    """As part of the page: in its colours, and as wide."""
    for colour, name in VARIABLES.items():
        svg = re.sub(f'(?<=[:" ]){colour}(?=[;"])', f"var(--{name})", svg)
    # a presentation attribute takes no variable, a style does
    svg = re.sub(r'(fill|stroke)="(var\([^"]*\))"', r'style="\1: \2"', svg)
    return re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2)
