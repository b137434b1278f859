# SPDX-License-Identifier: GPL-2.0
"""What was counted, as tables."""

import statistics

from wqlab.report.compare import PER_ITEM, Counted
from wqlab.report.labels import machine_line
from wqlab.report.tables import Cell, Table, cells, figure, median, ratio_table, short_label, spread
from wqlab.results.metrics import FIGURES
from wqlab.results.model import Count, Section
from wqlab.results.module import words

PLACES = 10  # functions to show

# Of each section the figures that kernels are compared by
COUNTED: dict[Section, tuple[str, ...]] = {
    "costs": ("switches_per_item", "instructions_per_item"),
    "hotplug": ("instructions_per_call",),
    "irqsoff": ("irqs_off_us",),
    "reclaim": ("rescued_per_sec",),
    "sim": ("steady_items_per_sec", "moves_per_item", "moves_wait_ns", "instructions_per_item"),
    "wakeups": (PER_ITEM,),
    "setup": ("layout_ns", "fill_ns", "pairs_ns"),
    "peaks": (),
    "loads": (
        *("read_mib", "write_mib", "cpu_percent", "switches_per_io"),
        *("kworkers", "peak", "limit", "traced"),
        *("steady_items_per_sec", "contended_per_item", "lock_wait_ns", "lock_hold_ns"),
    ),
}


def figure_tables(panel: Counted) -> list[Table]:
    """Load by kernel: each figure with its ratios; all in one table where there are none."""
    metrics = [
        metric
        for metric in COUNTED[panel.section]
        if any(panel.figures(k, group, metric) for k in panel.by_kernel for group in panel.groups)
    ]
    if not metrics:
        return []
    of = next(iter(next(iter(panel.labels.values()))))  # "load", "case"
    if not panel.pairs():
        rows = [
            cells(
                group,
                panel.label(kernel),
                short_label(panel.metrics[metric]),
                len(found),
                spread(found),
            )
            for group in panel.groups
            for kernel in panel.by_kernel
            for metric in metrics
            if (found := panel.figures(kernel, group, metric))
        ]
        columns = [of, "kernel", "figure", "n", "median"]
        title = f"{panel.title}: figures of one kernel"
        return [Table(title, columns, rows, panel.about, words=3, short=True)]
    return [ratio_table(panel, short_label(panel.metrics[key]), key, of) for key in metrics]


def reason_table(panel: Counted, load: str) -> Table:
    """Kernels side by side: wakeups by reason, all and those with a pool->lock held."""
    found = {
        reason: [
            [panel.by_reason(kernel, load, reason, figure) for figure in ("wakeups", "locked")]
            for kernel in panel.by_kernel
        ]
        for reason in panel.reasons(load)
    }
    rows = []
    for reason, by_kernel in found.items():
        row = [
            "/".join(median(counts) for counts in both) if all(both) else "-" for both in by_kernel
        ]
        if set(row) - {"0/0", "-"}:
            rows.append(cells(reason, *row))
    return Table(
        f"{panel.title}: {load}: wakeups by reason, all/with a pool->lock held",
        ["reason", *map(panel.label, panel.by_kernel)],
        rows,
        f"medians; {panel.about}",
        words=1,
        short=True,
    )


def peaks_table(panel: Counted, kernel: str) -> Table:
    """A line for each max_active, a column for issuers and scope; "*" is not what is wanted."""
    found: dict[tuple, dict[str, list[Count]]] = {}
    for boot in panel.by_kernel[kernel]:
        for count in boot.counts:
            key = count.labels["max_active"], count.figures["wanted"]
            column = f"{count.labels['issuers']}, {count.labels['scope']}"
            found.setdefault(key, {}).setdefault(column, []).append(count)
    columns = list(dict.fromkeys(column for row in found.values() for column in row))
    rows, wrong, total = [], 0, 0
    for (limit, wanted), row in found.items():
        items = sorted({count.labels["items"] for counts in row.values() for count in counts})
        shown = []
        for column in columns:
            peaks = sorted({count.figures["peak"] for count in row.get(column, [])})
            bad = any(peak != wanted for peak in peaks)
            total += bool(peaks)
            wrong += bad
            text = "-".join(map(str, dict.fromkeys((peaks[0], peaks[-1])))) if peaks else ""
            shown.append(Cell(text + "*" * bad, bad, "worse" if bad else ""))
        rows.append([*cells(limit, "-".join(map(str, items)), wanted), *shown])
    note = f"{wrong} of {total} are not min(max_active, items) and have a *; {panel.about}"
    title = f"{panel.title}: {panel.label(kernel)}: most items running at once"
    columns = ["max_active", "items", "wanted", *columns]
    return Table(title, columns, rows, note, 0, short=True, name=panel.name("peak", kernel))


# Of what is told apart by place: what a place is called, and the figures that are shown
PLACED = {
    "distance": ("lines from", ("moves_per_item",)),
    "lines": ("lines in", ("moves_per_item", "moves_wait_ns")),
    "locks": ("locks", ("lock_wait_ns", "lock_hold_ns", "contended_per_item")),
    "lock": ("lock in", ("lock_wait_ns", "lock_hold_ns", "contended_per_item")),
}


def top_places(panel: Counted, scope: str, of: str) -> list[str]:
    """Those that have most of the first figure, by the kernel that has most."""
    metric = PLACED[of][1][0]

    def most(place: str) -> float:
        found = [panel.at_place(kernel, scope, of, place, metric) for kernel in panel.by_kernel]
        return max(statistics.median(values or [0]) for values in found)

    return sorted(panel.places(scope, of), key=most, reverse=True)[:PLACES]


def place_table(panel: Counted, scope: str, of: str) -> Table:
    """Kernels side by side: the figures of the places that have most."""
    head, metrics = PLACED[of]

    def shown(place: str, kernel: str) -> str:
        figures = [panel.at_place(kernel, scope, of, place, metric) for metric in metrics]
        return " / ".join(figure(statistics.median(v)) for v in figures) if all(figures) else "-"

    rows = [
        cells(place, *(shown(place, kernel) for kernel in panel.by_kernel))
        for place in top_places(panel, scope, of)
    ]
    return Table(
        f"{panel.title}: {scope}: {' / '.join(short_label(FIGURES[m]) for m in metrics)}",
        [head, *map(panel.label, panel.by_kernel)],
        rows,
        f"medians; {panel.about}",
        words=1,
        short=True,
    )


def detail_tables(panel: Counted) -> list[Table]:
    """What is behind the figures, or stands for itself."""
    if panel.section == "sim":
        return [
            place_table(panel, scope, of)
            for scope in panel.groups
            for of in PLACED
            if panel.places(scope, of)
        ]
    if panel.section == "peaks":
        return [peaks_table(panel, kernel) for kernel in panel.by_kernel]
    if panel.section == "wakeups":
        return [reason_table(panel, load) for load in panel.groups]
    return []


def loads_table(panel: Counted) -> Table | None:
    """What each load is."""
    runs = {
        str(count.labels["load"]): words(count.run)
        for boot in panel.boots
        for count in boot.counts
        if count.run and "load" in count.labels
    }
    if not runs:
        return None
    rows = [cells(load, run) for load, run in runs.items()]
    title = f"{panel.title}: parameters of test_workqueue in each load"
    return Table(title, ["load", "parameters"], rows, machine_line(panel.machine))
