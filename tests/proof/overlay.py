# SPDX-License-Identifier: GPL-2.0
"""What a diff changes in a kernel, to be put over its source."""

import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from wqlab.ground.git import git_env
from wqlab.ground.problem import Problem, Usage
from wqlab.ground.run import check
from wqlab.kernels.source import Source


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


def diff_overlay(source: Source, patches: int | None, *diffs: Path) -> dict[str, str]:
    """{path: text} of the kernel's files that diffs change, with one after the other applied.

    `patches` is how many of the series the kernel has (None: all). Raises what patched() does.
    """
    found: dict[str, str] = {}
    with source.hold(patches) as tree:

        def read(path: str) -> str:
            return found.get(path) or (tree / path).read_text()

        for diff in diffs:
            found.update(patched(diff, read))
    return found
