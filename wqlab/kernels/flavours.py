# SPDX-License-Identifier: GPL-2.0
"""What kernels are configured for: the flavours of configs/flavours.toml."""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from wqlab.ground.places import ROOT
from wqlab.ground.problem import Problem
from wqlab.kernels.arch import Arch
from wqlab.kernels.bases import Patch
from wqlab.kernels.source import Source

CONFIGS = ROOT / "configs"


@dataclass(frozen=True)
class Flavour:
    """What a kernel is built for: an entry of configs/flavours.toml."""

    name: str
    about: str
    fragments: tuple[str, ...]  # files of configs/
    arch: str = ""  # "" is any
    beside: str = ""  # built where this one is: few files of the two differ
    lines: tuple[str, ...] = ()  # put behind them, without "CONFIG_"
    make: tuple[str, ...] = ()  # what is said to the kernel's make


@cache
def flavours() -> dict[str, Flavour]:
    """The entries of configs/flavours.toml, by their names."""
    known = tomllib.loads((CONFIGS / "flavours.toml").read_text())
    return {
        name: Flavour(name=name, **{**entry, "fragments": tuple(entry["fragments"])})
        for name, entry in known.items()
    }


def fragments(flavour: Flavour, arch: Arch) -> list[Path]:
    """The files that a flavour's configuration is made of, with the architecture's as the second;
    raises Problem if one does not exist."""
    names = [flavour.fragments[0], f"arch/{arch.name}", *flavour.fragments[1:]]
    paths = [CONFIGS / name for name in names]
    for path in paths:
        if not path.is_file():
            raise Problem(f"flavour {flavour.name}: there is no {path.relative_to(ROOT)}")
    return paths


def symbols_of(patches: Sequence[Patch]) -> list[str]:
    """The Kconfig symbols that patches add."""
    return re.findall(r"^\+config (\w+)$", "".join(patch.text for patch in patches), re.MULTILINE)


def wanted(source: Source, count: int, paths: Sequence[Path]) -> list[str]:
    """The lines of these fragments, but for symbols that only later patches of the series add.

    `count` is how many patches the source has.
    """
    missing = set(symbols_of(source.base.patches)) - set(symbols_of(source.base.patches[:count]))
    lines = [line for path in paths for line in path.read_text().splitlines()]
    return [
        line
        for line in lines
        if line.startswith("CONFIG_") and line[7:].partition("=")[0] not in missing
    ]


def lost(lines: Sequence[str], config: Sequence[str]) -> list[str]:
    """Those of `lines` that the configuration `config` does not have. Of several lines for one
    symbol, the last counts."""
    last = {line.partition("=")[0]: line for line in lines}
    has = {line.partition("=")[0]: line for line in config if line.startswith("CONFIG_")}
    return [
        line
        for symbol, line in last.items()
        if has.get(symbol, f"{symbol}=n") != line
    ]  # fmt: skip
