# SPDX-License-Identifier: GPL-2.0
"""What depends on the costs of a simulated machine, each of which may be wrong."""

import statistics
from collections.abc import Sequence
from itertools import combinations

from wqlab.ground.text import table
from wqlab.measure.sim.machine import Machine
from wqlab.results.metrics import counted
from wqlab.results.model import Results

FACTORS = (0.5, 2.0)
Of = tuple[str, str]  # a kernel and a scope


def variants(machine: Machine, costs: Sequence[str]) -> dict[str, Machine]:
    """The machine, and with each of these costs halved and doubled, by what is said of it."""
    found = {"as it is": machine}
    for name in costs:
        for factor in FACTORS:
            changed = machine.changed({name: machine.costs[name] * factor})
            found[f"{name} x {factor:g}"] = changed
    return found


def conclusions(kernels: Sequence[str], scopes: Sequence[str]) -> list[tuple[Of, Of]]:
    """What is compared: each kernel with those before it in every scope, and within each kernel
    the scopes."""
    between = [
        ((new, scope), (old, scope)) for old, new in combinations(kernels, 2) for scope in scopes
    ]
    within = [
        ((kernel, one), (kernel, other))
        for kernel in kernels
        for one, other in combinations(scopes, 2)
    ]
    return between + within


def said(one: Of, other: Of) -> str:
    """A comparison in words."""
    if one[1] == other[1]:
        return f"{one[1]}: {one[0]}/{other[0]}"
    return f"{one[0]}: {one[1]}/{other[1]}"


def lines(found: Results, hosts: dict[str, str], scopes: Sequence[str]) -> list[str]:
    """A table of ratios of items per second: with the costs as they are, the lowest and the
    highest of all variants, which are given with their machine's id, and those in which another
    one comes first."""
    names = {kernel.id: kernel.name for kernel in found.kernels}
    rates: dict[tuple[str, Of], float] = {}
    for variant, host in hosts.items():
        for kernel, name in names.items():
            boots = [b for b in found.boots if (b.machine, b.kernel) == (host, kernel)]
            for scope in scopes:
                if rate := counted(boots, {"scope": scope}, "steady_items_per_sec"):
                    rates[variant, (name, scope)] = statistics.median(rate)
    rows = []
    for one, other in conclusions(list(names.values()), scopes):
        ratios = {
            variant: rates[variant, one] / rates[variant, other]
            for variant in hosts
            if {(variant, one), (variant, other)} <= rates.keys()
        }
        if not ratios:
            continue  # stock has no shards
        first = next(iter(ratios.values()))
        low, high = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
        turned = [variant for variant, ratio in ratios.items() if (ratio < 1) != (first < 1)]
        rows.append(
            [
                said(one, other),
                f"{first:.2f}",
                *(f"{ratios[variant]:.2f} ({variant})" for variant in (low, high)),
                ", ".join(turned) or "-",
            ]
        )
    head = ["items/s", "as it is", "lowest", "highest", "other order"]
    return table([head, *rows], [True, False, True, True, True])
