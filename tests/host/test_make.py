# SPDX-License-Identifier: GPL-2.0
"""make: what each target runs, and what `make clean` leaves.

Seen failing: with ARCH exported as x86_64, with KSRC not given to one of the targets, with a
value that is not quoted or whose quotes are not, with QUICK=0 as QUICK=1, with a target that is not in the help; and make clean: with `rm -rf
build`, with has_work, a stash or another branch not looked at, with build/apply removed and
a path that is not quoted.
"""

import os
import re
import subprocess

import pytest
from fake_kernel import Project, write

BUILDING = ["bench", "sim", "test", "test-quick", "test-full", "check", "each", "tree"]


def make(project: Project, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    # a make that runs this test says what it was given itself
    outer = {"ARCH", "MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "BASE", "KSRC"} - env.keys()
    base = {k: v for k, v in project.env(**env).items() if k not in outer}
    return subprocess.run(
        ["make", "-C", project.top, "--no-print-directory", *words],
        env=base | env,
        text=True,
        capture_output=True,
        check=False,
        timeout=60,
    )


def calls(project: Project, *words: str) -> list[str]:
    """What make runs: the script, its words one by one, and ARCH, as stand-ins for the scripts
    note it."""
    log = project.tmp / "log"
    for name in ("wqlab", "series", "pytest"):
        path = project.top / "scripts" / name
        write(path, f'#!/bin/bash\nprintf "%s\\n" {name} "$@" "ARCH=${{ARCH-}}" >>{log}\n')
        path.chmod(0o755)
    log.unlink(missing_ok=True)
    done = make(project, *words)
    assert done.returncode == 0, done.stderr
    return log.read_text().splitlines()


@pytest.mark.parametrize("target", BUILDING)
def test_all_that_builds_takes_a_source_of_yours(project: Project, target: str) -> None:
    words = calls(project, target, """KSRC=/k/it's my "tree", `a`;#b""", "BASE=7.3")
    assert words[words.index("--ksrc") + 1] == """/k/it's my "tree", `a`;#b"""
    assert words[words.index("--base") + 1] == "7.3"
    assert not {"--ksrc", "--base"} & set(calls(project, target))


@pytest.mark.parametrize("target", [*BUILDING, "local", "report"])
def test_architecture_is_the_machines(project: Project, target: str) -> None:
    assert calls(project, target)[-1] == "ARCH="
    assert calls(project, target, "ARCH=arm64")[-1] == "ARCH=arm64"


@pytest.mark.parametrize(
    ("words", "run"),
    [
        (["bench", "QUICK=1", "SIZES=1,2"], ["wqlab", "bench", "--quick", "--sizes", "1,2"]),
        (["local", "QUICK=1"], ["wqlab", "local", "--quick"]),
        (["local", "WATCH=30"], ["wqlab", "local", "--watch", "30"]),
        (["test"], ["pytest"]),
        (["test-quick"], ["pytest", "--tier", "quick"]),
        (["test-full"], ["pytest", "--tier", "full"]),
        (["each"], ["pytest", "tests/patches", "--tier", "full"]),
        (["report", "FILES=a.json it's.json"], ["wqlab", "report", "a.json", "it's.json"]),
        (["local", "QUICK=0", "WATCH="], ["wqlab", "local"]),
        (
            ["sim", "MACHINE=it's", "SIZES=1'2"],
            ["wqlab", "sim", "--sizes", "1'2", "--machine", "it's"],
        ),
        (["doctor"], ["wqlab", "doctor"]),
        (["tree", "BASE=7.3"], ["series", "tree", "--base", "7.3"]),
        (["refresh", "BASE=7.3"], ["series", "refresh", "--base", "7.3"]),
        (["clean"], ["series", "clean"]),
    ],
)
def test_targets(project: Project, words: list[str], run: list[str]) -> None:
    assert calls(project, *words) == [*run, "ARCH="]


def test_report_finds_what_was_measured(project: Project) -> None:
    for name in ("build/bench.json", "local/6.12.1.json", "local/7.0.json"):
        write(project.top / name, "")
    words = calls(project, "report")[2:-1]
    assert words == ["build/bench.json", "local/6.12.1.json", "local/7.0.json"]


def test_help_names_every_target(project: Project) -> None:
    text = (project.top / "Makefile").read_text()
    (listed,) = re.findall(r"^\.PHONY: ((?:.*\\\n)*.*)", text, re.MULTILINE)
    shown = make(project).stdout
    assert set(listed.replace("\\", "").split()) - {"help"} == set(
        re.findall(r"^make (\S+)", shown, re.MULTILINE)
    )


# --- make clean ----------------------------------------------------------------------------


def clean(project: Project) -> list[str]:
    """What it says that it keeps."""
    done = make(project, "clean")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return re.findall(r"kept: ([^,]*),", done.stderr)


def test_clean_removes_what_is_derived(project: Project) -> None:
    assert project.series("tree").returncode == 0
    write(project.top / "build/bench.json", "{}")
    write(project.top / "build/.hidden/x", "")
    write(project.top / "build/tree/6.12.part/half", "")
    write(project.top / "local/6.12.json", "{}")
    assert clean(project) == []
    assert not (project.top / "build").exists()
    assert (project.top / "local/6.12.json").exists()
    assert clean(project) == []


@pytest.mark.parametrize("work", ["dirty", "commit", "stash", "branch", "other"])
def test_clean_keeps_work(project: Project, work: str) -> None:
    tree = project.tree
    if work == "other":
        write(tree / "notes", "mine")
    else:
        assert project.series("tree").returncode == 0
        write(tree / "Kbuild", "mine\n")
    if work == "commit":
        project.git(tree, "commit", "-qam", "mine")
    elif work == "stash":
        project.git(tree, "stash")
    elif work == "branch":
        project.git(tree, "checkout", "-qb", "mine")
        project.git(tree, "commit", "-qam", "mine")
        project.git(tree, "checkout", "-q", "series")
    write(project.top / "build/bench.json", "{}")
    write(project.top / "build/tree/6.1/x", "")
    before = sorted(path for path in tree.rglob("*") if path.is_file())
    assert clean(project) == ["build/tree/6.1", "build/tree/6.12"]
    assert sorted(path for path in tree.rglob("*") if path.is_file()) == before
    assert os.listdir(project.top / "build") == ["tree"]


@pytest.mark.parametrize("kind", ["git", "unpacked"])
def test_clean_keeps_what_apply_made(project: Project, kind: str) -> None:
    ksrc = project.tmp / "it's a tree"
    project.git(project.tmp, "clone", "-q", project.base, ksrc)
    if kind == "unpacked":
        subprocess.run(["rm", "-rf", ksrc / ".git"], check=True)
    assert project.run("apply", ksrc).returncode == 0
    done = make(project, "clean")
    dest = project.top / "build/apply" / ksrc.name
    assert (dest / "Kbuild").exists() and f"kept: build/apply/{ksrc.name}," in done.stderr
    command = done.stderr.rpartition("to remove it: ")[2]
    subprocess.run(command, shell=True, check=True, env=project.env())
    assert not dest.exists()
    if kind == "git":
        assert len(project.git(ksrc, "worktree", "list").splitlines()) == 1
    assert clean(project) == [] and not (project.top / "build").exists()


def test_clean_that_cannot_tell_removes_nothing(project: Project) -> None:
    assert project.series("tree").returncode == 0
    write(project.top / "build/bench.json", "{}")
    path = project.shim("git", '[[ " $* " != *" status "* ]] || exit 1; exec "$REAL" "$@"')
    done = make(project, "clean", PATH=path)
    assert done.returncode != 0 and "git cannot tell the state" in done.stderr
    assert (project.top / "build/bench.json").exists() and project.tree.exists()
