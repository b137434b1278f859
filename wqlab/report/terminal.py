# SPDX-License-Identifier: GPL-2.0
"""Results as text, for the terminal."""

from collections.abc import Iterator

from wqlab.ground.stats import ENOUGH
from wqlab.ground.text import plural
from wqlab.ground.text import table as aligned
from wqlab.report import origins
from wqlab.report.chapters import Chapter, chapters
from wqlab.report.compare import panels
from wqlab.report.labels import hosts, kernel_label, ordered_kernels
from wqlab.report.origins import recorded
from wqlab.report.tables import Table
from wqlab.results.model import Results


def render(table: Table) -> list[str]:
    """A table in plain text."""
    rows = [table.columns, *([cell.text for cell in row] for row in table.rows)]
    left = [table.left(i) for i in range(len(table.columns))]
    note = [f"  ({table.note})"] if table.note else []
    return [table.title, *note, *aligned(rows, left)]


def made_lines(results: Results) -> list[str]:
    """When and by which commands it was measured."""
    return [
        f"measured {made.date}: {made.command}"
        + (f" (commit {made.commit})" if made.commit else "")
        for made in results.made
    ]


def source_lines(results: Results) -> list[str]:
    """On what, of what and by what."""
    lines = []
    for machines in hosts(results):
        facts = origins.machine_facts(machines)
        lines.append(f"machine: {facts.pop('CPU')}")
        lines += [f"  {name}: {fact}" for name, fact in facts.items()]
    for kernel in ordered_kernels(results):
        patches = f", with {plural(kernel.patches, 'patch')}" if kernel.patches else ""
        found = any(b.kernel == kernel.id and b.section == "local" for b in results.boots)
        how = "as it was found running" if found else f"base {recorded(kernel.base)}{patches}"
        lines.append(f"kernel {kernel_label(results, kernel.id)}: {kernel.release}, {how}")
        compilers = dict.fromkeys(build.compiler for build in kernel.builds) or [None]
        lines.append(f"  compiler: {', '.join(map(recorded, compilers))}")
    return lines + made_lines(results)


def not_alternated(results: Results) -> bool:
    """Kernels of which one after the other was found running, not booted in turn."""
    return any(len(panel.by_kernel) > 1 for panel in panels(results, "local"))


def blocks(chapter: Chapter, full: bool) -> Iterator[list[str]]:
    """Its tables, of which a full report has all, and its lines."""
    for part in chapter.parts:
        if isinstance(part, Chapter):
            yield from blocks(part, full)
        elif isinstance(part, Table) and (full or part.short):
            yield render(part)
        elif isinstance(part, str):
            yield [part]


def text(results: Results, full: bool = False) -> str:
    """The report for a terminal; the full one has every percentile."""
    lost, notes = origins.lost_table(results), [f"  {note}" for note in results.notes]
    found = [source_lines(results), render(lost) if lost else [], notes and ["notes:", *notes]]
    for table in (origins.builds_table(results), origins.qemu_table(results)) if full else ():
        found[1:1] = [render(table)] if table else []
    for chapter in chapters(results):
        found += blocks(chapter, full)
    found.append(READING + NOT_ALTERNATED if not_alternated(results) else READING)
    return "\n\n".join("\n".join(block) for block in found if block) + "\n"


READING = [
    "A figure is the median over the boots [lowest - highest], or one number where all boots",
    "agree. A ratio is the ratio of two medians, with its 95 % interval (bootstrap). A word such",
    f"as 'faster' means that the interval excludes 1; it takes {ENOUGH} boots on either side.",
]
NOT_ALTERNATED = [
    "Kernels that were found running were measured one after the other, not in turn. Whatever else",
    "changed on the machine in between is in their ratio too.",
]
