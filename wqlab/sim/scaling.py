# SPDX-License-Identifier: GPL-2.0
"""Whether a kernel scales, on a small machine in simulated time.

Each CPU has one item in flight, in scope cache_shard. Shards have as many CPUs on a large machine
as on a small one, so an item costs more only for what all shards write: few cache lines come from
another shard. On few CPUs, where nobody waits for those, pool->lock is held for a short time.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from wqlab.problem import Problem
from wqlab.results import Run
from wqlab.scenario import SHARD_SIZE
from wqlab.sim.emulator import emulator
from wqlab.sim.machine import find_machine
from wqlab.sim.simulate import DISTANCES, Symbols, simulate
from wqlab.vm import Kernel

# what shards have in common, clusters are taken for
WHOLE = replace(find_machine("grace-72"), cluster=SHARD_SIZE)
FEW, MANY = 8, 32  # CPUs
ITEMS, WARMUP, REPEAT = 40, 10, 3
MOST = 1.8  # times what it costs on few CPUs, where counters of the node are not fought for
MOST_HELD = 1000  # ns of locks of the workqueue held for an item, on few CPUs
MOST_MOVED = 16  # cache lines from other shards for an item, 7 of them for counters of the node
FAR = range(DISTANCES.index("llc"), len(DISTANCES))


@dataclass(frozen=True)
class Cost:
    """What an item takes."""

    ns: float  # of its producer
    held_ns: float  # of locks that functions of the workqueue have taken
    moved: float  # cache lines that these functions needed from another shard


def cost(kernel: Kernel, cpus: int, out: Path, append: str = "") -> Cost:
    """The cost on so many of the machine's CPUs; files in `out`."""
    run: Run = {"mode": "serial", "scopes": ["cache_shard"], "threads": cpus}
    run |= {"items": ITEMS, "warmup": WARMUP}
    runs, _ = simulate(
        kernel, WHOLE.with_cores(cpus), [run] * REPEAT, out / str(cpus), *emulator(), append
    )
    items = sum(one.items for one in runs)
    ours = Symbols.of(kernel).workqueue
    held = sum(took.held_ps for one in runs for name, took in one.locks.items() if name in ours)
    if not held:
        raise Problem(f"{out}: no lock was seen: are these the symbols of what was booted?")
    lines = [moved for one in runs for name, moved in one.lines.items() if name in ours]
    return Cost(
        ns=sum(one.seconds for one in runs) * 1e9 * cpus / items,
        held_ns=held / 1e3 / items,
        moved=sum(moved.moves[far] for moved in lines for far in FAR) / items,
    )


def costs(kernel: Kernel, out: Path, append: str = "") -> tuple[Cost, Cost]:
    """On FEW and on MANY of the CPUs."""
    few, many = (cost(kernel, cpus, out, append) for cpus in (FEW, MANY))
    return few, many


def complaints(few: Cost, many: Cost) -> list[str]:
    """What is wrong with how the kernel scales."""
    found = []
    if many.ns > MOST * few.ns:
        found.append(f"an item takes {few.ns:.0f} ns on {FEW} CPUs, {many.ns:.0f} on {MANY}")
    if few.held_ns > MOST_HELD:
        found.append(f"pool->lock is held {few.held_ns:.0f} ns for an item")
    if many.moved > MOST_MOVED:
        found.append(f"{many.moved:.2f} cache lines come from other shards for an item")
    return found
