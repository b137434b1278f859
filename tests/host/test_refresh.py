# SPDX-License-Identifier: GPL-2.0
"""series tree and series refresh: the series to commits and back.

"Broken on purpose" names the breaks with which a test has been seen to fail.
"""

import shutil
import signal
from pathlib import Path

import pytest
from fake_kernel import (
    BASE,
    NEW_FILE,
    ODD_CONFIG,
    Project,
    add_form,
    lines,
    make_older,
    odd_home,
    snapshot,
    write,
)

from series import COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_help(project: Project, command: str) -> None:
    done = project.series(command, "--help")
    assert done.returncode == 0 and done.stdout.startswith(f"usage: series {command} ")
    assert "Exit status: 0 done" in done.stdout
    assert (COMMANDS[command][0].__doc__ or "")[:40] in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "required: COMMAND"),
        ("nothing", "invalid choice: 'nothing'"),
        *(
            (f"{command} --bogus", "arguments: --bogus")
            for command in COMMANDS
            if command != "compare"
        ),
        *((f"{command} a b", "arguments: ") for command in ("obtain", "tree", "refresh", "clean")),
        *((f"{command} --base", "expected one argument") for command in ("tree", "refresh")),
        *((f"{command} --base 5.4", "are: 6.12 6.18 7.3") for command in ("tree", "refresh")),
        ("tree --ksrc", "expected one argument"),
    ],
)
def test_wrong_usage(project: Project, words: str, message: str) -> None:
    done = project.series(*words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr.splitlines()[-1]


@pytest.fixture
def tree(project: Project) -> Path:
    done = project.series("tree")
    assert (done.returncode, done.stdout) == (0, f"{project.tree}\n"), done.stderr
    return project.tree


def ours(project: Project) -> dict[str, str]:
    """What the repository holds: the patches and the files at their kernel path."""
    return snapshot(project.patches) | snapshot(project.top / "lib")


def refresh(project: Project, *words: str, **env: str) -> None:
    done = project.series("refresh", *words, **env)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def refused(project: Project, message: str) -> None:
    """refresh says why it refuses, in one line, and touches neither side."""
    tree_ids = project.git(project.tree, "for-each-ref"), project.git(project.tree, "status")
    before = ours(project)
    done = project.series("refresh")
    errors = [line for line in done.stderr.splitlines() if not line.startswith("[")]
    assert done.returncode == 1 and len(errors) == 1 and message in errors[0], done.stderr
    assert ours(project) == before
    assert not list((project.top / "patches").glob(".*"))
    assert tree_ids == (
        project.git(project.tree, "for-each-ref"),
        project.git(project.tree, "status"),
    )


# Broken on purpose: --thread; a signature; short blob ids; a part of git_env left out.
@pytest.mark.parametrize("odd", [False, True])
def test_round_trip_changes_nothing(project: Project, odd: bool) -> None:
    if odd:
        odd_home(project.tmp / "home")
    before = ours(project)
    assert project.series("tree").returncode == 0
    if odd:
        with (project.tree / ".git/config").open("a") as config:
            config.write(ODD_CONFIG)
    # The swap is skipped where nothing changes, so have it write them all.
    for patch in project.patches.glob("*.patch"):
        patch.rename(project.tmp / patch.name)
    project.git(project.tree, "config", "--unset", "unbound-workqueue.patches")
    refresh(project)
    assert ours(project) == before


# Broken on purpose: clone --shared; the remote left.
def test_tree_stands_alone(project: Project, tree: Path) -> None:
    shutil.rmtree(project.base)
    assert project.git(tree, "symbolic-ref", "--short", "HEAD") == "series"
    assert project.git(tree, "rev-list", "--count", "base..HEAD") == "3"
    assert project.git(tree, "rev-list", "--count", "base") == "1"
    assert project.git(tree, "branch", "--format=%(refname:short)") == "series"
    assert project.git(tree, "remote") == ""
    project.git(tree, "fsck", "--full")


# Broken on purpose: the committer's date, or name, not fixed.
def test_commit_ids_are_reproducible(project: Project, tree: Path) -> None:
    done = project.series(
        "tree", project.tmp / "again", GIT_COMMITTER_NAME="Somebody", TZ="Asia/Tokyo"
    )
    assert done.returncode == 0, done.stderr
    assert project.git(project.tmp / "again", "rev-parse", "HEAD") == project.git(
        tree, "rev-parse", "HEAD"
    )


# Broken on purpose: uncommitted changes, or commits, not looked for.
@pytest.mark.parametrize("committed", [False, True])
def test_tree_with_work_is_left(project: Project, tree: Path, committed: bool) -> None:
    write(tree / "kernel/new.c", "int x;\n")
    if committed:
        project.commit(tree, "workqueue: More")
    before = snapshot(tree / "kernel"), project.git(tree, "rev-parse", "HEAD")
    (project.patches / "0003-gone.patch").write_text("")
    done = project.series("tree")
    assert (done.returncode, done.stdout) == (0, f"{tree}\n")
    assert "left as it is" in done.stderr and "to start afresh" in done.stderr
    assert "has changed since" in done.stderr
    assert before == (snapshot(tree / "kernel"), project.git(tree, "rev-parse", "HEAD"))


# Broken on purpose: a tree without work kept although the patches changed.
@pytest.mark.parametrize("command", ["tree", "refresh"])
def test_tree_without_work_follows_the_patches(project: Project, tree: Path, command: str) -> None:
    last = max(project.patches.glob("*.patch"))
    last.unlink()
    write(project.top / NEW_FILE, "int a;\nint b;\n")
    done = project.series(command)
    assert done.returncode == 0, done.stderr
    assert project.git(tree, "rev-list", "--count", "base..HEAD") == "2"
    assert not last.exists() and project.git(tree, "status", "--porcelain") == ""


# Broken on purpose: no way back.
def test_tree_stays_when_new_patches_do_not_apply(project: Project, tree: Path) -> None:
    min(project.patches.glob("*.patch")).unlink()
    before = project.git(tree, "rev-parse", "HEAD")
    done = project.series("tree")
    assert done.returncode == 1 and "git am failed at" in done.stderr
    assert project.git(tree, "rev-parse", "HEAD") == before
    assert project.git(tree, "status", "--porcelain") == ""


def interrupting(project: Project, words: str, sig: signal.Signals) -> str:
    """A PATH where the git that has these words among its own runs, and then interrupts who
    started it."""
    return project.shim(
        "git",
        f'[[ " $* " == *" {words} "* ]] || exec "$REAL" "$@"\n'
        f'"$REAL" "$@"; kill -{sig.value} $PPID; sleep 0.5',
    )


INTERRUPTS = [signal.SIGINT, signal.SIGTERM]


# Broken on purpose: no way back; git am left under way.
@pytest.mark.parametrize("sig", INTERRUPTS)
@pytest.mark.parametrize("tree_there", [False, True])
def test_interrupted_tree(project: Project, tree_there: bool, sig: signal.Signals) -> None:
    if tree_there:
        assert project.series("tree").returncode == 0
        before = snapshot(project.tree / "kernel"), project.git(project.tree, "rev-parse", "HEAD")
        # the second of them does not apply: git am stops there
        min(project.patches.glob("*.patch")).rename(project.patches / "0004-late.patch")
    path = interrupting(project, "am -q", sig)
    assert project.series("tree", PATH=path).returncode == 128 + sig
    if tree_there:
        after = snapshot(project.tree / "kernel"), project.git(project.tree, "rev-parse", "HEAD")
        assert after == before and project.git(project.tree, "status", "--porcelain") == ""
        assert not (project.tree / ".git/rebase-apply").exists()
    else:
        assert not list(project.tree.parent.iterdir())


# Broken on purpose: the base not compared; any directory taken for a tree.
def test_tree_of_another_base_or_none(project: Project, tree: Path) -> None:
    project.commit(project.base, "linux 6.12.118", Kbuild="# newer\n")
    project.git(project.base, "tag", "-f", "base")
    done = project.series("tree")
    assert done.returncode == 1 and "'linux 6.12.118'" in done.stderr
    done = project.series("tree", project.top / "scripts")
    assert done.returncode == 1 and "no tree of the series" in done.stderr


# Broken on purpose: the leftover not removed.
def test_interrupted_tree_is_redone(project: Project) -> None:
    write(project.tree.parent / f"{BASE}.part" / ".git/HEAD", "cut off")
    assert project.series("tree").returncode == 0
    assert project.git(project.tree, "rev-list", "--count", "base..HEAD") == "3"
    assert not (project.tree.parent / f"{BASE}.part").exists()


# Broken on purpose: old patches kept beside the new ones; the cover letter dropped.
def test_edit_in_the_tree_reaches_the_patches(project: Project, tree: Path) -> None:
    project.git(tree, "reset", "-q", "--hard", "HEAD~1")
    project.commit(tree, "workqueue: Else", **{"kernel/workqueue.c": lines("wq", {40: "x\n"})})
    project.commit(tree, "workqueue: Last", **{NEW_FILE: "int a;\nint z;\n"})
    refresh(project)
    names = [path.name[:4] + path.name[-11:] for path in sorted(project.patches.iterdir())]
    assert names[2:] == ["0003-Else.patch", "0004-Last.patch", "cove-letter.txt"]
    assert (project.patches / "cover-letter.txt").read_text().startswith("Subject: [PATCH 0/3]")
    assert (project.top / NEW_FILE).read_text() == "int a;\nint z;\n"
    before = ours(project)
    refresh(project)
    assert ours(project) == before


# Broken on purpose: no word about them.
def test_parts_that_no_longer_fit(project: Project, tree: Path) -> None:
    write(project.patches / "parts", "1 all workqueue: Three with an ümlaut\n")
    assert "careful" not in project.series("refresh").stderr
    project.git(tree, "commit", "-q", "--amend", "-m", "workqueue: Drei")
    done = project.series("refresh")
    assert done.returncode == 0
    assert "careful: patches/6.12/parts: no patch behind" in done.stderr
    assert (project.patches / "parts").is_file()


# Broken on purpose: folded into the first commit of the series; left as a commit of its own.
@pytest.mark.parametrize("tree_there", [False, True])
def test_edit_here_is_folded_into_the_last_commit(project: Project, tree_there: bool) -> None:
    if tree_there:
        assert project.series("tree").returncode == 0
    patches = sorted(project.patches.glob("*.patch"))
    before = [path.read_bytes() for path in patches]
    write(project.top / NEW_FILE, "int a;\nint edited;\n")
    refresh(project)
    assert sorted(project.patches.glob("*.patch")) == patches
    after = [path.read_bytes() for path in patches]
    assert before[:2] == after[:2] and b"+int edited;" in after[2]
    assert before[2].partition(b"---\n")[0] == after[2].partition(b"---\n")[0]
    assert (project.top / NEW_FILE).read_text() == "int a;\nint edited;\n"
    assert (project.tree / NEW_FILE).read_text() == "int a;\nint edited;\n"
    assert project.git(project.tree, "status", "--porcelain") == ""


# Broken on purpose: no way back.
def test_fold_that_fails_leaves_the_tree(project: Project, tree: Path) -> None:
    write(project.top / NEW_FILE, "int a;\nint edited;\n")
    before = project.git(tree, "rev-parse", "HEAD"), ours(project)
    path = project.shim("git", '[[ " $* " != *" rebase -q "* ]] || exit 1; exec "$REAL" "$@"')
    done = project.series("refresh", PATH=path)
    assert done.returncode == 1 and f"{NEW_FILE} could not be folded" in done.stderr
    assert before == (project.git(tree, "rev-parse", "HEAD"), ours(project))
    assert project.git(tree, "status", "--porcelain") == ""


# Broken on purpose: no way back; the swap not left alone.
@pytest.mark.parametrize("sig", INTERRUPTS)
@pytest.mark.parametrize(("words", "whole"), [("rebase -q", False), ("update-ref", True)])
def test_interrupted_refresh(
    project: Project, tree: Path, words: str, whole: bool, sig: signal.Signals
) -> None:
    """All of it is done, or nothing."""
    project.git(tree, "rm", "-q", "Kbuild")
    project.commit(tree, "workqueue: Last", **{"lib/new.c": "new\n"})
    write(project.top / NEW_FILE, "int a;\nint edited;\n")
    before = project.git(tree, "rev-parse", "HEAD"), ours(project)
    path = interrupting(project, words, sig)
    assert project.series("refresh", PATH=path).returncode == (0 if whole else 128 + sig)
    assert not list((project.top / "patches").glob(".*"))
    if whole:
        assert (project.top / "lib/new.c").exists() and len(ours(project)) == len(before[1]) + 2
        refresh(project)
    else:
        assert before == (project.git(tree, "rev-parse", "HEAD"), ours(project))
        assert project.git(tree, "status", "--porcelain") == ""


# Broken on purpose: our side wins; their side wins.
def test_edit_on_both_sides(project: Project, tree: Path) -> None:
    project.commit(tree, "workqueue: Last", **{NEW_FILE: "int there;\n"})
    write(project.top / NEW_FILE, "int here;\n")
    refused(project, f"{NEW_FILE} was changed both here and in")
    write(project.top / NEW_FILE, "int there;\n")
    refresh(project)


# Broken on purpose: copy, removal or mode left out.
def test_file_added_and_removed_in_the_tree(project: Project, tree: Path) -> None:
    tool = tree / "tools/workqueue/tool.py"
    write(tool, "#!/usr/bin/python3\n")
    tool.chmod(0o755)
    project.git(tree, "rm", "-q", NEW_FILE)
    project.commit(tree, "workqueue: Another file")
    refresh(project)
    assert not (project.top / NEW_FILE).exists()
    assert (project.top / "tools/workqueue/tool.py").stat().st_mode & 0o777 == 0o755
    project.git(tree, "reset", "-q", "--hard", "HEAD~1")
    refresh(project)
    assert (project.top / NEW_FILE).exists()
    assert not (project.top / "tools/workqueue/tool.py").exists()


# Broken on purpose: removal without a look at our file, or at the other bases.
def test_removed_file_that_is_still_needed_here(project: Project, tree: Path) -> None:
    project.git(tree, "rm", "-q", NEW_FILE)
    project.git(tree, "commit", "-q", "-m", "workqueue: Remove")
    write(project.top / NEW_FILE, "int edited;\n")
    refused(project, f"{NEW_FILE} was changed here but is gone")
    shutil.copytree(project.patches, project.top / "patches/7.3")
    refresh(project)
    assert (project.top / NEW_FILE).exists()


# Broken on purpose: each check left out in turn.
@pytest.mark.parametrize("case", ["dirty", "untracked", "rebase", "merge", "empty", "stray"])
def test_tree_in_no_state_to_be_written(project: Project, tree: Path, case: str) -> None:
    match case:
        case "dirty":
            write(tree / "Kbuild", "changed\n")
            refused(project, "uncommitted changes")
        case "untracked":
            write(tree / "kernel/new.c", "new\n")
            refused(project, "uncommitted changes")
        case "rebase":
            project.git(tree, "rebase", "-q", "-x", "false", "base", check=False)
            refused(project, "under way")
        case "merge":
            project.git(tree, "checkout", "-q", "-b", "side", "HEAD~1")
            project.commit(tree, "workqueue: Side", Kbuild="side\n")
            project.git(tree, "checkout", "-q", "series")
            project.git(tree, "merge", "-q", "-m", "merge", "side")
            refused(project, "a merge")
        case "empty":
            project.git(tree, "reset", "-q", "--hard", "base")
            refused(project, "no commit on top")
        case "stray":
            project.git(tree, "checkout", "-q", "--orphan", "other")
            project.git(tree, "commit", "-q", "-m", "other")
            refused(project, "does not stem")


# Broken on purpose: the patches not compared with those the tree was made from.
def test_patches_changed_under_a_tree_with_work(project: Project, tree: Path) -> None:
    project.commit(tree, "workqueue: More", Kbuild="more\n")
    first = min(project.patches.glob("*.patch"))
    first.write_text(first.read_text().replace("\n---\n", "\nA better text.\n---\n", 1))
    refused(project, "has changed since")


# Broken on purpose: the leftover deleted instead of moved back.
def test_swap_cut_short_is_mended(project: Project, tree: Path) -> None:
    before = ours(project)
    project.patches.rename(project.top / f"patches/.{BASE}.old")
    write(project.top / f"patches/.{BASE}.new" / "0001-half.patch", "")
    refresh(project)
    assert ours(project) == before and not list((project.top / "patches").glob(".*"))


# Broken on purpose: old patches removed before the new ones are written.
def test_failing_format_patch_writes_nothing(project: Project, tree: Path) -> None:
    project.commit(tree, "workqueue: More", Kbuild="more\n")
    before = ours(project)
    path = project.shim("git", '[[ $* != *format-patch* ]] || exit 1; exec "$REAL" "$@"')
    assert project.series("refresh", PATH=path).returncode == 1
    assert ours(project) == before and not list((project.top / "patches").glob(".*"))


# Broken on purpose: no look at where it is.


# Broken on purpose: the other form not looked for; both forms written from the tree; the folder
# left out of what a tree remembers of the patches.
@pytest.mark.parametrize("older", [False, True])
def test_patch_in_two_forms(project: Project, older: bool) -> None:
    form = add_form(project)
    main = project.patches / form.name
    if older:
        make_older(project)
    before = ours(project)
    assert project.series("tree").returncode == 0
    assert (project.tree / "kernel/workqueue.c").read_text() == lines(
        "wq", {10: "one\n", 11: "two\n"}
    )
    refresh(project)
    after = ours(project)
    # Context and blobs of both are the kernel's: only those of the tree's own are written.
    changed = {name for name in before if before[name] != after[name]}
    assert changed <= {f"{form.parent.name}/{form.name}"} if older else not changed

    # A change reaches one of the two, and says that there's another one.
    kept = (main if older else form).read_text()
    changes = {2: "first\n", 10: "one\n", 11: "two\n"}
    write(project.tree / "kernel/workqueue.c", lines("wq", changes))
    project.git(project.tree, "commit", "-qa", "--fixup=HEAD~2")
    project.git(project.tree, "-c", "sequence.editor=true", "rebase", "-qi", "--autosquash", "base")
    done = project.series("refresh")
    assert done.returncode == 0, done.stderr
    assert "is the other form of a patch that has changed" in done.stderr
    assert (main if older else form).read_text() == kept
    assert "+first\n" in (form if older else main).read_text()

    write(form, form.read_text() + "\n")
    assert "patches/6.12 has changed" in project.series("tree").stderr


# Broken on purpose: the other form found by its whole name; not moved along.
@pytest.mark.parametrize("older", [False, True])
def test_form_of_a_patch_that_has_another_number(project: Project, older: bool) -> None:
    form = add_form(project)
    texts = {False: (project.patches / form.name).read_text(), True: form.read_text()}
    if older:
        make_older(project)
    assert project.series("tree").returncode == 0
    tree, head = project.tree, project.git(project.tree, "rev-parse", "HEAD")
    project.git(tree, "reset", "-q", "--hard", "base")
    project.commit(tree, "workqueue: Zero", Kbuild="zero\n")
    project.git(tree, "cherry-pick", f"base..{head}")
    refresh(project)
    name = form.name.replace("0001", "0002")
    assert [path.name for path in form.parent.iterdir()] == [name]
    assert len(list(project.patches.glob("*.patch"))) == 4
    kept = project.patches / name if older else form.parent / name
    assert kept.read_text() == texts[not older]


# Broken on purpose: a form left to nobody.
def test_form_of_a_patch_that_is_gone(project: Project) -> None:
    add_form(project)
    assert project.series("tree").returncode == 0
    project.git(project.tree, "reset", "-q", "--hard", "base")
    project.commit(project.tree, "workqueue: Another title", Kbuild="zero\n")
    refused(project, "which is another form of one")


def add_alike(project: Project) -> Path:
    """A series for 6.18: a patch of its own and those of 6.12, for a kernel whose
    kernel/workqueue.c has more ahead of what they change. The environment that has its base."""
    base, series = project.tmp / "base-6.18", project.top / "patches/6.18"
    shutil.copytree(project.base, base)
    more = "more()\n" * 9
    project.commit(base, "linux 6.18.15", **{"kernel/workqueue.c": more + lines("wq")})
    project.git(base, "tag", "-f", "base")
    project.commit(base, "workqueue: Zero", Kbuild="# zero\n")
    project.git(base, "format-patch", "-qNk", "-1", "-o", series)
    for number, patch in enumerate(sorted(project.patches.glob("*.patch")), 2):
        shutil.copy(patch, series / f"000{number}-{patch.name[5:]}")
    return base


def links(project: Project) -> dict[str, str]:
    """What those of 6.18 lead to, by their numbers."""
    series = project.top / "patches/6.18"
    assert all(path.is_file() for path in series.glob("*.patch"))
    return {path.name[:4]: str(path.readlink()) for path in series.glob("*") if path.is_symlink()}


def all_of(project: Project) -> dict[str, str]:
    return {
        f"000{number}": f"../6.12/{path.name}"
        for number, path in enumerate(sorted(project.patches.glob("*.patch")), 2)
    }


# Broken on purpose: line numbers, ids or dates not left out; links found by their numbers; a link
# for a patch that says something else; a file with what the link says taken for it.
def test_patch_that_says_the_same_is_a_link(project: Project) -> None:
    base = add_alike(project)
    series, tree = project.top / "patches/6.18", project.top / "build/tree/6.18"
    assert project.series("tree", "--base", "6.18", BASE_REPO=str(base)).returncode == 0
    project.git(tree, "rebase", "-q", "-x", "git commit -q --amend --date=now --no-edit", "base")
    refresh(project, "--base", "6.18")
    expected = all_of(project)
    assert links(project) == expected

    # Round trip, also of one that somebody has made a file, and another tree
    link = next(series.glob("0002*"))
    text = link.read_text()
    link.unlink()
    link.write_text(text)
    refresh(project, "--base", "6.18")
    assert links(project) == expected
    before, ids = snapshot(series), project.git(tree, "log", "--format=%T", "base..")
    refresh(project, "--base", "6.18")
    assert snapshot(series) == before
    shutil.rmtree(tree)
    assert project.series("tree", "--base", "6.18", BASE_REPO=str(base)).returncode == 0
    project.git(base, "reset", "-q", "--hard", "base")
    done = project.run("apply", "--base", "6.18", base, project.tmp / "dest")
    assert done.returncode == 0, done.stderr
    for made in (tree, project.tmp / "dest"):
        assert project.git(made, "log", "--format=%T", "base..") == ids

    # One that says something else is a file
    text = (tree / "kernel/workqueue.c").read_text()
    write(tree / "kernel/workqueue.c", text.replace("two\n", "two of 6.18\n"))
    project.git(tree, "commit", "-qa", "--fixup=HEAD~1")
    project.git(tree, "-c", "sequence.editor=true", "rebase", "-qi", "--autosquash", "base")
    refresh(project, "--base", "6.18")
    del expected["0003"]
    assert links(project) == expected
    assert "+two of 6.18\n" in next(series.glob("0003*")).read_text()


# Broken on purpose: no look at what links leave.
def test_links_that_would_change_another_place(project: Project) -> None:
    other = project.tmp / "base-6.18"
    shutil.copytree(project.base, other)
    for patch in project.patches.glob("*.patch"):
        patch.unlink()
    for base, name, times in ((project.base, "6.12", 1), (other, "6.18", 2)):
        start = lines("wq") * (times - 1)
        project.commit(base, "linux", Kbuild=name, **{"kernel/workqueue.c": start + lines("wq")})
        project.git(base, "tag", "-f", "base")
        changed = start + lines("wq", {30: "changed\n"})
        project.commit(base, "workqueue: One", **{"kernel/workqueue.c": changed})
        project.git(base, "format-patch", "-qN", "-1", "-o", project.top / "patches" / name)
    write(project.top / "patches/6.18/cover-letter.txt", "")
    refresh(project)
    done = project.series("refresh", "--base", "6.18", BASE_REPO=str(other))
    assert done.returncode == 0 and "would leave something else" in done.stderr
    assert not links(project)
    [patch] = (project.top / "patches/6.18").glob("*.patch")
    assert "@@ -88,7 +88,7 @@" in patch.read_text()


# Broken on purpose: links left as they are; all of them made files; or none.
def test_links_to_patches_that_change(project: Project, tree: Path) -> None:
    add_alike(project)
    for name, target in all_of(project).items():
        [path] = (project.top / "patches/6.18").glob(f"{name}*")
        path.unlink()
        path.symlink_to(target)
    series = project.top / "patches/6.18"
    before = {path.name: path.read_text() for path in series.glob("*.patch")}

    # One more ahead
    head = project.git(tree, "rev-parse", "HEAD")
    project.git(tree, "reset", "-q", "--hard", "base")
    project.commit(tree, "workqueue: Ahead", Makefile="# ahead\n")
    project.git(tree, "cherry-pick", f"base..{head}")
    refresh(project)
    targets = [f"../6.12/{path.name}" for path in sorted(project.patches.glob("*.patch"))]
    assert sorted(links(project).items()) == list(zip(("0002", "0003", "0004"), targets[1:]))
    assert before == {path.name: path.read_text() for path in series.glob("*.patch")}

    # One that says something else
    write(tree / NEW_FILE, "int a;\nint d;\n")
    project.git(tree, "commit", "-qa", "--fixup=HEAD")
    project.git(tree, "-c", "sequence.editor=true", "rebase", "-qi", "--autosquash", "base")
    done = project.series("refresh")
    assert done.returncode == 0 and "patches/6.18/0004" in done.stderr
    assert "is a file now" in done.stderr
    assert sorted(links(project)) == ["0002", "0003"]
    assert before == {path.name: path.read_text() for path in series.glob("*.patch")}
