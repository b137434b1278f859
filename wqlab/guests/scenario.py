# SPDX-License-Identifier: GPL-2.0
"""Scenarios: CPUs, caches and nodes of a guest, and the pods that each affinity scope must have."""

import math
import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from wqlab.ground.places import ROOT
from wqlab.ground.problem import Problem, Usage

SCOPES = ("cpu", "smt", "cache", "cache_shard", "numa", "system")
LEVELS = ("sockets", "dies", "clusters", "cores", "threads")

Cpus = frozenset[int]
Pods = tuple[Cpus, ...]


class TopologyError(Problem):
    """A scenario or a dump makes no sense."""


def parse_cpulist(text: str) -> Cpus:
    """The CPUs of a list as the kernel writes it, such as "0-3,8"; raises TopologyError."""
    cpus: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if not match or int(match[2] or match[1]) < int(match[1]):
            raise TopologyError(f'"{text}" is not a list of CPUs')
        cpus.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(cpus)


def format_cpulist(cpus: Cpus) -> str:
    """A set of CPUs as the kernel writes it, such as "0-3,8"."""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and cpu == parts[-1][1] + 1:
            parts[-1][1] = cpu
        else:
            parts.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def format_pods(pods: Pods) -> list[str]:
    """Pods as cpulists, in the order of their first CPU."""
    return [format_cpulist(pod) for pod in sorted(pods, key=lambda pod: sorted(pod))]


@dataclass(frozen=True)
class Scenario:
    """The CPUs, caches and nodes of a guest, from scenarios/NAME.toml."""

    name: str
    smp: dict[str, int]  # of LEVELS: how many of each the one before has
    l3: bool  # whether there is a cache above those of a core
    nodes: Pods  # CPUs of each NUMA node, which may be none
    memory: int  # MiB
    memoryless: frozenset[int]  # nodes without memory
    timeout: int  # seconds for one boot, on a slow host
    append: str  # boot parameters
    default: str  # the scope in force after boot
    pods: dict[str, Pods]  # by scope; none when only timings are wanted of it
    icount: int | None = None  # an instruction takes 2^icount ns of the guest's time

    @property
    def cpus(self) -> int:
        """How many CPUs it has."""
        return math.prod(self.smp.values())

    @property
    def memory_nodes(self) -> tuple[int, ...]:
        """The nodes with memory."""
        return tuple(node for node in range(len(self.nodes)) if node not in self.memoryless)


def _pods(value: object) -> Pods:
    """Pods from ["0-7", "8-15"], or from {span = "0-15", each = 8}."""
    match value:
        case {"span": str(span), "each": int(each), **rest} if not rest and each > 0:
            cpus = sorted(parse_cpulist(span))
            return tuple(frozenset(cpus[i : i + each]) for i in range(0, len(cpus), each))
        case list():
            return tuple(parse_cpulist(str(item)) for item in value)
    raise TopologyError(f"pods are a list of cpulists or {{span, each}}, not {value!r}")


def _nodes(value: object) -> Pods:
    """The CPUs of each node as for pods, but in a list "" is a node that has none."""
    if isinstance(value, list):
        return tuple(parse_cpulist(item) if item else frozenset() for item in map(str, value))
    return _pods(value)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise what goes wrong with a file in this block as a TopologyError that names the file."""
    try:
        yield
    except OSError as error:
        raise TopologyError(f"{path}: {error.strerror}") from None
    except KeyError as error:
        raise TopologyError(f"{path}: no {error}") from None
    except (ValueError, TypeError, Problem) as error:
        raise TopologyError(f"{path}: {error}") from None


def machine_file(folder: str, name: str) -> Path:
    """The file NAME.toml of a folder; Usage, which names those there are, if it is not there."""
    paths = {path.stem: path for path in (ROOT / folder).glob("*.toml")}
    if name not in paths:
        raise Usage(f"no machine {name!r} in {folder}/: there are {', '.join(sorted(paths))}")
    return paths[name]


def load_scenario(path: Path) -> Scenario:
    """Read a file of scenarios/; raises TopologyError."""
    with reading(path):
        data = tomllib.loads(path.read_text())
        scenario = Scenario(
            name=path.stem,
            smp={level: int(({"clusters": 1} | data["smp"])[level]) for level in LEVELS},
            l3=bool(data.get("l3", True)),
            nodes=_nodes(data["nodes"]),
            memory=int(data["memory"]),
            memoryless=frozenset(map(int, data.get("memoryless", []))),
            timeout=int(data["timeout"]),
            append=str(data.get("append", "")),
            default=str(data["default"]),
            pods={scope: _pods(pods) for scope, pods in data.get("pods", {}).items()},
            icount=int(data["icount"]) if "icount" in data else None,
        )
    for scope in scenario.pods:
        if scope not in SCOPES:
            raise TopologyError(f'{path}: "{scope}" is not an affinity scope')
    if not scenario.memory_nodes:
        raise TopologyError(f"{path}: no node has memory")
    return scenario


def find_scenario(name: str) -> Scenario:
    """The scenario of this name; Usage if there is none."""
    return load_scenario(machine_file("scenarios", name))
