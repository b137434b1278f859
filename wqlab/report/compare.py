# SPDX-License-Identifier: GPL-2.0
"""What can be compared: kernels on the same machine with the same parameters.

A ratio is the ratio of two medians over the boots. It is called a difference only where its
95 % interval excludes 1.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from hashlib import sha256
from typing import ClassVar, Literal

from wqlab.ground import stats
from wqlab.ground.stats import Ratio
from wqlab.ground.text import plural
from wqlab.guests.scenario import SCOPES
from wqlab.report.labels import (
    MODES,
    hosts,
    kernel_label,
    kernel_pairs,
    machine_line,
    ordered_kernels,
    same_machine,
)
from wqlab.results.metrics import FIGURES, METRICS, Metric, counted, samples, wakeups_per_item
from wqlab.results.model import Boot, Host, Results, Row, Run, Section
from wqlab.results.module import words

PER_ITEM = "wakeups_per_item"  # which is not in the file, but follows from what is
PARTS = {"reason", "of"}  # labels of what is a part of something else that was counted
CHANCE = 1 - stats.LEVEL  # of an interval to exclude the truth

Better = Literal["better", "worse", ""]


@dataclass(frozen=True)
class Compared:
    """Two sets of boots by one metric."""

    new: str
    old: str
    metric: Metric
    ratio: Ratio

    @property
    def better(self) -> Better:
        """Whether the difference is one for the better; "" if none can be told."""
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


@cache
def _ratio(new: tuple[float, ...], old: tuple[float, ...]) -> Ratio | None:
    return stats.compare(new, old)


def compare(
    metric: Metric, new: tuple[str, Sequence[float]], old: tuple[str, Sequence[float]]
) -> Compared | None:
    """New against old, each with its name; None where there is no ratio."""
    ratio = _ratio(tuple(new[1]), tuple(old[1]))
    return Compared(new[0], old[0], metric, ratio) if ratio else None


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
class Comparable:
    """Boots of one section, on the same machine, with the same parameters."""

    results: Results = field(repr=False)
    machine: Host
    section: Section
    scenario: str | None
    append: str | None
    boots: list[Boot] = field(repr=False)

    metrics: ClassVar[Mapping[str, Metric]]

    def name(self, *parts: str) -> str:
        """What a figure or a table is called that shows these parts of it, and nothing else is."""
        number = sha256(repr(_alike(self.results, self.boots[0])).encode()).hexdigest()[:6]
        return re.sub(r"[^\w.]+", "-", "-".join([*parts, number]))

    @property
    def where(self) -> str:
        """The scenario, or else the machine."""
        return self.scenario or self.machine.emulation or self.machine.cpu_model

    @property
    def title(self) -> str:
        """Where it was measured, and what sets it apart from others there."""
        limits = {run.get("max_active") for run in self.boots[0].runs}
        limit = limits.pop() if len(limits) == 1 else None
        return f"{self.where}, max_active {limit}" if limit else self.where

    @property
    def groups(self) -> list[str]:
        """What figures are told apart by, within a boot."""
        raise NotImplementedError

    def figures(self, kernel: str, group: str, metric: str) -> list[float]:
        """One for each boot that has it."""
        raise NotImplementedError

    def lacks(self, kernel: str, group: str) -> bool:
        """The kernel cannot have such figures."""
        return False

    @cached_property
    def by_kernel(self) -> dict[str, list[Boot]]:
        """By the id of the kernel, in the order of the report."""
        found: dict[str, list[Boot]] = {}
        for kernel in ordered_kernels(self.results):
            if boots := [boot for boot in self.boots if boot.kernel == kernel.id]:
                found[kernel.id] = boots
        return found

    def label(self, kernel: str) -> str:
        """What a kernel is called."""
        return kernel_label(self.results, kernel)

    def pairs(self) -> list[tuple[str, str]]:
        """Ids of kernels to be compared, new and old."""
        return kernel_pairs([self.results.kernel(key) for key in self.by_kernel])

    def compared(self, new: str, old: str, group: str, metric: str) -> Compared | None:
        """How a metric of a kernel is to that of another; None if either lacks it."""
        return compare(
            self.metrics[metric],
            (self.label(new), self.figures(new, group, metric)),
            (self.label(old), self.figures(old, group, metric)),
        )

    @property
    def unit(self) -> str:
        """What there are n of: on a machine as it was found, loads of the module."""
        return "run" if self.section == "setup" else "boot" if self.scenario else "load"

    @cached_property
    def n(self) -> str:
        """How many boots are behind the figures."""
        what = self.unit
        counts = {self.label(key): len(boots) for key, boots in self.by_kernel.items()}
        if len(set(counts.values())) == 1:
            each = " of each kernel" if len(counts) > 1 else ""
            return f"n = {plural(next(iter(counts.values())), what)}{each}"
        return f"n = {', '.join(f'{count} {what}s of {name}' for name, count in counts.items())}"

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

    @property
    def parameters(self) -> str:
        """Those of test_workqueue that all runs have in common."""
        return ""


@dataclass(frozen=True)
class Panel(Comparable):
    """Boots that ran test_workqueue, in one mode; figures are told apart by scope."""

    mode: str
    size: int | None

    metrics = METRICS

    @cached_property
    def scopes(self) -> list[str]:
        """Those that were measured, in the kernel's order."""
        seen = {row.scope for boot in self.boots for row in boot.rows}
        return sorted(seen, key=lambda s: (SCOPES.index(s) if s in SCOPES else len(SCOPES), s))

    @property
    def groups(self) -> list[str]:
        """What there is a row for: scopes."""
        return self.scopes

    def figures(self, kernel: str, group: str, metric: str) -> list[float]:
        """One figure of each boot."""
        return samples(self.by_kernel[kernel], group, self.mode, metric)

    def lacks(self, kernel: str, group: str) -> bool:
        """The kernel does not have the scope."""
        return any(
            row.missing and row.scope == group for b in self.by_kernel[kernel] for row in b.rows
        )

    @property
    def limits(self) -> list[int]:
        """The max_active of the runs; more than one where kernels have different ones."""
        rows = [row for boot in self.boots for row in boot.rows if row.mode == self.mode]
        return sorted({row.values["max_active"] for row in rows if row.values.get("max_active")})

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
        """Those that all its runs have."""
        return self.same(PARAMETERS)

    @cached_property
    def title(self) -> str:
        """The mode, and what sets it apart from others of the same mode."""
        asked = [run for run in self.boots[0].runs if run.get("mode") == self.mode]
        keys = [key for key in ("work_ns", "max_active") if any(key in run for run in asked)]
        nodes = self.scenario if (self.scenario or "").startswith("nodes") else ""
        return ", ".join(filter(None, [self.mode, self.same(keys), nodes]))


@dataclass(frozen=True)
class Counted(Comparable):
    """Boots in which something was counted; figures are told apart by their labels."""

    metrics: ClassVar = {
        **FIGURES,
        PER_ITEM: Metric(PER_ITEM, "wakeups of workers", "per item", ""),
    }

    @cached_property
    def labels(self) -> dict[str, dict[str, str | int]]:
        """By the name of each group."""
        counts = [count for boot in self.boots for count in boot.counts]
        found = [count.labels for count in counts if not PARTS & count.labels.keys()]
        return {", ".join(map(str, labels.values())): labels for labels in found}

    @property
    def groups(self) -> list[str]:
        """What there is a row for: loads or items."""
        return list(self.labels)

    def figures(self, kernel: str, group: str, metric: str) -> list[float]:
        """One figure of each boot that has it."""
        boots = self.by_kernel[kernel]
        if metric != PER_ITEM:
            return counted(boots, self.labels[group], metric)
        found = [wakeups_per_item(boot, group) for boot in boots]
        return [figure for figure in found if figure is not None]

    @cached_property
    def parameters(self) -> str:
        """Those of its run, where there is only one."""
        runs = {
            words({k: v for k, v in run.items() if k != "scopes"}) for run in self.boots[0].runs
        }
        return runs.pop() if len(runs) == 1 else ""

    def reasons(self, load: str) -> list[str]:
        """The most frequent first, but for those that are not the workqueue's."""
        total: dict[str, float] = {}
        for count in (count for boot in self.boots for count in boot.counts):
            if count.labels.get("load") == load and "reason" in count.labels:
                reason = str(count.labels["reason"])
                total[reason] = total.get(reason, 0) + count.figures["wakeups"]
        return sorted(total, key=lambda reason: (reason == "other", -total[reason]))

    def places(self, scope: str, of: str) -> list[str]:
        """The functions in which `of` was counted."""
        labels = [count.labels for boot in self.boots for count in boot.counts]
        where = [one for one in labels if (one.get("scope"), one.get("of")) == (scope, of)]
        return list(dict.fromkeys(str(one["in"]) for one in where))

    def at_place(self, kernel: str, scope: str, of: str, place: str, figure: str) -> list[float]:
        """One for each boot."""
        return counted(self.by_kernel[kernel], {"scope": scope, "of": of, "in": place}, figure)

    def by_reason(self, kernel: str, load: str, reason: str, figure: str) -> list[float]:
        """One for each boot with that load; what a trace does not have did not happen."""
        labels = {"load": load, "reason": reason}
        return [
            sum(count.figures[figure] for count in boot.counts if count.labels == labels)
            for boot in self.by_kernel[kernel]
            if any(count.labels == {"load": load} for count in boot.counts)
        ]


def _alike(results: Results, boot: Boot) -> tuple:
    """Boots can be compared where this is the same."""
    machine = same_machine(results, boot.machine)
    runs = tuple(words(run) for run in boot.runs)
    return machine.id, boot.section, boot.scenario, _append(boot), runs, boot.flavour, boot.size


def _append(boot: Boot) -> str | None:
    """But for the size, which is among the boot parameters in section sizes."""
    return "" if boot.section == "sizes" else boot.append


def _apart(boot: Boot) -> list[Boot]:
    """A boot whose runs in one mode differ in more than their scopes as one for each kind of run:
    they are not to be compared."""
    kinds: dict[str, tuple[list[Run], list[Row]]] = {}

    def kind(run: Run) -> tuple[list[Run], list[Row]]:
        bare = {key: value for key, value in run.items() if key != "scopes"}
        return kinds.setdefault(words(bare), ([], []))

    for run in boot.runs:
        kind(run)[0].append(run)
    if boot.section != "time" or len(kinds) == len({run.get("mode") for run in boot.runs}):
        return [boot]
    for run, row in boot.by_run():
        kind(run)[1].append(row)
    return [replace(boot, runs=runs, rows=rows) for runs, rows in kinds.values()]


def panels(results: Results, *sections: Section) -> list[Panel]:
    """All that there is to compare in these sections, in the order of the file."""
    found: dict[tuple, list[Boot]] = {}
    for boot in (one for whole in results.passed(*sections) for one in _apart(whole)):
        if boot.perf:  # which makes everything slower
            continue
        for mode in {row.mode: None for row in boot.rows if not row.missing}:
            found.setdefault((mode, *_alike(results, boot)), []).append(boot)
    made = []
    for (mode, *_), boots in found.items():
        one, machine = boots[0], same_machine(results, boots[0].machine)
        alike = machine, one.section, one.scenario, _append(one), boots
        made.append(Panel(results, *alike, mode, one.size))
    order, machines = list(MODES), [machine.id for machine in results.machines]
    return sorted(
        made, key=lambda p: (machines.index(p.machine.id), [*order, p.mode].index(p.mode))
    )


def counted_panels(results: Results, *sections: Section) -> list[Counted]:
    """What was counted in these sections, by scenario and parameters."""
    found: dict[tuple, list[Boot]] = {}
    for boot in results.passed(*sections):
        found.setdefault(_alike(results, boot), []).append(boot)
    return [
        Counted(
            results, same_machine(results, one.machine), section, one.scenario, one.append, boots
        )
        for (_, section, *_), boots in found.items()
        for one in boots[:1]
    ]
