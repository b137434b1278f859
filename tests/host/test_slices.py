# SPDX-License-Identifier: GPL-2.0
"""Slices, with stand-ins for what they run: what is chosen, counted, gone on from and recorded.

Seen failing: with a slice chosen that takes too long, with another one for the same commit, with one
chosen in a tarball within a git tree; with the counts of the slice, its status or that of all left
out; with a slice run again that had passed, with one not run again that had failed or passed at
another commit; with rows recorded of a tree with changes, of one that changed meanwhile and of what
was interrupted; with signals that are not handed on; with ARCH, base, SLICE and MAKEFLAGS not as they
should be; with a KSRC; with a row that is always of this series, or of another one when a mail is
reworded; with a table changed by hand, and one that is not written; with a slice left out of
slices.toml; and without the call in conftest.py.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import slices
from fake_kernel import write

from wqlab.ground.git import git
from wqlab.ground.places import ROOT
from wqlab.ground.problem import Usage
from wqlab.kernels.arch import find_arch

SLICES = """
["one"]
base = "7.3"
pytest = "tests/one -k 'a b'"
minutes = 3
["two"]
arch = "arm64"
pytest = "tests/two"
minutes = 15
["long"]
make = "bench QUICK=1"
minutes = 16
"""
# Notes its words, and does what a file named like the last of the test's words says.
PYTEST = """#!/bin/bash
echo "pytest $* ARCH=${ARCH-} SLICE=${SLICE-}" >>"$LOG"
counts=$(sed -n 's/.*--counts //p' <<<"$*")
[[ ! -e wait || $* != *tests/two* ]] || { trap 'echo ended >>"$LOG"; exit 2' INT; touch waits
	while :; do sleep 0.1; done; }
[[ ! -e touch || $* != *tests/one* ]] || touch changed
echo -n "3 passed, 0 failed, 1 skipped" >"$counts"
[[ ! -e fail || $* != *tests/two* ]] || { echo -n "2 passed, 1 failed, 0 skipped" >"$counts"; exit 1; }
"""
MAKEFILE = 'bench:\n\techo "make $(QUICK) $(BASE) $(SIZES)" >>"$$LOG"\n\ttest ! -e fail\n'
PAGE = "Before.\n\n<!-- proofs -->\n<!-- /proofs -->\n\nAfter.\n"
IGNORED = "/build/\n/wait*\n/touch\n/fail\n/log\n"
TIER, ONE, TWO, LONG = "--tier test", "tests/one", "tests/two", "make"


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A made-up project that is all committed."""
    top = tmp_path / "top"
    files = {
        "tests/slices.toml": SLICES,
        "scripts/pytest": PYTEST,
        "Makefile": MAKEFILE,
        **dict.fromkeys(slices.TABLES, PAGE),
        ".gitignore": IGNORED,
        "patches/7.3/0001-x.patch": "x\n---\n1 file\n\ndiff --git a/x b/x\n+one\n",
        "patches/6.12/0001-x.patch": "x\n---\n1 file\n\ndiff --git a/x b/x\n+one\n",
    }
    for name, text in files.items():
        write(top / name, text)
    (top / "scripts/pytest").chmod(0o755)
    git(top, "init", "-q")
    commit(top)
    monkeypatch.setenv("LOG", str(top / "log"))
    for name in ("ARCH", "SLICE"):
        monkeypatch.delenv(name, raising=False)
    return top


def commit(top: Path, subject: str = "x") -> str:
    git(top, "add", "-A")
    git(top, "commit", "-q", "--allow-empty", "-m", subject)
    return git(top, "rev-parse", "HEAD")


def ran(top: Path) -> list[str]:
    """What was run since the last call: a word of each."""
    log = top / "log"
    found = log.read_text().splitlines() if log.is_file() else []
    log.unlink(missing_ok=True)
    return [next(word for word in (TIER, ONE, TWO, LONG) if word in line) for line in found]


def full(top: Path) -> int | None:
    return slices.instead(["--tier", "full"], top)


def recorded(top: Path) -> dict[str, dict]:
    path = top / slices.RECORD
    return {row["slice"]: row for row in json.loads(path.read_text())} if path.exists() else {}


# --- make test ----------------------------------------------------------------------------------


def test_commit_chooses_one_that_fits(top: Path, capfd: pytest.CaptureFixture) -> None:
    seen = set()
    for number in range(8):
        head = commit(top, f"x{number}")
        name, path = (("one", ONE), ("two", TWO))[int(head, 16) % 2]
        assert slices.instead([], top) == 0
        assert ran(top) == [TIER, path]
        out, err = capfd.readouterr()
        told = f"slice: {name}, chosen by commit {head[:12]}"
        assert told in err and out.startswith(told)
        assert out.splitlines()[-1] == "6 passed, 0 failed, 2 skipped"
        seen.add(name)
    assert seen == {"one", "two"}


@pytest.mark.parametrize(
    ("name", "run"), [("none", [TIER]), ("one", [TIER, ONE]), ("long", [TIER, LONG])]
)
def test_chosen_by_name(
    top: Path, monkeypatch: pytest.MonkeyPatch, name: str, run: list[str]
) -> None:
    monkeypatch.setenv("SLICE", name)
    assert slices.instead([], top) == 0
    assert ran(top) == run
    monkeypatch.setenv("SLICE", "other")
    with pytest.raises(Usage, match="no slice 'other': it is one of one, two, long"):
        slices.instead([], top)


def test_tarball(top: Path, capfd: pytest.CaptureFixture) -> None:
    """Unpacked in a git tree, too."""
    (top / ".git").rename(top.parent / ".git")
    assert slices.instead([], top) == 0
    assert ran(top) == [TIER]
    out, _ = capfd.readouterr()
    assert out.startswith("slice: none, as there is no commit")
    assert full(top) == 0 and not recorded(top)


def test_failure_of_the_slice_counts(
    top: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    write(top / "fail", "")
    for name, counts in (("two", "5 passed, 1 failed, 1 skipped"), ("long", "3 passed, 1 failed")):
        monkeypatch.setenv("SLICE", name)
        assert slices.instead(["--tier", "test"], top) == 1
        assert capfd.readouterr().out.splitlines()[-1].startswith(counts)


def test_words(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a slice, what it says itself comes first; what make was given is none of its business."""
    monkeypatch.setenv("MAKEFLAGS", " -- SIZES=9")
    assert slices.instead(["--base", "6.18", "--tier=full"], top) == 0
    one, two, make = (top / "log").read_text().splitlines()
    assert "tests/one -k a b --base 7.3 --counts" in one and one.endswith("ARCH= SLICE=")
    assert "tests/two --base 6.18 --counts" in two and two.endswith("ARCH=arm64 SLICE=")
    assert make == "make 1 6.18 "
    kernels = {name: (row["base"], row["arch"]) for name, row in recorded(top).items()}
    here = find_arch().name
    assert kernels == {"one": ("7.3", here), "two": ("6.18", "arm64"), "long": ("6.18", here)}


@pytest.mark.parametrize(
    "words", [["--tier", "quick"], ["tests/host"], ["-q"], ["--ksrc", "/k"], ["--counts", "f"]]
)
def test_other_words_are_for_pytest(top: Path, words: list[str]) -> None:
    assert slices.instead(words, top) is None and not ran(top)


def pytest_of_ours(*words: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", *words]
    env = os.environ | env
    return subprocess.run(
        command, env=env, cwd=ROOT, check=False, capture_output=True, text=True, timeout=60
    )


def test_pytest_has_it_run() -> None:
    done = pytest_of_ours("--tier", "full", SLICE="other")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "there is no slice 'other'" in done.stderr


def test_counts(tmp_path: Path) -> None:
    done = pytest_of_ours("tests/host/test_places.py", "--counts", tmp_path / "counts")
    assert done.stdout.splitlines()[-1] == (tmp_path / "counts").read_text()
    assert "passed, 0 failed" in done.stdout.splitlines()[-1]


# --- make test-full -----------------------------------------------------------------------------


def test_full_goes_on(top: Path, capfd: pytest.CaptureFixture) -> None:
    write(top / "fail", "")
    head = git(top, "rev-parse", "HEAD")
    assert full(top) == 1 and ran(top) == [ONE, TWO, LONG]
    out, err = capfd.readouterr()
    assert out.splitlines()[-1] == "5 passed, 2 failed, 1 skipped"
    assert "slice: one. left: one, two, long; about 34 min" in err
    assert err.rstrip().endswith("left: two, long; about 31 min")
    rows = recorded(top)
    assert {row["commit"] for row in rows.values()} == {head}
    counts = [[row[word] for word in ("passed", "failed", "skipped")] for row in rows.values()]
    assert sorted(counts) == [[0, 1, 0], [2, 1, 0], [3, 0, 1]]

    (top / "fail").unlink()
    assert full(top) == 0 and ran(top) == [TWO, LONG]
    out, err = capfd.readouterr()
    assert out.splitlines()[-1] == "7 passed, 0 failed, 2 skipped" and "left: nothing" in err
    assert full(top) == 0 and not ran(top)
    assert not [row for row in recorded(top).values() if row["failed"]]
    changed = git(top, "status", "--porcelain").split()[1::2]
    assert sorted(changed) == sorted([*slices.TABLES, "results/"])

    commit(top)
    assert full(top) == 0 and ran(top) == [ONE, TWO, LONG]


@pytest.mark.parametrize("change", ["new", "code", "document"])
def test_changes_are_not_recorded(top: Path, change: str, capfd: pytest.CaptureFixture) -> None:
    name = {"new": "file", "code": "Makefile", "document": "README.md"}[change]
    path = top / name
    path.write_text((path.read_text() if path.exists() else "") + "\n# more\n")
    for _ in range(2):
        assert full(top) == 0 and ran(top) == [ONE, TWO, LONG] and not recorded(top)
        assert "not recorded: the tree has changes" in capfd.readouterr().err


def test_change_meanwhile_is_not_recorded(top: Path) -> None:
    write(top / "touch", "")
    assert full(top) == 0 and ran(top) == [ONE, TWO, LONG] and not recorded(top)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted(top: Path, number: int) -> None:
    """What ended before is kept, what runs ends, and the rest is left."""
    write(top / "wait", "")
    call = "import sys, slices, pathlib; top = pathlib.Path(sys.argv[1])"
    call += "; sys.exit(slices.instead(['--tier', 'full'], top))"
    with subprocess.Popen(
        [sys.executable, "-c", call, top],
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT}/tests/proof"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        try:
            deadline = time.monotonic() + 60
            while not (top / "waits").exists():
                assert time.monotonic() < deadline and program.poll() is None
                time.sleep(0.05)
            program.send_signal(number)
            out, err = program.communicate(timeout=30)
        finally:
            program.kill()  # what it has started ends with it
    assert program.returncode == 128 + number
    assert "left: two, long; about 31 min" in err.splitlines()[-1]
    assert out.splitlines()[-1] == "3 passed, 1 failed, 1 skipped"
    assert list(recorded(top)) == ["one"]
    assert ("ended" in (top / "log").read_text()) == (number == signal.SIGINT)
    (top / "log").unlink()
    (top / "wait").unlink()
    assert full(top) == 0 and ran(top) == [TWO, LONG]


def test_one_of_all(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLICE", "two")
    assert full(top) == 0 and list(recorded(top)) == ["two"]
    assert (top / "log").read_text().endswith("ARCH=arm64 SLICE=\n") and ran(top) == [TWO]


# --- tables -------------------------------------------------------------------------------------


def test_tables_follow_the_record_and_the_series(top: Path) -> None:
    assert full(top) == 0
    readme, long = ((top / name).read_text() for name in ("README.md", "CONTRIBUTING.md"))
    assert readme.startswith("Before.\n") and readme.endswith("\n\nAfter.\n")
    assert "| 7.3 | one |  |  |\n" in readme and "older series |  |" not in readme
    row = recorded(top)["one"]
    line = f"| one | 3 | 7.3 | 3, 0, 1 | {row['commit'][:12]}, {row['date']} |"
    assert line in long and "of an older series |" not in long

    patch = top / "patches/7.3/0001-x.patch"
    patch.write_text(patch.read_text().replace("1 file", "1 file, in other words"))
    assert slices.tables(top)["README.md"] == readme
    patch.write_text(patch.read_text().replace("+one", "+two"))
    found = slices.tables(top)
    assert "| 7.3 |  | one |  |\n" in found["README.md"]
    assert f"{line[:-2]}, of an older series |" in found["CONTRIBUTING.md"]
    assert found["CONTRIBUTING.md"].count("of an older series") == 1

    write(top / "fail", "")
    git(top, "checkout", "-q", "patches")
    commit(top)
    assert full(top) == 1
    assert "| 6.12, arm64 |  |  | two |\n" in (top / "README.md").read_text()


@pytest.mark.parametrize("name", slices.TABLES)
def test_tables_are_up_to_date(name: str) -> None:
    text = (ROOT / name).read_text()
    assert text == slices.tables(ROOT)[name], (
        "PYTHONPATH=. python3 tests/proof/slices.py makes the tables anew"
    )
    assert slices.MADE.search(text), "there are no marks where the table goes"


# --- slices.toml --------------------------------------------------------------------------------


def collected(*words: str) -> set[str]:
    done = pytest_of_ours("--collect-only", "-q", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return {line for line in done.stdout.splitlines() if "::" in line}


@pytest.mark.tier("test")
def test_slices_have_all_tests() -> None:
    """And each has some."""
    listed = [one for one in slices.load_slices(ROOT) if one.pytest]
    assert len([one for one in listed if one.minutes <= slices.FITS]) > 2
    tests = {
        one: collected(*shlex.split(one.pytest), *(["--base", one.base] if one.base else []))
        for one in listed
    }
    assert all(tests.values())
    ours = [names for one, names in tests.items() if not (one.base or one.arch)]
    assert collected("--tier", "full") == set().union(*ours)
