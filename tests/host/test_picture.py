# SPDX-License-Identifier: GPL-2.0
"""The picture of a machine, from what wq_dump.py has printed of one.

Seen failing: with CPUs in the order of their numbers, with neighbours in the same colour, with the
share of one pool shown at another, and with text drawn that does not fit.
"""

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from wqlab.ground.places import ROOT
from wqlab.ground.problem import Problem
from wqlab.guests.dump import Dump, parse_dump
from wqlab.guests.scenario import Pods
from wqlab.report import picture
from wqlab.report.canvas import SVG

LOG = ROOT / "tests/data/wq_dump-two-nodes-4x11.log"


def apart(size: int, cpus: int) -> Pods:
    """Pods of so many cores, whose siblings are numbered half the machine apart."""
    half = cpus // 2
    return tuple(
        frozenset(start + i + sibling for i in range(size) for sibling in (0, half))
        for start in range(0, half, size)
    )


def machine(cpus: int) -> Dump:
    pods = {
        "smt": apart(1, cpus),
        "cache": apart(16, cpus),
        "cache_shard": apart(8, cpus),
        "numa": apart(cpus // 4, cpus),
        "system": (frozenset(range(cpus)),),
    }
    pools = {cpu: 100 + i for i, pod in enumerate(pods["cache_shard"]) for cpu in pod}
    return Dump("cache_shard", pods, {}, {}, {"writeback": tuple(pools[c] for c in range(cpus))})


def words(svg: str) -> list[str]:
    return [text.text or "" for text in ET.fromstring(svg).iter(f"{{{SVG}}}text")]


def test_of_a_dump() -> None:
    said = words(picture.draw(parse_dump(LOG.read_text()), None, "writeback"))
    assert said.count("numa") == said.count("cache *") == said.count("smt") == 1
    assert {"0: 0-21", "1: 22-43", "0: 0-10", "1: 11-21", "pool 181", "pool 185"} <= set(said)


@pytest.mark.parametrize("cpus", [128, 256])
def test_large(cpus: int) -> None:
    """Each shard, core and pool is named, and how often its lock was waited for."""
    dump = machine(cpus)
    said = words(picture.draw(dump, {101: 0.3}, "writeback"))
    for number, pod in enumerate(dump.pods["cache_shard"]):
        first = min(pod)
        half = first + cpus // 2
        assert f"{number}: {first}-{first + 7},{half}-{half + 7}" in said
        assert f"pool {100 + number} {30 if number == 1 else 0}%" in said
    assert [said.count(str(core)) >= 1 for core in range(cpus // 2)] == [True] * (cpus // 2)


def test_siblings_are_side_by_side() -> None:
    dump = machine(128)
    cpus = picture.order(dump, {})
    assert cpus[:4] == [0, 64, 1, 65]
    for name in picture.SCOPES:
        pieces = [pod for pod, *_ in picture.spans(cpus, dump.pods[name])]
        assert pieces == list(range(len(dump.pods[name])))


def test_what_cpus_share() -> None:
    """Clusters that no scope has are drawn, and CPUs are put in their order."""
    clusters = tuple(frozenset((first, first + 4)) for first in range(4))
    groups = {"node": [list(range(8))], "cluster": [sorted(group) for group in clusters]}
    shared = picture.levels(json.dumps({"shared": groups | {"new": [[0]]}}))
    assert shared == {"Node": (frozenset(range(8)),), "Cluster": clusters}
    dump = Dump("system", {"system": (frozenset(range(8)),)}, {}, {}, {"writeback": (1,) * 8})
    assert picture.order(dump, shared) == [0, 4, 1, 5, 2, 6, 3, 7]
    said = words(picture.draw(dump, None, "writeback", shared))
    assert {"Node", "Cluster", "0: 0-7", "3,7"} <= set(said)
    assert not {"LLC", "Core"} & set(said)
    for wrong in ("", "{}", '{"shared": 1}'):
        with pytest.raises(Problem, match=r"^this is not what wq_verify.py --json has printed$"):
            picture.levels(wrong)


def test_neighbours_differ() -> None:
    dump = machine(128)
    svg = picture.draw(dump, None, "writeback")
    fills = [fill for fill in picture.FILLS if fill in svg]
    assert len(fills) == len(picture.FILLS)
    shades = [sum(int(fill[i : i + 2], 16) for i in (1, 3, 5)) for fill in fills]
    assert all(a != b for a, b in zip(shades, shades[1:] + shades[:1], strict=True))


def test_what_does_not_fit_is_left_out() -> None:
    said = words(picture.draw(parse_dump(LOG.read_text()), None, "writeback"))
    assert "9" in said and "41" not in said  # of cores


def test_shares() -> None:
    locks = [
        {"lock": "pool 7", "waited": 3, "samples": 12},
        {"lock": "writeback node 0", "waited": 1, "samples": 12},
    ]
    assert picture.shares(json.dumps({"locks": locks})) == {7: 0.25}
    for wrong in ("", "{}", '{"locks": [{"lock": "pool 1"}]}'):
        with pytest.raises(
            Problem, match=r"^this is not what wq_contention.py --json has printed$"
        ):
            picture.shares(wrong)


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        ([LOG, "--workqueue", "none"], 2, "no unbound workqueue 'none'"),
        ([ROOT / "README.md"], 1, "dump: "),
        ([LOG.with_name("missing")], 2, "missing"),
    ],
)
def test_bad_input(words: list[str | Path], status: int, says: str, tmp_path: Path) -> None:
    out = tmp_path / "out.svg"
    done = subprocess.run(
        [sys.executable, "-m", "wqlab", "report", "--pods", *words, "-o", out],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
    )
    assert done.returncode == status and says in done.stderr and not out.exists()
