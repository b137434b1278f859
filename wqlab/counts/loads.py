# SPDX-License-Identifier: GPL-2.0
"""The loads of loads/ in a guest, in short form, on devices in RAM."""

import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from wqlab import apt, vm
from wqlab.counts.kind import Kind
from wqlab.load import FOLDER, PATH, Load, assignments, counts_of
from wqlab.places import CACHE
from wqlab.problem import Problem, Skipped
from wqlab.results import Count, Run
from wqlab.run import lock, say
from wqlab.scenario import Scenario

# What programs look for
FILES = {
    "etc/passwd": b"root:x:0:0:root:/:/bin/sh\n",
    "etc/hosts": b"127.0.0.1 localhost\n",
    "etc/services": b"nfs 2049/tcp\n",
    "etc/netconfig": b"tcp tpi_cots_ord v inet tcp - -\nudp tpi_clts v inet udp - -\n",
}


SERVES = ("exportfs", "rpc.nfsd", "rpc.mountd", "mount.nfs4")
# Debian's NFS server and what it is linked with beyond what every Debian has
SERVER = ("nfs-kernel-server", "nfs-common", "libkeyutils1", "libwrap0")


def server(place: Path) -> None:
    """The NFS server's packages, unpacked: installed, they would start one."""
    with lock(place.name):
        if not place.is_dir():
            if not shutil.which("apt-get"):
                raise Skipped("this machine has no apt to get an NFS server for the guest with")
            with tempfile.TemporaryDirectory(prefix=f".{place.name}.", dir=CACHE) as folder:
                packages = apt.Apt().download(SERVER[0], "", SERVER)
                apt.unpack(packages, Path(folder) / "whole", SERVER[0])
                apt.remove(packages[0].parent)
                (Path(folder) / "whole").rename(place)


def programs(names: Iterable[str]) -> dict[str, bytes]:
    """These programs of the host, with the libraries that they are linked with, by the paths that
    they have in the guest."""
    found: dict[str, bytes] = {}
    for name in names:
        path, env, place = shutil.which(name, path=PATH), dict(os.environ), CACHE / "nfs"
        if not path and name in SERVES:
            server(place)
            path = shutil.which(name, path=f"{place}/usr/sbin:{place}/sbin")
            env["LD_LIBRARY_PATH"] = os.pathsep.join(map(str, place.glob("**/lib/*-linux-*")))
        if not path:
            raise Problem(f"no {name} for the guest: scripts/setup test installs it")
        found[f"bin/{name}"] = Path(path).read_bytes()
        for library in vm.libraries(Path(path), env):
            found[str(library).removeprefix(str(place)).strip("/")] = library.read_bytes()
    return found


def parameters(load: Load) -> Run:
    return {"DEVICES": load.devices, **load.full, **load.guest}


def guest(
    kernel: vm.Kernel,
    scenario: Scenario,
    job: str,
    out: Path,
    *,
    loads: Sequence[Load],
    **more: Any,
) -> vm.Record:
    """vm.boot(), with what the loads need."""
    if kernel.arch.foreign:
        raise Skipped(f"loads: the programs of this machine are not for {kernel.arch.name}")
    files = programs({name for load in loads for name in load.programs}) | FILES
    files |= {f"loads/{path.name}": path.read_bytes() for path in FOLDER.iterdir()}
    memory = max(int(str(load.guest["MEMORY"])) for load in loads)
    return vm.boot(kernel, replace(scenario, memory=memory), job, out, more=files, **more)


def commands(scenario: Scenario, load: Load) -> str:
    return assignments({"LOAD": load.name, **parameters(load)})


def counts(scenario: Scenario, lines: list[str], load: Load) -> list[Count]:
    """One for each case. Nothing may be left set up."""
    if left := [line for line in lines if line.startswith("left ")]:
        raise Problem(f"{load.name} has {left[0]}")
    found, missing = counts_of(load, lines)
    for line in missing:
        say(f"not measured: {line}")
    return found


def kind_of(load: Load) -> Kind:
    return Kind(
        "loads",
        load.machines,
        "load",
        partial(commands, load=load),
        partial(counts, load=load),
        module="",
        slower=4,
        boot=partial(guest, loads=[load]),
        run={"load": load.name, **parameters(load)},
    )
