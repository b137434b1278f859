# SPDX-License-Identifier: GPL-2.0
"""Simulate what others have measured, and compare.

Each table of results/published.toml is simulated: its machine, the series up to the patch that
comes nearest, its number of producers and its shards. Printed are the published figures, the
simulated ones and the error; and the same of the ratio between scopes, or between kernels, which
is what a simulation is for. The results are stored in build/validate.json.
"""

import argparse
import statistics
from collections.abc import Mapping, Sequence

from wqlab.ground.places import BUILD
from wqlab.ground.problem import OK, Problem
from wqlab.ground.text import table
from wqlab.kernels.obtain import obtain
from wqlab.kernels.options import add_base
from wqlab.measure.sim import SIZE, Simulation, add_costs, measure
from wqlab.measure.sim.emulator import emulator
from wqlab.measure.sim.published import Published, load_published
from wqlab.measure.subjects import build_subject
from wqlab.results.metrics import counted, samples
from wqlab.results.model import Results, Run

ENOUGH = 0.25  # error of a ratio up to which it counts as predicted


def simulated(found: Results, one: Published, scope: str) -> tuple[list[float], list[float]]:
    """Items per second, and the median time of queue_work() in ns, one of each boot."""
    size = f"{SIZE}={one.size}" if one.size else ""
    boots = [
        boot
        for boot in found.boots
        if (found.machine(boot.machine).emulation or "").startswith(
            f"simulated {one.machine.name} ("
        )
        and found.kernel(boot.kernel).patches == one.patches
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
    """Rows of a table, how many ratios are near enough and how many there are, and pairs of
    scopes that come in the wrong order."""
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
        wrong += [
            f"{name}: {scope} and {other}"
            for scope, (truth, rate) in both.items()
            for other, (other_truth, other_rate) in both.items()
            # scopes that were published as the same have no order
            if truth > 1.05 * other_truth and rate < other_rate
        ]
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
        shown.append(f"  {name}: {one.producers} producers, {one.patches} patches; ratios to {to}")
        if one.note:
            shown.append(f"    {one.note}")
    shown.append(f"{near} of {total} ratios are within {ENOUGH:.0%}")
    shown.append(f"in the wrong order: {'; '.join(wrong) or 'none'}")
    return shown


def add_options(parser: argparse.ArgumentParser) -> None:
    add_base(parser)
    add_costs(parser)


def simulations(args: argparse.Namespace, wanted: Sequence[Published]) -> list[Simulation]:
    """One boot for each table."""
    source = obtain(args.base, args.ksrc)
    kernels = {
        patches: build_subject("patched", source, patches)
        for patches in dict.fromkeys(one.patches for one in wanted)
    }
    about: Run = {"items": args.items, "warmup": args.warmup}
    return [
        Simulation(
            kernels[one.patches],
            one.machine.changed(dict(args.cost)),
            ({"mode": "serial", "threads": one.producers, **about},),
            tuple(one.items_per_sec),
            args.repeat,
            one.size,
        )
        for one in wanted
    ]


def command(args: argparse.Namespace) -> int:
    tables = load_published()
    emulator()  # there is one
    found = measure(simulations(args, list(tables.values())), args.typed, BUILD / "validate.json")
    print(*lines(found, tables), sep="\n")
    return OK
