# SPDX-License-Identifier: GPL-2.0
"""CPUs that are not online at boot, that go offline and come back, or that are isolated: where
strict workers are confined to, against pods that follow from the machine and from which CPUs have
been online.

Seen failing: with other CPUs taken for those that are up at boot.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from needs import TEST, Boot, Kernel

from wqlab.scenario import SCOPES, Cpus, Scenario, find_scenario, format_pods, parse_cpulist
from wqlab.vm import Record

SEED = 20231109
CPU = "/sys/devices/system/cpu"


@dataclass(frozen=True)
class Case:
    """A machine, how it is booted, and what is written to sysfs then: (file, value)."""

    name: str
    scenario: str
    append: str
    up: str  # at boot
    writes: tuple[tuple[str, str], ...] = ()
    been: str = ""  # CPUs that have been online after the writes, if more
    online: str = ""  # CPUs that are online after them, if not the same
    isolated: str = ""  # from unbound workqueues

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


def online(cpus: Sequence[int], value: int = 1) -> tuple[tuple[str, str], ...]:
    return tuple((f"cpu{cpu}/online", str(value)) for cpu in cpus)


def late(machine: str, up: str, seed: int | None = None) -> list[int]:
    """The CPUs that are not up, in ascending order or in a random one."""
    cpus = sorted(set(range(find_scenario(machine).cpus)) - parse_cpulist(up))
    if seed is not None:
        random.Random(seed).shuffle(cpus)
    return cpus


# With maxcpus= it is the first threads of cores that are up.
CASES = (
    Case("maxcpus", "smt-7x2", "maxcpus=3", "0,2,4", online(late("smt-7x2", "0,2,4")), "0-13"),
    Case("some", "smt-7x2", "maxcpus=3", "0,2,4", online((13, 7, 5)), "0,2,4-5,7,13"),
    Case("nosmt", "smt-7x2", "nosmt", "0,2,4,6,8,10,12", (("smt/control", "on"),), "0-13"),
    Case(
        "caches",
        "llc-4x3x2",
        "maxcpus=8",
        "0,2,4,6,8,10,12,14",
        online((23, 16, 22, 9)),
        "0,2,4,6,8-10,12,14,16,22-23",
    ),
    *(
        Case(
            f"order-{seed}",
            "llc-4x3x2",
            "maxcpus=4",
            "0,2,4,6",
            online(late("llc-4x3x2", "0,2,4,6", SEED + seed)),
            "0-23",
        )
        for seed in range(3)
    ),
    Case("nodes", "nodes-4", "maxcpus=1", "0", online((3, 1, 2)), "0-3"),
    Case("isolated", "llc-2x10", "isolcpus=domain,2-5,12", "0-19", isolated="2-5,12"),
    Case(
        "known",
        "llc-2x10",
        "",
        "0-19",
        (*online((1, 5, 13), 0), *online((5,))),
        online="0,2-12,14-19",
    ),
)


def pools(machine: Scenario, been: Cpus, up: Cpus, isolated: Cpus, scope: str) -> list[str]:
    """Those of strict pods with CPUs that are online, and the fallback pool."""
    allowed = frozenset(range(machine.cpus)) - isolated
    pods = {pod & allowed for pod in machine.placed(been)[scope] if pod & allowed & up}
    return format_pods((*(pods | {allowed}),))


@pytest.mark.parametrize(
    ("case", "scope"),
    [
        pytest.param(
            case,
            scope,
            id=f"{case.name}-{scope}",
            marks=case.boot().mark,
        )
        for case in CASES
        for scope in SCOPES
    ],
)
def test_late(record: Record, case: Case, scope: str) -> None:
    """At boot, and after what is written then."""
    refused = [line for line in record.lines if line.startswith("result ") and line != "result ok"]
    assert not refused
    said = [line.split()[2:] for line in record.lines if line.startswith(f"pods {scope} ")]
    up, isolated = parse_cpulist(case.up), parse_cpulist(case.isolated) if case.isolated else set()
    states = [(up, up)]
    if case.writes:
        been = parse_cpulist(case.been) if case.been else up
        states.append((been, parse_cpulist(case.online) if case.online else been))
    want = [pools(case.machine, been, on, frozenset(isolated), scope) for been, on in states]
    assert [format_pods(tuple(map(parse_cpulist, one))) for one in said] == want
