# SPDX-License-Identifier: GPL-2.0
"""What hosts, kernels and figures are called, in which order, and which belong together."""

from collections.abc import Sequence

from wqlab.ground.text import plural
from wqlab.results.model import Host, Kernel, Results

RANKS = ("p50", "p90", "p95", "p99", "p999", "max")
TIMES = {"queue": "queue_work() took", "start": "from queue_work() to the start of the item"}
MODES = {
    "serial": "one item in flight for each producer",
    "burst": "a window of items in flight for each producer",
    "fanout": "few producers, their items queued on all CPUs in turn",
    "sleep": "items that sleep",
    "chain": "items that queue themselves again",
}
LOCKS = ("lock_acquisitions", "lock_contentions", "lock_hold_ns", "lock_wait_ns")
# New against old, in the order of the report
PAIRS = (("patched", "stock"), ("mainline", "stock"), ("patched", "mainline"))
DEFAULT_SCOPES = {"stock": "cache", "patched": "cache_shard", "mainline": "cache_shard"}


def simulated(machine: Host) -> bool:
    """In simulated time, which does not depend on the host."""
    return (machine.emulation or "").startswith("simulated ")


def machine_line(machine: Host) -> str:
    """One line that goes with every table and figure."""
    if simulated(machine):
        return str(machine.emulation)
    return (
        f"{machine.cpu_model}, {plural(machine.cpus, 'CPU')}, {machine.emulation or 'bare metal'}"
    )


def same_host(one: Host, other: Host) -> bool:
    """The same but for emulation, and for a little memory: kernels leave more or less of it. What is
    simulated stands by itself."""
    memory, others = one.memory_mib or 0, other.memory_mib or 0
    alike = [(m.cpu_model, m.cpus, m.system, m.topology, simulated(m)) for m in (one, other)]
    return abs(memory - others) <= 0.02 * memory and alike[0] == alike[1]


def hosts(results: Results) -> list[list[Host]]:
    """The machines by the host that they are on, in the order of the file."""
    found: dict[str, list[Host]] = {}
    for machine in results.machines:
        first = next(other for other in results.machines if same_host(other, machine))
        found.setdefault(first.id, []).append(machine)
    return list(found.values())


def same_machine(results: Results, key: str) -> Host:
    """The first machine that is the same as the one with this id."""
    machine = results.machine(key)
    alike = (other for other in results.machines if same_host(other, machine))
    return next(other for other in alike if other.emulation == machine.emulation)


def rank_name(rank: str) -> str:
    """As p99.9."""
    return rank.replace("p999", "p99.9")


def ordered_kernels(results: Results) -> list[Kernel]:
    """Stock, patched, mainline, then the others."""
    return sorted(results.kernels, key=lambda k: [*DEFAULT_SCOPES, k.name].index(k.name))


def kernel_label(results: Results, key: str) -> str:
    """The name of a kernel, with what is needed to tell it from others of that name."""
    kernel = results.kernel(key)
    same = [k for k in results.kernels if k.name == kernel.name]
    if len(same) == 1:
        return kernel.name
    if len({k.release for k in same}) == len(same):
        return f"{kernel.name} {kernel.release}"
    return kernel.id


def kernel_pairs(kernels: Sequence[Kernel]) -> list[tuple[str, str]]:
    """Which kernels are compared, the new one first."""
    pairs = [
        (new.id, old.id)
        for left, right in PAIRS
        for new in kernels
        for old in kernels
        if (new.name, old.name) == (left, right)
    ]
    found = [k for k in kernels if k.name not in DEFAULT_SCOPES]
    return pairs + [(k.id, found[0].id) for k in found[1:]]
