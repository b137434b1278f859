# SPDX-License-Identifier: GPL-2.0
"""The scripts of tools/workqueue/ in the guest itself, where drgn reads /proc/kcore; and what they
say on Debian's own kernel without its debug info, and to who is not root.

Seen failing: with the status of a pipe's end taken for the script's, and with for_each_node() called
as only newer drgns have it. By hand: on a kernel without /proc/kcore.
"""

import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from farm import Making, Need
from needs import OTHERS, SOURCE, TEST, Boot, DebianKernel, Kernel
from test_dumps import Drgn

from wqlab.ground.places import CACHE, ROOT
from wqlab.ground.problem import Skipped
from wqlab.ground.run import check
from wqlab.guests.dump import parse_dump
from wqlab.guests.initramfs import libraries
from wqlab.guests.scenario import find_scenario
from wqlab.guests.vm import Record, sections
from wqlab.kernels import apt
from wqlab.kernels.arch import Arch

# of the standard library, what nothing here imports
LEFT_OUT = {"__pycache__", "ensurepip", "idlelib", "lib2to3", "site-packages", "test", "tkinter"}


def python_with(*packages: Path) -> dict[str, Path]:
    """The files of Python and of drgn in these folders."""
    program = Path(sys.executable).resolve()
    library = Path(re.__file__).resolve().parent.parent
    files = [
        path
        for path in library.rglob("*")
        if path.is_file()
        and not LEFT_OUT & set(path.relative_to(library).parts)
        and not path.relative_to(library).parts[0].startswith("config-")
    ]
    for folder in packages:
        files += [*folder.glob("*drgn*/**/*.py"), *folder.glob("_drgn*.so")]
    found = {program, *files}
    for path in [program, *(path for path in files if path.suffix == ".so")]:
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


@dataclass(frozen=True)
class Inside(Boot):
    """A boot in which each line of `commands` is run; the guest has `drgn`, Debian 12's or the
    newest, the scripts in /tools, its own debug info where there is any, and `program` of this
    machine."""

    old: bool = False
    program: str = ""

    def __str__(self) -> str:
        with_ = ["drgn of Debian 12" if self.old else "drgn", *filter(None, [self.program])]
        return f"{super().__str__()}, with {' and '.join(with_)} in the guest"

    @property
    def memory(self) -> int:
        return find_scenario(self.scenario).memory

    @property
    def before(self) -> tuple[Need, ...]:
        return *super().before, *([] if self.arch.foreign else [Drgn(self.old)]), SOURCE

    def make(self, farm: Making, **_: Any) -> Any:
        kernel = farm[self.kernel]
        if self.arch.foreign:
            files, python, packages = debians(self.arch), "/usr/bin/python3.11", ""
        else:
            packages = str(farm[Drgn(self.old)])
            files, python = python_with(Path(packages)), str(Path(sys.executable).resolve())
        self.out.mkdir(parents=True, exist_ok=True)
        launcher = self.out / "drgn"
        launcher.write_text(f'#!/bin/sh\nPYTHONPATH={packages} exec {python} -m drgn "$@"\n')
        launcher.chmod(0o755)
        files["bin/drgn"] = launcher
        if self.program:
            path = shutil.which(self.program)
            if not path:
                raise Skipped(f"there is no {self.program}")
            files |= {f"bin/{self.program}": Path(path)}
            files |= {str(library): library for library in libraries(Path(path))}
        files |= {f"tools/{path.name}": path for path in (ROOT / "tools/workqueue").glob("*.py")}
        vmlinux = kernel.path / "vmlinux"
        files |= {"vmlinux": vmlinux} if vmlinux.is_file() else {}
        more = {name: path.read_bytes() for name, path in files.items()}
        with farm[SOURCE].hold() as tree:
            more["tools/wq_dump.py"] = (tree / "tools/workqueue/wq_dump.py").read_bytes()
        return super().make(farm, more=more)


MACHINE = "inside-2"
VERIFY = "drgn -q -s /vmlinux /tools/wq_verify.py"
FLIPS = (
    "for n in 1 2 3 4 5; do for v in 0 1; do "
    "echo $v >/sys/devices/system/cpu/cpu1/online; sleep 0.2; done; done"
)
LIVE = {
    "dump": "drgn -q -s /vmlinux /tools/wq_dump.py",
    "verify": VERIFY,
    "flips": f"({FLIPS}) & {VERIFY}; s=$?; wait; exit $s",
    "contention": "drgn -q -s /vmlinux /tools/wq_contention.py --for 2",
}
LACKING = {"wq_verify": 2, "wq_contention": 2, "wq_dump": 1}  # their status without debug info
BARE = {name: f"drgn -q /tools/{name}.py" for name in LACKING}
AS_NOBODY = (
    "import os, runpy, sys; os.setuid(65534); sys.argv = ['drgn', '/tools/wq_verify.py']; "
    "runpy.run_module('drgn', run_name='__main__', alter_sys=True)"
)
NOBODY = f"echo \"{AS_NOBODY}\" >/nobody.py; sed 's/-m drgn.*/\\/nobody.py/' /bin/drgn | sh"


def answer(record: Record, command: str) -> tuple[int, list[str]]:
    """The status of a command and what it has printed."""
    *lines, status = sections(record.lines)[command]
    return int(status.removeprefix("status ")), [line.removeprefix("| ") for line in lines]


def live() -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "drgn",
        [
            pytest.param(
                name,
                marks=[
                    pytest.mark.needs(
                        Inside(
                            MACHINE,
                            "commands",
                            kernel,
                            commands="\n".join([*LIVE.values(), ""]),
                            old=is_old,
                        )
                    ),
                    pytest.mark.tier("test" if name == "old" else "full"),
                ],
            )
            for name, kernel, is_old in (
                ("new", TEST, False),
                ("old", TEST, True),
                *((f"old-{kernel.arch}", kernel, True) for kernel in OTHERS),
            )
        ],
    )


@live()
def test_dump(record: Record, drgn: str) -> None:
    status, lines = answer(record, LIVE["dump"])
    assert status == 0
    dump = parse_dump("\n".join(lines))
    assert dump.default == "cache_shard" and len(dump.pods["cache_shard"]) == 2


@live()
@pytest.mark.parametrize("name", ["verify", "flips"])
def test_verify(record: Record, drgn: str, name: str) -> None:
    status, lines = answer(record, LIVE[name])
    assert status == 0 and lines[-1] == "13 right, 0 wrong, 0 unknown, 0 n/a"


@live()
def test_contention(record: Record, drgn: str) -> None:
    status, lines = answer(record, LIVE["contention"])
    assert status == 0 and lines[0].startswith("LOCK ")
    assert " samples of " in lines[-1]


# All CPUs queue to one pool meanwhile. It's looked at in both ways.
LOAD = "insmod /modules/test_workqueue.ko scopes=cache mode=burst secs=600"
LOOK = "drgn -q -s /vmlinux /tools/wq_contention.py --for 3"
WAITS = (
    "mount -t tracefs tracefs /sys/kernel/tracing; "
    f"{LOAD} & sleep 2; {LOOK} --bpf && {LOOK}; s=$?; kill $!; wait; exit $s"
)


@pytest.mark.tier("full")
@pytest.mark.skipif(not shutil.which("pahole"), reason="no pahole for a kernel that bpftrace reads")
@pytest.mark.needs(
    Inside("inside-4", "commands", Kernel("bpf"), commands=f"{WAITS}\n", program="bpftrace")
)
def test_bpf(record: Record) -> None:
    """Counting and sampling agree on which lock is hot. With as many CPUs, some wait behind others,
    of which the tracepoints tell."""
    status, lines = answer(record, WAITS)
    assert status == 0
    headers = [number for number, line in enumerate(lines) if line.startswith("LOCK ")]
    assert len(headers) == 2 and " spinlocks in " in lines[headers[1] - 1]
    counted, sampled = (lines[number + 1] for number in headers)
    assert counted[:24] == sampled[:24] and counted.startswith("pool ")
    waits, waited = counted[24:].split()[:2]
    assert int(waits) > 0 and 0 < float(waited) < 300
    assert "bench_wq" in counted


bare = pytest.mark.needs(
    Inside(
        MACHINE,
        "commands",
        DebianKernel(),
        commands="\n".join([*BARE.values(), NOBODY, ""]),
        old=True,
    )
)


@bare
@pytest.mark.parametrize("script", LACKING)
def test_no_debug_info(record: Record, script: str) -> None:
    status, lines = answer(record, BARE[script])
    assert status == LACKING[script] and len(lines) == 1
    assert lines[0].startswith(f"{script}.py: drgn finds no struct worker_pool: ")
    assert "debug info of this kernel" in lines[0]


@bare
def test_no_permission(record: Record) -> None:
    """drgn itself says so, before it runs the script."""
    status, lines = answer(record, NOBODY)
    assert status == 1 and "Permission denied: '/proc/kcore'" in lines[0] and len(lines) == 2
