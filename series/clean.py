# SPDX-License-Identifier: GPL-2.0
"""Remove build/, but for what cannot be made again: trees of `series tree` that have work of their
own, and what scripts/apply made. The cache and local/ stay. An error removes nothing.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

from series.worktree import AGREED, SeriesTree
from wqlab.ground.files import remove
from wqlab.ground.places import BUILD
from wqlab.ground.problem import OK
from wqlab.ground.run import say


def below(folder: Path) -> list[Path]:
    """What is in a folder, sorted; nothing where there is none."""
    return sorted(folder.iterdir()) if folder.is_dir() else []


def replaceable(tree: SeriesTree) -> bool:
    """`series tree` makes the same again."""
    return (
        tree.is_one
        and not tree.has_work
        and not tree.git("rev-list", "-n", "1", "--all", "--not", AGREED)
    )


def kept() -> Iterator[Path]:
    """What stays, which is said of each."""
    for path in below(BUILD / "tree"):
        if path.suffix != ".part" and not replaceable(SeriesTree(path)):
            say(f"kept: {path.relative_to(BUILD.parent)}, which has work of its own")
            yield path
    for path in below(BUILD / "apply"):
        shown, where = path.relative_to(BUILD.parent), quote(str(path))
        how = f"git -C {where} worktree remove" if (path / ".git").is_file() else "rm -r"
        say(f"kept: {shown}, which scripts/apply made for you; to remove it: {how} {where}")
        yield path


def add_options(parser: argparse.ArgumentParser) -> None:
    pass


def command(args: argparse.Namespace) -> int:
    keep = set(kept())
    keep |= {folder for path in keep for folder in path.parents}
    for folder in (BUILD / "tree", BUILD / "apply", BUILD):
        for path in below(folder):
            if path not in keep:
                remove(path)
    if not below(BUILD):
        remove(BUILD)
    return OK
