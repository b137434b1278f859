# SPDX-License-Identifier: GPL-2.0
"""tools/workqueue/wq_draw.py: one SVG of a machine.

Seen failing: with pods drawn in the order of CPU numbers, with the last piece of a pod left out, with
all pools shaded alike, and with pools drawn over each other.
"""

import itertools
import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from wqlab.places import ROOT

SCRIPT = ROOT / "tools/workqueue/wq_draw.py"
SVG = "{http://www.w3.org/2000/svg}"
CPUS = list(range(8))
# Threads of a core are N and N + 4; two caches.
SCOPES = {
    "cpu": [[cpu] for cpu in CPUS],
    "smt": [[0, 4], [1, 5], [2, 6], [3, 7]],
    "cache_shard": [[0, 4], [1, 5], [2, 3, 6, 7]],
    "cache": [[0, 1, 4, 5], [2, 3, 6, 7]],
    "numa": [CPUS],
    "odd": [[0, 2], [1, 3, 4, 5, 6, 7]],
}


def pool(number: int, cpus: list[int], ref: int = 5) -> dict[str, object]:
    return {"id": number, "cpu": None, "ref": ref, "nice": 0, "workers": 2, "pod_cpus": cpus}


DUMP = {
    "cpus": CPUS,
    "online": CPUS[:-1],
    "unbound_cpus": CPUS[1:],
    "scopes": {
        name: {"default": name == "cache_shard", "pods": [{"cpus": pod, "node": 0} for pod in pods]}
        for name, pods in SCOPES.items()
    },
    "pools": [
        {**pool(0, [0]), "cpu": 0},
        pool(20, [0, 1, 4, 5]),
        pool(21, [2, 3, 6, 7]),
        pool(22, CPUS),
        pool(23, CPUS, ref=1),
    ],
    "workqueues": [],
}


def draw(tmp_path: Path, *files: object) -> subprocess.CompletedProcess[str]:
    names = []
    for number, data in enumerate(files):
        path = tmp_path / f"{number}.json"
        path.write_text(data if isinstance(data, str) else json.dumps(data))
        names.append(path)
    return subprocess.run(
        [sys.executable, SCRIPT, *names],
        check=False,
        text=True,
        capture_output=True,
        timeout=60,
    )


def boxes(svg: str) -> list[tuple[str, int, int, int, str]]:
    """Title, first column, number of columns, row and fill of each box."""
    found = []
    for group in ET.fromstring(svg).iter(f"{SVG}g"):
        title, rect = group.findtext(f"{SVG}title"), group.find(f"{SVG}rect")
        assert title is not None and rect is not None
        x, y, width = (int(rect.attrib[name]) for name in ("x", "y", "width"))
        found.append((title, (x - 110) // 18, width // 18, y, rect.attrib["fill"]))
    return found


def test_pods_are_drawn_over_their_cpus(tmp_path: Path) -> None:
    done = draw(tmp_path, DUMP)
    assert done.returncode == 0, done.stderr
    drawn = boxes(done.stdout)
    # in the order of cores: 0 4 1 5 2 6 3 7
    shards = [box[1:3] for box in drawn if box[0].startswith("cache_shard pod")]
    assert shards == [(0, 2), (2, 2), (4, 4)]
    odd = [(box[0].split(":")[0], *box[1:3]) for box in drawn if box[0].startswith("odd")]
    assert odd == [
        ("odd pod 0", 0, 1), ("odd pod 1", 1, 3), ("odd pod 0", 4, 1), ("odd pod 1", 5, 3),
    ]  # fmt: skip
    assert "cache_shard pod 2: CPUs 2-3,6-7, node 0" in [box[0] for box in drawn]
    neighbours = [box[4] for box in drawn if box[0].startswith("cpu pod")]
    assert all(a != b for a, b in itertools.pairwise(neighbours))


def test_texts(tmp_path: Path) -> None:
    texts = list(ET.fromstring(draw(tmp_path, DUMP).stdout).iter(f"{SVG}text"))
    bold = [text.text for text in texts if text.get("font-weight") == "bold"]
    crossed = [text.text for text in texts if text.get("text-decoration") == "line-through"]
    assert (bold, crossed) == (["cache_shard"], ["7"])
    assert "(0)" in [text.text for text in texts]


def test_pools_are_shaded(tmp_path: Path) -> None:
    """Those that one workqueue uses are left out, and those of a CPU."""
    locks = [("pool 20", 10), ("pool 21", 90), ("writeback active_lock", 99), ("pool 9", 5)]
    shares = {"locks": [{"lock": name, "samples": 100, "waited": n} for name, n in locks]}
    done = draw(tmp_path, DUMP, shares)
    drawn = {box[0].split(",")[0]: box for box in boxes(done.stdout) if box[0].startswith("pool ")}
    assert sorted(drawn) == ["pool 20", "pool 21", "pool 22"]
    assert drawn["pool 20"][3] == drawn["pool 21"][3] < drawn["pool 22"][3]
    assert drawn["pool 21"][4] < drawn["pool 20"][4] < drawn["pool 22"][4] == "#ffffff"
    assert "90.00% of samples" in done.stdout and ">21: 90.0%<" in done.stdout


def test_many_cpus_stay_readable(tmp_path: Path) -> None:
    cpus = list(range(256))
    scopes = {"cache": {"default": True, "pods": [{"cpus": cpus, "node": 0}]}}
    done = draw(tmp_path, {**DUMP, "cpus": cpus, "scopes": scopes})
    svg = ET.fromstring(done.stdout)
    assert int(svg.attrib["width"]) < 3000
    numbers = [text for text in svg.iter(f"{SVG}text") if text.get("transform")]
    assert len(numbers) == 256


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (["{"], "0.json: "),
        ([[]], 'has no "cpus"'),
        ([{"cpus": []}], 'has no "online"'),
        ([DUMP, {}], '1.json has no "locks"'),
    ],
)
def test_wrong_input(tmp_path: Path, files: list[object], words: str) -> None:
    done = draw(tmp_path, *files)
    assert done.returncode == 1 and not done.stdout
    assert words in done.stderr and len(done.stderr.splitlines()) == 1
