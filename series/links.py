# SPDX-License-Identifier: GPL-2.0
"""Patches that say the same: those in two forms, and links to those of another base."""

import re
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from series.worktree import SeriesTree
from wqlab.ground.files import remove
from wqlab.ground.git import git, own_index
from wqlab.ground.places import ROOT
from wqlab.ground.problem import Problem
from wqlab.ground.run import run, say
from wqlab.kernels.bases import PATCHES, Base, other_forms

INDEX = re.compile(r"index [0-9a-f]+\.\.")
HUNK = re.compile(r"^@@ -\d+(\S*) \+\d+(\S*) @@.*")


def title(patch: Path) -> str:
    """Its name without the number."""
    return patch.name.partition("-")[2]


@cache
def our_files() -> set[str]:
    """Those of a kernel that stand here too: they are the same in all bases, and so are their
    ids."""
    folders = (ROOT / name for name in ("kernel", "lib", "tools"))
    return {str(path.relative_to(ROOT)) for folder in folders for path in folder.rglob("*")}


def bare(patch: Path) -> list[str]:
    """Its lines, without what another base has otherwise in a patch that says the same."""
    kept, file = [], ""
    for line in patch.read_bytes().decode().split("\n")[1:]:
        if found := re.match(r"diff --git a/(\S+) b/", line):
            file = found[1]
        of_kernel = file and file not in our_files()
        if not (INDEX.match(line) if of_kernel else not file and line.startswith("Date: ")):
            kept.append(HUNK.sub(r"@@ -\1 +\2 @@", line))
    return kept


def says_the_same(one: Path, other: Path) -> bool:
    """Whether two patches differ in line numbers at most."""
    return bare(one) == bare(other)


def is_the_same(one: Path, other: Path) -> bool:
    """Whether two files are equal to the byte."""
    return one.read_bytes() == other.read_bytes()


def share(patch: Path, base: str, same: Callable[[Path, Path], bool]) -> bool:
    """Make it a link to a patch of a base with its title, if there is one that is the same."""
    for other in sorted((PATCHES / base).glob(f"[0-9]*-{title(patch)}")):
        if other.is_file() and not other.is_symlink() and same(other, patch):
            remove(patch)
            patch.symlink_to(Path("..", base, other.name))
            return True
    return False


def write_forms(base: Base, tree: SeriesTree, new: Path) -> None:
    """Of patches in two forms, have both in `new`, where so far the tree's are. A tree has one of
    the two, which is known by its title. The number may be another one now."""
    fitting = {patch.path for patch in tree.patches(base.folder)}
    for form in (path for folder in other_forms(base.folder) for path in folder.glob("*.patch")):
        at, kept = new / form.parent.name, base.folder / form.name
        found = [path for path in new.glob("*.patch") if title(path) == title(form)]
        if len(found) != 1:
            raise Problem(
                f"no patch of {tree} has the title of patches/{base.name}/{at.name}/{form.name}, "
                f"which is another form of one: rename that one and patches/{base.name}/"
                f"{form.name} too, then run it again"
            )
        main, other = found[0], at / found[0].name
        remove(at / form.name)
        if form in fitting:
            if not kept.exists():
                raise Problem(f"patches/{base.name}/{form.name} is missing: nothing is written")
            main.rename(other)
            shutil.copy(kept, main)
            made, written = other, form
        else:
            shutil.copy(form, other)
            made, written, kept = main, kept, form
        if not says_the_same(made, written):
            say(
                f"careful: {kept.relative_to(ROOT)} is the other form of a patch that has "
                "changed, and stays as it is"
            )


def leaves_head(tree: SeriesTree, series: Path) -> bool:
    """Whether a series, applied to the tree's base, leaves what HEAD has."""
    patches = [patch.path for patch in tree.patches(series)]
    with own_index(tree.path, "base") as index:
        try:
            git(tree.path, "apply", "--cached", *patches, more=index)
            git(tree.path, "diff", "--cached", "--quiet", "HEAD", more=index)
        except Problem:
            return False
    return True


def link_alike(base: Base, tree: SeriesTree, new: Path) -> None:
    """Make links of those patches in `new` that say the same as one of another base. Line numbers
    of another base are only hints: should they mislead, all patches stay files."""
    with tempfile.TemporaryDirectory() as plain:
        patches = sorted(new.glob("*.patch"))
        for patch in patches:
            shutil.copy2(patch, plain, follow_symlinks=False)
            any(share(patch, other, says_the_same) for other in base.alike)
        if base.alike and not leaves_head(tree, new):
            say(
                f"careful: with links to patches of {' '.join(base.alike)}, those of {base.name} "
                "would leave something else: all are files"
            )
            for patch in patches:
                remove(patch)
                shutil.copy2(Path(plain, patch.name), patch)


def swap(base: Base, count: int, new: Path, old: Path) -> None:
    """Put the folder `new` in the place of the base's, by way of `old`. What was a link to a patch
    that changes becomes a file."""
    if not run(["diff", "-rq", "--no-dereference", base.folder, new], limit=60).status:
        say(f"patches/{base.name} is up to date ({count} patches)")
        return
    links = [
        path
        for path in sorted(PATCHES.glob("[!.]*/*.patch"))
        if path.is_symlink() and path.readlink().parent == Path("..", base.name)
    ]
    for link in links:
        text = link.read_bytes()
        remove(link)
        link.write_bytes(text)
    if base.folder.exists():
        base.folder.rename(old)
    new.rename(base.folder)
    remove(old)
    say(f"patches/{base.name} is written ({count} patches)")
    for link in links:
        if not share(link, base.name, is_the_same):
            say(
                f"{link.relative_to(ROOT)} is a file now, as the patch that it was a link to says "
                "something else"
            )
