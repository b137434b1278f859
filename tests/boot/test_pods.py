# SPDX-License-Identifier: GPL-2.0
"""Pods of every affinity scope on every machine of scenarios/.

They are looked at twice: in the kernel's memory, and in where it confines the
workers of a workqueue whose scope is strict. One does not imply the other.

Seen failing: against a kernel without the cache_shard scope; and with QEMU given
another machine than the scenario's, which stands for a kernel that splits
siblings (smt-26x2 without threads), lets a shard cross an LLC (llc-2x10 as one
LLC) or gets the spread wrong (one-llc-12 with shards of 4 cores); with one idle
worker too many (JSON).
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from needs import OTHERS, TEST, Boot, Core

from wqlab.ground.places import ROOT
from wqlab.guests.dump import parse_dump, run_drgn
from wqlab.guests.qemu import unfit
from wqlab.guests.scenario import SCOPES, Scenario, format_pods, load_scenario, parse_cpulist
from wqlab.guests.vm import Record
from wqlab.kernels.arch import ARCHES
from wqlab.kernels.builddir import BuildDir

MACHINES = [
    scenario
    for path in sorted((ROOT / "scenarios").glob("*"))
    if (scenario := load_scenario(path)).pods
]

QUICK = "one-llc-12"  # before each commit
# CPUs. Larger machines are for --tier full: KUnit's shards_of_real_machines has the shards of
# their kinds, and setup_of_4096_cpus_is_cheap masks of many words.
LARGE = 44


def machines(values: tuple[object, ...]) -> Iterator[object]:
    """Sets of arguments of a test, with the boot that each needs."""
    for kernel in (TEST, *OTHERS):
        for scenario in MACHINES:
            boot = Boot(scenario.name, "pods", kernel)
            if boot.unfit:
                continue
            name = "-".join(filter(None, [scenario.name, kernel.arch, *map(str, values)]))
            large = [pytest.mark.tier("full")] if scenario.cpus > LARGE or kernel.arch else []
            quick = [pytest.mark.tier("quick")] if scenario.name == QUICK and not large else []
            yield pytest.param(scenario, *values, id=name, marks=[boot.mark, *large, *quick])


each_scope = pytest.mark.parametrize(
    ("scenario", "scope"), [one for scope in SCOPES for one in machines((scope,))]
)
each_machine = pytest.mark.parametrize("scenario", list(machines(())))


def test_machines_that_are_not_to_be_had() -> None:
    """QEMU has no clusters on x86_64 and no LLCs within a socket on arm64."""
    left_out = {
        arch.name: {scenario.name for scenario in MACHINES if unfit(arch, scenario)}
        for arch in ARCHES
    }
    assert left_out == {
        "x86_64": {"clusters-2x16x4", "clusters-5x4"},
        "arm64": {
            *("epyc-11x8x2", "llc-2x10", "llc-4x3x2", "nodes-24x4", "no-l3-4x2"),
            "two-nodes-4x11",
        },
    }


@each_scope
def test_pods_in_memory(record: Record, scenario: Scenario, scope: str) -> None:
    assert record.dump and scope in record.dump.pods, f"the kernel has no scope {scope}"
    assert format_pods(record.dump.pods[scope]) == format_pods(scenario.pods[scope])


@each_scope
def test_strict_workers(record: Record, scenario: Scenario, scope: str) -> None:
    """One pool per pod, and the fallback pool where no pod spans all CPUs already."""
    answer = next(line for line in record.lines if line.startswith(f"pods {scope} "))
    pools = answer.split()[2:]
    assert pools != ["unknown"], f"the kernel has no scope {scope}"
    everywhere = frozenset(range(scenario.cpus))
    want = {*scenario.pods[scope], everywhere}
    assert format_pods(tuple(map(parse_cpulist, pools))) == format_pods(tuple(want))


@each_machine
def test_default_scope(record: Record, scenario: Scenario) -> None:
    """It is the default, and each CPU's work really goes to the pool of its pod in it."""
    assert f"default {scenario.default}" in record.lines
    assert record.dump and record.dump.default == scenario.default
    pods = scenario.pods[scenario.default]
    for cpu, pool in enumerate(record.dump.pool_of["writeback"]):
        assert format_pods((record.dump.pools[pool],)) == format_pods(
            tuple(pod for pod in pods if cpu in pod)
        ), f"CPU {cpu}"


@each_machine
def test_pod_nodes(record: Record, scenario: Scenario) -> None:
    """A pod within a node takes its memory from there."""
    nodes = {cpu: node for node, cpus in enumerate(scenario.nodes) for cpu in cpus}
    for scope in ("cpu", "smt", "cache", "cache_shard", "numa"):
        assert record.dump and scope in record.dump.pods, f"the kernel has no scope {scope}"
        for pod, node in zip(record.dump.pods[scope], record.dump.nodes[scope], strict=True):
            assert {nodes[cpu] for cpu in pod} == {node}, f"{scope} {format_pods((pod,))}"


@pytest.mark.needs(Core("llc-4x3x2", "pods", TEST))
def test_json_has_the_same(made: tuple[BuildDir, Path], tmp_path: Path) -> None:
    """What wq_dump.py prints for people and for scripts."""
    kernel, core = made
    script = kernel.path / "wq_dump.py"
    text = run_drgn(kernel, core, script, tmp_path).output
    words = run_drgn(kernel, core, script, tmp_path, "--json").output
    assert parse_dump(words) == parse_dump(text)
    data = json.loads(words)
    assert data["cpus"] == data["online"] == data["unbound_cpus"] == list(range(24))
    percpu = [pool for pool in data["pools"] if pool["cpu"] is not None]
    assert len(percpu) == text.count("cpu=") and all(
        pool["cpus"] == [pool["cpu"]] for pool in percpu
    )
    for pool in data["pools"]:
        shown = f"nice={pool['nice']:3} idle/workers={pool['idle']:3}/{pool['workers']:3} "
        [line] = re.findall(rf"^pool\[0*{pool['id']}\] .*$", text, re.MULTILINE)
        assert shown in line and f"ref={pool['ref']} " in line.replace("ref= ", "ref=")
    for wq in data["workqueues"]:
        assert wq["active"] <= wq["max_active"] or wq["type"] in ("percpu", "bh")
