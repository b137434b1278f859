# SPDX-License-Identifier: GPL-2.0
"""`make local` in a guest: the real module, inserted by modprobe as `dkms install` leaves it.

Seen failing: without the module there, and with a verdict by mode serial alone.
"""

import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from farm import Making, Need
from needs import TEST, Boot, DebianKernel
from test_inside import answer, python_with

from wqlab.ground.places import ROOT
from wqlab.ground.problem import Skipped
from wqlab.ground.run import check
from wqlab.guests.initramfs import libraries
from wqlab.guests.vm import Record
from wqlab.kernels.builddir import BuildDir
from wqlab.measure.insert import MODULE
from wqlab.results.module import MEASURED, MODES

LOCAL = "PYTHONPATH=/wq python3 -m wqlab local --out /local.json"
QUICK = f"{LOCAL} --quick"
DEFAULT = "/sys/module/workqueue/parameters/default_affinity_scope"
AFTER = f"grep test_workqueue /proc/modules || cat {DEFAULT}"
COMMANDS = f"{QUICK}\n{AFTER}\n"


def installed(kernel: BuildDir, out: Path) -> dict[str, Path]:
    """The module where modprobe looks for it."""
    [module] = [path for path in kernel.modules if path.stem == MODULE]
    release = check(["modinfo", "-F", "vermagic", module], wrong="modinfo").split()[0]
    place = out / "lib/modules" / release
    place.mkdir(parents=True, exist_ok=True)
    shutil.copy(module, place)
    check(["depmod", "-b", out, release], wrong="depmod")
    return {str(path.relative_to(out)): path for path in place.iterdir()}


@dataclass(frozen=True)
class Here(Boot):
    """A boot in which each line of `commands` is run; the guest has Python, wqlab and the module."""

    def make(self, farm: Making, **_: Any) -> Record:
        files = python_with() | installed(farm[self.kernel], self.out / "root")
        files["bin/python3"] = Path(sys.executable).resolve()
        for name in ("modinfo", "modprobe", "rmmod", "setpriv"):
            path = shutil.which(name)
            if not path:
                raise Skipped(f"there is no {name}")
            files |= {f"bin/{name}": Path(path)}
            files |= {str(library): library for library in libraries(Path(path))}
        files |= {f"wq/{path.relative_to(ROOT)}": path for path in (ROOT / "wqlab").rglob("*.py")}
        files["wq/packages"] = ROOT / "packages"
        more = {name: path.read_bytes() for name, path in files.items()}
        return super().make(farm, more=more)


def quickly(scenario: str, kernel: Need) -> pytest.MarkDecorator:
    """Its first answer on this machine."""
    return pytest.mark.needs(Here(scenario, "commands", kernel, commands=COMMANDS, timeout=600))


@quickly("inside-2", TEST)
def test_series(record: Record) -> None:
    """All scopes in all modes, and nothing is left behind."""
    status, lines = answer(record, QUICK)
    assert status == 0 and not any("setpriv" in line for line in lines)
    rows = [line.split() for line in lines if re.match(r"  [a-z_]+ +[\d,]+ ", line)]
    assert [row[0] for row in rows] == [*MEASURED] * len(MODES)
    assert all(int(row[1].replace(",", "")) > 0 for row in rows)
    [said] = [line for line in lines if line.startswith("Is it you? ")]
    assert said.startswith("Is it you? cache_shard (default): ")
    assert answer(record, AFTER) == (0, ["cache_shard"])


@pytest.mark.tier("full")
@quickly("sockets-16x1", DebianKernel())
def test_stock_with_a_cache_for_each_cpu(record: Record) -> None:
    """As in the report of dm-crypt, one CPU that queues has but itself."""
    status, lines = answer(record, QUICK)
    assert status == 0 and "  cache_shard  no such scope" in lines
    assert "pools of cache are too small, as in virtual machines" in " ".join(lines[-4:])
    assert answer(record, AFTER) == (0, ["cache"])
