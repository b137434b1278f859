# SPDX-License-Identifier: GPL-2.0
"""What a fleet runs on machines of its own: guest/jobs/ktap, and fleet/*.yaml for LAVA.

Seen failing: with tests called by the names of their modules; with a definition without steps, and
with a format that LAVA doesn't know.
"""

import subprocess
from pathlib import Path

import pytest
from needs import TEST, Boot

from wqlab.ground.places import ROOT
from wqlab.guests.vm import Record

PYTHON = "/usr/bin/python3"  # that of the distribution, which has LAVA's packages
VALIDATE = """
import sys, yaml
from lava_common.schemas.test.testdef import validate
validate(yaml.safe_load(open(sys.argv[1])))
"""


@pytest.mark.needs(Boot("nodes-1", "ktap", TEST, "SECS=5 ITEMS=200", timeout=300))
def test_ktap(record: Record) -> None:
    results = [line for line in record.lines if not line.startswith("#")]
    assert results == ["KTAP version 1", "1..2", "ok 1 torture", "ok 2 benchmark"]
    scopes = [line for line in record.lines if " items_per_sec=" in line]
    assert len(scopes) == 6 and all(line.startswith("# test_workqueue: scope=") for line in scopes)
    assert record.verdict == "pass"


@pytest.mark.needs(Boot("nodes-1", "ktap", TEST, "MODULES=/none", timeout=300))
def test_modules_are_missing(record: Record) -> None:
    assert record.lines == [
        "KTAP version 1",
        "1..2",
        "ok 1 torture # SKIP there is no module wqtorture",
        "ok 2 benchmark # SKIP there is no module test_workqueue",
    ]


@pytest.mark.needs(Boot("nodes-1", "ktap", TEST, "ITEMS=0 TESTS=benchmark", timeout=300))
def test_failure_is_told(made: Record) -> None:
    *_, reason, result = made.lines
    assert reason.startswith("# test_workqueue cannot be loaded: ")
    assert result == "not ok 1 benchmark"
    assert made.verdict == "fail"


@pytest.mark.tier("quick")
@pytest.mark.parametrize(
    "definition", sorted((ROOT / "fleet").glob("*.yaml")), ids=lambda p: p.stem
)
def test_definition_is_valid(definition: Path) -> None:
    """By LAVA's own schema."""
    known = subprocess.run(
        [PYTHON, "-c", "import lava_common, voluptuous"], capture_output=True, check=False
    )
    if known.returncode:
        pytest.skip("no LAVA here (lava-common, python3-voluptuous) to check its definition with")
    done = subprocess.run(
        [PYTHON, "-c", VALIDATE, definition],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert not done.returncode, done.stderr
