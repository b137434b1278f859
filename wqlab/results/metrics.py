# SPDX-License-Identifier: GPL-2.0
"""What rows and counts say: every figure that is measured, with its unit, and how it is worked out."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from wqlab.results.model import Boot, Row

POOL_LOCK = "&pool->lock"
OTHER = "other"  # reasons for waking up a worker that are not the workqueue's


@dataclass(frozen=True)
class Metric:
    """A figure of a row or a count; docs/measuring.md says how it is made."""

    key: str
    label: str
    unit: str
    better: Literal["higher", "lower", ""]  # "" is a matter of judgement


METRICS = {
    metric.key: metric
    for metric in (
        Metric("items_per_sec", "throughput", "items/s", "higher"),
        *(
            Metric(f"{time}_{rank}_ns", f"{label}, {rank.replace('p999', 'p99.9')}", "ns", "lower")
            for time, label in (("queue", "queue_work()"), ("start", "queue to start"))
            for rank in ("p50", "p90", "p95", "p99", "p999", "max")
        ),
        Metric("kworkers_before", "kworkers before", "", ""),
        Metric("kworkers_peak", "kworkers", "", ""),
        Metric("kworkers_after", "kworkers after", "", ""),
        Metric("pools", "pools in use", "", ""),
        Metric("running_peak", "running at once", "items", ""),
        Metric("switches_per_item", "context switches", "per item", "lower"),
        Metric("cpu_ns_per_item", "CPU time", "ns per item", "lower"),
        Metric("lock_acquisitions", "acquisitions of pool->lock", "per item", "lower"),
        Metric("lock_contentions", "contentions of pool->lock", "per item", "lower"),
        Metric("lock_hold_ns", "pool->lock held", "ns per item", "lower"),
        Metric("lock_wait_ns", "pool->lock waited for", "ns per item", "lower"),
        Metric("instructions", "round trip", "instructions", "lower"),
    )
}
# Of counts, by name
FIGURES = {
    metric.key: metric
    for metric in (
        Metric("switches_per_item", "context switches", "per item", "lower"),
        Metric("instructions_per_call", "instructions", "", "lower"),
        Metric("irqs_off_us", "longest time with interrupts off", "us", "lower"),
        Metric("rescued_per_sec", "items/s of a rescuer without workers", "", "higher"),
        Metric("instructions_per_item", "instructions of all CPUs", "per item", "lower"),
        Metric("steady_items_per_sec", "throughput of the middle half", "items/s", "higher"),
        Metric("moves_per_item", "cache lines that move between CPUs", "per item", "lower"),
        Metric("moves_wait_ns", "waited for them", "ns per item", "lower"),
        Metric("taken_per_item", "locks taken", "per item", "lower"),
        Metric("contended_per_item", "locks taken that were waited for", "per item", "lower"),
        Metric("lock_wait_ns", "locks waited for", "ns per item", "lower"),
        Metric("lock_hold_ns", "locks held", "ns per item", "lower"),
        Metric("items", "work items executed", "", ""),
        Metric("wakeups", "workers woken up", "", "lower"),
        Metric("locked", "workers woken up with a pool->lock held", "", "lower"),
        Metric("wanted", "min(max_active, items)", "items", ""),
        Metric("peak", "running at once", "items", ""),
        Metric("limit", "max_active", "items", ""),
        Metric("traced", "work items executed while traced", "", ""),
        Metric("read_mib", "read", "MiB/s", "higher"),
        Metric("write_mib", "written", "MiB/s", "higher"),
        Metric("cpu_percent", "CPU use", "%", ""),
        Metric("switches_per_io", "context switches", "per I/O", "lower"),
        Metric("kworkers", "kworkers of unbound workqueues at most", "", ""),
        Metric(
            "layout_ns",
            "shards of 4096 CPUs (2048 cores, 16 LLCs, 2 nodes, 256 shards) laid out",
            "ns",
            "lower",
        ),
        Metric("fill_ns", "their masks allocated and filled in", "ns", "lower"),
        Metric("pairs_ns", "all pairs of CPUs compared once, as it was done before", "ns", "lower"),
    )
}
_PER_ITEM = {"switches_per_item": ("switches", 1), "cpu_ns_per_item": ("cpu_us", 1000)}
_OF_LOCKS = {
    "lock_acquisitions": "acquisitions",
    "lock_contentions": "contentions",
    "lock_hold_ns": "hold_total_ns",
    "lock_wait_ns": "wait_total_ns",
}


def value(row: Row, metric: str) -> float | None:
    """A metric of one row, None where the row does not have it."""
    if metric in _PER_ITEM:
        key, unit = _PER_ITEM[metric]
        used = row.values.get(key)
        return None if used is None else used * unit / max(row.values["items"], 1)
    if metric not in _OF_LOCKS:
        return row.values.get(metric)
    if row.locks is None or not row.values.get("items"):
        return None
    # A class may come more than once, as &pool->lock and &pool->lock/1.
    total = sum(
        getattr(lock, _OF_LOCKS[metric])
        for name, lock in row.locks.items()
        if name.partition("/")[0] == POOL_LOCK
    )
    return total / row.values["items"]


def instructions(boot: Boot, scope: str) -> float | None:
    """Instructions per item, of a boot whose clock counts them, from its shortest and longest run.

    What a run costs beyond its items drops out of the difference.
    """
    runs = sorted(
        (row.values["items"], row.values["items"] * 1e9 / row.values["items_per_sec"])
        for row in boot.rows
        if row.scope == scope and not row.missing
    )
    if len(runs) < 2 or runs[0][0] == runs[-1][0]:
        return None
    return (runs[-1][1] - runs[0][1]) / (runs[-1][0] - runs[0][0])


def samples(boots: Iterable[Boot], scope: str, mode: str, metric: str) -> list[float]:
    """The metric in each of these boots, one figure for each boot that has it."""
    found = []
    for boot in boots:
        if metric == "instructions":
            figures = [instructions(boot, scope)] if boot.section == "icount" else []
        else:
            rows = [row for row in boot.rows if (row.scope, row.mode) == (scope, mode)]
            figures = [value(row, metric) for row in rows]
        known = [figure for figure in figures if figure is not None]
        if known:
            found.append(sum(known) / len(known))
    return found


def counted(boots: Iterable[Boot], labels: dict[str, str | int], figure: str) -> list[float]:
    """The figure of the count with just these labels, one for each boot that has it."""
    return [
        count.figures[figure]
        for boot in boots
        for count in boot.counts
        if count.labels == labels and figure in count.figures
    ]


def wakeups_per_item(boot: Boot, load: str) -> float | None:
    """How often the workqueue woke up a worker, for each item of this load."""
    items = counted([boot], {"load": load}, "items")
    if not items or not items[0]:
        return None
    woken = sum(
        count.figures["wakeups"]
        for count in boot.counts
        if count.labels.get("load") == load and count.labels.get("reason", OTHER) != OTHER
    )
    return woken / items[0]
