# SPDX-License-Identifier: GPL-2.0
"""The kernels that there is a series for, from bases/, and their series, from patches/."""

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from wqlab.ground.places import ROOT
from wqlab.ground.problem import Problem, Usage
from wqlab.ground.run import check

BASES = ROOT / "bases"
PATCHES = ROOT / "patches"


@dataclass(frozen=True)
class Patch:
    """One patch of a series."""

    number: int  # from 1
    path: Path = field(repr=False)

    @property
    def name(self) -> str:
        return self.path.name

    @cached_property
    def text(self) -> str:
        return self.path.read_text()

    @property
    def files(self) -> list[str]:
        """The kernel's files that it changes."""
        return re.findall(r"^diff --git a/(\S+) b/\1$", self.text, re.MULTILINE)

    @property
    def diff(self) -> str:
        """But for the mail headers and what the patch says about itself."""
        return self.text.partition("\n---\n")[2]


@dataclass(frozen=True)
class Part:
    """Patches of a series that belong together, and are sent together."""

    number: int
    name: str
    first: int  # the numbers of its patches
    last: int


@dataclass(frozen=True)
class Base:
    """A file of bases/, which is read by bash too: lines NAME=VALUE."""

    name: str
    package: str  # Debian's, of the source
    series: str  # as 6.12
    minimum: str  # the oldest version that the series is known to fit
    newest: str  # the newest that it was tried on
    suite: str = ""  # Debian's, to take the package from; "" is whatever apt has
    is_source: bool = False  # a source package of the suite, whose orig tarball is taken
    config: str = ""  # the base with the configuration of Debian's to compile it in; "" is itself
    foreign: str = ""  # the suite with other architectures' packages, where `suite` is ""
    forms: tuple[Path, ...] = ()  # those of `other_forms` that are for its source

    @cached_property
    def patches(self) -> list[Patch]:
        found = {path.name: path for path in sorted((PATCHES / self.name).glob("*.patch"))}
        for folder in self.forms:
            found |= {path.name: path for path in folder.glob("*.patch") if path.name in found}
        return [Patch(number, path) for number, path in enumerate(found.values(), 1)]

    @cached_property
    def parts(self) -> list[Part]:
        """As scripts/common.sh reads them."""
        script = '. "$1/scripts/common.sh" && list_parts "$2"'
        command = ["bash", "-c", script, "list_parts", str(ROOT), str(PATCHES / self.name)]
        said = check(command, wrong=f"the series for {self.name} has no parts")
        lines = [line.split() for line in said.splitlines()]
        return [Part(int(no), name, int(first), int(last)) for no, name, first, last in lines]

    @property
    def other_forms(self) -> list[Path]:
        """Folders with some of its patches in another form, under the same names."""
        return sorted({path.parent for path in (PATCHES / self.name).glob("*/*.patch")})


def version_key(version: str) -> list[int]:
    """To sort versions of kernels by."""
    return [int(number) for number in re.findall(r"\d+", version)]


def base_names() -> list[str]:
    """Oldest first."""
    return sorted((path.name for path in BASES.iterdir() if path.is_file()), key=version_key)


def series_names() -> list[str]:
    """The bases that there are patches for, oldest first."""
    return [name for name in base_names() if (PATCHES / name).is_dir()]


def default_base() -> str:
    """The oldest one, the long-term kernel that the work is for."""
    return series_names()[0]


def load_base(name: str) -> Base:
    if name not in base_names():
        raise Usage(f"unknown base '{name}': the bases are: {' '.join(base_names())}")
    lines = (BASES / name).read_text().splitlines()
    values = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    try:
        if is_source := "SOURCE" in values:
            package, suite = values["SOURCE"], values["SUITE"]
        else:
            package, suite = values["PACKAGE"], values.get("SUITE", "")
        series, minimum, newest = values["SERIES"], values["MINIMUM"], values["NEWEST"]
        config, foreign = values.get("CONFIG", ""), values.get("FOREIGN", "")
        return Base(name, package, series, minimum, newest, suite, is_source, config, foreign)
    except KeyError as error:
        raise Problem(f"bases/{name} has no {error}") from None
