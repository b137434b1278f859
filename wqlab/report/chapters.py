# SPDX-License-Identifier: GPL-2.0
"""What a report has, in which order: the page and the terminal both show it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from wqlab.report import counts, figures, origins, tables
from wqlab.report.compare import Counted, Panel, counted_panels, panels
from wqlab.report.labels import MODES, hosts, simulated
from wqlab.report.tables import Table
from wqlab.report.varied import scalings, sweeps
from wqlab.results.model import Host, Results, Section


@dataclass(frozen=True)
class Chapter:
    """A part of a report, and what is in it, in order: functions that draw a figure if there is
    one, tables, lines of text, facts by name, and chapters. One that is folded has tables only."""

    title: str
    parts: list
    text: str = ""  # by which name the template has what opens it
    folded: bool = False
    unfolded: bool = False  # folded, but open to begin with


def folded(title: str, parts: Sequence[Table | None], unfolded: bool = False) -> Chapter:
    """A chapter that is closed until it is clicked."""
    return Chapter(title, [part for part in parts if part], folded=True, unfolded=unfolded)


def of_sizes(results: Results, machines: Sequence[Host]) -> list:
    """Figures and tables by the size of shards."""
    return [
        part
        for sweep in sweeps(results)
        for scope in (sweep.scopes if sweep.machine in machines else ())
        for part in (partial(figures.sweep, sweep, scope), tables.sweep_table(sweep, scope))
    ]


def of_host(results: Results, machines: Sequence[Host]) -> Chapter:
    """All that was measured on one host."""

    def of(*sections: Section) -> list[Panel]:
        return [p for p in panels(results, *sections) if p.machine in machines]

    locks = [table for panel in of("locks") for table in tables.lock_tables(panel)]
    icount = [tables.instruction_table(panel) for panel in of("icount")]
    chapters = [
        Chapter("The lock", locks, "locks"),
        Chapter("Instructions", icount, "icount"),
        Chapter("Throughput and times", [timed(one) for one in of("time", "local")], "time"),
        Chapter("Shard sizes", of_sizes(results, machines), "sizes"),
    ]
    for section in counts.COUNTED:
        scaled = scalings(results) if section == "sim" else []
        parts: list = [
            partial(figures.scaling, one) for one in scaled if one.first.machine in machines
        ]
        for panel in counted_panels(results, section):
            parts += counted_parts(panel) if panel.machine in machines else []
        chapters.append(Chapter(section, parts, section))
    title, kind = machines[0].cpu_model, "emulated" if machines[0].emulation else ""
    if simulated(machines[0]):
        title, kind = "Simulated machines", "simulated"
    parts = [origins.machine_facts(machines), *(one for one in chapters if one.parts)]
    return Chapter(title, parts, kind)


def timed(panel: Panel) -> Chapter:
    """The figures and tables of one mode."""
    tops = tables.throughput_table(panel), tables.shard_table(panel), tables.running_table(panel)
    rest = tables.latency_table(panel), tables.kworkers_table(panel), tables.costs_table(panel)
    parts = [
        *(table for table in tops if table),
        *tables.claim_lines(panel),
        partial(figures.latency, panel),
        folded("queue_work() and kworkers as tables", rest, panel.mode == "serial"),
        folded("Every percentile, with ratios", tables.time_tables(panel)),
    ]
    what = MODES.get(panel.mode)
    return Chapter(panel.title + (f": {what}" if what else ""), parts)


def counted_parts(panel: Counted) -> list:
    """The tables of what was counted."""
    parts: list = [*counts.figure_tables(panel)]
    details, loads = counts.detail_tables(panel), counts.loads_table(panel)
    if details:
        parts.append(folded(f"Details: {panel.title}", details, not parts))
    return parts + ([folded(f"Loads: {panel.title}", [loads])] if loads else [])


def chapters(results: Results) -> list[Chapter]:
    """Of each host what was measured on it, and what stands for itself."""
    perf, layouts = origins.perf_tables(results), origins.layout_tables(results)
    found = [of_host(results, machines) for machines in hosts(results)]
    return found + [Chapter(*each) for each in (("perf", perf), ("Pods", layouts)) if each[1]]
