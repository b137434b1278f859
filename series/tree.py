# SPDX-License-Identifier: GPL-2.0
"""Make a git tree to edit the series in: a clone of the base's source that needs the cache no
longer, the base tagged `base`, and on branch `series` one commit per patch of patches/BASE. A tree
that is there already is kept: one with work of its own as it is, one without is brought up to the
patches. `series refresh` writes the patches back.

With BASE_REPO in the environment, a git repository with a tag `base` is cloned in place of what
`series obtain` gets. Prints the tree's path, and nothing else, on stdout.
"""

import argparse
import os
from pathlib import Path

from series.worktree import LIMIT, SeriesTree, place, series_id
from wqlab.ground.files import remove
from wqlab.ground.git import am, asked, git, git_env
from wqlab.ground.places import BUILD
from wqlab.ground.problem import OK, Problem
from wqlab.ground.run import check, say
from wqlab.kernels import options
from wqlab.kernels.bases import Base
from wqlab.kernels.obtain import obtain


def default_tree(base: Base) -> Path:
    """Where the tree of a base is, unless another place is named."""
    return BUILD / "tree" / base.name


def make_tree(base: Base, dest: Path, ksrc: Path | None = None) -> SeriesTree:
    """The tree in `dest`, which is as it was if that fails."""
    given = os.environ.get("BASE_REPO")
    repo = Path(given) if given else obtain(base, ksrc).repo
    base_id = asked(repo, "rev-parse", "-q", "--verify", "base^{commit}")
    if not base_id:
        raise Problem(f"{repo} is no git repository with a tag 'base'")
    patches = [patch.path for patch in base.fitted(repo).patches]

    tree = SeriesTree(dest)
    if dest.exists() and (not dest.is_dir() or any(dest.iterdir())):
        follow(tree, base, repo, base_id, patches)
        return tree
    part = SeriesTree(dest.with_name(f"{dest.name}.part"))
    remove(part.path)
    try:
        clone(repo, part.path)
        am(part.path, patches)
        part.in_step(base.folder)
        if dest.exists():
            dest.rmdir()
        part.path.rename(dest)
    finally:
        remove(part.path)
    say(f"{dest} has the base and {len(patches)} patches on branch series")
    return tree


def clone(repo: Path, dest: Path) -> None:
    """The base of a repository on a branch `series`, in a tree that stands alone."""
    dest.parent.mkdir(parents=True, exist_ok=True)
    check(
        ["git", "clone", "-q", "--no-checkout", repo, dest],
        wrong=f"{repo} could not be cloned to {dest}",
        limit=LIMIT,
        label=f"cloning the source to {dest}",
        env=git_env(),
    )
    cloned = git(dest, "symbolic-ref", "--short", "HEAD")
    git(dest, "remote", "remove", "origin")
    git(
        dest, "checkout", "-q", "-B", "series", "base",
        wrong=f"the source could not be checked out in {dest} (is the disk full?)",
        limit=LIMIT, label="checking it out",
    )  # fmt: skip
    if cloned != "series":
        git(dest, "branch", "-q", "-D", cloned)


def follow(tree: SeriesTree, base: Base, repo: Path, base_id: str, patches: list[Path]) -> None:
    """Bring a tree that is there up to the patches, unless it has work of its own."""
    tree.require(f"{tree} is there and no tree of the series: remove it, or give another DEST")
    afresh = f"to start afresh, save what you need, remove {tree} and run series tree again"
    if tree.git("rev-parse", "base^{commit}") != base_id:
        was, now = (git(one, "show", "-s", "--format=%s", "base") for one in (tree.path, repo))
        raise Problem(f"{tree} stems from '{was}' and the base is now '{now}': {afresh}")

    changed = tree.agreed_id != series_id(base.folder)
    if tree.has_work:
        say(f"{tree} has work of its own and is left as it is; {afresh}")
        if changed:
            say(f"careful: patches/{base.name} has changed since that tree was made")
    elif changed:
        say(f"patches/{base.name} has changed: bringing {tree} up to it")
        with tree.restored():
            tree.git("reset", "-q", "--hard", "base")
            am(tree.path, patches, end=f"; {tree} is as it was")
            tree.in_step(base.folder)
    else:
        say(f"{tree} is there already; {afresh}")


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_base(parser, series=False)
    parser.add_argument(
        "dest", nargs="?", type=place, metavar="DEST", help="a folder (build/tree/BASE)"
    )


def command(args: argparse.Namespace) -> int:
    print(make_tree(args.base, args.dest or default_tree(args.base), args.ksrc))
    return OK
