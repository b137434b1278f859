# SPDX-License-Identifier: GPL-2.0
"""Where results come from: this host, the repository, the kernel's build and QEMU's command line."""

import hashlib
import json
import os
import platform
import re
import shlex
import shutil
from collections.abc import Iterable
from dataclasses import fields
from datetime import date
from pathlib import Path
from typing import Any

from wqlab.ground.places import INSTALLED, ROOT
from wqlab.ground.problem import Problem
from wqlab.ground.run import run
from wqlab.ground.text import plural
from wqlab.results.model import Build, Host, Kernel, Made


def short_id(*parts: object) -> str:
    """A name for what is made of these parts."""
    return hashlib.sha256(json.dumps([str(part) for part in parts]).encode()).hexdigest()[:8]


def _said(*command: str) -> str:
    """The output of a program, "" where it fails or is not there."""
    if not shutil.which(command[0]):
        return ""
    done = run(command, limit=30, env=os.environ | {"LC_ALL": "C"}, stderr=False)
    return "" if done.status else done.output.strip()


def made_by(command: str) -> Made:
    """Today, by this command, with the repository as it is."""
    about = ("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    commit = "" if INSTALLED else _said("git", "-C", str(ROOT), *about)
    return Made(date=date.today().isoformat(), command=command, commit=commit or None)


def kernel_of(name: str, release: str, paths: Iterable[Path]) -> Kernel:
    """A kernel from the build.json of its flavours' directories, of the same source all."""
    builds, sources = [], set()
    for path in paths:
        try:
            data = json.loads((path / "build.json").read_text())
            builds.append(Build(*(data[entry.name] for entry in fields(Build))))
            sources.add((data["base"], data["version"], data["patches"]))
        except (OSError, ValueError, KeyError, TypeError):
            raise Problem(f"{path} is not from wqlab build: it has no build.json of it") from None
    if len(sources) != 1:
        raise Problem(f"the kernels {name} are not of one source: build them from the same one")
    flavours = [build.flavour for build in builds]
    if len(set(flavours)) != len(flavours):
        raise Problem(f"two kernels {name} are of the same flavour: give each flavour once")
    base, _, patches = sources.pop()
    key = short_id(*sorted(str(build.key) for build in builds))
    return Kernel(f"{name}-{key}", name, release, base, patches, builds)


def qemu_line(command: Iterable[str]) -> str:
    """The command as one line, of each path its last part."""
    path = re.compile(r"(?<![^:=,])/[^,]*/")
    return shlex.join(
        word if " " in word and "=" in word else path.sub("", word) for word in command
    )


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def _lscpu(*options: str) -> Any:
    """What lscpu says; an empty object where there is none."""
    try:
        return json.loads(_said("lscpu", "-J", *options))
    except ValueError:
        return {}


def _field(entries: list[dict[str, Any]], name: str) -> str | None:
    """A field of lscpu, which newer ones keep among the children of another."""
    for entry in entries:
        if entry["field"] == name:
            return entry["data"]
        if found := _field(entry.get("children", []), name):
            return found
    return None


def topology(entries: list[dict[str, Any]], cpus: Iterable[int]) -> str | None:
    """As "1 socket, 2 cores, 2 CPUs, 1 LLC, 1 node", of these CPUs among those of lscpu -e."""
    used = set(cpus)
    mine = [entry for entry in entries if entry["cpu"] in used]
    if not mine:
        return None
    caches = next((key for key in mine[0] if ":" in key), "")  # as "l1d:l1i:l2:l3"
    number = {
        "socket": len({entry.get("socket") for entry in mine}),
        "core": len({(entry.get("socket"), entry.get("core")) for entry in mine}),
        "CPU": len(mine),
        "LLC": len({str(entry.get(caches)).rpartition(":")[2] for entry in mine}),
        "node": len({entry.get("node") for entry in mine}),
    }
    return ", ".join(plural(count, what) for what, count in number.items())


def this_host(emulation: str | None) -> Host:
    """The host that this runs on, and what emulates the measured one, if anything does."""
    memory = re.search(r"^MemTotal:\s*(\d+) kB", _read("/proc/meminfo") or "", re.MULTILINE)
    microcode = re.search(r"^microcode\s*:\s*(\S+)", _read("/proc/cpuinfo") or "", re.MULTILINE)
    cpus = os.sched_getaffinity(0)
    try:
        system = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        system = platform.system()
    model = _field(_lscpu().get("lscpu", []), "Model name:")
    lasting: dict[str, Any] = {
        "cpu_model": model or platform.machine(),
        "cpus": len(cpus),
        "memory_mib": int(memory[1]) // 1024 if memory else None,
        "system": system,
        "topology": topology(_lscpu("-e=cpu,core,socket,node,cache").get("cpus", []), cpus),
        "emulation": emulation,
    }
    return Host(
        id=short_id(*lasting.values()),
        kernel=platform.release(),
        microcode=microcode[1] if microcode else None,
        governor=_read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        load=round(os.getloadavg()[0], 2),
        **lasting,
    )
