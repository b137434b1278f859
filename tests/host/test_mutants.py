# SPDX-License-Identifier: GPL-2.0
"""What a diff names, and what is said of mutants.

Seen failing: with a mutant taken for caught because something else failed than what it names, with
errors of wqtorture that are not compared, with a lost kernel that counts for nothing, and with a
first line that is not understood taken for none; with the number of a mutant left out.
"""

from pathlib import Path

import mutants
import pytest
from mutants import Found, Run, check_original, find_diffs, named_run, verdict

from wqlab.ground.problem import Problem, Usage
from wqlab.ground.run import Done
from wqlab.guests.kunit import Case, Report
from wqlab.guests.vm import Record

SURVIVED = Found(Run())


@pytest.mark.parametrize(
    ("first", "run", "flavour"),
    [
        ("Caught by: a_case", Run("a_case"), ""),
        ("Caught by: a_case on nodes-2", Run("a_case", "nodes-2"), "test"),
        ("Caught by: lockdep_complains on single", Run("lockdep_complains", "single"), "debug"),
        ("Caught by: wqtorture on nodes-4: [0-9]+ of 7", Run("wqtorture", "nodes-4", "[0-9]+ of 7"), "test"),
        ("Caught by: tests/boot/test_x.py::test_y[a-1]", Run("tests/boot/test_x.py::test_y[a-1]"), ""),
        ("It is caught by nobody.", None, ""),
    ],
)  # fmt: skip
def test_named_run(tmp_path: Path, first: str, run: Run | None, flavour: str) -> None:
    (tmp_path / "x.diff").write_text(f"{first}\nWhat it does.\n")
    assert named_run(tmp_path / "x.diff") == run
    if run:
        assert f"Caught by: {run}" == first
        assert run.flavour == flavour


@pytest.mark.parametrize(
    ("first", "wrong"),
    [
        ("Caught by", "is none of"),
        ("Caught by: two words", "is none of"),
        ("Caught by: wqtorture", "is none of"),
        ("Caught by: wqtorture on nodes-4", "is none of"),
        ("Caught by: wqtorture: text", "is none of"),
        ("Caught by: a_case on nodes-4: text", "is none of"),
        ("Caught by: wqtorture on nodes-4: [0-9", "unterminated character set"),
        ("Caught by: tests/boot/test_x.py", "is none of"),
        ("Caught by: a_case on no-such", "no machine 'no-such'"),
    ],
)
def test_named_wrongly(tmp_path: Path, first: str, wrong: str) -> None:
    (tmp_path / "x.diff").write_text(f"{first}\n")
    with pytest.raises(Problem, match=f"x.diff.*{wrong}"):
        named_run(tmp_path / "x.diff")


def test_find_diffs(tmp_path: Path) -> None:
    with pytest.raises(Usage, match=r"has no \*.diff"):
        find_diffs(tmp_path)
    for name in ("b.diff", "a.diff", "README"):
        (tmp_path / name).touch()
    assert list(find_diffs(tmp_path)) == ["a", "b"]
    assert find_diffs(tmp_path / "b.diff") == {"b": tmp_path / "b.diff"}


CASE, ELSEWHERE = Run("a_case"), Run("a_case", "nodes-2")
TORTURE = Run("wqtorture", "nodes-4", "had [0-9]+ of 7")


@pytest.mark.parametrize(
    ("named", "runs", "well", "words"),
    [
        (None, [SURVIVED], False, "SURVIVED"),
        (None, [SURVIVED, Found(Run(machine="nodes-2"), ("b",))], True, "caught by b on nodes-2"),
        (None, [Found(Run(), ("a", "b"))], True, "caught by a, b"),
        (None, [Found(Run(), (), "no end")], True, "caught by the kernel did not survive: no end"),
        (CASE, [Found(CASE, ("a_case",))], True, "caught by a_case"),
        (CASE, [Found(CASE)], False, "NOT CAUGHT by a_case, which it names"),
        (
            CASE,
            [Found(CASE, ("a_case_of_another",))],
            False,
            "NOT CAUGHT by a_case, which it names, but by a_case_of_another",
        ),
        (
            CASE,
            [Found(CASE, (), "no end")],
            False,
            "NOT CAUGHT by a_case, which it names, but by the kernel did not survive: no end",
        ),
        (ELSEWHERE, [Found(ELSEWHERE, ("a_case",))], True, "caught by a_case on nodes-2"),
        (
            TORTURE,
            [Found(TORTURE, ("!!! node 1 had 12 of 7 items",))],
            True,
            "caught by !!! node 1 had 12 of 7 items on nodes-4",
        ),
        (
            TORTURE,
            [Found(TORTURE, ("!!! stuck",))],
            False,
            f"NOT CAUGHT by {TORTURE}, which it names, but by !!! stuck on nodes-4",
        ),
    ],
)
def test_verdict(named: Run | None, runs: list[Found], well: bool, words: str) -> None:
    assert verdict(named, runs) == (well, words)


@pytest.mark.parametrize(
    ("said", "status", "well"),
    [
        ("FAILED tests/x.py::test_y[a] - AssertionError\n0 passed, 1 failed, 0 skipped", 1, True),
        ("FAILED tests/x.py::test_yes - AssertionError\n0 passed, 1 failed, 0 skipped", 1, False),
        ("ERROR tests/x.py::test_y[a] - Failed: kernel\n0 passed, 1 failed, 0 skipped", 1, False),
        ("0 passed, 0 failed, 1 skipped", 1, False),
        ("1 passed, 0 failed, 0 skipped", 0, False),
    ],
)
def test_look_by_test(monkeypatch: pytest.MonkeyPatch, said: str, status: int, well: bool) -> None:
    test = Run("tests/x.py::test_y[a]")

    def run(command, **_) -> Done:
        assert {test.case, "--broken=x.diff", "--base=6.12"} < set(command)
        return Done(status, f"{said}\n")

    monkeypatch.setattr(mutants, "run_program", run)
    found = mutants.look_by_test(Path("x.diff"), test, ["--base=6.12"])
    assert verdict(test, [found])[0] == well
    assert bool(found.catcher) == bool(status)


def test_look_by_tests_at_one_of_many(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The diff has them all, and the command line says which. A guest that is lost has caught it, and
    what can't be run has not."""
    run, asked = Run("tests/x.py tests/y.py"), []
    answers = [
        (("tests/y.py::test_z",), ""),
        ((), "ERROR tests/x.py::test_y - Failed: lost in 9.1 s: no verdict in time; 0 passed"),
        ((), "ERROR tests/x.py::test_y - Failed: kernel; 1 error"),
    ]

    def fails(words, where) -> tuple[tuple[str, ...], str]:
        asked.append(words)
        return answers[len(asked) - 1]

    monkeypatch.setattr(mutants, "fails", fails)
    mutant = mutants.Mutant("other", {}, 7)
    found = [mutants.look(Path("all.diff"), mutant, run, tmp_path).catcher for _ in answers]
    broken = ["--broken=all.diff", "--append=wq_mutant=7", "--maxfail=1"]
    assert asked[0] == ["tests/x.py", "tests/y.py", *broken]
    lost = "the kernel did not survive: lost in 9.1 s: no verdict in time"
    assert found == ["tests/y.py::test_z", lost, ""]


def test_original_must_survive() -> None:
    check_original(SURVIVED)
    for found in (Found(Run(), ("a",)), Found(Run(), (), "no end")):
        with pytest.raises(
            Problem, match=r"wq_mutant=0, which breaks nothing, fails: .*(a|no end)"
        ):
            check_original(found)


@pytest.mark.parametrize(
    ("run", "said", "lost", "failed"),
    [
        (Run("bad"), "", "plan not met", ("is_failed",)),
        (Run("bad"), "boot\nWARNING: CPU: 0 at f\n", "plan not met", ("bad",)),
        (Run("bad"), "WARNING: CPU: 0 at f\n", "", ("is_failed",)),
        (Run("lockdep_x"), "WARNING: CPU: 0 at f\n", "plan not met", ("is_failed",)),
    ],
)
def test_run_uml(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    run: Run,
    said: str,
    lost: str,
    failed: tuple[str, ...],
) -> None:
    def run_uml(uml, *, filter: str, append: str, log: Path) -> Report:
        assert (filter, append) == (run.cases, "wq_mutant=3")
        log.write_text(said)
        words = ("passed", "failed", "skipped")
        return Report(tuple(Case("suite", f"is_{word}", word) for word in words), lost)

    monkeypatch.setattr("wqlab.guests.kunit.run_uml", run_uml)
    assert mutants.run_uml(None, 3, run, tmp_path) == Found(run, failed, lost)


KUNIT = ["    ok 1 good", "    not ok 2 bad", "    # worse: not ok 1 said", "not ok 1 workqueue"]
ERRORS = [
    "wqtorture: items=7",
    "wqtorture: !!! node 1 had 12 of 7",
    "wqtorture: !!! node 1 had 12 of 7",
]


@pytest.mark.parametrize(
    ("run", "verdict", "lines", "failed", "lost"),
    [
        (Run("bad", "nodes-2"), "fail", KUNIT, ("bad",), ""),
        (Run("bad", "nodes-2"), "pass", ["    ok 1 good", "ok 1 workqueue"], (), ""),
        (Run("bad", "nodes-2"), "lost", [], (), "why"),
        (Run("lockdep_x", "nodes-2"), "lost", KUNIT, ("bad",), "why"),
        (Run("wqtorture", "nodes-4", "node"), "fail", ERRORS, ("node 1 had 12 of 7",), ""),
        (Run("wqtorture", "nodes-4", "node"), "fail", ERRORS[:1], (), "why"),
        (Run("wqtorture_disturbed", "nodes-2"), "fail", ERRORS, ("node 1 had 12 of 7",), ""),
    ],
)
def test_run_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, run, verdict, lines, failed, lost
) -> None:
    torture = run.case.startswith("wqtorture")
    cases = "*workqueue*" if "lockdep" in run.case else "*workqueue*.bad"

    def boot(kernel, scenario, job, out, options) -> Record:
        assert (kernel, scenario.name, out) == (tmp_path, run.machine, tmp_path / "out")
        assert job == ("torture" if torture else "kunit")
        assert "wq_mutant=3" in options.append.split()
        assert (
            "torture.secs=30" if torture else f"kunit.filter_glob={cases}"
        ) in options.append.split()
        assert ("torture.disturb=" in options.append) == run.case.endswith("disturbed")
        reason = "" if verdict == "pass" else "why"
        return Record(run.machine, job, verdict, reason, 1.0, "tcg", "6.12", [], lines, [], None)

    monkeypatch.setattr("wqlab.guests.vm.boot", boot)
    found = mutants.run_machine(tmp_path, 3, run, tmp_path / "out")
    assert (found.failed, found.lost) == (failed, lost)
