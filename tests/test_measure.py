# SPDX-License-Identifier: GPL-2.0
"""What scripts/measure reads from the guest and prints.

Seen failing: with a parser that takes a scope that is missing for a result, and one that
goes on after a line that was cut off.
"""

import importlib.util
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "scripts/measure"
LINE = (
    "test_workqueue: scope=cache mode=serial threads=2 items=10000 items_per_sec=19318 "
    "queue_p50_ns=3967 queue_p90_ns=26111 queue_p95_ns=33791"
)


@pytest.fixture(scope="module")
def measure() -> ModuleType:
    loader = SourceFileLoader("measure", str(SCRIPT))
    spec = importlib.util.spec_from_loader("measure", loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_results_are_read(measure: ModuleType) -> None:
    lines = ["noise", LINE, "test_workqueue: scope=cache_shard missing"]
    assert measure.parse_results(lines) == {
        "cache": {
            "threads": 2,
            "items": 10000,
            "items_per_sec": 19318,
            "queue_p50_ns": 3967,
            "queue_p90_ns": 26111,
            "queue_p95_ns": 33791,
        }
    }


@pytest.mark.parametrize("cut", [LINE[:-5] + "=", LINE.replace("10000", "1k"), LINE[:75]])
def test_cut_line_is_an_error(measure: ModuleType, cut: str) -> None:
    with pytest.raises(measure.MeasureError):
        measure.parse_results([cut])


def test_table_has_median_and_spread(measure: ModuleType) -> None:
    run = measure.parse_results([LINE])["cache"]
    runs = [run | {"items_per_sec": value} for value in (10, 30, 20)]
    spreads = {key: measure.Spread.of([r[key] for r in runs]) for key in measure.METRICS}
    table = measure.bench_table({"cache": spreads})
    assert "20 [10 - 30]" in table[1]
    assert len({len(line) for line in table}) == 1
