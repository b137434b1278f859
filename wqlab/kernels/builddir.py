# SPDX-License-Identifier: GPL-2.0
"""A kernel that was built: what its build directory has."""

import argparse
from dataclasses import dataclass
from pathlib import Path

from wqlab.ground.problem import Problem
from wqlab.kernels.arch import ARCHES, Arch, arch_of

TREE = "lib/modules"  # modules below this folder are for modprobe in a guest


@dataclass(frozen=True)
class BuildDir:
    """A kernel's build directory (O=), or what wqlab build keeps of one."""

    path: Path
    arch: Arch
    release: str  # as uname -r; "unknown" if the directory does not say
    modules: tuple[Path, ...]  # that insmod takes: not those below TREE

    @property
    def has_kunit(self) -> bool:
        """Whether KUnit is built in."""
        config = self.path / ".config"
        return config.is_file() and "\nCONFIG_KUNIT=y\n" in config.read_text()

    @property
    def image(self) -> Path:
        """The file that boots."""
        return self.path / self.arch.image


def find_build(path: Path) -> BuildDir:
    """What is in a build directory; raises Problem if it has no image."""
    if not (arch := arch_of(path)):
        images = " or ".join(arch.image for arch in ARCHES)
        raise Problem(f"{path} is not a kernel's build directory: it has no {images}")
    release = path / "include/config/kernel.release"
    return BuildDir(
        path=path,
        arch=arch,
        release=release.read_text().strip() if release.is_file() else "unknown",
        modules=tuple(sorted(set(path.rglob("*.ko")) - set((path / TREE).rglob("*.ko")))),
    )


def named_build(text: str) -> tuple[str, BuildDir]:
    """The value NAME=DIR of an option; raises what argparse reports if it is none."""
    name, equals, path = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=DIR")
    try:
        return name, find_build(Path(path))
    except Problem as error:
        raise argparse.ArgumentTypeError(str(error)) from None
