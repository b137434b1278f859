# SPDX-License-Identifier: GPL-2.0
"""How KUnit's results are read, by the kernel's own parser.

Seen failing: without the [ERROR] lines of kunit.py, so that a kernel that died half-way passes;
with the lines of a log taken for one document; with kunit.py's "" taken for a case; with User Mode
Linux that isn't told where its files go; and with its log in the folder that it empties.
"""

import os
from pathlib import Path

import pytest
from needs import SOURCE

from wqlab.guests.kunit import Case, Report, Uml, parse, run_uml
from wqlab.kernels.source import Source

pytestmark = pytest.mark.needs(SOURCE)

GOOD = """\
KTAP version 1
1..1
    KTAP version 1
    # Subtest: workqueue
    # module: workqueue
    1..3
    ok 1 one
    # two: not ok 7 said a message
    not ok 2 two
    ok 3 three # SKIP no CPUs
# workqueue: pass:1 fail:1 skip:1 total:3
# Totals: pass:1 fail:1 skip:1 total:3
not ok 1 workqueue
"""
CASES = (
    Case("workqueue", "one", "passed"),
    Case("workqueue", "two", "failed"),
    Case("workqueue", "three", "skipped"),
)
SECOND = """\
KTAP version 1
1..1
    KTAP version 1
    # Subtest: test_workqueue
    1..1
        KTAP version 1
        # Subtest: each_mode
        ok 1 serial
        ok 2 burst
    ok 1 each_mode
ok 1 test_workqueue
"""


def test_every_case_counts_once(made: Source) -> None:
    report = parse(made.repo, GOOD)
    assert report == Report(CASES) and not report.passed
    assert str(report).splitlines() == [
        "passed  workqueue: one",
        "failed  workqueue: two",
        "skipped workqueue: three",
        "1 passed, 1 failed, 1 skipped",
    ]


def test_log_of_a_kernel(made: Source) -> None:
    """With time stamps, carriage returns and what else a kernel says."""
    lines = [f"[    0.{n:06}] {line}\r\n" for n, line in enumerate(GOOD.splitlines())]
    log = "Linux version 6.12\r\n" + "".join(lines) + "[    1.000000] reboot: System halted\r\n"
    assert parse(made.repo, log) == Report(CASES)


def test_suites_one_after_another(made: Source) -> None:
    """As debugfs has them. A case with parameters is one case."""
    second = Case("test_workqueue", "each_mode", "passed")
    assert parse(made.repo, GOOD + SECOND) == Report((*CASES, second))
    failed = SECOND.replace("ok 2 burst", "not ok 2 burst").replace("ok 1 each", "not ok 1 each")
    assert parse(made.repo, failed).cases[0].outcome == "failed"
    assert parse(made.repo, SECOND).passed


@pytest.mark.parametrize("cut", ["not ok 1", "    ok 3", "    not ok 2", "    ok 1"])
def test_lost_cases_are_a_failure(made: Source, cut: str) -> None:
    good = GOOD.replace("not ok", "ok")
    report = parse(made.repo, good[: good.index(cut.replace("not ok", "ok"))])
    assert report.lost and not report.passed
    assert str(report).splitlines()[-2].startswith("failed  lost: ")
    assert all(case.outcome != "failed" for case in report.cases)


def test_lost_suite_is_a_failure(made: Source) -> None:
    good = GOOD.replace("not ok", "ok")
    assert parse(made.repo, good.replace("\n1..1\n", "\n1..2\n")).lost
    assert parse(made.repo, good.replace("1..3", "1..4")).lost
    assert not parse(made.repo, good).lost


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(SECOND[: SECOND.index("        ok 2")], id="cut"),
        pytest.param("KTAP version 1\n1..1\nok 1 another # SKIP\n", id="skipped-suite"),
    ],
)
def test_lost_in_another_document_is_a_failure(made: Source, more: str) -> None:
    report = parse(made.repo, GOOD + more)
    assert report.lost and report.cases[: len(CASES)] == CASES


@pytest.mark.parametrize("text", ["", "Linux version 6.12\n", "KTAP version 1\n1..1\n"])
def test_nothing_is_a_failure(made: Source, text: str) -> None:
    report = parse(made.repo, text)
    assert report.lost and not report.passed and report.cases == ()


# As User Mode Linux: its directory is ~/.uml unless it is told another one.
UML = """\
#!/bin/sh
place=~/.uml
for word; do
	case $word in uml_dir=*) place=${word#*=} ;; esac
done
mkdir -p "$place" && : >"$place/pid" && cat "$0.log"
"""


def test_nothing_is_left_at_home(
    made: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "linux").write_text(UML)
    (tmp_path / "linux").chmod(0o755)
    (tmp_path / "linux.log").write_text(GOOD)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    before = set(os.listdir())
    assert run_uml(Uml(tmp_path, made, True)) == Report(CASES)
    assert not list((tmp_path / "home").iterdir()) and set(os.listdir()) == before


def test_one_that_dies_early(made: Source, tmp_path: Path) -> None:
    """Before it has a name for a folder of its own, User Mode Linux empties the one above."""
    (tmp_path / "linux").write_text("#!/bin/sh\nrm -f ./*\nexit 1\n")
    (tmp_path / "linux").chmod(0o755)
    assert run_uml(Uml(tmp_path, made, True)) == Report((), "no case has reported")
