# SPDX-License-Identifier: GPL-2.0
"""Results as text, for the terminal."""

from wqlab.ground.stats import ENOUGH
from wqlab.ground.text import plural
from wqlab.ground.text import table as aligned
from wqlab.report import origins, tables
from wqlab.report.compare import counted_panels, panels
from wqlab.report.counts import COUNTED, detail_tables, figure_tables, loads_table
from wqlab.report.labels import hosts, kernel_label, ordered_kernels
from wqlab.report.origins import recorded
from wqlab.report.tables import Table
from wqlab.report.varied import sweeps
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


def text(results: Results, full: bool = False) -> str:
    """The report for a terminal; the full one has every percentile."""
    blocks: list[list[str]] = [source_lines(results)]

    def add(*made: Table | None) -> None:
        blocks.extend(render(table) for table in made if table and (full or table.short))

    add(origins.builds_table(results), origins.qemu_table(results), origins.lost_table(results))
    if results.notes:
        blocks.append(["notes:", *(f"  {note}" for note in results.notes)])
    for panel in panels(results, "locks"):
        add(*tables.lock_tables(panel))
    for panel in panels(results, "icount"):
        add(tables.instruction_table(panel))
    for panel in panels(results, "time", "local"):
        add(
            tables.throughput_table(panel),
            tables.shard_table(panel),
            tables.running_table(panel),
            tables.latency_table(panel),
        )
        if full:
            add(*tables.time_tables(panel), tables.kworkers_table(panel), tables.costs_table(panel))
        blocks.append(tables.claim_lines(panel))
    for sweep in sweeps(results):
        add(*(tables.sweep_table(sweep, scope) for scope in sweep.scopes))
    for counted in counted_panels(results, *COUNTED):
        add(loads_table(counted), *figure_tables(counted), *detail_tables(counted))
    add(*origins.perf_tables(results), *origins.layout_tables(results))
    blocks.append(READING + NOT_ALTERNATED if not_alternated(results) else READING)
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


READING = [
    "A figure is the median over the boots [lowest - highest], or one number where all boots",
    "agree. A ratio is the ratio of two medians, with its 95 % interval (bootstrap). A word such",
    f"as 'faster' means that the interval excludes 1; it takes {ENOUGH} boots on either side.",
]
NOT_ALTERNATED = [
    "Kernels that were found running were measured one after the other, not in turn. Whatever else",
    "changed on the machine in between is in their ratio too.",
]
