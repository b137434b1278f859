# SPDX-License-Identifier: GPL-2.0
"""What others have measured, from results/published.toml, beside the same in simulated time.

Each table is simulated: its machine, mainline as its workqueues were then, its number of producers and
its shards. What is predicted are the ratios between scopes, or between kernels: that is what a simulation
is for.
"""

import statistics
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wqlab.ground.places import ROOT
from wqlab.ground.problem import Problem
from wqlab.ground.text import table
from wqlab.guests.scenario import reading
from wqlab.measure.sim import SIZE
from wqlab.measure.sim.machine import Machine, find_machine
from wqlab.results.metrics import counted, samples
from wqlab.results.model import Results
from wqlab.results.module import MEASURED

PATH = ROOT / "results/published.toml"
ENOUGH = 0.25  # error of a ratio up to which it counts as predicted
# The tables that the cost `insn` was chosen by, so that they prove less
CHOSEN_BY = ("grace", "grace-wakeups-before", "grace-wakeups-deferred")
# Mainline 7.3 wakes up workers when it has unlocked the pool. Most tables are of earlier kernels.
DEFERRED, HELD = "mainline", "wakeups-held"


@dataclass(frozen=True)
class Published:
    """One table, of one kernel on one machine. The figures are by scope."""

    name: str
    machine: Machine
    to: str  # what ratios are to: a scope of this table, or another table
    items_per_sec: Mapping[str, float]
    queue_p50_ns: Mapping[str, float] = field(default_factory=dict)
    threads: int = 0  # as many as CPUs
    size: int | None = None
    deferred: bool = False  # were workers woken up without pool->lock?
    note: str = ""

    @property
    def kernel(self) -> str:
        """The one that it is simulated with."""
        return DEFERRED if self.deferred else HELD

    @property
    def producers(self) -> int:
        """How many CPUs queued."""
        return self.threads or self.machine.scenario.cpus


def hold_wakeups(text: str) -> str:
    """kernel/workqueue.c of mainline, as it was before wakeups were deferred."""
    deferred = "kick_pool_pick(pool, &wake_task)"
    if text.count(deferred) != 2:
        raise Problem(f"{deferred} is not there twice")
    return text.replace(deferred, "kick_pool(pool)")


def gather_producers(text: str) -> str:
    """lib/test_workqueue.h with producers on the first CPUs, as mainline's module has them."""
    spread = "return nr * nr_cpus / nr_threads;"
    if text.count(spread) != 1:
        raise Problem(f"{spread} is not there once")
    return text.replace(spread, "return nr;")


def load_published() -> dict[str, Published]:
    """All tables by name."""
    with reading(PATH):
        data = tomllib.loads(PATH.read_text())
        found = {
            name: Published(name, find_machine(table.pop("machine")), **table)
            for name, table in data.items()
        }
    for name, one in found.items():
        if one.to not in one.items_per_sec and one.to not in found:
            raise Problem(f"{PATH}: {name}: to = {one.to!r} is neither a scope of it nor a table")
        for scope in {*one.items_per_sec, *one.queue_p50_ns} - {*MEASURED}:
            raise Problem(f"{PATH}: {name}: {scope!r} is no scope: {', '.join(MEASURED)}")
    return found


def simulated(found: Results, one: Published, scope: str) -> tuple[list[float], list[float]]:
    """Items per second, and the median time of queue_work() in ns, one of each boot."""
    size = f"{SIZE}={one.size}" if one.size else ""
    boots = [
        boot
        for boot in found.boots
        if (found.machine(boot.machine).emulation or "").startswith(
            f"simulated {one.machine.name} ("
        )
        and found.kernel(boot.kernel).name == one.kernel
        and boot.append == size
        and boot.runs[0]["threads"] == one.producers
    ]
    rates = counted(boots, {"scope": scope}, "steady_items_per_sec")
    return rates, samples(boots, scope, "serial", "queue_p50_ns")


def error(value: float, truth: float) -> str:
    """As +5%."""
    return f"{value / truth - 1:+.0%}"


def compare(
    found: Results, tables: Mapping[str, Published], wanted: Sequence[str]
) -> tuple[list[list[str]], int, int, list[str]]:
    """Rows of a table, how many ratios are near enough and how many there are, and scopes
    that come in the wrong order, by table and the one that should be quicker."""
    rows, near, total, wrong = [], 0, 0, []
    for name in wanted:
        one = tables[name]
        both: dict[str, tuple[float, float]] = {}
        for scope, truth in one.items_per_sec.items():
            rates, p50s = simulated(found, one, scope)
            if not rates:
                continue
            rate = statistics.median(rates)
            both[scope] = truth, rate
            other, other_scope = (tables[one.to], scope) if one.to in tables else (one, one.to)
            other_rates, _ = simulated(found, other, other_scope)
            other_truth = other.items_per_sec.get(other_scope)
            ratios = ["", "", ""]
            if other_rates and other_truth and (other, other_scope) != (one, scope):
                published, ours = truth / other_truth, rate / statistics.median(other_rates)
                ratios = [f"{published:.2f}", f"{ours:.2f}", error(ours, published)]
                total += 1
                near += abs(ours / published - 1) <= ENOUGH
            p50 = one.queue_p50_ns.get(scope)
            our_p50 = statistics.median(p50s)
            rows.append(
                [
                    name if len(both) == 1 else "",
                    scope,
                    f"{truth:,.0f}",
                    f"{rate:,.0f}",
                    error(rate, truth),
                    *ratios,
                    f"{p50:,.0f}" if p50 else "",
                    f"{our_p50:,.0f}",
                ]
            )
        for scope, (truth, rate) in both.items():
            others = [
                other
                for other, (other_truth, other_rate) in both.items()
                # scopes that were published as the same have no order
                if truth > 1.05 * other_truth and rate < other_rate
            ]
            if others:
                wrong.append(f"{name}: {scope} and {', '.join(others)}")
    return rows, near, total, wrong


def lines(found: Results, tables: Mapping[str, Published]) -> list[str]:
    """What is printed."""
    rows, near, total, wrong = compare(found, tables, list(tables))
    if not rows:
        raise Problem("nothing in it is of a published table")
    head = ["published", "scope", "items/s", "simulated", "error", "ratio", "simulated", "error"]
    head += ["p50 ns", "simulated"]
    shown = table([head, *rows], [True, True, *[False] * 8])
    for name, one in tables.items():
        to = f"the same in {one.to}" if one.to in tables else f"scope {one.to}"
        shown.append(f"  {name}: {one.producers} producers, {one.kernel}; ratios to {to}")
        if one.note:
            shown.append(f"    {one.note}")
    shown.append(f"{near} of {total} ratios are within {ENOUGH:.0%}")
    shown.append(f"in the wrong order: {'; '.join(wrong) or 'none'}")
    return shown


def scores(found: Results, tables: Mapping[str, Published]) -> tuple[int, int]:
    """How many ratios are near enough: of all tables, and of those that no cost was chosen by."""
    others = [name for name in tables if name not in CHOSEN_BY]
    return compare(found, tables, list(tables))[1], compare(found, tables, others)[1]
