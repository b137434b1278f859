# SPDX-License-Identifier: GPL-2.0
"""Results as tables: for the terminal as they are, for the page of wqpage.py with figures.

Kernels are compared only where they ran on the same machine with the same parameters, boot
by boot. A ratio is one of medians over the boots, and is called a difference only where its
95 % interval excludes 1.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Literal

import wqstats
from wqresults import METRICS, Boot, Kernel, Machine, Metric, Results, Section, samples
from wqstats import ENOUGH, Ratio, Spread
from wqtopology import SCOPES

RANKS = ("p50", "p90", "p95", "p99", "p999", "max")
TIMES = {"queue": "queue_work() took", "start": "from queue_work() to the start of the item"}
MODES = {
    "serial": "one item in flight for each producer",
    "burst": "a window of items in flight for each producer",
    "fanout": "few producers, their items queued on all CPUs in turn",
    "sleep": "items that sleep",
    "chain": "items that queue themselves again",
}
LOCKS = ("lock_acquisitions", "lock_contentions", "lock_hold_ns", "lock_wait_ns")
# new against old; each line of the report that compares kernels does it in this order
PAIRS = (("patched", "stock"), ("mainline", "stock"), ("patched", "mainline"))
DEFAULT_SCOPES = {"stock": "cache", "patched": "cache_shard", "mainline": "cache_shard"}
CHANCE = 1 - wqstats.LEVEL  # of an interval to exclude the truth

Better = Literal["better", "worse", ""]


@dataclass(frozen=True)
class Cell:
    """What a table has in one place. A claim is a difference that is more than chance."""

    text: str
    claim: bool = False
    better: Better = ""


@dataclass(frozen=True)
class Table:
    title: str
    columns: list[str]
    rows: list[list[Cell]]
    note: str = ""
    words: int = 2  # leading columns that hold words, not figures
    short: bool = False  # for the terminal too

    def left(self, column: int) -> bool:
        """Read down its left side: words and ratios are, figures are not."""
        name = self.columns[column]
        return column < self.words or " to " in f" {name}" or name == "ratio"


@dataclass(frozen=True)
class Compared:
    """Two sets of boots by one metric."""

    new: str
    old: str
    metric: Metric
    ratio: Ratio

    @property
    def better(self) -> Better:
        if not self.ratio.differs or not self.metric.better:
            return ""
        return "better" if (self.ratio.ratio > 1) == (self.metric.better == "higher") else "worse"

    @property
    def word(self) -> str:
        """What may be said of it, "" where nothing may."""
        if not self.ratio.differs:
            return ""
        more = self.ratio.ratio > 1
        if self.metric.key == "items_per_sec":
            return "faster" if more else "slower"
        if self.metric.key.startswith("lock_") and self.metric.unit.startswith("ns"):
            return "longer" if more else "shorter"
        if self.metric.unit == "ns":
            return "slower" if more else "faster"
        return "more" if more else "fewer"

    def __str__(self) -> str:
        r = self.ratio
        if min(r.n) == 1:
            return f"{r.ratio:.3f}"
        return f"{r.ratio:.3f} [{r.low:.3f} - {r.high:.3f}] {self.word}".rstrip()

    def cell(self) -> Cell:
        return Cell(str(self), self.ratio.differs, self.better)


def figure(value: float, like: float | None = None) -> str:
    """A figure with three digits at least; like decides how many follow the point."""
    size = abs(value if like is None else like)
    return f"{value:,.{0 if size >= 100 else 1 if size >= 10 else 2}f}"


def spread(values: Sequence[float]) -> str:
    """Median [lowest - highest], or the one figure that there is."""
    if not values:
        return "-"
    found = Spread.of(values)
    whole = all(value == int(value) for value in values)
    low, middle, high = (
        f"{value:,.0f}" if whole and value == int(value) else figure(value, found.median)
        for value in (found.low, found.median, found.high)
    )
    return middle if found.low == found.high else f"{middle} [{low} - {high}]"


@cache
def _ratio(new: tuple[float, ...], old: tuple[float, ...]) -> Ratio | None:
    return wqstats.compare(new, old)


def compare(
    metric: Metric, new: tuple[str, Sequence[float]], old: tuple[str, Sequence[float]]
) -> Compared | None:
    """New against old, each with its name; None where there is no ratio."""
    ratio = _ratio(tuple(new[1]), tuple(old[1]))
    return Compared(new[0], old[0], metric, ratio) if ratio else None


def ratio_cells(
    compared: Compared, figures: Sequence[tuple[str, Sequence[float]]]
) -> tuple[Cell, Cell, Cell]:
    """The medians of the two, how many boots of each, and their ratio."""
    middles = " / ".join(figure(Spread.of(values).median) for _, values in figures)
    return Cell(middles), Cell(" / ".join(str(n) for n in compared.ratio.n)), compared.cell()


def machine_line(machine: Machine) -> str:
    """One line that goes with every table and figure."""
    return (
        f"{machine.cpu_model}, {plural(machine.cpus, 'CPU')}, {machine.emulation or 'bare metal'}"
    )


def same_host(one: Machine, other: Machine) -> bool:
    """Whether they are the same, apart from emulation; kernels differ in the memory they leave."""
    return abs(one.memory_mib - other.memory_mib) <= 0.02 * one.memory_mib and all(
        getattr(one, name) == getattr(other, name)
        for name in ("cpu_model", "cpus", "system", "topology")
    )


def hosts(results: Results) -> list[list[Machine]]:
    """The machines by the host that they are on, in the order of the file."""
    found: list[list[Machine]] = []
    for machine in results.machines:
        for machines in found:
            if same_host(machines[0], machine):
                machines.append(machine)
                break
        else:
            found.append([machine])
    return found


def same_machine(results: Results, key: str) -> Machine:
    """The first machine that is the same as the one with this id."""
    machine = results.machine(key)
    return next(
        other
        for other in results.machines
        if same_host(other, machine) and other.emulation == machine.emulation
    )


def plural(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


# Of test_workqueue, and how they are shown.
PARAMETERS = {
    "threads": "{} producers",
    "each": "{} items each",
    "window": "window {}",
    "work_ns": "{} ns of work",
    "sleep_us": "{} us of sleep",
    "max_active": "max_active {}",
}


@dataclass(frozen=True)
class Panel:
    """Boots that can be compared: same machine, section and parameters; in one mode."""

    results: Results = field(repr=False)
    machine: Machine
    section: Section
    scenario: str
    append: str
    mode: str
    size: int | None
    boots: list[Boot] = field(repr=False)

    @cached_property
    def by_kernel(self) -> dict[str, list[Boot]]:
        """By the id of the kernel, in the order of the report."""
        found: dict[str, list[Boot]] = {}
        for kernel in ordered_kernels(self.results):
            boots = [boot for boot in self.boots if boot.kernel == kernel.id]
            if boots:
                found[kernel.id] = boots
        return found

    @cached_property
    def scopes(self) -> list[str]:
        seen = {row.scope for boot in self.boots for row in boot.rows}
        return sorted(seen, key=lambda s: (SCOPES.index(s) if s in SCOPES else len(SCOPES), s))

    def label(self, kernel: str) -> str:
        return kernel_label(self.results, kernel)

    def figures(self, kernel: str, scope: str, metric: str) -> list[float]:
        """One for each boot that has it."""
        return samples(self.by_kernel[kernel], scope, self.mode, metric)

    def lacks(self, kernel: str, scope: str) -> bool:
        """The kernel does not have the scope."""
        return any(
            row.missing and row.scope == scope for b in self.by_kernel[kernel] for row in b.rows
        )

    def pairs(self) -> list[tuple[str, str]]:
        """Ids of kernels to be compared, new and old."""
        return kernel_pairs([self.results.kernel(key) for key in self.by_kernel])

    def compared(self, new: str, old: str, scope: str, metric: str) -> Compared | None:
        return compare(
            METRICS[metric],
            (self.label(new), self.figures(new, scope, metric)),
            (self.label(old), self.figures(old, scope, metric)),
        )

    @property
    def unit(self) -> str:
        """What there are n of: on a machine as it was found, loads of the module."""
        return "boot" if self.scenario else "load"

    @cached_property
    def n(self) -> str:
        """How many boots are behind the figures."""
        what = self.unit
        counts = {self.label(key): len(boots) for key, boots in self.by_kernel.items()}
        if len(set(counts.values())) == 1:
            each = " of each kernel" if len(counts) > 1 else ""
            return f"n = {plural(next(iter(counts.values())), what)}{each}"
        return f"n = {', '.join(f'{count} {what}s of {name}' for name, count in counts.items())}"

    def same(self, keys: Iterable[str]) -> str:
        """Those of PARAMETERS in keys that are the same in all rows."""
        rows = [
            row.values | {"each": row.values["items"] // row.values.get("threads", 1)}
            for boot in self.boots
            for row in boot.rows
            if row.mode == self.mode
        ]
        shown = []
        for key in keys:
            values = {row[key] for row in rows if row.get(key)}
            if len(values) == 1 and not (key == "window" and values == {1}):
                number = f"{values.pop():,}"
                text = PARAMETERS[key]
                text = text.replace("producers", "producer") if number == "1" else text
                shown.append(text.format(number))
        return ", ".join(shown)

    @cached_property
    def parameters(self) -> str:
        return self.same(PARAMETERS)

    @cached_property
    def title(self) -> str:
        """The mode, and what sets it apart from others of the same mode."""
        asked = [run for run in self.boots[0].runs if f"mode={self.mode} " in f"{run} "]
        keys = [key for key in ("work_ns", "max_active") if any(f" {key}=" in run for run in asked)]
        nodes = self.scenario if self.scenario.startswith("nodes") else ""
        return ", ".join(filter(None, [self.mode, self.same(keys), nodes]))

    @cached_property
    def about(self) -> str:
        """How often it was measured, and with what."""
        parts = [self.n, self.parameters]
        if self.scenario:
            parts.append(f"scenario {self.scenario}")
        if self.append:
            parts.append(self.append)
        emulations = {m.emulation for m in self.results.machines}
        if len(hosts(self.results)) > 1:
            parts.append(machine_line(self.machine))
        elif len(emulations) > 1:
            parts.append(self.machine.emulation or "bare metal")
        return "; ".join(part for part in parts if part)


def ordered_kernels(results: Results) -> list[Kernel]:
    order = ["stock", "patched", "mainline"]
    return sorted(
        results.kernels, key=lambda k: order.index(k.name) if k.name in order else len(order)
    )


def kernel_label(results: Results, key: str) -> str:
    """The name of a kernel, with what is needed to tell it from others of that name."""
    kernel = results.kernel(key)
    same = [k for k in results.kernels if k.name == kernel.name]
    if len(same) == 1:
        return kernel.name
    if len({k.release for k in same}) == len(same):
        return f"{kernel.name} {kernel.release}"
    return kernel.id


def kernel_pairs(kernels: Sequence[Kernel]) -> list[tuple[str, str]]:
    pairs = [
        (new.id, old.id)
        for left, right in PAIRS
        for new in kernels
        for old in kernels
        if (new.name, old.name) == (left, right)
    ]
    found = [k for k in kernels if k.name not in DEFAULT_SCOPES]
    return pairs + [(k.id, found[0].id) for k in found[1:]]


def panels(results: Results, *sections: Section) -> list[Panel]:
    """All that there is to compare in these sections, in the order of the file."""
    found: dict[tuple, list[Boot]] = {}
    for boot in results.passed(*sections):
        if boot.perf:  # which makes everything slower
            continue
        for mode in {row.mode: None for row in boot.rows if not row.missing}:
            # in section sizes, the size is among the boot parameters
            append = "" if boot.section == "sizes" else boot.append
            machine = same_machine(results, boot.machine).id
            key = (machine, boot.section, boot.scenario, append, tuple(boot.runs), mode)
            found.setdefault((*key, boot.config, boot.size), []).append(boot)
    order = list(MODES)
    made = [
        Panel(results, results.machine(key[0]), key[1], key[2], key[3], key[5], key[7], boots)
        for key, boots in found.items()
    ]
    return sorted(
        made,
        key=lambda p: (
            [m.id for m in results.machines].index(p.machine.id),
            order.index(p.mode) if p.mode in order else len(order),
        ),
    )


# --- tables ------------------------------------------------------------------------------


def _scope_rows(
    panel: Panel, metrics: Sequence[str], ratios: Sequence[str], scopes: Iterable[str] | None = None
) -> tuple[list[str], list[list[Cell]]]:
    """Columns and rows, scope by kernel: medians of metrics, then of the ratios those of pairs."""
    pairs = panel.pairs() if ratios else []
    olds = list(dict.fromkeys(old for _, old in pairs))
    columns = ["scope", "kernel", "n", *(short_label(METRICS[m]) for m in metrics)]
    many = len(ratios) > 1
    columns += [
        f"{short_label(METRICS[m]) + ' ' if many else ''}to {panel.label(old)}"
        for m in ratios
        for old in olds
    ]
    rows = []
    for scope in panel.scopes if scopes is None else scopes:
        first = True
        for kernel in panel.by_kernel:
            cells = [Cell(scope if first else ""), Cell(panel.label(kernel))]
            first = False
            values = [panel.figures(kernel, scope, metric) for metric in metrics]
            if not any(values):
                why = "no such scope" if panel.lacks(kernel, scope) else "not measured"
                cells += [Cell("0"), Cell(why)]
                rows.append(cells + [Cell("")] * (len(columns) - len(cells)))
                continue
            cells.append(Cell(str(len(next(v for v in values if v)))))
            cells += [Cell(spread(v)) for v in values]
            for metric in ratios:
                for old in olds:
                    compared = (
                        panel.compared(kernel, old, scope, metric)
                        if (kernel, old) in pairs
                        else None
                    )
                    cells.append(compared.cell() if compared else Cell(""))
            rows.append(cells)
    return columns, rows


def short_label(metric: Metric) -> str:
    names = {
        "items_per_sec": "items/s",
        "lock_acquisitions": "acquisitions per item",
        "lock_contentions": "contentions per item",
        "lock_hold_ns": "held, ns per item",
        "lock_wait_ns": "waited for, ns per item",
        "instructions": "instructions per item",
    }
    if metric.key in names:
        return names[metric.key]
    if metric.unit == "ns":
        time, rank, _ = metric.key.split("_")
        return f"{time} {rank.replace('p999', 'p99.9')} ns"
    return metric.label


def throughput_table(panel: Panel) -> Table:
    columns, rows = _scope_rows(panel, ["items_per_sec"], ["items_per_sec"])
    return Table(f"{panel.title}: throughput", columns, rows, panel.about, short=True)


def shard_table(panel: Panel) -> Table | None:
    """What the scope cache_shard does against cache, in each kernel and by default."""
    rows = []
    metric = METRICS["items_per_sec"]

    def add(new: str, new_scope: str, old: str, old_scope: str, title: str) -> None:
        figures = [
            (scope, panel.figures(kernel, scope, metric.key))
            for kernel, scope in ((new, new_scope), (old, old_scope))
        ]
        found = compare(metric, *figures)
        if found:
            rows.append([Cell(title), *ratio_cells(found, figures)])

    for kernel in panel.by_kernel:
        name = panel.label(kernel)
        add(kernel, "cache_shard", kernel, "cache", f"{name}: cache_shard to cache")
    for new, old in panel.pairs():
        names = [panel.results.kernel(key).name for key in (new, old)]
        if not all(name in DEFAULT_SCOPES for name in names):
            continue
        scopes = [DEFAULT_SCOPES[name] for name in names]
        if scopes[0] != scopes[1]:
            title = f"{panel.label(new)} in {scopes[0]} to {panel.label(old)} in {scopes[1]}"
            add(new, scopes[0], old, scopes[1], f"{title}, the default scopes")
    if not rows:
        return None
    title = f"{panel.title}: throughput of cache_shard to that of cache"
    return Table(title, ["", "medians", "n", "ratio"], rows, panel.about, words=1, short=True)


def latency_table(panel: Panel) -> Table:
    """The percentiles that published tables have."""
    metrics = [f"queue_{rank}_ns" for rank in ("p50", "p90", "p95")]
    columns, rows = _scope_rows(panel, [*metrics, "kworkers_before", "kworkers_peak"], [])
    return Table(
        f"{panel.title}: what queue_work() took, and kworkers",
        columns,
        rows,
        panel.about,
        short=panel.mode == "serial",
    )


def time_tables(panel: Panel) -> list[Table]:
    """Each percentile of each time, with its ratios."""
    tables = []
    for time, what in TIMES.items():
        for rank in RANKS:
            metric = f"{time}_{rank}_ns"
            columns, rows = _scope_rows(panel, [metric], [metric])
            name = rank.replace("p999", "p99.9")
            tables.append(Table(f"{panel.title}: {what}, {name}", columns, rows, panel.about))
    return tables


def running_limits(panel: Panel) -> list[int]:
    """The max_active of the runs; more than one where kernels have different ones."""
    rows = [row for boot in panel.boots for row in boot.rows if row.mode == panel.mode]
    return sorted({row.values["max_active"] for row in rows if row.values.get("max_active")})


def running_table(panel: Panel) -> Table | None:
    """Mode sleep: the most items that ran at once, against max_active."""
    if panel.mode != "sleep":
        return None
    limits = running_limits(panel)
    if not limits:
        return None
    columns, rows = _scope_rows(panel, ["running_peak"], [])
    shown = ", ".join(f"{limit:,}" for limit in limits)
    return Table(
        f"sleep: items running at once, max_active {shown}", columns, rows, panel.about, short=True
    )


def kworkers_table(panel: Panel) -> Table:
    metrics = ["kworkers_before", "kworkers_peak", "kworkers_after", "pools"]
    columns, rows = _scope_rows(panel, metrics, [])
    return Table(f"{panel.title}: kworkers and pools", columns, rows, panel.about)


def lock_tables(panel: Panel) -> list[Table]:
    tables = []
    for metric in LOCKS:
        columns, rows = _scope_rows(panel, [metric], [metric])
        title = f"{panel.title}: {METRICS[metric].label}, {METRICS[metric].unit}"
        tables.append(Table(title, columns, rows, panel.about, short=metric != "lock_wait_ns"))
    return tables


def instruction_table(panel: Panel) -> Table:
    columns, rows = _scope_rows(panel, ["instructions"], ["instructions"])
    title = f"{panel.title}: instructions from queueing an item to its completion"
    return Table(title, columns, rows, panel.about, short=True)


@dataclass(frozen=True)
class Sweep:
    """Panels that differ in the shard size only."""

    panels: list[Panel]  # by size

    @property
    def first(self) -> Panel:
        return self.panels[0]

    @cached_property
    def scopes(self) -> list[str]:
        return [s for s in SCOPES if any(s in panel.scopes for panel in self.panels)]

    @cached_property
    def kernels(self) -> list[str]:
        """Ids, in the order of the report."""
        seen = {key for panel in self.panels for key in panel.by_kernel}
        return [k.id for k in ordered_kernels(self.first.results) if k.id in seen]

    @cached_property
    def n(self) -> str:
        counts = {panel.n for panel in self.panels}
        what = self.first.unit
        numbers = [len(b) for panel in self.panels for b in panel.by_kernel.values()]
        if len(counts) == 1:
            n = counts.pop()
            return f"{n} and size" if " of " in n else f"{n} of each size"
        return f"n = {min(numbers)} to {max(numbers)} {what}s of each kernel and size"

    @cached_property
    def about(self) -> str:
        return "; ".join([self.n, *self.first.about.split("; ")[1:]])


def sweeps(results: Results) -> list[Sweep]:
    found: dict[tuple, list[Panel]] = {}
    for panel in panels(results, "sizes"):
        if panel.size is not None:
            key = (panel.machine.id, panel.scenario, panel.mode, tuple(panel.boots[0].runs))
            found.setdefault(key, []).append(panel)
    return [Sweep(sorted(group, key=lambda panel: panel.size or 0)) for group in found.values()]


def sweep_table(sweep: Sweep, scope: str) -> Table:
    metrics = ["items_per_sec", "queue_p50_ns", "queue_p95_ns", "start_p95_ns"]
    metrics += ["kworkers_before", "kworkers_peak"]
    columns, rows = [], []
    for panel in sweep.panels:
        names, found = _scope_rows(panel, metrics, ["items_per_sec"], [scope])
        columns = names if len(names) > len(columns) else columns
        for i, row in enumerate(found):
            rows.append([Cell(str(panel.size) if not i else ""), *row[1:]])
    rows = [row + [Cell("")] * (len(columns) - len(row)) for row in rows]
    columns = ["cores per shard", *columns[1:]]
    title = f"{sweep.first.title}: scope {scope} with shards of different size"
    return Table(title, columns, rows, sweep.about, short=True)


def perf_tables(results: Results) -> list[Table]:
    """What perf saw on real machines."""
    tables = []
    boots = [boot for boot in results.passed("local") if boot.perf]
    for machine in results.machines:
        rows, callers, why = [], [], []
        here = [boot for boot in boots if boot.machine == machine.id]
        for boot in here:
            perf = boot.perf
            assert perf
            what = " ".join(boot.runs)
            name = kernel_label(results, boot.kernel)
            share = "-" if perf.slowpath_percent is None else f"{perf.slowpath_percent:.1f} %"
            rows.append([Cell(name), Cell(what), Cell(share)])
            callers += [
                [
                    Cell(name),
                    Cell(what),
                    Cell(c.caller),
                    Cell(f"{c.contended:,}"),
                    Cell(f"{c.wait_total_ns / 1e6:,.2f}"),
                ]
                for c in perf.contention or []
            ]
            why += [perf.why_not] if perf.why_not and perf.why_not not in why else []
        note = f"n = 1 load of each row, by itself; {machine_line(machine)}"
        note += "".join(f"; not measured: {reason}" for reason in why)
        if rows:
            title = "perf: share of cycles in native_queued_spin_lock_slowpath"
            tables.append(Table(title, ["kernel", "run", "share"], rows, note, short=True))
        if callers:
            columns = ["kernel", "run", "caller", "contended", "waited, ms"]
            title = "perf: locks that were waited for"
            tables.append(Table(title, columns, callers, note, words=3, short=True))
    return tables


def layout_tables(results: Results) -> list[Table]:
    tables = []
    for layout in results.layouts:
        rows = []
        for scope in [s for s in SCOPES if s in layout.pods]:
            pods = layout.pods[scope]
            shown = "  ".join(pods[:5]) + ("  ..." if len(pods) > 5 else "")
            rows.append([Cell(scope), Cell(shown), Cell(str(len(pods)))])
        tables.append(
            Table(
                f"pods of each scope on {layout.scenario}, kernel "
                f"{kernel_label(results, layout.kernel)}",
                ["scope", "CPUs", "pods"],
                rows,
                f"the default scope is {layout.default}; read from the memory of the guest, "
                "exact on any machine",
                short=True,
            )
        )
    return tables


def lost_table(results: Results) -> Table | None:
    rows = [
        [
            Cell(kernel_label(results, boot.kernel)),
            Cell(boot.section + (f", size {boot.size}" if boot.size is not None else "")),
            Cell(boot.scenario),
            Cell(str(boot.number)),
            Cell(boot.verdict, True, "worse"),
            Cell(boot.reason),
        ]
        for boot in results.not_passed()
    ]
    if not rows:
        return None
    columns = ["kernel", "section", "scenario", "boot", "verdict", "reason"]
    return Table(
        f"{plural(len(rows), 'boot')} not counted, of {len(results.boots)}",
        columns,
        rows,
        "nothing of them is in any figure",
        words=6,
        short=True,
    )


def claims(panel: Panel, metrics: Iterable[str]) -> tuple[list[tuple[str, Compared]], int]:
    """The differences between kernels that are more than chance, by scope, and of how many."""
    found, tried = [], 0
    for metric in metrics:
        for scope in panel.scopes:
            for new, old in panel.pairs():
                compared = panel.compared(new, old, scope, metric)
                tried += bool(compared)
                if compared and compared.ratio.differs:
                    found.append((scope, compared))
    return found, tried


def time_metrics() -> list[str]:
    return [f"{time}_{rank}_ns" for time in TIMES for rank in RANKS]


def claim_lines(panel: Panel) -> list[str]:
    """How much can be said of times, for where there is no room for all the tables."""
    found, tried = claims(panel, time_metrics())
    if not tried:
        return []
    outside = f"of {tried} intervals of ratios of times, {len(found)} exclude 1"
    return [f"{panel.title}: {outside}; {tried * CHANCE:.0f} or so would if nothing differed"]


# --- the terminal ------------------------------------------------------------------------


def render(table: Table) -> list[str]:
    """A table in plain text."""
    texts = [table.columns, *([cell.text for cell in row] for row in table.rows)]
    widths = [max(len(row[i]) for row in texts) for i in range(len(table.columns))]
    lines = [table.title, f"  ({table.note})"] if table.note else [table.title]
    left = [table.left(i) for i in range(len(table.columns))]
    for row in texts:
        cells = [t.ljust(w) if l else t.rjust(w) for t, w, l in zip(row, widths, left)]
        lines.append("  " + "  ".join(cells).rstrip())
    return lines


def loads(machines: Sequence[Machine]) -> str:
    """Load averages when measuring began."""
    return ", ".join(f"{load:g}" for load in sorted({machine.load for machine in machines}))


def where(machine: Machine) -> str:
    return f"in {machine.emulation}" if machine.emulation else "on bare metal"


def machine_lines(results: Results) -> list[str]:
    lines = []
    for machines in hosts(results):
        one = machines[0]
        lines.append(f"machine: {one.cpu_model}, {plural(one.cpus, 'CPU')}, {one.system}")
        lines.append(f"  {one.topology}; {one.memory_mib:,} MiB; kernel {one.kernel}")
        lines.append(f"  governor {one.governor or 'none'}; load {loads(machines)}")
        lines += [f"  measured {where(machine)}" for machine in machines]
    for kernel in ordered_kernels(results):
        patches = f", with {kernel.patches} patches" if kernel.patches else ""
        base = f", base {kernel.base}" if kernel.base else ""
        name = kernel_label(results, kernel.id)
        what = f"{kernel.release}{base}{patches}" if kernel.builds else "as it was found running"
        lines.append(f"kernel {name}: {what}")
    for made in results.made:
        project = f" (project {made.project})" if made.project else ""
        lines.append(f"measured {made.date}: {made.command}{project}")
    return lines


def not_alternated(results: Results) -> bool:
    """Kernels of which one after the other was found running, not booted in turn."""
    return any(len(panel.by_kernel) > 1 for panel in panels(results, "local"))


def text(results: Results, full: bool = False) -> str:
    """The report for a terminal; the full one has every percentile."""
    blocks: list[list[str]] = [machine_lines(results)]

    def add(*tables: Table | None) -> None:
        blocks.extend(render(table) for table in tables if table and (full or table.short))

    add(lost_table(results))
    if results.notes:
        blocks.append(["not measured:", *(f"  {note}" for note in results.notes)])
    for panel in panels(results, "locks"):
        add(*lock_tables(panel))
    for panel in panels(results, "icount"):
        add(instruction_table(panel))
    for panel in panels(results, "time", "local"):
        add(throughput_table(panel), shard_table(panel), running_table(panel), latency_table(panel))
        if full:
            add(*time_tables(panel), kworkers_table(panel))
        blocks.append(claim_lines(panel))
    for sweep in sweeps(results):
        add(*(sweep_table(sweep, scope) for scope in sweep.scopes))
    add(*perf_tables(results), *layout_tables(results))
    blocks.append(READING if not not_alternated(results) else READING + NOT_ALTERNATED)
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


READING = [
    "Median [lowest - highest] over the boots, or the one figure that all have shown. A ratio is",
    "one of medians, with its 95 % interval (bootstrap). A word beside it, such as faster, says",
    f"that the interval excludes 1; with fewer than {ENOUGH} boots on either side there is none.",
]
NOT_ALTERNATED = [
    "Kernels that were found running were measured one after the other, not in turn: what else",
    "has changed on the machine between them is in their ratio too.",
]
