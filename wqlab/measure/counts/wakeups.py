# SPDX-License-Identifier: GPL-2.0
"""What wakes up workers, and how often a pool->lock is held meanwhile, by
tools/workqueue/wq_wakeups.py.

Needs kernels of flavour debug.
"""

import sys
from collections.abc import Iterable, Mapping

from wqlab.ground.places import ROOT
from wqlab.ground.problem import Problem
from wqlab.guests.scenario import Scenario
from wqlab.guests.vm import sections
from wqlab.measure.counts.kind import Kind
from wqlab.results.metrics import OTHER
from wqlab.results.model import Count, Run
from wqlab.results.module import parse_words

sys.path.insert(0, str(ROOT / "tools/workqueue"))
import wq_wakeups
from wq_wakeups import REASONS

# For a kernel that guest/jobs/wakeups runs on. If it is a slow one, an item would be taken
# for one that hogs the CPU before it sleeps. All suites run at boot: those that are filtered
# can't be run again on 6.18, which has freed them.
APPEND = "kunit.enable=1 workqueue.cpu_intensive_thresh_us=200000"


def runs() -> Mapping[str, Run]:
    """Those of test_workqueue that the job makes, beside the KUnit suite where the kernel has it."""
    lines = (ROOT / "guest/jobs/wakeups").read_text().splitlines()
    asked = [line.split(maxsplit=3) for line in lines if line.startswith("traced ")]
    return {load: parse_words(text) for _, load, job, text in asked if job == "bench"}


def counts_of(load: str, lines: Iterable[str], run: Run | None) -> list[Count]:
    """Items, and by reason wakeups of workers; Problem if the trace is not complete."""
    try:
        counts = wq_wakeups.parse(lines)
    except wq_wakeups.TraceError as error:
        raise Problem(f"the trace of {load}: {error}") from None
    total, locked = counts.by_reason()
    others = total.keys() - REASONS.keys()
    found = {reason: (total[reason], locked[reason]) for reason in REASONS if total[reason]}
    found[OTHER] = (sum(total[reason] for reason in others), sum(locked[r] for r in others))
    return [
        Count({"load": load}, {"items": counts.items}, run),
        *(
            Count({"load": load, "reason": reason}, {"wakeups": all_, "locked": under}, run)
            for reason, (all_, under) in found.items()
        ),
    ]


def counts(scenario: Scenario, lines: list[str]) -> list[Count]:
    """Wakeups of workers by reason, of each load. Problem if a load was not traced."""
    known, said = runs(), sections(lines)
    if lacks := [load for load in known if load not in said]:
        why = next(iter(lines), "it has printed nothing")
        raise Problem(f"{', '.join(lacks)} was not traced: {why}")
    return [
        count for load, trace in said.items() for count in counts_of(load, trace, known.get(load))
    ]


WAKEUPS = Kind("wakeups", ("bench-2",), "wakeups", lambda _: "", counts, append=APPEND, slower=3)
