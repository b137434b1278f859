# SPDX-License-Identifier: GPL-2.0
"""Write the patches of patches/BASE from a tree that `series tree` made, one per commit on top of
its tag `base`. What else lies in patches/BASE, as the cover letter, stays. Where nothing has
changed, nothing is touched. Says so where patches/BASE/parts no longer fits.

Of a patch in two forms, the one that fits the tree's base is written, the other stays. A patch is a
link where one of a base that bases/BASE names under ALIKE says the same, but for line numbers, its
date and the ids of files in the kernel. A patch of another base that is a link to one that changes
becomes a file, with what it said.

A file that the series adds to the kernel also stands at its kernel path in this repository, and an
edit on either side reaches the other: one here is folded into the last commit of the tree that
touches the file, one there is copied here. Edits of one file on both sides are an error.

An error leaves both sides as they were.
"""

import argparse
import hashlib
import re
import shutil
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from series.links import link_alike, swap, write_forms
from series.parts import parts_of
from series.tree import default_tree, make_tree
from series.worktree import SeriesTree, place, series_id
from wqlab.ground.files import remove
from wqlab.ground.git import asked
from wqlab.ground.places import ROOT
from wqlab.ground.problem import OK, Problem
from wqlab.ground.run import say, uninterrupted
from wqlab.kernels import options
from wqlab.kernels.bases import PATCHES, Base, Patch, read_series

CHANGED = re.compile(
    r"^(diff --git a/|new file mode |deleted file mode |index [0-9a-f]+\.\.)(\S+)", re.MULTILINE
)


FORMAT = """
    --zero-commit --full-index --no-signature --no-numbered --subject-prefix=PATCH --suffix=.patch
    --filename-max-length=64 --no-cover-letter --no-thread --no-attach --no-to --no-cc --no-from
    --no-add-header --no-base --no-notes --no-signoff --no-encode-email-headers --no-renames
    --no-color --no-ext-diff --no-textconv --diff-algorithm=histogram --unified=3 --src-prefix=a/
    --dst-prefix=b/
"""


def fit_tree(base: Base, given: Path | None) -> tuple[SeriesTree, int]:
    """The tree to write the patches from, and how many it has."""
    tree = SeriesTree(given or default_tree(base))
    if not tree.path.exists():
        if given:
            raise Problem(f"{tree} does not exist: series tree --base {base.name} makes a tree")
        make_tree(base, tree.path)
    tree.require(f"{tree} is not a git tree with a tag 'base': series tree makes one")
    if tree.is_busy:
        raise Problem(f"a rebase or git am is under way in {tree}: finish it, or abort it")
    if tree.is_dirty:
        raise Problem(
            f"there are uncommitted changes in {tree}: commit them, or take them back (git status)"
        )
    if tree.agreed_id not in ("", series_id(base.folder)):
        if tree.has_work:
            raise Problem(
                f"patches/{base.name} has changed since {tree} was made, and the tree has work of "
                "its own: move the tree away, run series tree, and bring that work over with git "
                "cherry-pick"
            )
        make_tree(base, tree.path)
    if asked(tree.path, "merge-base", "base", "HEAD") != tree.git("rev-parse", "base^{commit}"):
        raise Problem(f"{tree}: HEAD does not stem from the tag 'base': check out the series")
    if tree.git("rev-list", "--merges", "base..HEAD"):
        raise Problem(
            f"{tree}: there is a merge between base and HEAD: a series is a line of commits, "
            "rebase it"
        )
    count = int(tree.git("rev-list", "--count", "base..HEAD"))
    if not count:
        raise Problem(f"{tree}: there is no commit on top of the tag 'base': nothing to write")
    return tree, count


# --- wholly new files -----------------------------------------------------------------------


@dataclass
class Edits:
    """Files that the series adds, by what there is to do about each."""

    fold: list[str] = field(default_factory=list)  # changed here
    copy: list[str] = field(default_factory=list)  # changed in the tree
    remove: list[str] = field(default_factory=list)  # gone from the tree


def added(patches: Iterable[Patch]) -> dict[str, str]:
    """The files that patches add, each with its blob after the last patch that touches it."""
    new: set[str] = set()
    blobs: dict[str, str] = {}
    for patch in patches:
        file = ""
        for what, word in CHANGED.findall(patch.text):
            if what.startswith("diff"):
                file = word
            elif what.startswith("index"):
                blobs[file] = word
            elif what.startswith("new"):
                new.add(file)
            else:
                new.discard(file)
    return {file: blobs[file] for file in new if file}


def blob(path: Path) -> str:
    """git's name for what a file holds; "" if there is none."""
    if not path.exists():
        return ""
    text = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(text) + text).hexdigest()


def find_edits(base: Base, tree: SeriesTree) -> Edits:
    """Which files that the series adds were edited here, in the tree, or went. Problem if both were."""
    edits = Edits()
    patched = added(base.patches)
    words = ("diff-tree", "-r", "-z", "--no-renames", "--diff-filter=A", "base", "HEAD")
    fields = tree.git(*words).split("\0")
    in_tree = {file: state.split()[3] for state, file in zip(fields[::2], fields[1::2])}
    for file, theirs in in_tree.items():
        ours, before = blob(ROOT / file), patched.get(file)
        if ours == theirs:
            continue
        if ours in ("", before):
            edits.copy.append(file)
        elif theirs == before:
            edits.fold.append(file)
        else:
            raise Problem(
                f"{file} was changed both here and in {tree}: make them the same (git -C {tree} "
                f"diff --no-index {file} {ROOT / file}), then run it again"
            )
    others = set(PATCHES.glob("[!.]*")) - {base.folder}
    for file in sorted(patched.keys() - in_tree.keys()):
        if not (ROOT / file).exists() or any(file in added(read_series(one)) for one in others):
            continue
        if blob(ROOT / file) != patched[file]:
            raise Problem(
                f"{file} was changed here but is gone from {tree}: remove it here too, or bring it "
                "back there"
            )
        edits.remove.append(file)
    return edits


def fold_in(files: list[str], tree: SeriesTree) -> None:
    """Make each a fixup commit, and have one rebase put them all in their place."""
    try:
        for file in files:
            say(f"folding {file} into the tree")
            commit = tree.git("rev-list", "-1", "base..HEAD", "--", file)
            shutil.copy(ROOT / file, tree.path / file)
            tree.git("add", "-f", "--", file)
            tree.git("commit", "-q", "--no-verify", f"--fixup={commit}")
        tree.git("rebase", "-q", "-i", "--autosquash", "--keep-empty", "base")
    except (Problem, OSError) as why:
        raise Problem(
            f"{' '.join(files)} could not be folded into {tree}, which stays as it was: make the "
            f"change there, then run it again ({why})"
        ) from None


def bring_here(edits: Edits, tree: SeriesTree) -> None:
    """Copy what the tree has otherwise, and remove what it has no longer."""
    for file in edits.copy:
        (ROOT / file).parent.mkdir(parents=True, exist_ok=True)
        remove(ROOT / file)
        shutil.copy(tree.path / file, ROOT / file)
        say(f"{file} is copied from the tree")
    for file in edits.remove:
        remove(ROOT / file)
        say(f"{file} is removed: the series has it no longer")


# --- the patches ----------------------------------------------------------------------------


def write(base: Base, tree: SeriesTree, count: int, new: Path) -> None:
    """A folder as patches/BASE is to be."""
    remove(new)
    if base.folder.is_dir():
        shutil.copytree(base.folder, new, symlinks=True)
    for patch in new.glob("*.patch"):
        patch.unlink()
    tree.git(
        "format-patch", "-q", "-o", new, *FORMAT.split(), "base..HEAD",
        wrong="git format-patch failed, nothing is written",
    )  # fmt: skip
    if len(list(new.glob("*.patch"))) != count:
        raise Problem(
            f"git format-patch wrote fewer than {count} patches: is a commit in {tree} empty?"
        )
    write_forms(base, tree, new)
    link_alike(base, tree, new)


def refresh(base: Base, given: Path | None = None) -> None:
    """Write the patches of a base from its tree, or the one that is given."""
    old, new = (PATCHES / f".{base.name}.{state}" for state in ("old", "new"))
    if old.is_dir():  # a swap was cut short
        if not base.folder.is_dir():
            old.rename(base.folder)
        remove(old)
    try:
        tree, count = fit_tree(base, given)
        edits = find_edits(base, tree)
        with tree.restored() if edits.fold else nullcontext():
            if edits.fold:
                fold_in(edits.fold, tree)
            write(base, tree, count, new)
        with uninterrupted():
            swap(base, count, new, old)
            tree.in_step(base.folder)
            bring_here(edits, tree)
    finally:
        remove(new)
    if (base.folder / "parts").is_file():
        try:
            parts_of(base)
        except Problem as problem:
            say(f"careful: {str(problem).partition('error: ')[2]}")


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_base(parser, series=False, ksrc=False)
    parser.add_argument(
        "tree",
        nargs="?",
        type=place,
        metavar="TREE",
        help="a tree of the series (build/tree/BASE, which is made where it is missing)",
    )


def command(args: argparse.Namespace) -> int:
    refresh(args.base, args.tree)
    return OK
