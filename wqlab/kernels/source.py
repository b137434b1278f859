# SPDX-License-Identifier: GPL-2.0
"""A kernel's source, work trees of it with some of its patches, and the environment of builds."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from wqlab.ground.files import fresh, lock, remove, write_whole
from wqlab.ground.git import WHO, am, asked, git, git_env
from wqlab.ground.places import CACHE
from wqlab.ground.problem import Problem, Usage
from wqlab.ground.run import Done, check, run
from wqlab.kernels.bases import Base

WORK = CACHE / "work"  # trees, and what is built from them
LONG = 1800.0  # seconds, for what reads or writes a whole source


@dataclass(frozen=True)
class Source:
    """A kernel's source, and the base whose series is for it."""

    base: Base
    repo: Path  # a git repository with one commit, tagged `base`; nobody changes it
    version: str

    @cached_property
    def tree_id(self) -> str:
        """The id of git for all that the source has, as a name for it."""
        return git(self.repo, "rev-parse", "base^{tree}")

    def count(self, patches: int | None) -> int:
        """How many patches are meant; None is all. Raises Usage if there are not so many."""
        there = len(self.base.patches)
        if patches is None:
            return there
        if not 0 <= patches <= there:
            raise Usage(f"the series has patches 1 to {there}, 0 is the base: not {patches}")
        return patches

    def place(self, name: str = "") -> Path:
        """The folder of a work tree, and of what is built from it."""
        return WORK / self.repo.name / (name or "series")

    def checkout(self, patches: int | None = None, name: str = "") -> Path:
        """A work tree with the base and its first N patches (None: all).

        Each name has a tree of its own, which may be used at the same time. Going from one N
        to another touches only the files that differ, so builds there are incremental.
        """
        count = self.count(patches)
        with self._lock(name):
            return self._checkout(count, name)

    @contextmanager
    def hold(
        self,
        patches: int | None = None,
        name: str = "",
        overlay: Mapping[str, str] | None = None,
    ) -> Iterator[Path]:
        """Hold a work tree as checkout() makes it: it stays as it is for the block.

        Others may read it too, unless there is an overlay: new text for some of its files, which
        is put back afterwards. Of no patches and no overlay it is the repository itself.
        """
        count = self.count(patches)
        if overlay:
            with self._lock(name):
                tree = self._checkout(count, name)
                try:
                    for path, text in overlay.items():
                        file = tree / path
                        if not file.is_file() or file.read_text() != text:
                            file.parent.mkdir(parents=True, exist_ok=True)
                            file.write_text(text)
                    yield tree
                finally:
                    self._reset(tree)
            return
        while count:
            with self._lock(name, shared=True):
                tree = self._tree(name)
                if self._stands(tree, count):
                    yield tree
                    return
            self.checkout(count, name)
        yield self.repo

    def _lock(self, name: str, shared: bool = False) -> AbstractContextManager[None]:
        return lock(str(self.place(name).relative_to(CACHE)), shared=shared)

    def _tree(self, name: str) -> Path:
        return self.place(name) / "linux"

    def _commits(self, tree: Path) -> Path:
        """The commits of the series as it is now: the base, and one for each patch."""
        text = "\0".join(patch.text for patch in self.base.patches)
        return tree / ".git/wq-series" / hashlib.sha256(text.encode()).hexdigest()[:16]

    def _stands(self, tree: Path, count: int) -> bool:
        commits = self._commits(tree)
        return (
            commits.is_file()
            and asked(tree, "rev-parse", "HEAD") == commits.read_text().split()[count]
            and self._status(tree) == Done(0, "")
        )

    def _status(self, tree: Path) -> Done:
        return run(["git", "-C", tree, "status", "--porcelain"], limit=120, env=git_env())

    def _reset(self, tree: Path) -> None:
        (tree / ".git/index.lock").unlink(missing_ok=True)
        git(tree, "reset", "-q", "--hard")
        git(tree, "clean", "-qfd")

    def _checkout(self, count: int, name: str) -> Path:
        tree, base = self._tree(name), git(self.repo, "rev-parse", "base")
        if asked(tree, "rev-parse", "-q", "--verify", "base") != base:
            remove(tree)
            with fresh(tree.with_name("linux.part")) as part:
                check(
                    ["git", "clone", "-q", "--local", "--no-checkout", self.repo, part],
                    wrong=f"{self.repo} could not be cloned",
                    limit=LONG,
                    label=f"making a work tree in {tree.parent}",
                    env=git_env(),
                )
                git(part, "checkout", "-q", "--detach", "base", limit=LONG)
                part.rename(tree)
        write_whole(tree / ".git/info/exclude", "/build-*\n")  # of wqlab.kernels.build
        asked(tree, "am", "--abort")
        self._reset(tree)

        # A series is applied once and then found again by what its patches say.
        commits = self._commits(tree)
        if not commits.is_file():
            git(tree, "checkout", "-q", "--detach", "base", limit=LONG)
            try:
                am(tree, [patch.path for patch in self.base.patches])
            except Problem as problem:
                raise Problem(
                    f"patches/{self.base.name} do not apply to {self.version}: {problem}"
                ) from None
            write_whole(commits, git(tree, "rev-list", "--reverse", "HEAD") + "\n")
        git(tree, "checkout", "-q", "--detach", commits.read_text().split()[count], limit=LONG)
        git(tree, "clean", "-qfd")
        return tree


# --- making a repository --------------------------------------------------------------------


def kbuild_env() -> dict[str, str]:
    """The environment in which kernels are built.

    The compiler's output is kept in the cache. Builds are alike whoever makes them and when. The
    variables of a make that this runs under are not for the kernel's.
    """
    not_ours = ("MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "ARCH")
    env = {name: text for name, text in os.environ.items() if name not in not_ours}
    return env | {
        "LC_ALL": "C",
        "CCACHE_DIR": str(CACHE / "ccache"),
        "CCACHE_MAXSIZE": "4G",
        "CCACHE_NOHASHDIR": "1",  # debugging information may name another place
        # Preprocess once, not again to compile: a sixth less time for what is not there yet.
        "CCACHE_NOCPP2": "1",
        # CCACHE_DEPEND would not see .incbin: a kernel's image would be another one's. What was
        # kept with it stays in another namespace.
        "CCACHE_NAMESPACE": "preprocessed",
        "KBUILD_BUILD_TIMESTAMP": "2024-11-17",
        "KBUILD_BUILD_USER": WHO,
        "KBUILD_BUILD_HOST": "localhost",
    }
