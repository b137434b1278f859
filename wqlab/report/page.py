# SPDX-License-Identifier: GPL-2.0
"""Results as one HTML page that needs nothing else, and its figures as files beside it."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2

from wqlab.ground.files import write_whole
from wqlab.ground.problem import Usage
from wqlab.ground.stats import ENOUGH
from wqlab.report import canvas, counts, figures, origins, tables, terminal
from wqlab.report.canvas import Drawing
from wqlab.report.compare import Counted, Panel, counted_panels, panels
from wqlab.report.labels import MODES, hosts, kernel_label, ordered_kernels
from wqlab.report.tables import Table
from wqlab.report.varied import scalings, sweeps
from wqlab.results.file import dumps
from wqlab.results.model import Host, Results, Section

TEMPLATE = "page.html.j2"

# What opens a chapter
TEXTS = {
    "locks": "These kernels are built with lock statistics, which slow everything down and "
    "lengthen the time that the lock is held. Counts and ratios are meaningful here; throughput "
    "is not. Figures are those of the lock class &pool->lock, per executed item, one scope at a "
    "time.",
    "icount": "One virtual CPU and a clock that counts instructions. Two runs of different length "
    "are subtracted, so what a run costs beyond its items drops out.",
    "time": "Times start at queue_work().",
    "sizes": "The same benchmark with workqueue.cache_shard_size set to each value: what smaller "
    "shards gain, and what they cost in kworkers.",
    "costs": "Context switches are those of the whole guest during a load, divided by its items. "
    "Instructions are counted only where the machine's clock counts them.",
    "hotplug": "Instructions of the function that follows the change, from entry to return, in an "
    "emulator that counts them. What it calls is in them, and so are interrupts.",
    "irqsoff": "By the tracer irqsoff, in simulated time: what locks that others hold, and lines "
    "that others have, are waited for is in it.",
    "reclaim": "Two pools share max_active=1, all of their workers are taken, and no thread can be "
    "created: a rescuer executes the items, and has to be where the next one may start.",
    "wakeups": "Each boot was traced, and each wakeup of a worker is counted under its reason. The "
    "number after the slash is of those that happened while a pool->lock was held. The reason "
    "'other' is not the workqueue's: no figure per item includes it.",
    "peaks": "Items sleep, and none ends while the number of running ones still rises. A limit is "
    "kept, and used, where the peak is min(max_active, items).",
    "loads": "Storage and networking that queue unbound work; docs/loads.md says what each load "
    "is. CPU use, context switches and kworkers are those of the whole machine.",
    "sim": "Simulated time; see docs/measuring.md for what that is worth. What moves is cache "
    "lines, by the function that waits for them; locks are by the function that takes them.",
    "setup": "A KUnit case times its own steps, on User Mode Linux and in QEMU.",
}
DETAILS: dict[Section, str] = {"wakeups": "By reason", "sim": "By function"}
TITLES: dict[Section, str] = {
    "costs": "Cost of an item",
    "hotplug": "Cost of a change of the topology",
    "irqsoff": "Interrupts off",
    "reclaim": "Items executed by a rescuer",
    "wakeups": "Wakeups of workers",
    "peaks": "max_active",
    "loads": "Loads",
    "sim": "Where lines move and locks are waited for",
    "setup": "Setting up pods",
}


@dataclass(frozen=True)
class Chapter:
    """A part of the page, and what is in it, in order: figures, tables, lines of text, facts by
    name, and chapters. One that is folded has tables only."""

    title: str
    parts: list
    text: str = ""
    folded: bool = False
    unfolded: bool = False  # folded, but open to begin with


def folded(title: str, parts: Sequence[Table | None], unfolded: bool = False) -> Chapter:
    """A chapter that is closed until it is clicked."""
    return Chapter(title, [part for part in parts if part], folded=True, unfolded=unfolded)


class Page:
    """The chapters of a page, and the figures that they have."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self.drawings: list[Drawing] = []
        self.chapters = [self.host(machines) for machines in hosts(results)]
        perf, layouts = origins.perf_tables(results), origins.layout_tables(results)
        self.chapters += [Chapter("perf", perf)] if perf else []
        self.chapters += [Chapter("Pods", layouts)] if layouts else []

    def draw(self, how, *what, name: Sequence[str]) -> list[Drawing]:
        """A figure, if there is one."""
        number = f"{len(self.drawings) + 1:02}"
        drawing = how(*what, "-".join([*name, number]))
        found = [drawing] if drawing else []
        self.drawings += found
        return found

    def host(self, machines: Sequence[Host]) -> Chapter:
        """All that was measured on one host."""

        def of(*sections: Section) -> list[Panel]:
            return [p for p in panels(self.results, *sections) if p.machine in machines]

        locks = [table for panel in of("locks") for table in tables.lock_tables(panel)]
        icount = [tables.instruction_table(panel) for panel in of("icount")]
        timed = [self.timed(panel) for panel in of("time", "local")]
        sizes: list = []
        for sweep in sweeps(self.results):
            for scope in sweep.scopes if sweep.machine in machines else ():
                name = ("sizes", sweep.first.mode, scope)
                sizes += self.draw(figures.sweep_figure, sweep, scope, name=name)
                sizes.append(tables.sweep_table(sweep, scope))
        chapters = [
            Chapter("The lock", locks, TEXTS["locks"]),
            Chapter("Instructions", icount, TEXTS["icount"]),
            Chapter("Throughput and times", timed, TEXTS["time"]),
            Chapter("Shard sizes", sizes, TEXTS["sizes"]),
        ]
        for section, title in TITLES.items():
            found = [p for p in counted_panels(self.results, section) if p.machine in machines]
            parts: list = []
            for one in scalings(self.results) if section == "sim" else ():
                if one.machine not in machines:
                    continue
                parts += self.draw(figures.scaling, one, name=[one.over, one.whole])
            parts += [part for panel in found for part in counted_parts(panel)]
            chapters.append(Chapter(title, parts, TEXTS[section]))
        facts = origins.machine_facts(machines)
        return Chapter(machines[0].cpu_model, [facts, *(c for c in chapters if c.parts)])

    def timed(self, panel: Panel) -> Chapter:
        """The figures and tables of one mode."""
        tops = (
            tables.throughput_table(panel),
            tables.shard_table(panel),
            tables.running_table(panel),
        )
        rest = [
            tables.latency_table(panel),
            tables.kworkers_table(panel),
            tables.costs_table(panel),
        ]
        parts = [
            *(table for table in tops if table),
            *self.draw(figures.latency, panel, name=("times", panel.mode)),
            folded("queue_work() and kworkers as tables", rest, panel.mode == "serial"),
            *(f"{line}." for line in tables.claim_lines(panel)),
            folded("Every percentile, with ratios", tables.time_tables(panel)),
        ]
        what = MODES.get(panel.mode)
        return Chapter(panel.title + (f": {what}" if what else ""), parts)


def counted_parts(panel: Counted) -> list:
    """The tables of what was counted."""
    parts: list = [*counts.figure_tables(panel)]
    details, loads = counts.detail_tables(panel), counts.loads_table(panel)
    if details:
        what = DETAILS.get(panel.section, "Each kernel")
        parts.append(folded(f"{what}: {panel.where}", details, not parts))
    if loads:
        parts.append(folded(f"Loads: {panel.where}", [loads]))
    return parts


def page(results: Results) -> tuple[str, list[Drawing]]:
    """The page, and the figures that it has."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    made = Page(results)
    builds, qemu = origins.builds_table(results), origins.qemu_table(results)
    html = environment.get_template(TEMPLATE).render(
        names=", ".join(kernel_label(results, k.id) for k in ordered_kernels(results)),
        made=terminal.made_lines(results),
        glance=tables.glance(results),
        not_alternated=terminal.not_alternated(results) and " ".join(terminal.NOT_ALTERNATED),
        lost=origins.lost_table(results),
        notes=results.notes,
        enough=ENOUGH,
        kernels=origins.kernels_table(results),
        builds=folded("Compilers and configurations", [builds]),
        qemu=folded("QEMU's command lines", [qemu]) if qemu else None,
        chapters=made.chapters,
        in_page=canvas.in_page,
        colours=canvas.VARIABLES,
    )
    return html, made.drawings


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
