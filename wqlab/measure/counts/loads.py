# SPDX-License-Identifier: GPL-2.0
"""The loads of loads/ in a guest, in short form, on devices in RAM."""

import json
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from wqlab.ground.places import CACHE, ROOT
from wqlab.ground.problem import Problem, Skipped
from wqlab.ground.run import say
from wqlab.guests import vm
from wqlab.guests.initramfs import libraries
from wqlab.guests.qemu import BootOptions
from wqlab.guests.scenario import Scenario
from wqlab.kernels import apt
from wqlab.kernels.builddir import BuildDir
from wqlab.measure.counts.kind import Kind
from wqlab.measure.load import FOLDER, PATH, Load, assignments, counts_of
from wqlab.measure.sim.machine import Machine
from wqlab.measure.sim.simulate import Symbols, Took, locks_of
from wqlab.measure.sim.simulate import boot as simulated
from wqlab.results.model import Count, Run

# What programs look for
FILES = {
    "etc/passwd": b"root:x:0:0:root:/:/bin/sh\n",
    "etc/hosts": b"127.0.0.1 localhost\n",
    "etc/services": b"nfs 2049/tcp\n",
    "etc/netconfig": b"tcp tpi_cots_ord v inet tcp - -\nudp tpi_clts v inet udp - -\n",
}


SERVES = ("exportfs", "rpc.nfsd", "rpc.mountd", "mount.nfs4")
MODULES = ("null_blk",)  # for all loads in a guest, where they are apart
# Debian's NFS server and what it is linked with beyond what every Debian has
SERVER = ("nfs-kernel-server", "nfs-common", "libkeyutils1", "libwrap0")


def server() -> tuple[apt.Apt, tuple[str, ...]]:
    """The NFS server's packages, to be unpacked: installed, they would start one."""
    if not shutil.which("apt-get"):
        raise Skipped("this host has no apt to get an NFS server for the guest with")
    return apt.Apt(), SERVER


def programs(names: Iterable[str]) -> dict[str, bytes]:
    """These programs of the host, with the libraries that they are linked with, by the paths that
    they have in the guest."""
    found: dict[str, bytes] = {}
    for name in names:
        path, env, place = shutil.which(name, path=PATH), dict(os.environ), CACHE / "nfs"
        if not path and name in SERVES:
            apt.unpacked(place, SERVER[0], server)
            path = shutil.which(name, path=f"{place}/usr/sbin:{place}/sbin")
            env["LD_LIBRARY_PATH"] = os.pathsep.join(map(str, place.glob("**/lib/*-linux-*")))
        if not path:
            raise Problem(f"no {name} for the guest: scripts/setup test installs it")
        found[f"bin/{name}"] = Path(path).read_bytes()
        for library in libraries(Path(path), env):
            found[str(library).removeprefix(str(place)).strip("/")] = library.read_bytes()
    return found


def parameters(load: Load) -> Run:
    """What the load's script is given in a guest."""
    return {"DEVICES": load.devices, **load.full, **load.guest}


def files_of(kernel: BuildDir, loads: Sequence[Load]) -> dict[str, bytes]:
    """What the loads need in a guest, by the paths there."""
    if kernel.arch.foreign:
        raise Skipped(f"loads: the programs of this host are not for {kernel.arch.name}")
    files = programs({name for load in loads for name in load.programs}) | FILES
    return files | {f"loads/{path.name}": path.read_bytes() for path in FOLDER.iterdir()}


def guest(
    kernel: BuildDir,
    scenario: Scenario,
    job: str,
    out: Path,
    options: BootOptions,
    *,
    loads: Sequence[Load],
) -> vm.Record:
    """vm.boot(), with what the loads need."""
    memory = max(int(str(load.guest["MEMORY"])) for load in loads)
    scenario = replace(scenario, memory=memory)
    return vm.boot(kernel, scenario, job, out, replace(options, more=files_of(kernel, loads)))


def in_simulated_time(
    kernel: BuildDir,
    machine: Machine,
    job: str,
    out: Path,
    options: BootOptions,
    *,
    load: Load,
) -> vm.Record:
    """As guest(), in simulated time while fio runs. What has happened at pool->lock meanwhile is
    with the figures of each case: per item, of so many that were queued by whomever, and how many
    that was in a second. CPU use is not of that time alone, and left out."""
    if not (kernel.path / "vmlinux").is_file():
        raise Problem(f"{kernel.path} has no symbols: take a kernel of flavour simloads")
    files = files_of(kernel, [load])
    files["bin/fio.host"] = files["bin/fio"]
    files["bin/fio"] = (ROOT / "guest/fio").read_bytes()
    first, last = map(int, str(load.simulated["COUNTED"]).split("-"))
    record = simulated(
        kernel,
        replace(
            machine, scenario=replace(machine.scenario, memory=int(str(load.simulated["MEMORY"])))
        ),
        job,
        out,
        replace(options, more=files),
        count=(first, last),
        has=["aes"],
    )
    if record.verdict != "pass":
        return record
    texts = iter((out / "counts").read_text().splitlines())
    symbols = Symbols.of(kernel)
    lines = [
        re.sub(" cpu_percent=[^ ]*", "", line) + pool_lock(next(texts, ""), last - first, symbols)
        if line.startswith("figures ")
        else line
        for line in record.lines
    ]
    return replace(record, lines=lines)


def pool_lock(text: str, items: int, symbols: Symbols) -> str:
    """The figures of a line of the plugin's: items per second, and pool->lock."""
    data = json.loads(text or '{"last_ps": 0}')
    if not data["last_ps"]:
        raise Problem("fewer items were queued than were to be counted: see COUNTED in scales.toml")
    _, kinds = locks_of(data["locks"], symbols)
    took = kinds.get("pool->lock", Took(0, 0, 0, 0))
    rate = items / (data["last_ps"] - data["first_ps"]) * 1e12
    return f" steady_items_per_sec={rate:.0f}" + "".join(
        f" {key}={value:.4f}" for key, value in took.figures(1 / items).items()
    )


def commands(scenario: Scenario, load: Load, run: Run) -> str:
    """What the job reads."""
    return assignments({"LOAD": load.name, **run})


def counts(scenario: Scenario, lines: list[str], load: Load) -> list[Count]:
    """One for each case. Nothing may be left set up."""
    if left := [line for line in lines if line.startswith("left ")]:
        raise Problem(f"{load.name} has {left[0]}")
    found, missing = counts_of(load, lines)
    for line in missing:
        say(f"not measured: {line}")
    return found


def kind_of(load: Load) -> Kind:
    """How a load is counted in a guest."""
    run = parameters(load)
    return Kind(
        "loads",
        load.machines,
        "load",
        partial(commands, load=load, run=run),
        partial(counts, load=load),
        module="",
        slower=4,
        boot=partial(guest, loads=[load]),
        run={"load": load.name, **run},
    )


def simulated_kind_of(load: Load) -> Kind:
    """How it is counted in simulated time."""
    run = {**parameters(load), **load.simulated}
    return replace(
        kind_of(load),
        machines=(str(load.simulated["MACHINE"]),),
        commands=partial(commands, load=load, run=run),
        slower=60,
        simulated=True,
        boot=partial(in_simulated_time, load=load),
        run={"load": load.name, **run},
    )
