# SPDX-License-Identifier: GPL-2.0
"""Tables of what tools/workqueue/wq_wakeups.py finds in the traces of several kernels."""

import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import wqstats
from wqboot import ROOT

sys.path.insert(0, str(ROOT / "tools/workqueue"))
import wq_wakeups
from wq_wakeups import REASONS

# For a kernel that guest/jobs/wakeups runs on. If it is a slow one, an item would be taken
# for one that hogs the CPU before it sleeps.
APPEND = (
    "kunit.filter_glob=workqueue_wakeups kunit.enable=1 workqueue.cpu_intensive_thresh_us=200000"
)
OTHER = "other"  # reasons that are not the workqueue's


@dataclass(frozen=True)
class Load:
    """One trace: work items executed, and by reason all wakeups of workers and those with a
    pool->lock held."""

    items: int
    wakeups: dict[str, tuple[int, int]]

    @property
    def per_item(self) -> float:
        return sum(total for key, (total, _) in self.wakeups.items() if key != OTHER) / self.items


def load_of(lines: Iterable[str]) -> Load:
    """wq_wakeups.TraceError if the trace is not complete."""
    counts = wq_wakeups.parse(lines)
    total, locked = counts.by_reason()
    wakeups = {reason: (total[reason], locked[reason]) for reason in REASONS if total[reason]}
    others = total.keys() - REASONS.keys()
    wakeups[OTHER] = (
        sum(total[reason] for reason in others),
        sum(locked[reason] for reason in others),
    )
    return Load(counts.items, wakeups)


def table(kernels: Mapping[str, Sequence[Load]]) -> Iterator[str]:
    """Kernels side by side, "all/with a pool->lock held": medians of their boots; then all of
    them per item."""

    def median(loads: Sequence[Load], reason: str, column: int) -> float:
        return statistics.median(load.wakeups.get(reason, (0, 0))[column] for load in loads)

    yield head(kernels)
    for reason in (*REASONS, OTHER):
        cells = [(median(loads, reason, 0), median(loads, reason, 1)) for loads in kernels.values()]
        if any(total for total, _ in cells):
            shown = (f"{total:g}/{locked:g}" for total, locked in cells)
            yield f"  {reason:<22}" + "".join(f"{text:>20}" for text in shown)
    yield from ratios({name: [load.per_item for load in loads] for name, loads in kernels.items()})


def head(kernels: Iterable[str]) -> str:
    return f"  {'':<22}" + "".join(f"{name:>20}" for name in kernels)


def ratios(kernels: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """Medians of something per item, and their ratios to the first kernel's with intervals."""
    middles = (statistics.median(figures) for figures in kernels.values())
    yield f"  {'per item':<22}" + "".join(f"{middle:>20.2f}" for middle in middles)
    first, *others = kernels.values()
    found = [wqstats.compare(figures, first) for figures in others]
    if any(found):
        cells = [f"{r.ratio:.2f} [{r.low:.2f} - {r.high:.2f}]" if r else "-" for r in found]
        yield f"  {'of ' + next(iter(kernels)):<42}" + "".join(f"{text:>20}" for text in cells)
