# SPDX-License-Identifier: GPL-2.0
"""QEMU with simulated time: Debian's source package with sim/qemu.diff, and its plugins, sim/*.c.
Built once, and kept in the cache under a key of all that went into it."""

import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from wqlab.ground.files import fresh, lock, remove
from wqlab.ground.places import CACHE, ROOT, VENV
from wqlab.ground.problem import Problem, Skipped
from wqlab.ground.run import check, run, say
from wqlab.guests.qemu import Emulator
from wqlab.kernels import apt
from wqlab.kernels.arch import find_arch
from wqlab.kernels.source import kbuild_env

PACKAGE, SUITE, SERIES = "qemu", "trixie", "10.0"
SIM = ROOT / "sim"
PROGRAM = "qemu-system-x86_64"
CONFIGURE = [
    "--target-list=x86_64-softmmu",
    *("--without-default-features", "--enable-tcg", "--enable-plugins"),
    *("--without-default-devices", "--with-devices-x86_64=q35"),
    *("--disable-install-blobs", "--disable-download", "--disable-docs", "--disable-werror"),
]
# Of the machine's own QEMU: what a guest is started by
ROMS = [Path("/usr/share/qemu"), Path("/usr/share/seabios")]
LIMIT = 3600.0  # seconds for a build
KEPT, PLUGINS = 2, 8
ACCEL = "tcg,thread=single,tb-size=256"


def unpacked(its_apt: apt.Apt, version: str, folder: Path) -> Path:
    """The source, with what is changed in it."""
    what = f"{PACKAGE} {version}"
    tarball = its_apt.download_source(PACKAGE, version)
    try:
        check(
            ["tar", "--no-same-owner", "-xf", tarball, "-C", folder],
            wrong=f"the source of {what} could not be unpacked (is the disk full?)",
            limit=600,
            label=f"unpacking {what}",
        )
    finally:  # it may be damaged
        remove(tarball.parent)
    [tree] = folder.glob("qemu-*/")
    check(
        ["git", "apply", SIM / "qemu.diff"],
        wrong=f"sim/qemu.diff does not fit {what}",
        cwd=tree,
        env=os.environ | {"GIT_CEILING_DIRECTORIES": str(folder)},
    )
    return tree


def build_program(its_apt: apt.Apt, version: str, result: Path) -> None:
    """Build QEMU with sim/qemu.diff into `result`. Problem if it does not compile."""
    # the same place each time: ccache knows files by their paths
    with fresh(result.parent / ".build") as place:
        tree = unpacked(its_apt, version, place)
        log = result.parent / "build.log"
        log.unlink(missing_ok=True)
        path = f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
        configure = [str(tree / "configure"), f"--python={VENV / 'bin/python'}", *CONFIGURE]
        for command in (configure, ["ninja", "-C", str(tree / "build"), PROGRAM]):
            done = run(
                command,
                limit=LIMIT,
                label=f"building {PACKAGE} {version}, log in {log}: {Path(command[0]).name}",
                log=log,
                cwd=tree,
                env=kbuild_env() | {"PATH": path, "CC": "ccache gcc"},
            )
            if done.status:
                lines = log.read_text(errors="replace").splitlines()
                wrong = [line for line in lines if re.search(r"(?i)error:|failed", line)]
                raise Problem(f"{PACKAGE} could not be built: {(wrong or lines)[-1]}; see {log}")
        part = place / "result"
        part.mkdir()
        shutil.copy(tree / "build" / PROGRAM, part)
        shutil.copy(tree / "include/qemu/qemu-plugin.h", part)
        remove(result)
        part.rename(result)


def build_plugin(folder: Path, source: Path, plugin: Path) -> None:
    """Build a plugin of sim/. Problem if it does not compile."""
    flags = check(["pkg-config", "--cflags", "glib-2.0"], wrong="no glib to build the plugin with")
    part = plugin.with_suffix(".part")
    check(
        ["gcc", "-std=gnu11", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", f"-I{folder}"]
        + [*shlex.split(flags), "-o", part, source],
        wrong=f"sim/{source.name} does not compile",
        limit=120,
    )
    part.rename(plugin)


def emulator(name: str = "wqtime") -> tuple[Path, Path]:
    """The program and the plugin sim/NAME.c, built where the cache has not got them."""
    if find_arch().name != "x86_64":
        raise Skipped(f"on {find_arch().name} no machine is simulated: that takes ARCH=x86_64")
    folder = CACHE / PACKAGE
    with lock(PACKAGE):
        folder.mkdir(parents=True, exist_ok=True)
        diff = hashlib.sha256((SIM / "qemu.diff").read_bytes() + str(CONFIGURE).encode())
        key = diff.hexdigest()[:16]
        there = sorted(folder.glob(f"*-{key}"), key=lambda path: path.stat().st_mtime)
        if there:
            result = there[-1]
        else:
            its_apt = apt.private(SUITE, "deb-src")
            version = its_apt.newest_source(PACKAGE, SERIES)
            if not version:
                raise apt.Unreachable(f"apt knows no source of {PACKAGE} {SERIES} in {SUITE}")
            result = folder / f"{version.partition(':')[2]}-{key}"
            build_program(its_apt, version, result)
            for old in sorted(folder.glob(f"{SERIES}*"), key=lambda p: p.stat().st_mtime)[:-KEPT]:
                say(f"removing {old}")
                remove(old)
        source = SIM / f"{name}.c"
        plugin = result / f"{name}-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}.so"
        if not plugin.is_file():
            build_plugin(result, source, plugin)
        plugin.touch()  # another checkout of this repository may be using an older one
        for old in sorted(result.glob(f"{name}-*"), key=lambda p: p.stat().st_mtime)[:-PLUGINS]:
            remove(old)
        return result / PROGRAM, plugin


def with_plugin(name: str, arguments: Mapping[str, object]) -> Emulator:
    """That QEMU with the plugin sim/NAME.c, for vm.boot(), where with -icount the same input gives
    the same run."""
    program, plugin = emulator(name)
    options = ["-rtc", "base=2024-11-17,clock=vm", "-seed", "1"]
    options += [word for rom in ROMS for word in ("-L", str(rom))]
    options += ["-plugin", ",".join([str(plugin), *(f"{k}={v}" for k, v in arguments.items())])]
    return Emulator(program, tuple(options))
