# SPDX-License-Identifier: GPL-2.0
"""Write files whole, remove them, and lock what several runs share."""

import fcntl
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wqlab.ground.places import CACHE
from wqlab.ground.problem import Problem
from wqlab.ground.run import say

LOCK_LIMIT = 1800.0  # seconds to wait for another run


def remove(path: Path) -> None:
    """Remove a file, a link or a folder with all that is in it, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def fresh(folder: Path) -> Iterator[Path]:
    """A folder, made anew for the block. What the block has not moved elsewhere is removed after
    it, however it ends."""
    remove(folder)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        remove(folder)


@contextmanager
def lock(name: str, limit: float = LOCK_LIMIT, *, shared: bool = False) -> Iterator[None]:
    """Hold the cache's lock `name` for the block; a shared one together with others who share it.

    It ends with this process at the latest. Raises Problem after `limit` seconds of waiting.
    """
    path = CACHE / f"{name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    # Python has exec close the file: a program that outlives this process does not hold the lock.
    with path.open("w") as file:
        deadline, said = time.monotonic() + limit, False
        while True:
            try:
                fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not said:
                    say(f"waiting for another run that holds {path}")
                    said = True
                if time.monotonic() > deadline:
                    raise Problem(
                        f"{path} is still held after {limit:.0f} s: end the other run, then try again"
                    ) from None
                time.sleep(0.2)
        yield


def write_whole(path: Path, text: str) -> None:
    """Write a file, in UTF-8, and the folders it is in, so that nobody ever sees it half written.

    Raises Problem where it cannot be written; nothing is left then.
    """
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise Problem(f"{path} cannot be written: {error.strerror}") from None
