# SPDX-License-Identifier: GPL-2.0
"""What each work item costs, without anything that is traced: context switches, and on machines
that have a clock for them the instructions of all CPUs together.

What else the machine does in the meantime is counted, too.
"""

from collections.abc import Mapping

from wqlab.guests.scenario import Scenario
from wqlab.guests.vm import sections
from wqlab.measure.counts.kind import Kind
from wqlab.results.model import Count, Number, ResultsError, Run
from wqlab.results.module import parse_words, rows_of, words

# The runs of guest/jobs/wakeups, with more items.
LOADS = {
    "serial": parse_words("mode=serial scopes=cache wq_items=20000 warmup=0"),
    "burst": parse_words("mode=burst window=16 scopes=cache wq_items=20000 warmup=0"),
    "limited": parse_words("mode=burst window=16 scopes=cpu wq_items=20000 warmup=0 max_active=2"),
    "chain": parse_words("mode=chain scopes=cpu wq_items=20000 warmup=0"),
    "fanout": parse_words("mode=fanout window=16 scopes=cache wq_items=20000 warmup=0"),
    "sleep": parse_words(
        "mode=sleep window=8 sleep_us=2000 scopes=cpu wq_items=1000 warmup=0 max_active=3"
    ),
}
# On machines whose CPUs run in turns, each of which has a pool that always has work waiting.
LIMITS = {
    f"max_active={limit}": parse_words(
        f"mode=burst window=32 scopes=cpu wq_items=1000 warmup=0 max_active={limit}"
    )
    for limit in (1, 2, 8, 16, 256)
}


def runs(scenario: Scenario) -> Mapping[str, Run]:
    """The runs for a scenario, by what they are called."""
    return LOADS if scenario.icount is None or scenario.cpus == 1 else LIMITS


def commands(scenario: Scenario) -> str:
    """What the job reads: a line of parameters for each run."""
    return "".join(f"{words(run)}\n" for run in runs(scenario).values())


def counts(scenario: Scenario, lines: list[str]) -> list[Count]:
    """What a boot came to, per item. ResultsError if a run lacks its row or its switches."""
    said = sections(lines)
    found = []
    for load, run in runs(scenario).items():
        answer = said.get(words(run), [])
        row, *_ = rows_of(run, answer)
        switches = [int(line.split()[1]) for line in answer if line.startswith("switches ")]
        if len(switches) != 1:
            raise ResultsError(f"no count of context switches in {load}")
        figures: dict[str, Number] = {"switches_per_item": switches[0] / row.values["items"]}
        if scenario.icount is not None:  # the time of the guest is instructions
            each = 1e9 / row.values["items_per_sec"] / 2**scenario.icount
            figures["instructions_per_item"] = each
        found.append(Count({"load": load}, figures, run))
    return found


COSTS = Kind("costs", ("bench-2",), "bench", commands, counts)
