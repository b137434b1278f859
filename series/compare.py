# SPDX-License-Identifier: GPL-2.0
"""Show how the series of two bases differ, patch by patch, as `git range-diff` does: which patch has
become which, what differs in its message and in what it changes, and which ones only one of them
has. The trees of both are made where they are missing, see `series tree`, and it is their commits
that are compared.
"""

import argparse

from series.tree import default_tree, make_tree
from wqlab.ground.git import git_env
from wqlab.ground.problem import OK
from wqlab.ground.run import check
from wqlab.kernels import options

LIMIT = 600.0  # seconds


def add_options(parser: argparse.ArgumentParser) -> None:
    for name in ("base", "other"):
        parser.add_argument(
            name,
            type=options.checked(options.with_series),
            metavar=name.upper(),
            help="a file in bases/ that there are patches for",
        )


def command(args: argparse.Namespace) -> int:
    trees = [make_tree(base, default_tree(base)) for base in (args.base, args.other)]
    ranges = ["..".join(tree.git("rev-parse", "base", "HEAD").split()) for tree in trees]
    objects = trees[1].git("rev-parse", "--path-format=absolute", "--git-path", "objects")
    shown = check(
        ["git", "-C", trees[0].path, "range-diff", "--no-color", *ranges],
        wrong="git range-diff failed",
        limit=LIMIT,
        env={**git_env(), "GIT_ALTERNATE_OBJECT_DIRECTORIES": objects},
    )
    print(shown, end="")
    return OK
