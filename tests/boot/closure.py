# SPDX-License-Identifier: GPL-2.0
"""drgn of two ages; and Python and drgn for a guest: this machine's files, at the paths that they have here, or for
another architecture Debian's."""

import os
import re
import shutil
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import drgn
from farm import Making, Need

from wqlab.ground.places import BUILD, CACHE, ROOT
from wqlab.ground.problem import Skipped
from wqlab.ground.run import check
from wqlab.guests.initramfs import libraries
from wqlab.kernels import apt
from wqlab.kernels.arch import Arch


@dataclass(frozen=True)
class Drgn(Need):
    """drgn as Debian 12 has it, or the one that all else here uses: a folder of packages."""

    old: bool = False

    def make(self, farm: Making) -> Path:
        if not self.old:
            return Path(drgn.__file__).parent.parent
        with (ROOT / "pyproject.toml").open("rb") as file:
            [pin] = tomllib.load(file)["dependency-groups"]["debian12"]
        folder = BUILD / "test" / pin
        if not (folder / "drgn").is_dir():
            command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--upgrade"]
            command += ["--only-binary", ":all:", "--target", str(folder), pin]
            check(command, wrong=f"{pin} could not be installed", limit=300)
        return folder


# of the standard library, what nothing here imports
LEFT_OUT = {"__pycache__", "ensurepip", "idlelib", "lib2to3", "site-packages", "test", "tkinter"}


def python_with(packages: Path) -> dict[str, Path]:
    """The files of Python and of drgn in that folder."""
    program = Path(sys.executable).resolve()
    library = Path(re.__file__).resolve().parent.parent
    files = [
        path
        for path in library.rglob("*")
        if path.is_file()
        and not LEFT_OUT & set(path.relative_to(library).parts)
        and not path.relative_to(library).parts[0].startswith("config-")
    ]
    drgn = [*packages.glob("*drgn*/**/*.py"), *packages.glob("_drgn*.so")]
    found = {program, *files, *drgn}
    for path in [program, *(path for path in (*files, *drgn) if path.suffix == ".so")]:
        found.update(libraries(path))
    return {str(path): path for path in found}


def debians(arch: Arch) -> dict[str, Path]:
    """The files of Debian's Python and drgn for another architecture, with all that they need."""

    def needed() -> tuple[apt.Apt, list[str]]:
        if not shutil.which("apt-get"):
            raise Skipped(f"this machine has no apt to get drgn for {arch.name} with")
        its = apt.private(architecture=arch.dpkg)
        command = ["apt-get", *its.options, "-s", "-qq", "--no-install-recommends"]
        said = check([*command, "install", "python3-drgn"], wrong="apt knows no python3-drgn")
        return its, re.findall(r"^Inst (\S+)", said, re.MULTILINE)

    place = apt.unpacked(CACHE / f"drgn-{arch.name}", "python3-drgn", needed)
    files = {}
    for path in place.rglob("*"):
        name = path.relative_to(place)
        # a link is taken for what it leads to there
        leads = path
        while leads.is_symlink():
            to = os.readlink(leads)
            leads = place / to.lstrip("/") if to.startswith("/") else leads.parent / to
        wanted = ".so" in name.name or "python3" in str(name)
        if wanted and leads.is_file() and not (LEFT_OUT | {"gconv", "share"}) & set(name.parts):
            files[str(name)] = leads
    return files
