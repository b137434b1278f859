# SPDX-License-Identifier: GPL-2.0
"""Say what is here, what is missing and what that prevents. Installs and downloads nothing.

The exit status is 0 if `make bench` can run as things are, else 1.
"""

import argparse
import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

from wqlab.ground.places import CACHE, INSTALLED, ROOT
from wqlab.ground.problem import FAILED, OK, Problem
from wqlab.ground.run import check
from wqlab.ground.text import table
from wqlab.kernels.apt import Apt
from wqlab.kernels.arch import find_arch
from wqlab.kernels.bases import base_names, default_base, load_base, version_key
from wqlab.kernels.obtain import REPOSITORIES

SETUP = ROOT / "scripts/setup"
# The tasks of the file `packages`, and what cannot be done where one of their needs is missing
TASKS = {
    "obtain": "no source can be had: scripts/apply and scripts/series do not work",
    "build": "no kernel can be built",
    "boot": "no kernel can be booted",
    "bench": "nothing can be measured in QEMU, and there are no reports",
    "sim": "no machine of machines/ can be simulated",
    "test": "not all tests can run",
    "audit": "no kernel tree can be audited",
    "load": "no load of loads/ can be run",
    "local": "this host cannot be measured with the kernel that it runs",
}
# Those that a task can do without
WITHOUT = {
    "perf": "who waits for locks, and for how long, is not measured",
    "spatch": "the audit is not tested",
    "spin": "the models are not searched",
    "clang-19": "the series is not compiled by clang",
    "ld.lld-19": "the series is not compiled by clang",
    "llvm-nm-19": "the series is not compiled by clang",
    "sphinx-build": "its documentation is not built",
    "/usr/lib/python3/dist-packages/lava_common": "the definition for LAVA is not checked",
    "qemu-system-aarch64": "the series is not booted on arm64",
    "aarch64-linux-gnu-gcc": "the series is neither compiled nor booted on arm64",
    "fio": "no load is run, here or in a guest",
    "cryptsetup": "those on dm-crypt are not",
    "mkfs.btrfs": "that on btrfs is not",
    "mkfs.ext4": "that on ext4 is not",
    "rpc.nfsd": "that on NFS is not run here",
    "mount.nfs4": "that on NFS is not run here",
    "makedumpfile": "no dumps of kdump are read",
    "dkms": "the module is not tried with it",
    "pahole": "the module is not tried on Debian's own kernel",
    "bpftrace": "waits for locks are not counted by BPF in a guest",
    **dict.fromkeys(("dh", "rsync", "cpio", "depmod"), "the kernel is not made into a package"),
}
MODULES = Path("/proc/modules")  # is there where the running kernel can insert any
NO_MODULES = "`wqlab local` works with --watch alone"
MAIN = ("obtain", "build", "boot", "bench")  # what `make bench` takes
WANTED = 15 << 30  # bytes that the cache takes when it has all
LEAST = 3 << 30  # bytes for what comes on top of a cache that is in use
GIB = 1 << 30


@dataclass(frozen=True)
class Finding:
    """A line of what is said."""

    what: str  # it is about
    state: str
    prevents: str = ""  # what cannot be done as things are; "" is fine
    main: bool = False  # it prevents `make bench`


def programs() -> list[Finding]:
    """Of each task, what scripts/setup misses for it. Raises Problem if that cannot run."""
    said = check([SETUP, "--missing"], wrong="scripts/setup", stderr=False)
    lacking = [line.split("\t") for line in said.splitlines()]
    found = []
    for task, prevented in TASKS.items():
        # build-ARCH is for task build too
        mine = [row for row in lacking if task in [t.split("-")[0] for t in row[0].split(",")]]
        names = ", ".join(f"{need} ({package})" for _, need, package in mine)
        if task == "local" and not MODULES.exists():
            found.append(Finding(task, "the running kernel has no modules", NO_MODULES))
        elif mine:
            found.append(Finding(task, f"lacks {names}", prevented, task in MAIN))
        else:
            found.append(Finding(task, "all that it needs"))
        for tasks, need, package in lacking:
            if f"{task}?" in tasks.split(","):
                found.append(Finding(task, f"lacks {need} ({package})", WITHOUT[need]))
    return found


def architecture() -> Finding:
    """Which one kernels are built for, and whether it is the host's."""
    try:
        arch = find_arch()
        return Finding("architecture", arch.name + ", emulated here" * arch.foreign)
    except Problem as problem:
        return Finding("architecture", str(problem), "no kernel can be built or booted", main=True)


def kvm() -> Finding:
    """Whether guests may run under KVM."""
    if os.access("/dev/kvm", os.R_OK | os.W_OK):
        return Finding("KVM", "/dev/kvm is open to you; used if a trial boot under it works")
    there = "is not open to you: join its group" if Path("/dev/kvm").exists() else "is not there"
    return Finding("KVM", f"/dev/kvm {there}", "QEMU emulates, which is slower")


def space() -> Finding:
    """Whether the cache's file system has room for what is still to come."""
    place = next(path for path in (CACHE, *CACHE.parents) if path.exists())
    free = shutil.disk_usage(place).free
    wanted = LEAST if REPOSITORIES.is_dir() else WANTED
    state = f"{CACHE}, {free / GIB:.0f} GiB are free"
    if free >= wanted:
        return Finding("cache", state)
    lack = f"builds may fail: have {wanted / GIB:.0f} GiB free, or set XDG_CACHE_HOME"
    return Finding("cache", state, lack, main=True)


def source(name: str) -> Finding:
    """Whether the base can be had, as far as this can be told without the network."""
    base, what = load_base(name), f"source of {name}"
    cached = sorted((p.name for p in REPOSITORIES.glob(f"{base.series}.*")), key=version_key)
    if cached:
        return Finding(what, f"{cached[-1]} is in the cache")
    if shutil.which("apt-get"):
        if base.suite:
            return Finding(what, f"apt is to get it from {base.suite}")
        if version := Apt().newest(base.package):
            return Finding(what, f"apt knows {base.package} {version}")
    state = f"neither in the cache nor known to apt ({base.package})"
    if name == default_base():
        return Finding(what, state, "nothing is built without KSRC=, a source of yours", main=True)
    if name == base_names()[-1]:
        return Finding(what, state, "mainline is left out of comparisons")
    return Finding(what, state, f"nothing is built for {name}")


def system() -> str:
    """The name of the distribution."""
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return "unknown system"


def add_options(parser: argparse.ArgumentParser) -> None:
    """There are none."""


def command(args: argparse.Namespace) -> int:
    """Print all findings. Returns the exit status."""
    findings = [
        Finding("host", f"{system()}, Linux {platform.release()}, {os.cpu_count()} CPUs"),
        architecture(),
        Finding("Python", platform.python_version()),
        *programs(),
        kvm(),
        space(),
        *(source(name) for name in base_names()),
    ]
    rows = [[f"{finding.what}:", finding.state] for finding in findings]
    for line, finding in zip(table(rows, [True, True], indent=""), findings, strict=True):
        print(f"{line}; {finding.prevents}" if finding.prevents else line)
    print()
    bench = "wqlab bench" if INSTALLED else "make bench"
    if any(finding.main for finding in findings):
        setup = SETUP if INSTALLED else "scripts/setup"
        print(f"{bench} cannot run yet: {setup} installs what is missing, or says how")
        return FAILED
    print(f"{bench} can run")
    return OK
