# SPDX-License-Identifier: GPL-2.0
"""Full disks, read-only trees, no home, odd folders and terminals: one line says what is wrong, and nothing is
left half done.

"Broken on purpose" names the breaks with which a test has been seen to fail.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import made_results
import pytest
from fake_kernel import NEW_FILE, Project, snapshot, write

from wqlab.results.file import save

# A name space of mounts of its own, where a test is root; only it sees what is mounted.
PRIVATE = ["unshare", "-Urm"]
FULL = """\
mkdir -p "$1" && mount -t tmpfs -o size="$2" tmpfs "$1" && cd "$1" || exit 99
shift 2
"$@"
status=$?
find . -mindepth 1 >&2
exit $status
"""
READ_ONLY = """\
mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" || exit 99
shift
exec "$@"
"""
# enough for some steps of scripts/apply, and too little for the others
SIZES = (4, 12, 20, 28, 44, 60, 100, 200)  # KiB


def run(project: Project, *command: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=project.env(**env), cwd=project.tmp, text=True, capture_output=True,
        check=False, timeout=60,
    )  # fmt: skip


def private(
    project: Project, script: str, *words: str | Path, **env: str
) -> subprocess.CompletedProcess[str]:
    if run(project, *PRIVATE, "mount", "-t", "tmpfs", "tmpfs", "/mnt").returncode:
        pytest.skip("no name space of mounts can be made here")
    done = run(project, *PRIVATE, "sh", "-c", script, "sh", *words, **env)
    assert done.returncode != 99, done.stderr
    return done


def sources(project: Project) -> dict[str, Path]:
    """A kernel source of each kind."""
    found = {name: project.tmp / name for name in ("git", "unpacked", "linux.tar.gz")}
    project.git(project.tmp, "clone", "-q", project.base, "git")
    shutil.copytree(found["git"], found["unpacked"], ignore=shutil.ignore_patterns(".git"))
    subprocess.run(
        ["tar", "-C", project.tmp, "-czf", found["linux.tar.gz"], "unpacked"], check=True
    )
    return found


def one_line(done: subprocess.CompletedProcess[str], text: str) -> None:
    """It failed with one line, which says this; the others are of progress."""
    lines = [line for line in done.stderr.splitlines() if not line.startswith("[")]
    assert done.returncode == 1 and done.stdout == "", done
    assert len(lines) == 1 and "error: " in lines[0] and text in lines[0], done.stderr


# Broken on purpose: what git says on stderr; the folder of DEST left; no line of the log.
@pytest.mark.parametrize("kind", ["git", "unpacked", "linux.tar.gz"])
def test_apply_to_a_full_disk(project: Project, kind: str) -> None:
    ksrc = sources(project)[kind]
    before, apply = snapshot(project.tmp), project.top / "scripts/apply"
    small, failed = project.tmp / "small", []
    small.mkdir()
    for size in SIZES:
        done = private(project, FULL, small, f"{size}k", apply, ksrc, f"in/{size}")
        if done.returncode:
            one_line(done, "nothing was changed")
            failed.append(done.stderr)
    if kind == "git":
        for folder in ("refs/heads/", "worktrees"):
            made = [path.name for path in (ksrc / ".git" / folder).iterdir()]
            assert len(made) - ("linux" in made) == len(SIZES) - len(failed)
    else:
        small.rmdir()
        assert snapshot(project.tmp) == before
    assert len(failed) > 1 and any("full?" in line for line in failed)


# Broken on purpose: no look at the room.
def test_apply_without_room_to_try(project: Project) -> None:
    for ksrc in sources(project).values():
        apply = [project.top / "scripts/apply", "--check", ksrc]
        done = private(project, FULL, project.tmp / "small", "64k", "env", "TMPDIR=.", *apply)
        one_line(done, "no room for 16 MiB")
        done = run(project, *apply, TMPDIR="/nowhere")
        one_line(done, "/nowhere: name another directory, TMPDIR=")


# Broken on purpose: modes kept; and where what was copied is removed.
def test_apply_of_a_source_that_cannot_be_written(project: Project) -> None:
    ksrc = sources(project)["unpacked"]
    subprocess.run(["chmod", "-R", "a-w", ksrc], check=True)
    nobody = ["unshare", "-U", "--map-user=1000"]
    if run(project, *nobody, "true").returncode:
        pytest.skip("no name space of users can be made here")
    dest = project.tmp / "dest"
    # root itself may write
    done = run(project, *nobody, project.top / "scripts/apply", ksrc, dest)
    assert done.returncode == 0, done.stderr
    assert project.git(dest, "status", "--porcelain") == "" and (dest / NEW_FILE).exists()
    path = project.shim("cp", '"$REAL" "$@"; [[ $1 != -a ]] || { echo "cp: halfway"; exit 1; }')
    apply = project.top / "scripts/apply"
    done = run(project, *nobody, apply, ksrc, project.tmp / "other", PATH=path)
    one_line(done, "cp: halfway")
    assert not (project.tmp / "other").exists()


# Broken on purpose: what git and mkdir say on stderr.
def test_apply_on_a_read_only_file_system(project: Project) -> None:
    found, apply = sources(project), project.top / "scripts/apply"
    before = snapshot(found["git"])
    done = private(project, READ_ONLY, found["git"], apply, "--check", found["git"])
    assert (done.returncode, done.stdout) == (0, "applies\n"), done.stderr
    done = private(project, READ_ONLY, found["git"], apply, found["git"], project.tmp / "dest")
    one_line(done, "a branch cannot be made in ")
    assert snapshot(found["git"]) == before and not (project.tmp / "dest").exists()
    for ksrc in found.values():
        done = private(project, READ_ONLY, project.top, apply, ksrc)
        one_line(done, "cannot be made: give another DEST")
    done = private(project, READ_ONLY, project.top, apply, found["unpacked"], project.tmp / "dest")
    assert done.returncode == 0, done.stderr


# Broken on purpose: the part left; the error without a name.
@pytest.mark.parametrize("words", [["-o", "in/out"], ["--keep", "kept.json"]])
def test_report_to_a_full_disk(project: Project, words: list[str]) -> None:
    save(made_results.results({"stock": 1.0, "patched": 2.0}), project.tmp / "it.json")
    report = [project.tmp.joinpath("lab"), "report", project.tmp / "it.json", *words]
    write(report[0], f'#!/bin/sh\nexec {sys.executable} -m wqlab "$@"\n')
    report[0].chmod(0o755)
    done = private(project, FULL, project.tmp / "small", "8k", *report, PYTHONPATH=str(project.top))
    left = {"./in"} if "-o" in words else set()
    lines = [line for line in done.stderr.splitlines() if line not in left]
    assert (done.returncode, done.stdout, len(lines)) == (1, "", 1), done
    assert "cannot be written: No space left on device" in lines[0]


# Broken on purpose: the name None.
def test_full_terminal(project: Project) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [project.top / "scripts/wqlab", "doctor"],
            env=project.env(), stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "wqlab doctor: error: No space left on device\n")


# Broken on purpose: the raw error of mkdir.
def test_cache_that_cannot_be_made(project: Project) -> None:
    done = run(project, project.top / "scripts/setup", XDG_CACHE_HOME="/proc/cache")
    one_line(done, "nothing can be written to the cache, /proc/cache/unbound-workqueue")


# Broken on purpose: $HOME as it is; a relative cache taken.
@pytest.mark.parametrize("words", [["-u", "HOME"], ["XDG_CACHE_HOME=here"], ["HOME="]])
def test_no_home(project: Project, words: list[str]) -> None:
    ksrc = sources(project)["git"]
    without = ["env", "-u", "XDG_CACHE_HOME", *words]
    done = run(project, *without, project.top / "scripts/wqlab", "--version")
    assert (done.returncode, done.stderr) == (0, "")
    done = run(project, *without, project.top / "scripts/apply", "--check", ksrc)
    assert (done.returncode, done.stdout) == (0, "applies\n"), done.stderr
    script = f'. {project.top}/scripts/common.sh; echo "$HOME $CACHE"'
    home, cache = run(project, *without, "bash", "-c", script).stdout[:-1].split(" ")
    assert cache == f"{home}/.cache/unbound-workqueue" and (home or "HOME=" in words)
    assert not (project.tmp / "here").exists()


# Broken on purpose: without -P.
@pytest.mark.parametrize("script", ["wqlab", "series", "audit"])
def test_nothing_is_taken_from_where_it_is_called(project: Project, script: str) -> None:
    for name in ("json.py", "wqlab/__init__.py", "series/__init__.py", "audit/__init__.py"):
        write(project.tmp / name, "raise SystemExit('not ours')\n")
    shutil.copytree(Path(__file__).parents[2] / "audit", project.top / "audit")
    done = project.run(script, "--help")
    assert done.returncode == 0 and "not ours" not in done.stderr and "usage" in done.stdout


ASCII = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}


# Broken on purpose: strict errors on stdout; a file in the encoding of the locale.
def test_terminal_that_knows_ascii_alone(project: Project) -> None:
    results = made_results.results({"stock": 1.0, "patched": 2.0})
    results.machines[0] = made_results.replace(results.machines[0], cpu_model="Prozessor µ")
    save(results, project.tmp / "it.json")
    done = project.lab("report", "--csv", "it.json", **ASCII)
    assert done.returncode == 0 and ",Prozessor ?," in done.stdout, done.stderr
    done = project.lab("report", "-o", "out", "it.json", **ASCII)
    assert done.returncode == 0, done.stderr
    for name in ("results.json", "index.html", "report.txt"):
        assert "Prozessor µ" in (project.tmp / "out" / name).read_text(encoding="utf-8")
