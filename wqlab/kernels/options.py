# SPDX-License-Identifier: GPL-2.0
"""Options that several commands have, which mean the same in all of them.

Every value is checked when it is parsed, before anything is downloaded, built or booted. What is
wrong with it is raised as argparse.ArgumentTypeError, whose text argparse prints.
"""

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from wqlab.ground.problem import Problem, Usage
from wqlab.kernels.bases import Base, base_names, default_base, load_base, series_names

T = TypeVar("T")


def checked(parse: Callable[[str], T]) -> Callable[[str], T]:
    """`parse`, as the type of an option: a Problem or ValueError of its becomes argparse's message."""

    def convert(text: str) -> T:
        try:
            return parse(text)
        except (Problem, ValueError) as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def positive(text: str) -> int:
    """A number above 0."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def names(known: Sequence[str]) -> Callable[[str], list[str]]:
    """A parser for lists as "stock,patched" of known names; each is taken once."""

    def parse(text: str) -> list[str]:
        words = text.split(",")
        for word in words:
            if word not in known:
                raise argparse.ArgumentTypeError(f"{word!r} is not one of {', '.join(known)}")
        return list(dict.fromkeys(words))

    return parse


def numbers(text: str) -> list[int]:
    """A list of numbers above 0, as "1,2,4"; "" is an empty one."""
    return [positive(word) for word in text.split(",")] if text else []


def existing(text: str) -> Path:
    """A file or folder that is there."""
    path = Path(text)
    if not path.exists():
        raise argparse.ArgumentTypeError(f"{text} does not exist")
    return path.resolve()


def output(text: str) -> Path:
    """A file that can be written, also in folders that do not exist yet."""
    path = Path(text).absolute()
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a directory, not a file")
    there = next(parent for parent in path.parents if parent.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text} cannot be written: {there} is not writable")
    return path


def with_series(text: str) -> Base:
    """A base that there are patches for."""
    found, known = load_base(text), series_names()
    if text not in known:
        raise Usage(f"there is no series for {text}: the bases with one are: {' '.join(known)}")
    return found


def add_base(parser: argparse.ArgumentParser, *, series: bool = True, ksrc: bool = True) -> None:
    """Add --base, and --ksrc; with `series`, --base takes only bases that have patches."""
    known = series_names() if series else base_names()
    parser.add_argument(
        "--base",
        type=checked(with_series if series else load_base),
        default=default_base(),
        metavar="BASE",
        help=f"the kernel, of {', '.join(known)} ({default_base()})",
    )
    if ksrc:
        parser.add_argument(
            "--ksrc",
            type=existing,
            metavar="KSRC",
            help="a kernel source in place of the base's: a git tree, a directory or a tarball",
        )
