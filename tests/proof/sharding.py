# SPDX-License-Identifier: GPL-2.0
"""The pods of scope cache_shard that a guest must have, and those of all scopes while CPUs have yet to
come online."""

import math
from itertools import pairwise

from wqlab.guests.scenario import Cpus, Pods, Scenario, TopologyError

SHARD_CPUS = 8  # by default; of as many cores as have them


def shard(cache: Pods, numa: Pods, smt: Pods, size: int, clusters: Pods = ()) -> Pods:
    """The shards that a guest must have, from its LLCs, nodes, cores and clusters.

    An LLC (within one node) of c cores gets n >= 1 shards: the n whose mean size c/n is nearest to
    `size` cores, and the lower n of two that are as near. Core i, counted in the order of first
    CPUs, belongs to shard i * n // c. Where that splits a cluster of neighbours of at most `size`
    cores, all of it belongs to the shard of its larger part. Raises TopologyError if clusters
    leave a shard no core.
    """
    shards: list[Cpus] = []
    for llc in cache:
        for node in numa:
            cores = sorted(
                (core & llc & node for core in smt), key=lambda core: min(core, default=0)
            )
            cores = [core for core in cores if core]
            if not cores:
                continue
            count = len(cores)
            # |count / n - size|, compared without rounding as a fraction of n
            best = 1
            for n in range(2, count + 1):
                if abs(count - size * n) * best < abs(count - size * best) * n:
                    best = n
            starts = [-(-nr * count // best) for nr in range(best)]  # first cores, rounded up
            for cluster in clusters:
                inside = [i for i, core in enumerate(cores) if core <= cluster]
                if not 1 < len(inside) <= size:
                    continue
                first, end = inside[0], inside[-1] + 1
                for nr in range(1, best):
                    if first * best < nr * count < end * best:
                        nearer = 2 * nr * count < (first + end) * best
                        starts[nr] = first if nearer else end
            if len(set(starts)) < best:
                raise TopologyError(f"clusters leave no place for {best} shards")
            for start, end in pairwise([*starts, count]):
                shards.append(frozenset().union(*cores[start:end]))
    return tuple(shards)


def default_size(cores: Pods) -> int:
    """How many of these cores a shard has by default: as many as it takes for SHARD_CPUS."""
    return math.ceil(SHARD_CPUS / max(map(len, cores)))


def clusters(scenario: Scenario) -> Pods:
    """The CPUs of each cluster, if a socket has more than one."""
    each = scenario.smp["cores"] * scenario.smp["threads"]
    firsts = range(0, scenario.cpus, each) if scenario.smp["clusters"] > 1 else ()
    return tuple(frozenset(range(first, first + each)) for first in firsts)


def shard_size(scenario: Scenario) -> int:
    """Cores per shard by default, when all CPUs have been online."""
    return default_size(scenario.pods["smt"])


def shards(scenario: Scenario, size: int) -> Pods:
    """The shards if cache_shard_size is `size` cores."""
    pods = scenario.pods
    return shard(pods["cache"], pods["numa"], pods["smt"], size, clusters(scenario))


def placed(scenario: Scenario, been: Cpus) -> dict[str, Pods]:
    """The pods of each scope as long as only these CPUs have ever been online."""
    pods, smt, cache = scenario.pods, scenario.pods["smt"], scenario.pods["cache"]
    alone = tuple(frozenset({cpu}) for cpu in range(scenario.cpus) if cpu not in been)
    late = tuple(node - been for node in pods["numa"] if node - been)
    cores = tuple(core & been for core in smt if core & been)
    llcs = tuple(llc & been for llc in cache if llc & been)
    return pods | {
        "smt": (*cores, *alone),
        "cache": (*llcs, *late),
        "cache_shard": (*shard(llcs, pods["numa"], cores, default_size(cores)), *late),
    }
