# SPDX-License-Identifier: GPL-2.0
"""Machines to simulate, from machines/: a topology of scenarios/, and what things cost there."""

import tomllib
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path

from wqlab.ground.problem import Problem
from wqlab.guests.scenario import Pods, Scenario, find_scenario, machine_file, reading

# What a machine must say, in ns, but for a number
COSTS = {
    "insn": "an instruction",
    "smt": "an instruction while the other thread of the core is busy",
    "atomic": "what an atomic operation takes beyond that",
    "pause": "PAUSE, or what the architecture has for it",
    "core": "a cache line from the other thread of the core",
    "cluster": "from another core of the cluster",
    "llc": "from another core behind the same last-level cache",
    "node": "from another last-level cache of the node",
    "far": "from another node",
    "keep": "a CPU that has waited for a line goes on so long before others get it",
    "retries": "how often a compare-and-swap needs a line once more that others wait for as well",
    "send": "to interrupt another CPU",
    "ipi": "until it comes there",
    "wake": "to leave idle for it",
}


@dataclass(frozen=True)
class Machine:
    """What is simulated: a scenario, and what things cost there."""

    name: str
    scenario: Scenario
    cluster: int  # cores of a cluster; 1 is none
    costs: dict[str, float]  # ns

    @property
    def cpus(self) -> str:
        """The file that the plugin reads: core, cluster, LLC and node of each CPU."""
        pods = self.scenario.pods
        rows = []
        for cpu in range(self.scenario.cpus):
            core = index(pods["smt"], cpu)
            llc = index(pods["cache"], cpu)
            rows.append((core, core // self.cluster, llc, index(self.scenario.nodes, cpu)))
        return "".join(f"{' '.join(map(str, row))}\n" for row in rows)

    @property
    def says(self) -> str:
        """What things cost on it, as one line."""
        return ", ".join(f"{name}={value:g}" for name, value in self.costs.items())

    @property
    def emulation(self) -> str:
        """As results have it."""
        return f"simulated {self.name} ({self.says})"

    def changed(self, costs: dict[str, float]) -> "Machine":
        """The same with other costs, in ns."""
        return replace(self, costs=self.costs | costs)

    def with_cores(self, cores: int) -> "Machine":
        """The same with so many cores behind each last-level cache."""
        old = self.scenario
        smp = old.smp | {"cores": cores}
        cpus = old.cpus // old.smp["cores"] * cores
        ends = [*accumulate(len(node) * cores // old.smp["cores"] for node in old.nodes)]
        nodes = tuple(frozenset(range(*pair)) for pair in pairwise([0, *ends]))
        pods = {
            "smt": each(cpus, smp["threads"]),
            "cache": each(cpus, cores * smp["threads"]),
            "numa": nodes,
        }
        name = f"{old.name}-cores-{cores}"
        scenario = replace(old, name=name, smp=smp, nodes=nodes, pods=pods)
        return replace(self, name=f"{self.name}-cores-{cores}", scenario=scenario)


def each(cpus: int, size: int) -> Pods:
    """The CPUs in groups of a size."""
    return tuple(frozenset(range(first, first + size)) for first in range(0, cpus, size))


def index(pods: Pods, cpu: int) -> int:
    """The number of the pod that a CPU is in."""
    return next(number for number, pod in enumerate(pods) if cpu in pod)


def load_machine(path: Path) -> Machine:
    """The machine of a file. Problem if the file is wrong."""
    with reading(path):
        data = tomllib.loads(path.read_text())
        costs = {name: float(value) for name, value in data["costs"].items()}
        machine = Machine(
            name=path.stem,
            scenario=find_scenario(data["scenario"]),
            cluster=int(data.get("cluster", 1)),
            costs=costs,
        )
    for wrong in costs.keys() ^ COSTS.keys():
        what = "no cost that is known" if wrong in costs else "not given"
        raise Problem(f"{path}: {wrong} is {what}: the costs are {', '.join(COSTS)}")
    if not {"smt", "cache"} <= machine.scenario.pods.keys():
        raise Problem(f"{path}: the scenario {machine.scenario.name} does not say its pods")
    return machine


def find_machine(name: str) -> Machine:
    """The machine of this name in machines/."""
    return load_machine(machine_file("machines", name))
