# SPDX-License-Identifier: GPL-2.0
"""Scenario files, the rule for shards, and what is read from wq_dump.py.

Seen failing: with i * n // c rounded up instead (off by one in the spread),
with LLCs, siblings or clusters ignored in shard(), with words of a mask in the wrong
order, and with a scenario whose shards cross an LLC.
"""

from itertools import pairwise
from pathlib import Path

import pytest
import sharding
from each import each_holds
from sharding import shard

from wqlab.ground.places import ROOT
from wqlab.guests.dump import parse_dump
from wqlab.guests.scenario import (
    SCOPES,
    Pods,
    TopologyError,
    format_cpulist,
    format_pods,
    load_scenario,
    parse_cpulist,
)

SCENARIOS = sorted((ROOT / "scenarios").glob("*.toml"))
DUMP = (ROOT / "tests/data/wq_dump-two-nodes-4x11.log").read_text()


def pods(*cpulists: str) -> Pods:
    return tuple(parse_cpulist(item) for item in cpulists)


def same_pods(left: Pods, right: Pods) -> bool:
    """Whether both have the same pods, however they are numbered."""
    return sorted(map(sorted, left)) == sorted(map(sorted, right))


@pytest.mark.parametrize("text", ["0", "0-3", "0,2,4", "0-3,8-11,64"])
def test_cpulist(text: str) -> None:
    assert format_cpulist(parse_cpulist(text)) == text


@pytest.mark.parametrize("text", ["", "3-1", "a", "1-", "-1", "0,,1", "0 1"])
def test_bad_cpulist(text: str) -> None:
    with pytest.raises(TopologyError, match="is not a list of CPUs"):
        parse_cpulist(text)


def test_scenario_is_consistent() -> None:
    each_holds(SCENARIOS, check_consistency)


def check_consistency(path: Path) -> None:
    """Nodes and every scope's pods have each CPU once; a scope never splits what is within it."""
    scenario = load_scenario(path)
    everything = sorted(range(scenario.cpus))
    assert sorted(cpu for node in scenario.nodes for cpu in node) == everything
    assert scenario.memory % len(scenario.memory_nodes) == 0
    assert scenario.memoryless <= set(range(len(scenario.nodes)))
    if not scenario.pods:
        return
    assert tuple(scenario.pods) == SCOPES
    assert scenario.default in SCOPES
    for scope, pods in scenario.pods.items():
        assert sorted(cpu for pod in pods for cpu in pod) == everything, scope
    for inner, outer in pairwise(("cpu", "smt", "cache_shard", "cache", "numa", "system")):
        for pod in scenario.pods[inner]:
            assert [o for o in scenario.pods[outer] if pod <= o], f"{inner} {format_cpulist(pod)}"


def test_scenario_matches_its_machine() -> None:
    each_holds(SCENARIOS, check_machine)


def check_machine(path: Path) -> None:
    """QEMU numbers siblings next to each other, and gives each die an LLC or, without L3, each core."""
    scenario = load_scenario(path)
    if not scenario.pods:
        return
    cores, threads = scenario.smp["clusters"] * scenario.smp["cores"], scenario.smp["threads"]
    for scope, each in (
        ("cpu", 1),
        ("smt", threads),
        ("cache", cores * threads if scenario.l3 else threads),
        ("system", scenario.cpus),
    ):
        want = [range(first, first + each) for first in range(0, scenario.cpus, each)]
        assert same_pods(scenario.pods[scope], tuple(map(frozenset, want))), scope
    assert same_pods(scenario.pods["numa"], scenario.nodes)


def test_scenario_shards_obey_the_rule() -> None:
    each_holds(SCENARIOS, check_shards)


def check_shards(path: Path) -> None:
    scenario = load_scenario(path)
    if scenario.pods:
        assert format_pods(scenario.pods["cache_shard"]) == format_pods(
            sharding.shards(scenario, sharding.shard_size(scenario))
        )


@pytest.mark.parametrize(
    ("cores", "size", "sizes"),
    [
        (12, 8, [6, 6]),
        (11, 8, [6, 5]),
        (10, 8, [10]),
        (26, 8, [9, 9, 8]),
        (72, 8, [8] * 9),
        (1, 8, [1]),
        (3, 1, [1, 1, 1]),
        (3, 2, [2, 1]),  # means 3 and 1.5 are 1 and 0.5 away
        (4, 3, [4]),  # means 4 and 2 are both 1 away: fewer shards
        (5, 4096, [5]),
    ],
)
def test_rule(cores: int, size: int, sizes: list[int]) -> None:
    everything = (frozenset(range(cores)),)
    each = tuple(frozenset([cpu]) for cpu in range(cores))
    assert [len(pod) for pod in shard(everything, everything, each, size)] == sizes


@pytest.mark.parametrize(
    ("clusters", "sizes"),
    [
        (["0-5", "6-9", "10-13"], [6, 8]),  # 7 is nearer to 6 than to 10
        (["0-3", "4-7", "8-13"], [8, 6]),
        (["0-3", "4-9", "10-13"], [10, 4]),  # 4 and 10 are as near
        (["0-8", "9-13"], [7, 7]),  # a cluster larger than a shard is split
        (["0-6", "7-13"], [7, 7]),
    ],
)
def test_rule_keeps_clusters(clusters: list[str], sizes: list[int]) -> None:
    everything = (frozenset(range(14)),)
    each = tuple(frozenset([cpu]) for cpu in range(14))
    shards = shard(everything, everything, each, 8, pods(*clusters))
    assert [len(pod) for pod in shards] == sizes


def test_rule_keeps_siblings_llcs_and_nodes() -> None:
    """Siblings at N/2, and an LLC over two nodes."""
    smt = tuple(frozenset([core, core + 24]) for core in range(24))
    shards = shard(pods("0-47"), pods("0-11,24-35", "12-23,36-47"), smt, 8)
    assert format_pods(shards) == ["0-5,24-29", "6-11,30-35", "12-17,36-41", "18-23,42-47"]


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("memory", "memories", "no 'memory'"),
        ("threads = 1", "thread = 1", "no 'threads'"),
        ("timeout = ", 'timeout = "x" #', "invalid literal"),
        ("cache =", "cash =", '"cash" is not an affinity scope'),
        ('"0-11"', '"0-x"', '"0-x" is not a list of CPUs'),
        ("timeout = ", "memoryless = [0]\ntimeout = ", "no node has memory"),
        ("each = 1", "each = 0", "pods are a list"),
        ("each = 1", "eech = 1", "pods are a list"),
        ("[pods]", "[pods", "Expected"),
    ],
)
def test_bad_scenario(tmp_path: Path, old: str, new: str, error: str) -> None:
    """One line that names the file."""
    text = (ROOT / "scenarios/one-llc-12.toml").read_text()
    assert old in text
    path = tmp_path / "bad.toml"
    path.write_text(text.replace(old, new))
    with pytest.raises(TopologyError, match=error) as caught:
        load_scenario(path)
    assert str(path) in str(caught.value)


def test_dump() -> None:
    """A log of 6.12 on two nodes of two LLCs, without its per-CPU pools and workqueues."""
    dump = parse_dump(DUMP)
    machine = load_scenario(ROOT / "scenarios/two-nodes-4x11.toml")
    assert dump.default == "cache"
    assert list(dump.pods) == [scope for scope in SCOPES if scope != "cache_shard"]
    for scope, found in dump.pods.items():
        assert found == machine.pods[scope], scope
    assert dump.nodes["cache"] == (0, 0, 1, 1)
    row = dump.pool_of["writeback"]
    assert len(row) == 44
    assert [dump.pools[row[cpu]] for cpu in (0, 11, 22, 43)] == list(machine.pods["cache"])


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (" (default)", "", "0 default scopes"),
        ("SYSTEM\n", "SYSTEM (default)\n", "2 default scopes"),
        ("nr_pods  4\n", "nr_pods  5\n", "has 4 pods, but nr_pods is 5"),
        ("[43]=3", "[43]=2", "CPU 43 is not in its pod 2"),
        ("pool[", "pond[", "no unbound pools"),
    ],
)
def test_bad_dump(old: str, new: str, error: str) -> None:
    assert old in DUMP
    with pytest.raises(TopologyError, match=error):
        parse_dump(DUMP.replace(old, new))


@pytest.mark.parametrize("text", ["", DUMP[:2000], "Affinity Scopes\n==="])
def test_truncated_dump(text: str) -> None:
    with pytest.raises(TopologyError):
        parse_dump(text)
