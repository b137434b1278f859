# SPDX-License-Identifier: GPL-2.0
"""wqlab report --csv and --benchstat: every figure of the boots that passed, in forms that other programs read.

benchstat (golang.org/x/perf) was seen to read the text. Seen failing: with a configuration that
stays from the kernel before, with spaces in the name of a benchmark, and with parameters left
out of it.
"""

import argparse
import csv
import io
import re
from dataclasses import replace
from pathlib import Path

import made_results
import pytest

from wqlab import report
from wqlab.ground.places import ROOT
from wqlab.ground.problem import Problem
from wqlab.results.file import load, save
from wqlab.results.metrics import counted, samples
from wqlab.results.model import Results

TWO = made_results.results({"stock": 1.0, "patched": 2.0}, boots=3, lost=1, icount=True, locks=True)


def call(capsys: pytest.CaptureFixture, form: str, *files: Path) -> str:
    parser = argparse.ArgumentParser()
    report.add_options(parser)
    assert report.command(parser.parse_args([f"--{form}", *map(str, files)])) == 0
    return capsys.readouterr().out


def exported(capsys: pytest.CaptureFixture, tmp_path: Path, form: str, results: Results) -> str:
    save(results, tmp_path / "file.json")
    return call(capsys, form, tmp_path / "file.json")


def test_csv(capsys: pytest.CaptureFixture, tmp_path: Path) -> None:
    found = list(csv.DictReader(io.StringIO(exported(capsys, tmp_path, "csv", TWO))))
    boots = [boot for boot in TWO.passed("time") if boot.kernel == "patched-1"]
    wanted = samples(boots, "cache", "serial", "items_per_sec")
    rows = [
        row
        for row in found
        if (row["kernel"], row["section"], row["scope"], row["figure"])
        == ("patched", "time", "cache", "items_per_sec")
    ]
    assert [float(row["value"]) for row in rows] == wanted and len(wanted) == 2
    assert {row["unit"] for row in rows} == {"items/s"}
    assert {row["release"] for row in rows} == {"6.12.117+"}
    assert rows[0]["run"].startswith("mode=serial scopes=cpu,smt,") and rows[0]["boot"] == "1"
    assert {row["figure"] for row in found if row["section"] == "icount"} >= {"instructions"}
    assert {row["figure"] for row in found if row["section"] == "locks"} >= {"lock_hold_ns"}


def test_csv_of_counts(capsys: pytest.CaptureFixture, tmp_path: Path) -> None:
    text = exported(capsys, tmp_path, "csv", made_results.counts("wakeups"))
    rows = [row for row in csv.DictReader(io.StringIO(text)) if row["reason"] == "item queued"]
    assert len(rows) == 2 * 5 * 2  # kernels, boots, figures
    assert {
        row["value"] for row in rows if (row["kernel"], row["figure"]) == ("patched", "locked")
    } == {"0"}


def parsed(text: str) -> list[tuple[dict[str, str], str, dict[str, float]]]:
    """Go's benchmark format, as its specification has it: configuration, name, figures."""
    found, config = [], {}
    for line in text.splitlines():
        if setting := re.fullmatch(r"([a-z][^\sA-Z:]*):(?:[ \t]+(.*))?", line):
            config = config | {setting[1]: setting[2] or ""}
        elif re.match(r"Benchmark[^a-z]", line):
            name, count, *rest = line.split()
            assert int(count) > 0 and len(rest) % 2 == 0
            found.append((config, name, dict(zip(rest[1::2], map(float, rest[::2]), strict=True))))
        else:
            assert re.fullmatch(r"Unit \S+ better=(lower|higher)", line), line
    return found


def test_benchstat(capsys: pytest.CaptureFixture, tmp_path: Path) -> None:
    found = parsed(exported(capsys, tmp_path, "benchstat", TWO))
    name = "BenchmarkTime/mode=serial/scope=cache/items=5000"
    lines = [(c, f) for c, n, f in found if n == name and c["kernel"] == "stock"]
    boots = [boot for boot in TWO.passed("time") if boot.kernel == "stock-1"]
    rates = samples(boots, "cache", "serial", "items_per_sec")
    assert [figures["items/s"] for _, figures in lines] == rates
    assert [figures["ns/op"] for _, figures in lines] == pytest.approx([1e9 / r for r in rates])
    assert lines[0][1]["queue-p99-ns"] > 0
    assert lines[0][0] | {"kernel": "patched"} in [config for config, *_ in found]
    assert lines[0][0]["scenario"] == "bench-2" and lines[0][0]["flavour"] == "bench"
    assert not [figures for _, n, figures in found if "cache_shard" in n and not figures]


def test_benchstat_forgets_what_is_not_known(capsys: pytest.CaptureFixture, tmp_path: Path) -> None:
    """A key stays in force until it is set again."""
    first, *rest = made_results.counts("peaks").boots
    results = replace(
        made_results.counts("peaks"), boots=[first, *(replace(b, scenario=None) for b in rest)]
    )
    configs = [config for config, *_ in parsed(exported(capsys, tmp_path, "benchstat", results))]
    assert [config["scenario"] for config in configs][:5] == ["bench-2"] * 4 + [""]


@pytest.mark.tier("test")
@pytest.mark.parametrize("path", sorted((ROOT / "results").glob("*.json")), ids=lambda p: p.name)
def test_stored_results(capsys: pytest.CaptureFixture, path: Path) -> None:
    """All of their figures are there, and each name is that of one thing only."""
    results = load(path)
    found = parsed(call(capsys, "benchstat", path))
    boots = [boot for boot in results.boots if boot.passed]
    rows = sum(not row.missing for boot in boots for row in boot.rows)
    counts = sum(len(boot.counts) for boot in boots)
    instructions = len([name for _, name, figures in found if "instructions" in figures])
    assert len(found) == rows + counts + instructions > 0
    for boot in boots[:1]:
        for count in boot.counts:
            figure = next(iter(count.figures))
            assert counted([boot], count.labels, figure) == [count.figures[figure]]
    assert call(capsys, "csv", path).count("\n") > len(found)


def test_nothing_to_export(capsys: pytest.CaptureFixture, tmp_path: Path) -> None:
    save(made_results.results({"stock": 1.0}, boots=1, lost=1), tmp_path / "file.json")
    with pytest.raises(Problem, match="no boot has passed"):
        call(capsys, "csv", tmp_path / "file.json")
