# SPDX-License-Identifier: GPL-2.0
"""The git tree that a series is edited in: the base, tagged `base`, and on branch `series` one
commit per patch. It remembers which patches it last agreed with, and at which commit."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from wqlab.ground.git import asked, git
from wqlab.ground.problem import Problem
from wqlab.ground.run import uninterrupted
from wqlab.kernels.bases import Patch, fitting_forms, read_series

AGREED = "refs/unbound-workqueue/series"
PATCHES_ID = "unbound-workqueue.patches"
LIMIT = 600.0  # seconds for what reads or writes all of a tree


def place(text: str) -> Path:
    """A folder that need not be there."""
    return Path(text).resolve()


def series_id(folder: Path) -> str:
    """A name for the contents of a folder's patches, in all forms."""
    paths = [*folder.glob("*.patch"), *folder.glob("*/*.patch")]
    found = sorted((path.relative_to(folder).as_posix(), path) for path in paths)
    lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  ./{name}\n" for name, path in found)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


@dataclass(frozen=True)
class SeriesTree:
    """Such a tree, or one that is yet to be made."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def git(self, *words: str | Path, wrong: str = "") -> str:
        """What git says of it, where it must succeed; if not, Problem with `wrong`."""
        return git(self.path, *words, wrong=wrong, limit=LIMIT)

    def require(self, wrong: str) -> None:
        """Raises Problem with `wrong` unless it is the top of a git tree with a tag `base`."""
        if not self.is_one:
            raise Problem(wrong)

    @property
    def is_one(self) -> bool:
        """The top of a git tree with a tag `base`."""
        top = asked(self.path, "rev-parse", "--show-toplevel")
        return top == str(self.path.resolve()) and bool(
            asked(self.path, "rev-parse", "-q", "--verify", "base^{commit}")
        )

    @property
    def agreed_id(self) -> str:
        """The series_id() of the patches that it last agreed with; "" for none."""
        return asked(self.path, "config", "--local", PATCHES_ID)

    @property
    def is_busy(self) -> bool:
        """A rebase or git am is under way."""
        names = ["--git-path", "rebase-merge", "--git-path", "rebase-apply"]
        paths = self.git("rev-parse", "--path-format=absolute", *names).splitlines()
        return any(Path(path).exists() for path in paths)

    @property
    def is_dirty(self) -> bool:
        """Something is not committed."""
        return bool(self.git("status", "--porcelain", wrong=f"git cannot tell the state of {self}"))

    @property
    def has_work(self) -> bool:
        """Something is there that the patches it last agreed with lack."""
        return (
            self.is_busy
            or self.is_dirty
            or asked(self.path, "symbolic-ref", "-q", "HEAD") != "refs/heads/series"
            or self.git("rev-parse", "HEAD")
            != asked(self.path, "rev-parse", "-q", "--verify", AGREED)
        )

    def patches(self, folder: Path) -> list[Patch]:
        """Those of a series' folder, in the forms that fit its base."""
        return read_series(folder, fitting_forms(folder, self.path))

    def in_step(self, folder: Path) -> None:
        """Note that it is, as it stands, what the patches of a folder hold."""
        self.git("update-ref", AGREED, "HEAD")
        self.git("config", PATCHES_ID, series_id(folder))

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Its branch goes back to where it is now, unless the block ends well."""
        head = self.git("rev-parse", "HEAD")
        try:
            yield
        except BaseException:
            with uninterrupted():
                for under_way in ("am", "rebase"):
                    asked(self.path, under_way, "--abort")
                self.git("reset", "-q", "--hard", head)
            raise
