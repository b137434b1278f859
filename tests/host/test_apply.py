# SPDX-License-Identifier: GPL-2.0
"""scripts/apply: the series on a kernel source of a user's.

"Broken on purpose" names the breaks of the script with which a test has been seen to fail.
"""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from fake_kernel import (
    BASE,
    NEW_FILE,
    ODD_CONFIG,
    OLDER,
    ROOT,
    Project,
    add_form,
    add_parts,
    lines,
    odd_home,
    snapshot,
    write,
)

SCRIPTS = ["apply", "setup"]
BRANCH = f"unbound-workqueue-{BASE}"


@pytest.fixture
def ksrc(project: Project) -> Path:
    """A user's git tree, with a branch, a stash of ignored files and an identity of its own."""
    path = project.tmp / "ksrc"
    project.git(project.tmp, "clone", "-q", project.base, path)
    project.git(path, "branch", "mine")
    write(path / "vmlinux.o", "built\n")
    return path


@pytest.fixture
def source(project: Project) -> Path:
    """An unpacked source."""
    path = project.tmp / "linux-6.12.117"
    shutil.copytree(project.base, path, ignore=shutil.ignore_patterns(".git"))
    return path


def misfit(tree: Path) -> None:
    """A tree that the first patch fits and the second does not."""
    write(tree / "kernel/workqueue.c", lines("wq", {13: "elsewhere\n", 14: "elsewhere\n"}))


def state(project: Project, tree: Path) -> dict[str, str]:
    """What a user sees of a tree: all but the object store and the logs."""
    asked = {
        "refs": project.git(tree, "for-each-ref"),
        "head": project.git(tree, "symbolic-ref", "HEAD"),
        "worktrees": project.git(tree, "worktree", "list"),
        "status": project.git(tree, "--no-optional-locks", "status", "--porcelain", "--ignored"),
    }
    hidden = (".git/objects", ".git/logs", ".git/worktrees", ".git/refs")
    return asked | {k: v for k, v in snapshot(tree).items() if not k.startswith(hidden)}


def subjects(project: Project, tree: Path) -> list[str]:
    return project.git(tree, "log", "--reverse", "--format=%s", "base..HEAD").splitlines()


# Broken on purpose: `git am` run in KSRC instead of in DEST.
def test_git_tree_gets_branch_and_work_tree(project: Project, ksrc: Path) -> None:
    before = state(project, ksrc)
    dest = project.tmp / "dest"
    done = project.run("apply", ksrc, dest)
    assert (done.returncode, done.stdout) == (0, f"{dest}\n"), done.stderr

    assert len(subjects(project, dest)) == 3
    assert (dest / NEW_FILE).read_text() == "int a;\nint c;\n"
    assert project.git(dest, "symbolic-ref", "--short", "HEAD") == BRANCH
    assert project.git(dest, "status", "--porcelain") == ""
    assert project.git(dest, "rev-parse", "HEAD~3") == project.git(ksrc, "rev-parse", "HEAD")

    project.git(ksrc, "worktree", "remove", dest)
    project.git(ksrc, "branch", "-D", BRANCH)
    assert state(project, ksrc) == before


# Broken on purpose: the name always taken for free.
def test_taken_branch_name_gets_a_number(project: Project, ksrc: Path) -> None:
    for number, name in enumerate((BRANCH, f"{BRANCH}-2", f"{BRANCH}-3")):
        done = project.run("apply", ksrc, project.tmp / f"dest{number}")
        assert done.returncode == 0, done.stderr
        assert project.git(ksrc, "rev-parse", "--verify", name)


# Broken on purpose: DEST beside KSRC.
def test_default_dest_is_in_the_build_directory(project: Project, ksrc: Path) -> None:
    done = project.run("apply", "ksrc")
    assert done.stdout == f"{project.top}/build/apply/ksrc\n", done.stderr


# Broken on purpose: git's "patch failed: FILE:LINE" not understood.
@pytest.mark.parametrize("args", [(), ("--check",)])
@pytest.mark.parametrize("kind", ["git", "unpacked"])
def test_misfit_names_patch_and_file(
    project: Project, ksrc: Path, source: Path, kind: str, args: tuple[str, ...]
) -> None:
    tree = ksrc if kind == "git" else source
    misfit(tree)
    if kind == "git":
        project.git(tree, "commit", "-qam", "elsewhere")
    before = snapshot(tree)
    dest = project.tmp / "dest"
    done = project.run("apply", *args, tree, dest)
    assert done.returncode == 1 and bool(done.stdout) == bool(args)
    assert "error: 0001" in done.stderr or "error: 0002" in done.stderr
    assert ".patch does not apply" in done.stderr
    assert "on: kernel/workqueue.c;" in done.stderr
    assert snapshot(tree) == before
    assert not dest.exists()


# Broken on purpose: only "patch failed" looked for in what git says.
@pytest.mark.parametrize(
    ("name", "patch"), [(NEW_FILE, "0002"), ("lib/Kconfig.debug", "0003")], ids=["there", "gone"]
)
def test_misfit_by_file_there_or_gone(
    project: Project, source: Path, name: str, patch: str
) -> None:
    if name == NEW_FILE:
        write(source / name, "int other;\n")
    else:
        (source / name).unlink()
    done = project.run("apply", "--check", source)
    assert done.returncode == 1
    assert f"error: {patch}" in done.stderr and f"on: {name};" in done.stderr


# Broken on purpose: the trial's objects written to KSRC's store.
@pytest.mark.parametrize("kind", ["git", "unpacked"])
def test_check_changes_nothing(project: Project, ksrc: Path, source: Path, kind: str) -> None:
    tree = ksrc if kind == "git" else source
    os.utime(tree / "Kbuild")
    before = snapshot(tree)
    done = project.run("apply", "--check", tree)
    assert (done.returncode, done.stdout) == (0, "applies\n"), done.stderr
    assert snapshot(tree) == before
    assert not (project.top / "build").exists()


# Broken on purpose: patches taken off in their own order instead of from the last.
@pytest.mark.parametrize("kind", ["git", "unpacked"])
def test_applied_already(project: Project, ksrc: Path, source: Path, kind: str) -> None:
    project.git(ksrc, "am", "-q", *sorted(project.patches.glob("*.patch")))
    tree = ksrc
    if kind == "unpacked":
        shutil.rmtree(ksrc / ".git")
    before = snapshot(tree)
    done = project.run("apply", "--check", tree)
    assert (done.returncode, done.stdout) == (0, "is applied already\n"), done.stderr
    dest = project.tmp / "dest"
    done = project.run("apply", tree, dest)
    assert (done.returncode, done.stdout) == (0, "")
    assert "applied already" in done.stderr
    assert snapshot(tree) == before and not dest.exists()


# Broken on purpose: only a whole series looked for; only the first patches looked for; --rest takes
# all of them, or is not needed.
@pytest.mark.parametrize("there", [(1,), (1, 2), (1, 3)])
def test_partly_applied_says_which(project: Project, ksrc: Path, there: tuple[int, ...]) -> None:
    patches = sorted(project.patches.glob("*.patch"))
    if there == (1, 3):
        # Two independent patches, the later of which somebody took alone.
        project.git(ksrc, "am", "-q", patches[0])
        write(ksrc / "lib/Kconfig.debug", lines("kconfig", {40: "four\n"}))
        project.git(ksrc, "commit", "-qam", "workqueue: Four")
        project.git(ksrc, "format-patch", "-q", "-1", "--start-number=4", "-o", project.patches)
        patches = sorted(project.patches.glob("*.patch"))
        there = (1, 4)
    else:
        project.git(ksrc, "am", "-q", *patches[: len(there)])
    before = snapshot(ksrc)
    done = project.run("apply", ksrc, project.tmp / "dest")
    assert (done.returncode, done.stdout) == (1, "")
    names = " ".join(patches[n - 1].name for n in there)
    assert f"already: {names}\n" in done.stderr
    assert f"{len(there)} of {len(patches)} patches" in done.stderr and "--rest" in done.stderr
    assert snapshot(ksrc) == before and not (project.tmp / "dest").exists()
    done = project.run("apply", "--rest", "--check", ksrc)
    assert done.returncode == 0 and done.stdout.endswith("\napplies\n")
    done = project.run("apply", "--rest", ksrc, project.tmp / "dest")
    assert done.returncode == 0, done.stderr
    left = project.git(
        project.tmp / "dest", "log", "--format=%s", f"{project.git(ksrc, 'rev-parse', 'HEAD')}.."
    )
    assert len(left.splitlines()) == len(patches) - len(there)
    assert (project.tmp / "dest" / NEW_FILE).read_text() == "int a;\nint c;\n"


# Broken on purpose: a directory inside a repository taken for the top of one.
@pytest.mark.parametrize("enclosed", [False, True])
def test_unpacked_source_is_copied(project: Project, source: Path, enclosed: bool) -> None:
    if enclosed:
        project.git(project.tmp, "init", "-q")
    write(source / ".gitignore", "*.o\n/*\n")  # as in Debian's source
    before = snapshot(source)
    dest = project.tmp / "dest"
    done = project.run("apply", source, dest)
    assert (done.returncode, done.stdout) == (0, f"{dest}\n"), done.stderr
    assert snapshot(source) == before
    assert len(subjects(project, dest)) == 3
    assert project.git(dest, "rev-list", "--count", "base") == "1"
    assert "Kbuild" in project.git(dest, "ls-tree", "--name-only", "base").splitlines()
    assert (dest / NEW_FILE).exists()


# Broken on purpose: no --strip-components; the name with .tar in DEST; tar's warnings, of a time
# to come and of an odd keyword, taken for errors.
@pytest.mark.parametrize("packed", ["tar", "tar.gz", "tar.xz"])
def test_tarball(project: Project, source: Path, packed: str) -> None:
    tarball = project.tmp / f"{source.name}.{packed}"
    write(source / "drivers/kernel/workqueue.c", "another one\n")
    os.utime(source / "Makefile", (4e9, 4e9))
    odd = ["--format=pax", "--pax-option=odd.keyword:=1"]
    subprocess.run(["tar", *odd, "-C", project.tmp, "-caf", tarball, source.name], check=True)
    done = project.run("apply", "--check", tarball)
    assert (done.returncode, done.stdout) == (0, "applies\n"), done.stderr
    done = project.run("apply", tarball)
    dest = project.top / "build/apply" / source.name
    assert (done.returncode, done.stdout) == (0, f"{dest}\n"), done.stderr
    assert subjects(project, dest)[0] == "workqueue: One"
    project.git(dest, "checkout", "-q", "base")
    shutil.rmtree(dest / ".git")
    assert snapshot(dest) == snapshot(source)


# Broken on purpose: .git copied, so that the branch and the tag are those that it has.
@pytest.mark.parametrize("kind", ["tarball", "tarball of a work tree", "broken"])
def test_git_of_a_copy_is_left_out(project: Project, ksrc: Path, kind: str) -> None:
    tree = ksrc
    if kind == "broken":
        project.git(project.tmp, "init", "-q")
        (ksrc / ".git/HEAD").unlink()
    elif kind != "tarball":
        tree = project.tmp / "work"
        project.git(ksrc, "worktree", "add", "-q", tree)
    before = snapshot(ksrc)
    if kind != "broken":
        tarball = project.tmp / "packed.tar"
        subprocess.run(["tar", "-C", project.tmp, "-cf", tarball, tree.name], check=True)
        tree = tarball
    dest = project.tmp / "dest"
    done = project.run("apply", tree, dest)
    assert (done.returncode, done.stdout) == (0, f"{dest}\n"), done.stderr
    assert snapshot(ksrc) == before
    assert project.git(dest, "symbolic-ref", "--short", "HEAD") == BRANCH
    assert project.git(dest, "for-each-ref", "--format=%(refname:short)") == f"{BRANCH}\nbase"
    assert len(subjects(project, dest)) == 3


# Broken on purpose: what `git commit` returns not minded.
def test_failing_base_commit_leaves_no_trace(project: Project, source: Path) -> None:
    body = '[[ " $* " != *" commit "* ]] || { "$REAL" "$@"; echo no more >&2; exit 1; }'
    path = project.shim("git", f'{body}; exec "$REAL" "$@"')
    done = project.run("apply", source, project.tmp / "dest", PATH=path)
    assert done.returncode == 1 and "the source cannot be committed: no more;" in done.stderr
    assert not (project.tmp / "dest").exists()


def run_in(
    project: Project, where: Path, *words: str | Path, **more: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=where, env=project.env(**more), text=True, capture_output=True, check=False,
        timeout=60,
    )  # fmt: skip


# Broken on purpose: the patches read in the repository around, where git passes over what is
# not below; DIR taken for one beside DEST.
@pytest.mark.parametrize("words", [(), ("--series", "../theirs")])
def test_called_in_a_subdirectory(project: Project, ksrc: Path, words: tuple[str, ...]) -> None:
    shutil.copytree(project.patches, ksrc / "theirs")
    dest = project.tmp / "dest"
    apply = project.top / "scripts/apply"
    done = run_in(project, ksrc / "lib", apply, *words, "..", "../../dest")
    assert (done.returncode, done.stdout) == (0, f"{dest}\n"), done.stderr
    assert len(subjects(project, dest)) == 3


# Broken on purpose: CDPATH minded, by each of both.
@pytest.mark.parametrize("words", [("scripts/apply", "--check", "../ksrc"), (".ci/run",)])
def test_cdpath_leads_nowhere_else(project: Project, ksrc: Path, words: tuple[str, ...]) -> None:
    shutil.copytree(ROOT / ".ci", project.top / ".ci")
    write(project.top / "Makefile", "test:\n\t@pwd\n")
    other = project.tmp / "other"
    (other / words[0]).mkdir(parents=True)
    done = run_in(project, project.top, *words, CDPATH=str(other))
    said = f"{project.top}\n" if words == (".ci/run",) else "applies\n"
    assert (done.returncode, done.stdout) == (0, said), done.stderr


# Broken on purpose: `=` taken for part of the name; -- an option; what follows it one.
def test_options_as_others_have_them(project: Project, ksrc: Path) -> None:
    odd = ksrc.rename(project.tmp / '--it\'s "k"')
    for words in (["--base=6.12", "--check", "--", odd.name], ["--check", "--base=6.12", odd]):
        done = project.run("apply", *words)
        assert (done.returncode, done.stdout) == (0, "applies\n"), done.stderr
    done = project.run("apply", "--parts=1,1", "--series=nowhere", "--", odd.name, "a 'b'")
    assert done.returncode == 1 and "there are no patches in nowhere" in done.stderr
    dest = project.tmp / "a 'b'"
    done = project.run("apply", "--", odd.name, dest.name)
    assert (done.returncode, done.stdout) == (0, f"{dest}\n"), done.stderr


# Broken on purpose: no word about them; with --check, none.
def test_uncommitted_changes_stay_out(project: Project, ksrc: Path) -> None:
    misfit(ksrc)
    write(ksrc / "Kbuild", "staged\n")
    project.git(ksrc, "add", "Kbuild")
    before = state(project, ksrc)
    dest = project.tmp / "dest"
    done = project.run("apply", "--check", ksrc)
    assert done.stdout == "applies\n" and "uncommitted changes" in done.stderr
    done = project.run("apply", ksrc, dest)
    assert done.returncode == 0, done.stderr
    assert "uncommitted changes" in done.stderr
    assert (dest / "Kbuild").read_text() == "# Kbuild\n"
    after = state(project, ksrc)
    assert {k for k in before if before[k] != after[k]} == {"refs", "worktrees"}


# Broken on purpose: the settings of git_env, or git's attributes and ignore files, left out.
@pytest.mark.parametrize("kind", ["git", "unpacked"])
def test_odd_configuration_has_no_influence(
    project: Project, ksrc: Path, source: Path, kind: str
) -> None:
    tree = ksrc if kind == "git" else source
    plain = project.run("apply", tree, project.tmp / "plain")
    assert plain.returncode == 0, plain.stderr
    odd_home(project.tmp / "home")
    if kind == "git":
        with (ksrc / ".git/config").open("a") as config:
            config.write(ODD_CONFIG)
    odd = project.run(
        "apply", tree, project.tmp / "odd", GIT_AUTHOR_NAME="X", GIT_DIR="/nonexistent"
    )
    assert odd.returncode == 0, odd.stderr
    ids = [project.git(project.tmp / name, "rev-parse", "HEAD") for name in ("plain", "odd")]
    assert ids[0] == ids[1]
    assert project.git(project.tmp / "odd", "ls-files", "Kbuild") == "Kbuild"
    assert b"\r" not in (project.tmp / "odd/Makefile").read_bytes()


def hinder_am(project: Project, how: str) -> str:
    """A PATH where `git am` adds a patch and then fails, or hangs."""
    return project.shim(
        "git", f'if [[ " $* " == *" am -q "* ]]; then "$REAL" "$@"; {how}; fi; exec "$REAL" "$@"'
    )


# Broken on purpose: the branch left behind; an empty DEST not given back.
@pytest.mark.parametrize("kind", ["git", "unpacked"])
@pytest.mark.parametrize("dest_there", [False, True])
def test_failing_am_leaves_no_trace(
    project: Project, ksrc: Path, source: Path, kind: str, dest_there: bool
) -> None:
    tree = ksrc if kind == "git" else source
    dest = project.tmp / "dest"
    if dest_there:
        dest.mkdir()
    before = state(project, tree) if kind == "git" else snapshot(tree)
    done = project.run("apply", tree, dest, PATH=hinder_am(project, "exit 1"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "git am failed" in done.stderr
    assert (state(project, tree) if kind == "git" else snapshot(tree)) == before
    assert not (tree / ".git/worktrees").exists()
    assert dest.exists() == dest_there and (not dest_there or not any(dest.iterdir()))


# Broken on purpose: DEST not looked up; no rmdir named.
@pytest.mark.parametrize("left", ["all", "nothing", "an empty folder"])
def test_dest_that_git_knows_already(project: Project, ksrc: Path, left: str) -> None:
    dest = project.tmp / "my dest"
    assert project.run("apply", ksrc, dest).returncode == 0
    if left != "all":
        shutil.rmtree(dest)
    if left == "an empty folder":
        dest.mkdir()
    before = snapshot(ksrc)
    done = project.run("apply", ksrc, dest)
    [error] = [line for line in done.stderr.splitlines() if not line.startswith("[")]
    assert done.returncode == 1 and "as a work tree of" in error
    assert snapshot(ksrc) == before and dest.exists() == (left != "nothing")
    run_in(project, project.tmp, "sh", "-c", error.split("remove it by: ")[1]).check_returncode()
    done = project.run("apply", ksrc, dest)
    assert (done.returncode, done.stdout) == (0, f"{dest}\n"), done.stderr


# Broken on purpose: a branch that could not be made deleted.
def test_branch_of_another_run_stays(project: Project, ksrc: Path) -> None:
    other = '[[ " $* " != *" update-ref refs/"* ]] || "$REAL" "$@"'  # just before
    path = project.shim("git", f'{other}; exec "$REAL" "$@"')
    done = project.run("apply", ksrc, project.tmp / "dest", PATH=path)
    [error] = [line for line in done.stderr.splitlines() if not line.startswith("[")]
    assert done.returncode == 1 and "a branch cannot be made in" in error, done.stderr
    assert project.git(ksrc, "rev-parse", BRANCH) == project.git(ksrc, "rev-parse", "HEAD")
    assert not (project.tmp / "dest").exists()


# Broken on purpose: one line of a folded subject.
def test_failing_am_names_the_patch(project: Project, ksrc: Path) -> None:
    body = f'[[ " $* " != *" am -q "* ]] || touch "$2/{NEW_FILE}"; exec "$REAL" "$@"'
    done = project.run("apply", ksrc, project.tmp / "dest", PATH=project.shim("git", body))
    subject = "Two with a subject that is rather longer than one line of mail would hold"
    assert done.returncode == 1 and f"git am failed at 'workqueue: {subject}'" in done.stderr


# Broken on purpose: no cleanup on exit.
@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_leaves_no_trace(project: Project, ksrc: Path, sig: signal.Signals) -> None:
    before = state(project, ksrc)
    dest = project.tmp / "dest"
    env = project.env(PATH=hinder_am(project, "trap 'exit 130' INT; touch hung; exec sleep 30"))
    with subprocess.Popen(
        [project.top / "scripts/apply", ksrc, dest],
        env=env,
        cwd=project.tmp,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as running:
        limit = time.monotonic() + 20
        while not (project.tmp / "hung").exists():
            assert time.monotonic() < limit and running.poll() is None
            time.sleep(0.05)
        os.killpg(running.pid, sig)
        assert running.wait(20) == 128 + sig
    assert state(project, ksrc) == before and not dest.exists()
    assert project.run("apply", ksrc, dest).returncode == 0


# Broken on purpose: each check left out in turn.
@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["nowhere"], "does not exist"),
        (["file"], "could not be read as a tarball"),
        (["cut.tar.gz"], "could not be read as a tarball"),
        (["other.tar"], "is not a kernel source"),
        (["empty"], "is not a kernel source"),
        (["ksrc/kernel"], "is not a kernel source"),
        (["unborn"], "without a commit"),
        (["ksrc", "base"], "not empty"),
        (["ksrc", "ksrc/dest"], "is inside"),
        (["--series", "empty", "ksrc"], "no patches in"),
    ],
)
def test_errors_are_one_clear_line(
    project: Project, ksrc: Path, args: list[str], message: str
) -> None:
    write(project.tmp / "file", "no archive\n" * 1000)
    (project.tmp / "empty").mkdir()
    whole, tar = project.tmp / "whole.tar.gz", ["tar", "-C", project.tmp]
    subprocess.run([*tar, "-czf", whole, "ksrc"], check=True)
    (project.tmp / "cut.tar.gz").write_bytes(whole.read_bytes()[:500])
    subprocess.run([*tar, "-cf", project.tmp / "other.tar", "empty"], check=True)
    project.git(project.tmp, "init", "-q", "unborn")
    before = snapshot(ksrc)
    done = project.run("apply", *args)
    errors = [line for line in done.stderr.splitlines() if not line.startswith("[")]
    assert done.returncode == 1 and len(errors) == 1 and message in errors[0], done.stderr
    assert snapshot(ksrc) == before


# Broken on purpose: unknown options taken for KSRC, or not looked at; an option without a value
# taken for an empty one; a base that is not there an error of another kind.
@pytest.mark.parametrize(
    ("script", "words", "message"),
    [
        *((s, ["--bogus"], "no option --bogus") for s in SCRIPTS),
        *((s, ["-x"], "no option -x") for s in SCRIPTS),
        *((s, ["a", "b", "c"], "error: ") for s in SCRIPTS),
        ("apply", ["--base"], "--base needs a value"),
        ("apply", ["--base=", "ksrc"], "--base needs a value"),
        ("apply", ["--check=yes", "ksrc"], "no option --check=yes"),
        ("apply", ["--base parts", "ksrc"], "no option --base parts"),
        ("apply", ["--base", "5.4", "ksrc"], "the bases are: 6.12 6.18 7.3"),
        ("apply", ["ksrc", "--series"], "--series needs a value"),
        ("apply", ["ksrc", "--parts"], "--parts needs a value"),
        ("setup", ["nothing"], "there is no task nothing: the tasks are: "),
    ],
)
def test_wrong_usage(project: Project, script: str, words: list[str], message: str) -> None:
    done = project.run(script, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1 and f"{script}: error: " in done.stderr
    assert message in done.stderr and f"scripts/{script} --help" in done.stderr


# Broken on purpose: the line with the licence printed; no status.
@pytest.mark.parametrize("script", SCRIPTS)
def test_help(project: Project, script: str) -> None:
    done = project.run(script, "--help")
    assert done.returncode == 0 and "Exit status:" in done.stdout
    assert done.stdout.startswith(f"Usage: scripts/{script}")


# Broken on purpose: the first conflict the end of the list; what is there already tried as a
# patch that conflicts.
@pytest.mark.parametrize("kind", ["git", "unpacked"])
def test_check_says_of_each_patch(project: Project, ksrc: Path, source: Path, kind: str) -> None:
    first, second, third = sorted(path.name for path in project.patches.glob("*.patch"))
    tree = ksrc if kind == "git" else source
    wq = {10: "one\n", 14: "elsewhere\n", 12: "elsewhere\n"}
    write(tree / "kernel/workqueue.c", lines("wq", wq))
    write(tree / NEW_FILE, "int a;\nint b;\n")
    if kind == "git":
        project.git(tree, "add", "-A")
        project.git(tree, "commit", "-qm", "elsewhere")
    done = project.run("apply", "--check", tree)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        f"{first}  conflicts in kernel/workqueue.c",
        f"{second}  conflicts in kernel/workqueue.c {NEW_FILE}",
        f"{third}  applies",
    ]
    assert len([line for line in done.stderr.splitlines() if "error:" in line]) == 1

    write(tree / "kernel/workqueue.c", lines("wq", {10: "one\n"}))
    (tree / NEW_FILE).unlink()
    if kind == "git":
        project.git(tree, "add", "-A")
        project.git(tree, "commit", "-qm", "one")
    (tree / "lib/Kconfig.debug").unlink()
    if kind == "git":
        project.git(tree, "commit", "-qam", "no Kconfig")
    done = project.run("apply", "--check", tree)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        f"{first}  is there already",
        f"{second}  applies",
        f"{third}  conflicts in lib/Kconfig.debug",
    ]


# Broken on purpose: MINIMUM not read; versions compared as strings.
@pytest.mark.parametrize(
    ("sublevel", "old"), [("9", True), ("106", True), ("107", False), ("117", False)]
)
@pytest.mark.parametrize("fits", [False, True])
def test_minimum(project: Project, source: Path, sublevel: str, old: bool, fits: bool) -> None:
    write(source / "Makefile", f"VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = {sublevel}\n")
    if not fits:
        misfit(source)
    done = project.run("apply", "--check", source)
    assert done.returncode == (0 if fits else 1)
    said = f"6.12.{sublevel} is older than 6.12.107, the oldest that the series is known to fit"
    *_, last = done.stderr.splitlines()
    assert (said in last) == old
    assert ("error:" in last) == (not fits)


# Broken on purpose: NEWEST not read; versions compared as strings; the base's own newest taken for
# a newer one.
@pytest.mark.parametrize(("sublevel", "newer"), [("99", False), ("117", False), ("118", True)])
@pytest.mark.parametrize("fits", [False, True])
def test_newest(project: Project, source: Path, sublevel: str, newer: bool, fits: bool) -> None:
    write(source / "Makefile", f"VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = {sublevel}\n")
    if not fits:
        misfit(source)
    done = project.run("apply", "--check", source)
    assert done.returncode == (0 if fits else 1)
    said = f"6.12.{sublevel} is newer than any kernel that the series was tried on"
    *_, last = done.stderr.splitlines()
    assert (said in last and "was 6.12.117" in last) == newer
    assert ("error:" in last) == (not fits)


def add_bases(project: Project) -> None:
    """6.18 and 7.3 have the series of 6.12."""
    for other in ("6.18", "7.3"):
        shutil.copytree(project.patches, project.top / "patches" / other)


# Broken on purpose: bases compared as strings; the older of two that are as near; 7.0 far from 6.19.
@pytest.mark.parametrize(
    ("version", "base"),
    [("5.4", "6.12"), ("6.2", "6.12"), ("6.12", "6.12"), ("6.13", "6.12"), ("6.15", "6.18"),
     ("6.17", "6.18"), ("6.18", "6.18"), ("6.19", "6.18"), ("7.0", "6.18"), ("7.1", "7.3"),
     ("7.2", "7.3"), ("7.3", "7.3"), ("7.14", "7.3"), ("10.1", "7.3")],
)  # fmt: skip
def test_nearest_base(project: Project, source: Path, version: str, base: str) -> None:
    add_bases(project)
    major, minor = version.split(".")
    write(source / "Makefile", f"VERSION = {major}\nPATCHLEVEL = {minor}\nSUBLEVEL = 1\n")
    done = project.run("apply", "--check", source)
    assert done.returncode == 0 and f"Linux {version}.1: t" in done.stderr
    assert f"taking the series for {base}\n" in done.stderr


# Broken on purpose: only the nearest tried; one beside the version's own tried; --base not minded;
# DEST's branch named after the one that was tried first.
@pytest.mark.parametrize("kind", ["git", "unpacked"])
@pytest.mark.parametrize(
    ("version", "fitting", "words", "takes"),
    [("7.2.9", "6.18", [], "6.18"), ("7.2.9", "7.3", [], "7.3"), ("6.15.1", "6.12", [], "6.12"),
     ("6.15.1", "6.18", [], "6.18"), ("6.15.1", "7.3", [], ""), ("6.18.20", "7.3", [], ""),
     ("7.4.1", "6.18", [], ""), ("7.2.9", "6.18", ["--base", "7.3"], ""),
     ("6.2.1", "6.18", ["--base", "6.18"], "6.18")],
)  # fmt: skip
def test_neighbouring_base(
    project: Project, ksrc: Path, source: Path, kind: str,
    version: str, fitting: str, words: list[str], takes: str,
) -> None:  # fmt: skip
    add_bases(project)
    for base in {"6.12", "6.18", "7.3"} - {fitting}:
        second = sorted((project.top / "patches" / base).glob("*.patch"))[1]
        second.write_text(second.read_text().replace("line 11\n", "line of another\n"))
    tree = ksrc if kind == "git" else source
    numbers = zip(("VERSION", "PATCHLEVEL", "SUBLEVEL"), version.split("."), strict=True)
    write(tree / "Makefile", "".join(f"{name} = {number}\n" for name, number in numbers))
    if kind == "git":
        project.git(tree, "commit", "-qam", version)
    before = snapshot(tree)
    dest = project.tmp / "dest"
    done = project.run("apply", "--check", *words, tree)
    assert done.stdout == "applies\n" if takes else done.returncode == 1
    assert snapshot(tree) == before
    done = project.run("apply", *words, tree, dest)
    if takes:
        assert done.returncode == 0, done.stderr
        assert words or f"taking the series for {takes}\n" in done.stderr
        branch = project.git(dest, "symbolic-ref", "--short", "HEAD")
        assert branch == f"unbound-workqueue-{takes}"
        return
    assert done.returncode == 1 and not dest.exists() and snapshot(tree) == before
    errors = [line for line in done.stderr.splitlines() if not line.startswith("[")]
    assert len(errors) == 1 and "error: 0002" in errors[0] and version in errors[0]


# Broken on purpose: the error of the last one tried.
def test_error_is_about_the_nearest_base(project: Project, source: Path) -> None:
    add_bases(project)
    for base, number in (("6.18", 0), ("7.3", 1)):
        patch = sorted((project.top / "patches" / base).glob("*.patch"))[number]
        patch.write_text(patch.read_text().replace("-wq line", "-wq no line"))
    write(source / "Makefile", "VERSION = 7\nPATCHLEVEL = 2\nSUBLEVEL = 9\n")
    done = project.run("apply", "--check", source)
    assert done.returncode == 1 and "error: 0002" in done.stderr
    assert "is older than 7.3, the oldest" in done.stderr
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert names == sorted(path.name for path in (project.top / "patches/7.3").glob("*.patch"))


# Broken on purpose: the form for other kernels left out; taken for all of them.
@pytest.mark.parametrize("kind", ["git", "unpacked"])
@pytest.mark.parametrize("older", [False, True])
def test_form_that_fits(project: Project, ksrc: Path, source: Path, kind: str, older: bool) -> None:
    add_form(project)
    tree = ksrc if kind == "git" else source
    if older:
        write(tree / "kernel/workqueue.c", OLDER)
        if kind == "git":
            project.git(tree, "commit", "-qam", "older")
    done = project.run("apply", "--check", tree)
    assert (done.returncode, done.stdout) == (0, "applies\n"), done.stderr
    dest = project.tmp / "dest"
    done = project.run("apply", tree, dest)
    assert done.returncode == 0, done.stderr
    assert (dest / "kernel/workqueue.c").read_text() == lines("wq", {10: "one\n", 11: "two\n"})
    done = project.run("apply", "--check", dest)
    assert (done.returncode, done.stdout) == (0, "is applied already\n"), done.stderr


# Broken on purpose: the newest base taken, though there are no patches for it.
def test_base_without_a_series(project: Project, source: Path) -> None:
    write(source / "Makefile", "VERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 1\n")
    done = project.run("apply", "--check", source)
    assert done.returncode == 0 and "taking the series for 6.12" in done.stderr


# Broken on purpose: the cover letter named 0000-cover.patch.
def test_git_am_takes_the_glob_as_it_is(project: Project, ksrc: Path) -> None:
    subprocess.run(
        f"git -c user.name=A -c user.email=a@b am -q {project.patches}/*.patch",
        shell=True,
        cwd=ksrc,
        env=project.env(),
        check=True,
    )
    assert len(subjects(project, ksrc)) == 3


# Broken on purpose: all taken; of each part its last patch.
@pytest.mark.parametrize("kind", ["git", "unpacked"])
@pytest.mark.parametrize(
    ("parts", "numbers"),
    [("1", [1]), ("1,2", [1, 2]), ("2,1", [1, 2]), ("1,4", [1, 4, 5]), ("4", [4, 5]),
     ("1,2,3,4", [1, 2, 3, 4, 5])],
)  # fmt: skip
def test_parts(
    project: Project, ksrc: Path, source: Path, kind: str, parts: str, numbers: list[int]
) -> None:
    add_parts(project)
    tree = ksrc if kind == "git" else source
    before = snapshot(tree)
    done = project.run("apply", "--check", "--parts", parts, tree)
    assert (done.returncode, done.stdout) == (0, "applies\n"), done.stderr
    assert snapshot(tree) == before
    dest = project.tmp / "dest"
    done = project.run("apply", "--parts", parts, tree, dest)
    assert (done.returncode, done.stdout) == (0, f"{dest}\n"), done.stderr
    words = ["One", "Two", "Three", "Four", "Five"]
    assert [subject.split()[1] for subject in subjects(project, dest)] == [
        words[number - 1] for number in numbers
    ]
    done = project.run("apply", "--check", "--parts", parts, dest)
    assert (done.returncode, done.stdout) == (0, "is applied already\n"), done.stderr


# One after the other, as each needs only what is there.
def test_parts_on_others(project: Project, ksrc: Path) -> None:
    add_parts(project)
    for parts in ("1,2", "4", "3"):
        done = project.run("apply", "--parts", parts, ksrc, project.tmp / parts)
        assert done.returncode == 0, done.stderr
        ksrc = project.tmp / parts


# Broken on purpose: each check left out in turn.
@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ("5", "patches/6.12 has no part 5: the parts are 1 one, 2 two, 3 three, 4 last;"),
        ("0", "has no part 0"),
        ("1,3,1", "--parts 1,1,3 names part 1 twice"),
        ("1-3", "takes numbers of parts, as in --parts 1,3, and not '1-3'"),
        ("one", "and not 'one'"),
        ("1,", "and not '1,'"),
    ],
)
def test_wrong_parts(project: Project, ksrc: Path, parts: str, message: str) -> None:
    add_parts(project)
    before = snapshot(ksrc)
    done = project.run("apply", "--parts", parts, ksrc, project.tmp / "dest")
    [error] = [line for line in done.stderr.splitlines() if not line.startswith("[")]
    assert done.returncode == 2 and message in error and "--help" in error
    assert snapshot(ksrc) == before and not (project.tmp / "dest").exists()


# Broken on purpose: those named that are not needed; later ones tried; some named where none help;
# what is in the source already tried.
@pytest.mark.parametrize(
    ("parts", "there", "more", "needed"),
    [("2", [], "1", "1,2"), ("3", [], "1,2", "1,2,3"), ("1,3", [], "2", "1,2,3"),
     ("3,4", [], "1,2", "1,2,3,4"), ("3", [1], "2", "2,3"), ("2", ["kernel/workqueue.c"], "", ""),
     ("3", ["Kbuild"], "1,2", "1,2,3")],
)  # fmt: skip
def test_parts_that_need_others(
    project: Project, ksrc: Path, parts: str, there: list[int | str], more: str, needed: str
) -> None:
    add_parts(project)
    for what in there:
        if isinstance(what, str):
            project.commit(ksrc, "other", **{what: "other\n"})
        else:
            project.git(ksrc, "am", "-q", min(project.patches.glob("*.patch")))
    before = snapshot(ksrc)
    for words in (["--check"], []):
        done = project.run("apply", *words, "--parts", parts, ksrc, project.tmp / "dest")
        [error] = [line for line in done.stderr.splitlines() if not line.startswith("[")]
        assert done.returncode == 1 and "does not apply" in error
        assert f"as well: --parts {needed} applies; nothing was changed" in error or not needed
        assert f"needs part {more} as well" in error if needed else "needs" not in error
    assert snapshot(ksrc) == before and not (project.tmp / "dest").exists()


# Broken on purpose: the file read of the base in place of DIR.
def test_parts_of_a_folder(project: Project, ksrc: Path) -> None:
    add_parts(project)
    theirs = project.tmp / "theirs"
    project.patches.rename(theirs)
    done = project.run("apply", "--series", theirs, "--parts", "1", ksrc, project.tmp / "dest")
    assert done.returncode == 0, done.stderr
    (theirs / "parts").unlink()
    done = project.run("apply", "--check", "--series", theirs, "--parts", "1", ksrc)
    assert done.returncode == 1 and f"{theirs}/parts is missing" in done.stderr


HEADER = "include/linux/workqueue.h"
SCOPES = "\tWQ_AFFN_CACHE,\n\tWQ_AFFN_NUMA,\n"
MORE_SCOPES = "\tWQ_AFFN_CACHE,\n\tWQ_AFFN_CACHE_SHARD,{}\n\tWQ_AFFN_NUMA,\n"


def add_shards(project: Project, ksrc: Path) -> Path:
    """A series that adds cache_shard, after a patch of 0001; its patch that does so."""
    project.commit(project.base, "scopes", **{HEADER: SCOPES})
    project.git(ksrc, "pull", "-q")
    project.git(ksrc, "checkout", "-q", "-b", "adds")
    project.commit(ksrc, "workqueue: Add shards", **{HEADER: MORE_SCOPES.format("")})
    project.git(ksrc, "format-patch", "-q", "-1", "--start-number=4", "-o", project.patches)
    project.git(ksrc, "checkout", "-q", "linux")
    return max(project.patches.glob("*.patch"))


# Broken on purpose: no such advice; a command that lists one commit, or all; the oldest first.
def test_cache_shard_that_is_there_already(project: Project, ksrc: Path) -> None:
    add_shards(project, ksrc)
    project.commit(ksrc, "add the scope", **{HEADER: MORE_SCOPES.format("/* theirs */")})
    project.commit(ksrc, "something else", **{"kernel/workqueue.c": lines("wq", {40: "else\n"})})
    text = lines("wq", {12: "a Shard\n", 40: "else\n"})
    project.commit(ksrc, "make it the default", **{"kernel/workqueue.c": text})
    text = lines("wq", {12: "a better shard\n", 40: "else\n"})
    project.commit(ksrc, "fix it", **{"kernel/workqueue.c": text})
    before = snapshot(ksrc)
    done = project.run("apply", "--check", ksrc)
    assert done.returncode == 1 and snapshot(ksrc) == before
    [error] = [line for line in done.stderr.splitlines() if not line.startswith("[")]
    assert "(Linux 6.12.117) has cache_shard already" in error and error.endswith("was changed")

    command = error.split("try again: ")[1].split(";")[0]
    listed = subprocess.run(
        command, shell=True, text=True, capture_output=True, check=True, env=project.env()
    ).stdout.splitlines()
    assert [line.split(" ", 1)[1] for line in listed] == [
        "fix it", "make it the default", "add the scope",
    ]  # fmt: skip
    project.git(ksrc, "revert", "--no-edit", *(line.split()[0] for line in listed))
    done = project.run("apply", "--check", ksrc)
    assert (done.returncode, done.stdout) == (0, "applies\n"), done.stderr


# Broken on purpose: git's command shown for a source that is none.
def test_cache_shard_in_an_unpacked_source(project: Project, ksrc: Path) -> None:
    add_shards(project, ksrc)
    shutil.rmtree(ksrc / ".git")
    write(ksrc / HEADER, MORE_SCOPES.format("/* theirs */"))
    done = project.run("apply", ksrc, project.tmp / "dest")
    assert done.returncode == 1 and not (project.tmp / "dest").exists()
    [error] = [line for line in done.stderr.splitlines() if not line.startswith("[")]
    assert "has cache_shard already" in error and "without the distribution's patches" in error
    assert "git -C" not in error


# Broken on purpose: said of each source that has it; said of each that a patch does not fit.
@pytest.mark.parametrize("ours", [False, True])
def test_other_conflicts_are_not_put_down_to_cache_shard(
    project: Project, ksrc: Path, ours: bool
) -> None:
    adding = add_shards(project, ksrc)
    if ours:
        project.git(ksrc, "am", "-q", adding)
    misfit(ksrc)
    project.git(ksrc, "commit", "-qam", "elsewhere")
    done = project.run("apply", "--check", ksrc)
    assert done.returncode == 1 and "cache_shard" not in done.stderr
    assert "does not apply to" in done.stderr
