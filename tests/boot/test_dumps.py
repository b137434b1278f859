# SPDX-License-Identifier: GPL-2.0
"""Each script of tools/workqueue/ on each kind of dump, by drgn as Debian 12 has it and by the
newest.

Seen failing: with for_each_node() called as only newer drgns have it. By hand: 12 checks were wrong
with pages that a dump lacks taken for corrupt lists.
"""

import json
import os
import re
import runpy
import shutil
import struct
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import drgn
import pytest
from farm import Making, Need
from memory import Memory
from needs import ARM64, OTHERS, SOURCE, TEST, Core
from test_torture import STOCK

from wqlab.ground.places import BUILD, ROOT
from wqlab.ground.run import check
from wqlab.guests.dump import WQ_VERIFY, parse_dump, run_drgn
from wqlab.kernels.builddir import BuildDir

WQ_CONTENTION = ROOT / "tools/workqueue/wq_contention.py"
LIMIT = 120  # seconds for a script

Made = tuple[BuildDir, dict[str, Path], Path]


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


@dataclass(frozen=True)
class Dumps(Core):
    """A boot, and its memory as QEMU writes it without and with what page tables map, and as kdump
    does: its kernel, and each of these by its name where it's to be had."""

    def make(self, farm: Making, **_: Any) -> tuple[BuildDir, dict[str, Path]]:
        paging, kdump = self.out / "core-paging", self.out / "core-kdump"
        for old in self.out.glob("core-*"):
            old.unlink()
        kernel, core = super().make(
            farm, on_hold=lambda _, monitor, __: monitor.dump_memory(paging, paging=True)
        )
        found = {"plain": core, "paging": paging}
        # it knows dumps of its own architecture only
        if shutil.which("makedumpfile") and not self.arch.foreign:
            phdrs_first(core)
            command = ["makedumpfile", "-c", "-d", "17", core, kdump]
            check(command, wrong="makedumpfile failed", limit=120)
            found["kdump"] = kdump
        return kernel, found


def phdrs_first(core: Path) -> None:
    """Put the program headers right behind the ELF header, where makedumpfile looks for them;
    QEMU 7.2 has section headers there."""
    core.chmod(0o600)
    with core.open("r+b") as file:
        header = bytearray(file.read(64))
        start, number = *struct.unpack_from("<Q", header, 32), *struct.unpack_from("<H", header, 56)
        file.seek(start)
        program_headers = file.read(56 * number)
        struct.pack_into("<QQ", header, 32, 64, 0)  # where they are; no section headers
        struct.pack_into("<HHH", header, 58, 0, 0, 0)
        file.seek(0)
        file.write(header + program_headers)


@dataclass(frozen=True)
class Dumped(Need):
    """Dumps, and the drgn to read them."""

    dumps: Dumps
    drgn: Drgn

    @property
    def before(self) -> tuple[Need, ...]:
        return self.dumps, self.drgn

    def make(self, farm: Making) -> Made:
        return *farm[self.dumps], farm[self.drgn]


@dataclass(frozen=True)
class Monitor(Need):
    """The kernel's own wq_monitor.py, and a machine to look at."""

    core: Core
    guess = 1.0

    @property
    def before(self) -> tuple[Need, ...]:
        return self.core, SOURCE

    def make(self, farm: Making) -> tuple[BuildDir, Path, str]:
        tree = ["git", "-C", farm[SOURCE].repo, "show", "base:tools/workqueue/wq_monitor.py"]
        return *farm[self.core], check(tree, wrong="the kernel has no wq_monitor.py")


def run(made: Made, kind: str, script: Path, *words: str) -> subprocess.CompletedProcess[str]:
    kernel, dumps, packages = made
    if kind not in dumps:
        pytest.skip("no makedumpfile for such a dump here")
    command = [sys.executable, "-m", "drgn", "-q", "-c", dumps[kind]]
    done = subprocess.run(
        [*command, "-s", kernel.path / "vmlinux", script, *words],
        capture_output=True,
        check=False,
        text=True,
        timeout=LIMIT,
        env=os.environ | {"PYTHONPATH": str(packages), "DEBUGINFOD_URLS": ""},
    )
    print(done.stdout, done.stderr)
    return done


def each(*kinds: str, but: tuple[str, ...] = ()) -> pytest.MarkDecorator:
    """Kinds of dumps of each kernel, by each drgn."""
    return pytest.mark.parametrize(
        "kind",
        [
            pytest.param(
                kind,
                id="-".join([name, kind, "old" if old else "new"]),
                marks=[
                    pytest.mark.needs(Dumped(Dumps("nodes-1", "pods", kernel), Drgn(old))),
                    *([pytest.mark.tier("full")] if kernel == ARM64 else []),
                ],
            )
            for name, kernel in (
                ("series", TEST),
                ("stock", STOCK),
                *((kernel.arch, kernel) for kernel in OTHERS),
            )
            for kind in kinds
            for old in (False, True)
            # QEMU maps what page tables do on x86 alone, and that drgn wants them all
            if not (kernel == ARM64 and kind != "plain")
            and not (old and kind == "plain")
            and not (old and name in but)
        ],
    )


@each("plain", "paging", "kdump")
def test_verify(made: Made, kind: str) -> None:
    assert run(made, kind, WQ_VERIFY).returncode == 0


@each("plain", "paging", "kdump")
def test_contention(made: Made, kind: str) -> None:
    done = run(made, kind, WQ_CONTENTION, "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["locks"] == []


@each("paging", "kdump", but=("stock",))  # whose own wants a newer drgn
def test_dump(made: Made, kind: str, tmp_path: Path) -> None:
    """The same as of the plain one by the newest drgn, but for what has gone on in between."""
    kernel, dumps, _ = made
    done = run(made, kind, kernel.path / "wq_dump.py")
    assert done.returncode == 0
    plain = run_drgn(kernel, dumps["plain"], kernel.path / "wq_dump.py", tmp_path).output
    if kind == "kdump":
        assert done.stdout == plain
    else:
        assert parse_dump(done.stdout).pods == parse_dump(plain).pods


@pytest.mark.needs(Dumped(Dumps("nodes-1", "pods", TEST), Drgn(old=True)))
@pytest.mark.parametrize("script", [WQ_VERIFY, WQ_CONTENTION], ids=lambda path: path.stem)
def test_one_line_on_what_cannot_be_read(made: Made, script: Path) -> None:
    """That drgn finds no page tables in a dump without."""
    done = run(made, "plain", script)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(rf"{script.name}: drgn .*can't read this \w+: .*\n", done.stderr)


@pytest.mark.needs(Dumped(Dumps("nodes-1", "pods", TEST), Drgn()))
def test_pages_left_out(made: Made, tmp_path: Path) -> None:
    """By a makedumpfile that is older than the kernel, which takes pages of slabs for others."""
    if not shutil.which("makedumpfile"):
        pytest.skip("no makedumpfile here")
    kernel, dumps, packages = made
    less = tmp_path / "less"
    check(["makedumpfile", "-c", "-d", "31", dumps["plain"], less], wrong="makedumpfile failed")
    done = run((kernel, {"less": less}, packages), "less", WQ_VERIFY)
    if done.returncode == 0:
        pytest.skip("this makedumpfile knows the kernel")
    assert done.returncode == 2 and " wrong " not in done.stdout.partition("\n\n")[0]
    assert "unknown  the dump lacks pages, which makedumpfile -d 17 keeps: " in done.stdout


@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(kernel, marks=pytest.mark.needs(Monitor(Core("nodes-4", "pods", kernel))))
        for kernel in (TEST, STOCK)
    ],
    ids=["series", "stock"],
)
def test_monitor(
    made: tuple[BuildDir, Path, str],
    kernel: object,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Work items were executed, and none is in flight. What is added to a statistic shows."""

    def shown() -> dict[str, tuple[int, int]]:
        """The work items of each workqueue that were ever started, and those not completed."""
        runpy.run_path(str(script), {"prog": memory.prog}, "__main__")
        lines = capsys.readouterr().out.strip("\n").splitlines()[1:]
        return {line[:24].strip(): (int(line[25:33]), int(line[34:39])) for line in lines}

    built, core, text = made
    script = tmp_path / "wq_monitor.py"
    script.write_text(text)
    monkeypatch.setattr(sys, "argv", ["wq_monitor.py", "--interval", "0"])
    memory = Memory(built, core)
    before = shown()
    assert before["events"][0] > 0 and {in_flight for _, in_flight in before.values()} == {0}
    memory.add(memory.pwq().stats[memory.kernel.constant("PWQ_STAT_STARTED")], 7)
    total, in_flight = before["writeback"]
    assert shown() == before | {"writeback": (total + 7, in_flight + 7)}
