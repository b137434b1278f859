# SPDX-License-Identifier: GPL-2.0
"""What max_active of a workqueue means: three semantics, by CPUs and nodes.

per CPU   6.6 to 6.8: of an unbound workqueue, each CPU's pool_workqueue has the limit for itself.
          Before 6.6 each node's has it, so there CPUs are to be read as nodes.
per node  from 6.9 on: nodes have shares of it by their CPUs, but min_active at least, as in
          wq_update_node_max_active().
exact     this series: the system has it.

Workqueues of CPUs have the limit on each CPU in all three, and an ordered one runs one item.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Constants:
    """Of a kernel, from include/linux/workqueue.h."""

    flags: dict[str, int]  # WQ_UNBOUND and the like
    most: int  # WQ_MAX_ACTIVE
    default: int  # WQ_DFL_ACTIVE
    least: int  # WQ_DFL_MIN_ACTIVE

    def limit(self, asked: int) -> int:
        """The max_active that a workqueue gets."""
        return min(max(asked or self.default, 1), self.most)

    def has(self, flags: int, name: str) -> bool:
        """Whether the flag of this name is set; no kernel sets a flag that it does not have."""
        return bool(flags & self.flags.get(name, 0))

    def kind(self, flags: int) -> str:
        """Of the workqueue, by what its limit is for."""
        if self.has(flags, "WQ_BH"):
            return "bh"
        if self.has(flags, "__WQ_ORDERED"):
            return "ordered"
        return "unbound" if self.has(flags, "WQ_UNBOUND") else "percpu"


@dataclass(frozen=True)
class Meaning:
    """How many items of an unbound workqueue may run at once, with one number of nodes."""

    nodes: int
    per_cpu: int
    per_node: int
    one_node: int  # of per_node, where all are queued on one node
    exact: int

    @property
    def narrower(self) -> float:
        """How many times fewer they are with the exact limit."""
        return self.per_node / self.exact

    @property
    def wider(self) -> float:
        """How many times more one node gets with the exact limit."""
        return self.exact / self.one_node


def spread(cpus: int, nodes: int) -> list[int]:
    """The CPUs of each node."""
    each, more = divmod(cpus, nodes)
    return [each + (number < more) for number in range(nodes)]


def shares(limit: int, least: int, cpus: Sequence[int]) -> list[int]:
    """The limit of each node, of these CPUs."""
    total = sum(cpus)
    floor = min(limit, least)
    return [min(max(-(-limit * its // total), floor), limit) for its in cpus]


def meaning(limit: int, constants: Constants, cpus: int, nodes: int, allocated: int = 0) -> Meaning:
    """`allocated` is the limit that the workqueue had at first, 0 if the same: min_active is
    no more than that, and stays so when the limit is raised."""
    least = min(constants.least, allocated or limit)
    of_nodes = shares(limit, least, spread(cpus, nodes))
    return Meaning(
        nodes=nodes,
        per_cpu=limit * cpus,
        per_node=sum(of_nodes),
        one_node=max(of_nodes),
        exact=limit,
    )
