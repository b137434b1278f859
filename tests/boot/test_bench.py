# SPDX-License-Identifier: GPL-2.0
"""`wqlab bench` on the kernel with the series, from the boots to results that can be read.

Seen failing: with results without a layout, without the boots of a part, with a lost boot, and
with User Mode Linux on one CPU.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from farm import ALL, Making, Need
from needs import TEST, Accelerator

from wqlab.ground.places import BUILD, ROOT
from wqlab.ground.run import check
from wqlab.results.file import load
from wqlab.results.model import Results

PARTS = ("layout", "icount", "time")


def measure(farm: Making, out: Path, *words: str) -> Results:
    """What `wqlab bench` measures in one boot of each kernel."""
    out.unlink(missing_ok=True)
    ksrc = [f"--ksrc={farm.options.ksrc}"] if farm.options.ksrc else []
    check(
        [sys.executable, "-m", "wqlab", "bench", f"--base={farm.options.base.name}", *ksrc]
        + [*words, "--boots=1", f"--out={out}"],
        wrong="the benchmark failed",
        limit=1200,
        cwd=ROOT,
    )
    return load(out)


@dataclass(frozen=True)
class Measured(Need):
    """Each part once, with few items, on the kernel that is there for other boots."""

    cores = ALL
    guess = 120.0
    before = (TEST, Accelerator(TEST))

    def make(self, farm: Making) -> Results:
        words = ["--flavour=test", "--kernels=patched", f"--parts={','.join(PARTS)}"]
        return measure(farm, BUILD / "test/bench.json", *words, "--items=800")


@pytest.mark.needs(Measured())
def test_benchmark(made: Results) -> None:
    assert {layout.scenario for layout in made.layouts}
    assert {boot.section for boot in made.boots} == {"icount", "time"}
    assert all(boot.verdict == "pass" and boot.rows for boot in made.boots)


@dataclass(frozen=True)
class Native(Need):
    """User Mode Linux of mainline, and with the series where the base's can have several CPUs."""

    cores = ALL
    guess = 600.0

    def make(self, farm: Making) -> Results:
        words = ["--kernels=patched,mainline", "--parts=native"]
        return measure(farm, BUILD / "test/native.json", *words)


@pytest.mark.needs(Native())
@pytest.mark.tier("full")
def test_native(made: Results) -> None:
    assert "mainline" in {made.kernel(boot.kernel).name for boot in made.boots}
    for boot in made.boots:
        assert {(row.mode, row.scope) for row in boot.rows} >= {
            ("serial", "cpu"),
            ("chain", "system"),
        }
        assert all(row.values["threads"] > 1 for row in boot.rows if row.mode != "fanout")
