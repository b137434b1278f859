# SPDX-License-Identifier: GPL-2.0
"""The kernel as a Debian package, made by its own `make bindeb-pkg`: it is installed by dpkg, and
boots from there with its module.

Seen failing: with a package that lacks the module, and with a hook that is not called.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from farm import ALL, Making, Need
from needs import SOURCE, Boot
from test_module import one, rows

from wqlab.ground.files import remove
from wqlab.ground.problem import Skipped
from wqlab.ground.run import check
from wqlab.guests.initramfs import find_busybox
from wqlab.guests.vm import Record, sections
from wqlab.kernels.arch import find_arch
from wqlab.kernels.build import Kbuild
from wqlab.kernels.builddir import BuildDir, find_build
from wqlab.kernels.flavours import Flavour, fragments, wanted

FLAVOUR = Flavour("package", "as a Debian package", ("common", "torture", "series"))
HOOK = 'echo "$@" >/noted'
RUN = "run wq_items=200"


@dataclass(frozen=True)
class Package(Need):
    """The package, installed in a folder of its own."""

    cores = ALL
    guess = 300.0
    before = (SOURCE,)
    name = "package"  # in the names of tests

    def __str__(self) -> str:
        return "kernel: a Debian package"

    def make(self, farm: Making) -> BuildDir:
        arch = find_arch()
        for program in ("dpkg", "dh", "rsync", "cpio", "depmod"):
            if not shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin"):
                raise Skipped(f"no {program}: scripts/setup test installs it where it can")
        if arch.foreign or os.geteuid():
            raise Skipped("a package is installed by root, on its own architecture")
        source = farm[SOURCE]
        with farm.place("patches") as place, source.hold(None, place) as tree:
            folder = source.place(place) / "package"  # the packages are put beside the objects
            for old in folder.glob("*.*"):
                old.unlink()
            kbuild = Kbuild(tree, folder / arch.name, arch, jobs=0)
            kbuild.obj.mkdir(parents=True, exist_ok=True)
            kbuild.log.write_text("")
            lines = wanted(source, source.count(None), fragments(FLAVOUR, arch))
            kbuild.configure(f"{source.version} ({FLAVOUR.name})", FLAVOUR, lines)
            kbuild.make("making a package", "bindeb-pkg", wrong="no package was made")
            [package] = folder.glob("linux-image-*.deb")
            return installed(package, folder / "root", find_busybox(arch))


def installed(package: Path, root: Path, busybox: Path) -> BuildDir:
    """A kernel of which the package is installed in a folder that has a shell and a hook for it."""
    arch = find_arch()
    remove(root)
    for name in ("bin", "etc/kernel/postinst.d", "var/lib/dpkg/updates", "var/lib/dpkg/info"):
        (root / name).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    for name in ("sh", "run-parts"):
        shutil.copy(busybox, root / "bin" / name)
    hook = root / "etc/kernel/postinst.d/note"
    hook.write_text(f"#!/bin/sh\n{HOOK}\n")
    hook.chmod(0o755)
    check(
        ["dpkg", f"--root={root}", "--force-depends", "--force-bad-path", "-i", package],
        wrong="dpkg could not install it",
        limit=300,
        env=os.environ | {"PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"},
    )
    [image] = (root / "boot").glob("vmlinuz-*")
    release = image.name.removeprefix("vmlinuz-")
    assert (root / "noted").read_text() == f"{release} /boot/{image.name}\n"
    # as a kernel's build directory
    path = root / f"lib/modules/{release}/kernel"
    for name, what in ((arch.image, image), (".config", root / f"boot/config-{release}")):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).symlink_to(what)
    (path / "include/config").mkdir(parents=True)
    (path / "include/config/kernel.release").write_text(release)
    return find_build(path)


@pytest.mark.tier("full")
@pytest.mark.needs(Boot("bench-2", "module", Package(), commands=f"{RUN}\n"))
def test_package(record: Record) -> None:
    lines = sections(record.lines)[RUN]
    assert one(lines, "result") == "ok"
    assert {row["items"] for row in rows(lines)} >= {"400"}
