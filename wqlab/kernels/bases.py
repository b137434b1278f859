# SPDX-License-Identifier: GPL-2.0
"""The kernels that there is a series for, from bases/, and their series, from patches/."""

import re
import shlex
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from wqlab.ground.git import git, own_index
from wqlab.ground.places import ROOT
from wqlab.ground.problem import Problem, Usage

BASES = ROOT / "bases"
PATCHES = ROOT / "patches"


@dataclass(frozen=True)
class Patch:
    """One patch of a series."""

    number: int  # from 1
    path: Path = field(repr=False)

    @property
    def name(self) -> str:
        """The name of its file."""
        return self.path.name

    @cached_property
    def text(self) -> str:
        """The mail that it is."""
        return self.path.read_text()

    @property
    def subject(self) -> str:
        """Its title, in one line."""
        head = self.text.partition("\n\n")[0]
        found = re.search(r"^Subject: (?:\[PATCH[^]]*\] )?(.*(?:\n .*)*)", head, re.MULTILINE)
        return found[1].replace("\n", "") if found else ""

    @property
    def files(self) -> list[str]:
        """The kernel's files that it changes."""
        return re.findall(r"^diff --git a/(\S+) b/\1$", self.text, re.MULTILINE)

    @property
    def diff(self) -> str:
        """But for the mail headers and what the patch says about itself."""
        return self.text.partition("\n---\n")[2]


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
    alike: tuple[str, ...] = ()  # bases whose patches its own are links to, if they say the same
    forms: tuple[Path, ...] = ()  # those of other_forms() that are for its source

    @property
    def folder(self) -> Path:
        """Where its series is."""
        return PATCHES / self.name

    @cached_property
    def patches(self) -> list[Patch]:
        """Its series, in order, in the forms that were asked for."""
        return read_series(self.folder, self.forms)

    def fitted(self, repo: Path) -> "Base":
        """With the forms of patches that are for the commit `base` of a git repository."""
        return replace(self, forms=tuple(fitting_forms(self.folder, repo)))


def read_series(folder: Path, forms: Iterable[Path] = ()) -> list[Patch]:
    """The patches of a folder, some of them replaced by those of the same names in `forms`."""
    found = {path.name: path for path in sorted(folder.glob("*.patch"))}
    for form in forms:
        found |= {path.name: path for path in form.glob("*.patch") if path.name in found}
    return [Patch(number, path) for number, path in enumerate(found.values(), 1)]


def other_forms(folder: Path) -> list[Path]:
    """The folders in that of a series which have some of its patches in another form."""
    return sorted({path.parent for path in folder.glob("*/*.patch")})


def fitting_forms(folder: Path, repo: Path) -> Iterator[Path]:
    """Those of them whose patches apply to the commit `base` of a git repository."""
    for form in other_forms(folder):
        with own_index(repo, "base") as index, suppress(Problem):
            git(repo, "apply", "--cached", "--check", *sorted(form.glob("*.patch")), more=index)
            yield form


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
    return base_names()[0]


def load_base(name: str) -> Base:
    """The base of that name. Usage if there is none, Problem if its file is wrong."""
    if name not in base_names():
        raise Usage(f"unknown base '{name}': the bases are: {' '.join(base_names())}")
    lines = shlex.split((BASES / name).read_text(), comments=True)
    values = dict(line.split("=", 1) for line in lines)
    try:
        is_source = "SOURCE" in values
        return Base(
            name,
            package=values["SOURCE" if is_source else "PACKAGE"],
            series=values["SERIES"],
            minimum=values["MINIMUM"],
            newest=values["NEWEST"],
            suite=values["SUITE"] if is_source else values.get("SUITE", ""),
            is_source=is_source,
            config=values.get("CONFIG", ""),
            foreign=values.get("FOREIGN", ""),
            alike=tuple(values.get("ALIKE", "").split()),
        )
    except KeyError as error:
        raise Problem(f"bases/{name} has no {error}") from None
