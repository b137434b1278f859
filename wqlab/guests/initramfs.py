# SPDX-License-Identifier: GPL-2.0
"""The initramfs of a guest: busybox, guest/, the kernel's modules, and the input of its job."""

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from wqlab.ground.files import lock, remove
from wqlab.ground.places import CACHE, ROOT
from wqlab.ground.problem import Problem
from wqlab.ground.run import check
from wqlab.kernels import apt
from wqlab.kernels.arch import Arch
from wqlab.kernels.builddir import TREE, BuildDir

GUEST = ROOT / "guest"
DIRECTORY, LINK = stat.S_IFDIR | 0o755, stat.S_IFLNK | 0o777
PROGRAM, PLAIN = stat.S_IFREG | 0o755, stat.S_IFREG | 0o644


def cpio(files: Mapping[str, tuple[int, bytes]]) -> bytes:
    """The archive of {path: (mode, content)}, in the format newc of the kernel's
    Documentation/driver-api/early-userspace/buffer-format.rst."""
    out = bytearray()
    for inode, (name, (mode, data)) in enumerate([*files.items(), ("TRAILER!!!", (0, b""))], 1):
        fields = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
        out += b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"
        out += bytes(-len(out) % 4) + data
        out += bytes(-len(out) % 4)
    return bytes(out)


def find_busybox(arch: Arch) -> Path:
    """A busybox that is linked statically.

    For another architecture than the host's it comes from Debian, once. Raises Problem where
    there is none.
    """
    if not arch.foreign:
        path = shutil.which("busybox")
        if not path:
            raise Problem("no busybox: install busybox-static")
        return Path(path)
    place = CACHE / f"busybox-{arch.name}"
    with lock(place.name):
        if not place.is_file():
            if not shutil.which("apt-get"):
                raise Problem(
                    f"no busybox for {arch.name}: this machine has no apt to get it with, "
                    f"put one that is linked statically at {place}"
                )
            its_apt = apt.private(architecture=arch.dpkg)
            packages = its_apt.download("busybox-static", "")
            with tempfile.TemporaryDirectory(prefix=f".{place.name}.", dir=CACHE) as folder:
                apt.unpack(packages, Path(folder), "busybox-static")
                remove(packages[0].parent)
                [found] = [path for path in Path(folder).glob("**/bin/busybox")]
                found.rename(place)
    return place


def libraries(program: Path, env: Mapping[str, str] | None = None) -> list[Path]:
    """The libraries that the dynamic loader takes for a program of the host, and the loader.

    Raises Problem if one is not installed.
    """
    said = check(["ldd", program], wrong=f"the libraries of {program.name} are not known", env=env)
    if missing := re.search(r"(\S+) => not found", said):
        raise Problem(f"{program.name} needs {missing[1]}, which is not installed")
    return [Path(path) for path in re.findall(r"(/\S+) \(0x", said)]


def initramfs(build: BuildDir, commands: str, more: Mapping[str, bytes] | None = None) -> bytes:
    """The archive for a guest with this kernel: `commands` are the job's /input, and `more` are
    programs and other files by their paths in the guest."""
    folders = ("bin", "dev", "proc", "sys", "jobs", "modules")
    files: dict[str, tuple[int, bytes]] = dict.fromkeys(folders, (DIRECTORY, b""))
    files["bin/busybox"] = (PROGRAM, find_busybox(build.arch).read_bytes())
    files["bin/sh"] = (LINK, b"busybox")
    for path in sorted(GUEST.rglob("*")):
        if path.is_file():
            mode = PROGRAM if os.access(path, os.X_OK) else PLAIN
            files[str(path.relative_to(GUEST))] = (mode, path.read_bytes())
    for module in build.modules:
        files[f"modules/{module.name}"] = (PLAIN, module.read_bytes())
    if commands:
        files["input"] = (PLAIN, commands.encode())
    tree = [path for path in (build.path / TREE).rglob("*") if path.is_file()]
    found = {str(path.relative_to(build.path)): path.read_bytes() for path in tree}
    for name, content in (found | dict(more or {})).items():
        path = Path(name.lstrip("/"))
        for parent in reversed(path.parents[:-1]):
            files.setdefault(str(parent), (DIRECTORY, b""))
        files[str(path)] = (PROGRAM, content)
    return cpio(files)
