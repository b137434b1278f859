# SPDX-License-Identifier: GPL-2.0
"""What it costs unbound workqueues that the topology changes: instructions of the functions that
follow it."""

from dataclasses import dataclass

from wqlab.ground.problem import Problem
from wqlab.guests.scenario import Scenario
from wqlab.measure.counts.calls import calls
from wqlab.measure.counts.kind import Kind
from wqlab.results.model import Count

BOOT = "workqueue_init_topology"
ONLINE = "workqueue_online_cpu"
RESIZE = "wq_cache_shard_size_set"
AGAIN = "the same again, 300 workqueues"
SIZE = "/sys/module/workqueue/parameters/cache_shard_size"


@dataclass(frozen=True)
class Write:
    """A write, and the function that it has called."""

    load: str
    function: str
    file: str
    value: int

    @property
    def command(self) -> str:
        return f"put {self.file} {self.value}"


def online(load: str, cpu: int, value: int = 1) -> Write:
    """The write that brings a CPU up, or down with 0."""
    return Write(load, ONLINE if value else "", f"/sys/devices/system/cpu/cpu{cpu}/online", value)


def writes(scenario: Scenario) -> dict[int, tuple[Write, ...]]:
    """By how many more workqueues there are. The CPUs of the first node are online but for the
    second thread of each core."""
    other = min(scenario.nodes[1])
    return {
        300: (
            online("sibling online, first time, 300 workqueues", 1),
            online("another sibling online, first time, 300 workqueues", 3),
            online("another node online, first time, 300 workqueues", other),
            online("", other, 0),
            online(AGAIN, other),
        ),
        # by default they have four cores once siblings are known
        1000: (Write("resize, 1000 workqueues", RESIZE, SIZE, 8),),
    }


def commands(scenario: Scenario) -> str:
    """The input of guest/jobs/topology."""
    asked = (
        [f"many {number}", *(write.command for write in its)]
        for number, its in writes(scenario).items()
    )
    return "".join(f"{line}\n" for lines in asked for line in lines)


def counts(scenario: Scenario, lines: list[str]) -> list[Count]:
    """Without the writes for which the kernel has no file."""
    made = [
        write
        for its in writes(scenario).values()
        for write in its
        if write.function and f"no {write.file}" not in lines
    ]
    found = calls(lines)
    names = [call.function for call in found]
    if BOOT not in names:
        raise Problem(f"no call of {BOOT} was counted")
    late = found[names.index(BOOT) :]
    if [call.function for call in late] != [BOOT, *(write.function for write in made)]:
        raise Problem(f"other calls were counted: {', '.join(call.function for call in late)}")
    loads = ["boot", *(write.load for write in made)]
    return [
        Count({"load": load}, {"instructions_per_call": call.instructions})
        for load, call in zip(loads, late, strict=True)
    ]


HOTPLUG = Kind(
    "hotplug",
    ("hotplug-512",),
    "topology",
    commands,
    counts,
    module="wqmany",
    functions=(BOOT, ONLINE, RESIZE),
)
