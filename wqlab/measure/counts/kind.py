# SPDX-License-Identifier: GPL-2.0
"""What it takes to count something: one declaration for each kind of it."""

from collections.abc import Callable
from dataclasses import dataclass

from wqlab.guests.scenario import Scenario
from wqlab.guests.vm import Record
from wqlab.results.model import Count, Run, Section


@dataclass(frozen=True)
class Kind:
    """What one boot of a kernel counts."""

    section: Section
    machines: tuple[str, ...]  # of scenarios/, where no others are asked for
    job: str  # of guest/jobs
    commands: Callable[[Scenario], str]  # the job's input
    counts: Callable[[Scenario, list[str]], list[Count]]  # of what it prints, or Problem
    append: str = ""  # boot parameters
    module: str = "test_workqueue"  # that the job inserts; "" for none
    slower: int = 1  # the scenario's timeout, times this
    simulated: bool = False  # in simulated time, on machines that machines/ has too
    # of the kernel: counts() also gets lines of wqlab.measure.counts.calls
    functions: tuple[str, ...] = ()
    boot: Callable[..., Record] | None = None  # if not wqlab.guests.vm.boot
    run: Run | None = None  # what the job runs, where that is one thing
    at_once: int = 1  # boots; more than one only where time does not matter
