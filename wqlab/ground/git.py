# SPDX-License-Identifier: GPL-2.0
"""Run git so that no configuration of the user's can disturb it."""

import functools
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from wqlab.ground.problem import Problem, Usage
from wqlab.ground.run import check, run

SETTINGS = {
    "core.attributesFile": "/dev/null",
    "core.excludesFile": "/dev/null",
    "core.fsmonitor": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
}
WHO = "unbound-workqueue"
WHEN = "2024-11-17T00:00:00+00:00"


@functools.cache
def git_env() -> dict[str, str]:
    """The environment for git.

    It reads no configuration but the repository's own, and SETTINGS win over that one. Every
    commit has the same author, committer and date: commit ids can be reproduced, and nobody needs
    an identity.
    """
    # The user's leave to read trees that belong to somebody else stays.
    dirs = run(["git", "config", "--get-all", "safe.directory"], limit=20).output.splitlines()
    settings = [*SETTINGS.items(), *(("safe.directory", path) for path in dirs)]
    env = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    for number, (name, text) in enumerate(settings):
        env |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": text}
    return env | {
        "LC_ALL": "C",
        "GIT_CONFIG_COUNT": str(len(settings)),
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_AUTHOR_NAME": WHO,
        "GIT_AUTHOR_EMAIL": f"{WHO}@localhost",
        "GIT_AUTHOR_DATE": WHEN,
        "GIT_COMMITTER_NAME": WHO,
        "GIT_COMMITTER_EMAIL": f"{WHO}@localhost",
        "GIT_COMMITTER_DATE": WHEN,
    }


def git(
    tree: Path, *words: str | Path, wrong: str = "", limit: float = 120, label: str = ""
) -> str:
    """What git says in `tree`, without blanks around it.

    Raises Problem, with `wrong`, where git fails or takes more than `limit` seconds. With a label,
    progress is shown.
    """
    return check(
        ["git", "-C", tree, *words],
        wrong=wrong or f"git {words[0]} failed in {tree}",
        limit=limit,
        label=label,
        env=git_env(),
    ).strip()


def asked(tree: Path, *words: str) -> str:
    """What git says in `tree`, without blanks around it; "" where it fails."""
    done = run(["git", "-C", tree, *words], limit=120, env=git_env())
    return "" if done.status else done.output.strip()


def patched(diff: Path, read: Callable[[str], str]) -> dict[str, str]:
    """Apply a diff to the text that `read` gives for a path: {path: text} of what it changes.

    Raises Usage for no diff, and Problem for one that does not apply or removes a file.
    """
    paths = re.findall(r"(?m)^\+\+\+ (?:b/)?(\S+)", diff.read_text())
    if not paths:
        raise Usage(f"{diff} is no diff of a kernel's files")
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for path in paths:
            try:
                old = read(path)
            except OSError:
                raise Problem(f"{diff} changes {path}, which the kernel does not have") from None
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_text(old)
        # The folder is no repository, and must not be taken for a part of one.
        env = {**git_env(), "GIT_CEILING_DIRECTORIES": str(tree.parent)}
        check(["git", "apply", diff.resolve()], wrong=f"{diff} does not apply", cwd=tree, env=env)
        try:
            return {path: (tree / path).read_text() for path in paths}
        except FileNotFoundError as error:
            path = Path(error.filename).relative_to(tree)
            raise Problem(f"{diff} removes {path}: a mutant changes files") from None
