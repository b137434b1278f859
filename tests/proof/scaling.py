# SPDX-License-Identifier: GPL-2.0
"""Whether a kernel scales, on a small machine in simulated time.

Each CPU has one item in flight, in scope cache_shard. Shards have as many CPUs as on a large
machine, and there are several, so what an item costs tells of what all shards write as well as of
what is done with pool->lock held. It is the same within 0.5 % whatever CPUs did before; with one
shard it is not, as that depends on how its CPUs happen to keep step.
"""

from dataclasses import replace
from pathlib import Path

from sharding import SHARD_CPUS

from wqlab.kernels.builddir import BuildDir
from wqlab.measure.sim.machine import find_machine
from wqlab.measure.sim.simulate import simulate
from wqlab.results.model import Run

CPUS = 32
# what shards have in common, clusters are taken for
MACHINE = replace(find_machine("grace-72"), cluster=SHARD_CPUS).with_cores(CPUS)
RUN: Run = {"mode": "serial", "scopes": ["cache_shard"], "threads": CPUS}
RUN |= {"items": 400, "warmup": 40}
REPEAT = 3
MOST = 7_350.0  # ns of its producer for an item; it takes 7,010, and 7,750 with one more counter


def cost(kernel: BuildDir, out: Path) -> float:
    """What an item takes of its producer's time, in ns; files in `out`."""
    runs, _ = simulate(kernel, MACHINE, [RUN] * REPEAT, out)
    return sum(one.seconds for one in runs) * 1e9 * CPUS / sum(one.items for one in runs)


def complaint(ns: float) -> str:
    """What is wrong with how the kernel scales; "" if nothing is."""
    return f"an item takes {ns:.0f} ns on {CPUS} CPUs, {MOST:.0f} are allowed" if ns > MOST else ""
