# SPDX-License-Identifier: GPL-2.0
"""One test of many files: it says of each what is wrong, and not of the first alone."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
LINES = 8  # of what is said of each


def each_holds(things: Iterable[T], check: Callable[[T], None]) -> None:
    """Call the check for each thing. Raises AssertionError, which names all that it raises for and
    what is wrong with them, or that there are no things."""
    wrong, number = [], 0
    for number, thing in enumerate(things, 1):
        try:
            check(thing)
        except Exception as error:  # noqa: BLE001 the others are checked all the same
            name = thing.name if isinstance(thing, Path) else str(thing)
            kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
            said = str(error).splitlines()[:LINES]
            wrong.append(f"{name}: {kind}" + "\n  ".join(said))
    if not number:
        raise AssertionError("there is nothing to check")
    if wrong:
        raise AssertionError("\n".join([f"{len(wrong)} of {number} are wrong:", *wrong]))
