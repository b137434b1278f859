# SPDX-License-Identifier: GPL-2.0
"""Results as one HTML page that needs nothing else, and its figures as files beside it."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import jinja2

from wqlab.ground.files import write_whole
from wqlab.ground.problem import Usage
from wqlab.ground.stats import ENOUGH
from wqlab.report import canvas, origins, terminal
from wqlab.report.canvas import Drawing
from wqlab.report.chapters import chapters, folded
from wqlab.report.glance import glance
from wqlab.report.labels import kernel_label, ordered_kernels
from wqlab.results.file import dumps
from wqlab.results.model import Results

TEMPLATE = "page.html.j2"


def page(results: Results) -> tuple[str, list[Drawing]]:
    """The page, and the figures that it has."""
    drawings: list[Drawing] = []

    def draw(how: Callable[[], Drawing | None]) -> Drawing | None:
        drawing = how()
        drawings.extend([drawing] if drawing else [])
        return drawing

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    builds, qemu = origins.builds_table(results), origins.qemu_table(results)
    shown = glance(results)
    html = environment.get_template(TEMPLATE).render(
        names=", ".join(kernel_label(results, k.id) for k in ordered_kernels(results)),
        made=terminal.made_lines(results),
        glance=shown,
        linked={cell.link for table in shown for row in table.rows for cell in row} - {""},
        not_alternated=terminal.not_alternated(results) and " ".join(terminal.NOT_ALTERNATED),
        lost=origins.lost_table(results),
        notes=results.notes,
        enough=ENOUGH,
        kernels=origins.kernels_table(results),
        builds=folded("Compilers and configurations", [builds]),
        qemu=folded("QEMU's command lines", [qemu]) if qemu else None,
        chapters=chapters(results),
        draw=draw,
        in_page=canvas.in_page,
        colours=canvas.VARIABLES,
    )
    return html, drawings


def is_replaceable(out: Path) -> None:
    """Usage if a report in this directory would take something else's place."""
    if out.exists() and not out.is_dir():
        raise Usage(f"{out} is not a directory: name one, which the report then is")
    ours = {"index.html", "report.txt", "results.json"}
    for path in sorted(out.iterdir()) if out.exists() else ():
        if path.name not in ours and path.suffix != ".svg":
            raise Usage(
                f"{out} has {path.name}, which is of no report: name another directory, "
                "for a report replaces the whole of it"
            )


def write(results: Results, out: Path) -> int:
    """The report as a directory, in place of an older one; how many figures it has."""
    html, drawings = page(results)
    files = {f"{drawing.name}.svg": canvas.on_paper(drawing.svg) for drawing in drawings}
    files |= {
        "index.html": html,
        "report.txt": terminal.text(results, full=True),
        "results.json": dumps(results),
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as folder:
        new = Path(folder) / "new"
        new.mkdir()
        for name, text in files.items():
            write_whole(new / name, text)
        if out.exists():
            out.rename(Path(folder) / "old")
        new.rename(out)
    return len(drawings)
