# SPDX-License-Identifier: GPL-2.0
"""`wqlab bench` on the kernel with the series, from the boots to results that can be read.

Seen failing: with results without a layout, without the boots of a part, and with a lost boot.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from farm import ALL, Making, Need
from needs import TEST, Accelerator

from wqlab import results
from wqlab.places import BUILD, ROOT
from wqlab.run import check

PARTS = ("layout", "icount", "time")


@dataclass(frozen=True)
class Measured(Need):
    """Each part once, with few items, on the kernel that is there for other boots."""

    cores = ALL
    guess = 120.0
    before = (TEST, Accelerator(TEST))

    def make(self, farm: Making) -> Path:
        out = BUILD / "test/bench.json"
        out.unlink(missing_ok=True)
        ksrc = [f"--ksrc={farm.options.ksrc}"] if farm.options.ksrc else []
        check(
            [sys.executable, "-m", "wqlab", "bench", f"--base={farm.options.base.name}", *ksrc]
            + [
                "--flavour=test",
                "--kernels=patched",
                f"--parts={','.join(PARTS)}",
                "--boots=1",
                "--items=800",
            ]
            + [f"--out={out}"],
            wrong="the benchmark failed",
            limit=1200,
            cwd=ROOT,
        )
        return out


@pytest.mark.needs(Measured())
def test_benchmark(made: Path) -> None:
    found = results.load(made)
    assert {layout.scenario for layout in found.layouts}
    assert {boot.section for boot in found.boots} == {"icount", "time"}
    assert all(boot.verdict == "pass" and boot.rows for boot in found.boots)
