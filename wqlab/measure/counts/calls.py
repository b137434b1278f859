# SPDX-License-Identifier: GPL-2.0
"""Boots in which QEMU counts the instructions of calls of some functions, by sim/wqcount.c."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from wqlab.ground.problem import Problem
from wqlab.guests import vm
from wqlab.guests.qemu import BootOptions
from wqlab.guests.scenario import Scenario
from wqlab.guests.vm import Record
from wqlab.kernels.builddir import BuildDir
from wqlab.measure.sim.emulator import ACCEL, with_plugin
from wqlab.measure.sim.simulate import Symbols

FREED = "free_initmem"  # frees the code that ran at boot


@dataclass(frozen=True)
class Call:
    """One line of the plugin."""

    function: str
    cpu: int
    instructions: int


def calls(lines: Iterable[str]) -> list[Call]:
    """Those in a record of boot(), in the order in which they returned."""
    return [Call(**json.loads(line)) for line in lines if line.startswith("{")]


def boot(
    kernel: BuildDir,
    scenario: Scenario,
    job: str,
    out: Path,
    options: BootOptions,
    *,
    functions: tuple[str, ...],
) -> Record:
    """As vm.boot(); what the plugin has written is behind what the job has printed. The kernel need
    not have all of the functions."""
    if scenario.icount is None:
        raise Problem(f"{scenario.name} does not count instructions")
    out.mkdir(parents=True, exist_ok=True)
    symbols, counts = out / "symbols", out / "counts"
    at = {name: (start, end) for start, end, name in Symbols.of(kernel).functions}
    known = [(name, *at[name]) for name in functions if name in at]
    symbols.write_text("".join(f"{name} {start:x} {end:x}\n" for name, start, end in known))
    counts.unlink(missing_ok=True)
    arguments = {"symbols": symbols, "forget": f"{at[FREED][0]:x}", "out": counts}
    qemu = with_plugin("wqcount", arguments)
    options = replace(options, accel=ACCEL, emulator=qemu)
    record = vm.boot(kernel, scenario, job, out, options)
    said = counts.read_text().splitlines() if counts.is_file() else []
    return replace(record, lines=[*record.lines, *said])
