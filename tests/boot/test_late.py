# SPDX-License-Identifier: GPL-2.0
"""CPUs that are not online at boot, that go offline and come back, or that are isolated: where
strict workers are confined to, against pods that follow from the machine and from which CPUs have
been online.

Seen failing: with other CPUs taken for those that are up at boot; against a kernel that doesn't know
isolcpus=.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import sharding
from needs import TEST, Boot, Kernel

from wqlab.guests.scenario import SCOPES, Cpus, Scenario, find_scenario, format_pods, parse_cpulist
from wqlab.guests.vm import Record
from wqlab.kernels.arch import find_arch

SEED = 20231109
CPU = "/sys/devices/system/cpu"


def at_boot(scenario: str, count: int) -> Cpus:
    """The CPUs that come up with maxcpus=COUNT. On x86 the first threads of all cores come up before
    the second ones; elsewhere CPUs come up in the order of their numbers."""
    machine, x86 = find_scenario(scenario), find_arch().name == "x86_64"
    cpus = sorted(range(machine.cpus), key=lambda cpu: cpu % machine.smp["threads"] if x86 else 0)
    return frozenset(cpus[:count])


@dataclass(frozen=True)
class Case:
    """A machine, how it is booted, and what is written to sysfs then: (file, value)."""

    name: str
    scenario: str
    maxcpus: int | None = None
    writes: tuple[tuple[str, str], ...] = ()
    isolated: str = ""  # from unbound workqueues
    smt: bool = True  # else only the first threads of cores are up until it is written
    tier: str = "test"

    @property
    def append(self) -> str:
        words = [f"maxcpus={self.maxcpus}"] if self.maxcpus else []
        words += [f"isolcpus=domain,{self.isolated}"] if self.isolated else []
        return " ".join(words + ["nosmt"] * (not self.smt))

    @property
    def up(self) -> Cpus:
        """CPUs that are online at boot."""
        if not self.smt:
            return frozenset(range(0, self.machine.cpus, self.machine.smp["threads"]))
        return at_boot(self.scenario, self.maxcpus or self.machine.cpus)

    def states(self) -> list[tuple[Cpus, Cpus]]:
        """Which CPUs have been online and which are, at boot and after the writes."""
        been = online = self.up
        for file, value in self.writes:
            cpus = frozenset(range(self.machine.cpus))
            if match := re.fullmatch(r"cpu(\d+)/online", file):
                cpus = frozenset({int(match[1])})
            online = online - cpus if value == "0" else online | cpus
            been |= online
        return [(self.up, self.up), (been, online)][: 2 if self.writes else 1]

    @property
    def commands(self) -> str:
        pods = "".join(f"pods {scope}\n" for scope in SCOPES)
        writes = "".join(f"write {CPU}/{file} {value}\n" for file, value in self.writes)
        return pods + writes + (pods if writes else "") + "hold\n"  # for test_verify.py

    @property
    def machine(self) -> Scenario:
        return find_scenario(self.scenario)

    def boot(self, kernel: Kernel = TEST) -> Boot:
        return Boot(
            self.scenario, "params", kernel=kernel, append=self.append, commands=self.commands
        )

    @property
    def marks(self) -> list[pytest.MarkDecorator]:
        found = [self.boot().mark, pytest.mark.tier(self.tier)]
        if not self.smt and find_arch().name != "x86_64":
            reason = "6.12 has smt/control on x86 only"
            found.append(pytest.mark.skipif("config.option.base.name == '6.12'", reason=reason))
        return found


def online(cpus: Sequence[int], value: int = 1) -> tuple[tuple[str, str], ...]:
    return tuple((f"cpu{cpu}/online", str(value)) for cpu in cpus)


def late(machine: str, maxcpus: int, seed: int | None = None) -> list[int]:
    """The CPUs that are not up, in ascending order or in a random one."""
    cpus = sorted(set(range(find_scenario(machine).cpus)) - at_boot(machine, maxcpus))
    if seed is not None:
        random.Random(seed).shuffle(cpus)
    return cpus


CASES = (
    Case("maxcpus", "smt-7x2", 3, online(late("smt-7x2", 3))),
    Case("some", "smt-7x2", 3, online((13, 7, 5))),
    Case("nosmt", "smt-7x2", None, (("smt/control", "on"),), smt=False),
    Case("caches", "llc-4x3x2", 8, online((23, 16, 22, 9))),
    *(
        Case(f"order-{seed}", "llc-4x3x2", 4, online(late("llc-4x3x2", 4, SEED + seed)))
        for seed in range(3)
    ),
    Case("nodes", "nodes-4", 1, online((3, 1, 2))),
    Case("isolated", "llc-2x10", isolated="2-5,12"),
    Case("known", "llc-2x10", None, (*online((1, 5, 13), 0), *online((5,)))),
    # as the last two, on a machine that other architectures have as well
    Case("isolated-nodes", "two-nodes-2x3x2", isolated="2-3,7", tier="full"),
    Case("known-nodes", "two-nodes-2x3x2", None, online((1, 8, 9), 0), tier="full"),
)


def pools(machine: Scenario, been: Cpus, up: Cpus, isolated: Cpus, scope: str) -> list[str]:
    """Those of strict pods with CPUs that are online, and the fallback pool."""
    allowed = frozenset(range(machine.cpus)) - isolated
    pods = {pod & allowed for pod in sharding.placed(machine, been)[scope] if pod & allowed & up}
    return format_pods((*(pods | {allowed}),))


def confined(record: Record, scope: str) -> list[list[str]]:
    """The pools of each time that the job has looked."""
    said = [line.split()[2:] for line in record.lines if line.startswith(f"pods {scope} ")]
    return [format_pods(tuple(map(parse_cpulist, one))) for one in said]


@pytest.mark.parametrize(
    ("case", "scope"),
    [
        pytest.param(
            case,
            scope,
            id=f"{case.name}-{scope}",
            marks=case.marks,
        )
        for case in CASES
        for scope in SCOPES
    ],
)
def test_late(record: Record, case: Case, scope: str) -> None:
    """At boot, and after what is written then."""
    refused = [line for line in record.lines if line.startswith("result ") and line != "result ok"]
    assert not refused
    isolated = parse_cpulist(case.isolated) if case.isolated else frozenset()
    want = [pools(case.machine, been, up, isolated, scope) for been, up in case.states()]
    assert confined(record, scope) == want
