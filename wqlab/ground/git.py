# SPDX-License-Identifier: GPL-2.0
"""Run git so that no configuration of the user's can disturb it."""

import functools
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from wqlab.ground.places import ROOT
from wqlab.ground.problem import Problem
from wqlab.ground.run import check, run

AM_LIMIT = 1800.0  # seconds
WHO = "unbound-workqueue"


@functools.cache
def git_env() -> dict[str, str]:
    """An environment where git reads no configuration but a repository's own, settings win over
    that one, and every commit has the same author, committer and date, so that commit ids can be
    reproduced and no identity is needed. It is that of git_env in scripts/common.sh, where the
    author is who a patch names."""
    script = '. "$1/scripts/common.sh"; git_env; env -0'
    said = check(
        ["bash", "-c", script, "git_env", str(ROOT)],
        wrong="git's environment cannot be told",
        limit=20,
        stderr=False,
    )
    found = dict(line.split("=", 1) for line in said.split("\0") if line.startswith("GIT_"))
    for what in ("NAME", "EMAIL", "DATE"):
        found[f"GIT_AUTHOR_{what}"] = found[f"GIT_COMMITTER_{what}"]
    env = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    return env | found | {"LC_ALL": "C"}


def git(
    tree: Path,
    *words: str | Path,
    wrong: str = "",
    limit: float = 120,
    label: str = "",
    more: Mapping[str, str] | None = None,
) -> str:
    """What git says in `tree`, without blanks around it. `more` goes into its environment.

    Raises Problem, with `wrong`, where git fails or takes more than `limit` seconds. With a label,
    progress is shown.
    """
    return check(
        ["git", "-C", tree, *words],
        wrong=wrong or f"git {words[0]} failed in {tree}",
        limit=limit,
        label=label,
        env={**git_env(), **(more or {})},
    ).strip()


def asked(tree: Path, *words: str) -> str:
    """What git says in `tree`, without blanks around it; "" where it fails."""
    done = run(["git", "-C", tree, *words], limit=120, env=git_env())
    return "" if done.status else done.output.strip()


@contextmanager
def own_index(tree: Path, commit: str) -> Iterator[dict[str, str]]:
    """An index beside the tree's own, as of a commit: what has git's environment name it."""
    with tempfile.TemporaryDirectory() as folder:
        named = {"GIT_INDEX_FILE": f"{folder}/index"}
        git(tree, "read-tree", commit, more=named)
        yield named


def am(tree: Path, patches: Sequence[Path], end: str = "") -> None:
    """Commit patches in a tree. Problem says which of them failed, why, and `end`; the tree is
    then without any."""
    if not patches:
        return
    words = ["am", "-q", "--keep-non-patch", "--no-scissors", *map(str, patches)]
    done = run(["git", "-C", tree, *words], limit=AM_LIMIT, env=git_env())
    if done.status:
        failed = re.search(r"^Patch failed at \d+ (.*)$", done.output, re.MULTILINE)
        asked(tree, "am", "--abort")
        why = (done.output.strip().splitlines() or [f"status {done.status}"])[0]
        raise Problem(f"git am failed at '{failed[1] if failed else ''}': {why}{end}")
