# SPDX-License-Identifier: GPL-2.0
"""How KUnit's results are counted.

Seen failing: with a count that does not know the plan, so that a kernel that died half-way
passes, and with one that takes the suite's own line for a case.
"""

import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"
GOOD = """\
KTAP version 1
1..1
    KTAP version 1
    # Subtest: workqueue
    1..3
    ok 1 one
    # two: not ok 7 said a message
    not ok 2 two
    ok 3 three # SKIP no CPUs
not ok 1 workqueue
"""


def count(tmp_path: Path, text: str | None) -> list[str]:
    log, lines = tmp_path / "log", tmp_path / "tally"
    if text is not None:
        log.write_text(text)
    lines.touch()
    command = f'. "{SCRIPTS}/tally.sh"; tally_ktap where "{log}"'
    subprocess.run(
        ["bash", "-euc", command],
        env={"WQ_TALLY": str(lines), "PATH": "/usr/bin:/bin"},
        check=True,
        timeout=20,
        stdout=subprocess.DEVNULL,
    )
    return lines.read_text().splitlines()


def test_every_case_counts_once(tmp_path: Path) -> None:
    assert count(tmp_path, GOOD) == [
        "passed where: one",
        "failed where: two",
        "skipped where: three",
    ]


@pytest.mark.parametrize("cut", ["    ok 3", "    not ok 2", "    ok 1"])
def test_lost_cases_are_a_failure(tmp_path: Path, cut: str) -> None:
    lines = count(tmp_path, GOOD[: GOOD.index(cut)])
    assert lines[-1].startswith("failed where: lost")


@pytest.mark.parametrize("text", [None, "", "Linux version 6.12\n"])
def test_nothing_is_a_failure(tmp_path: Path, text: str | None) -> None:
    assert [line.split()[0] for line in count(tmp_path, text)] == ["failed"]
