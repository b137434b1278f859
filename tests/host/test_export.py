# SPDX-License-Identifier: GPL-2.0
"""wqlab report --csv: every figure of the boots that passed, in a form that other programs read.

Seen failing: with labels left out, so that two figures have one name, and with the counts of a file
left out.
"""

import argparse
import csv
import io
from itertools import groupby
from pathlib import Path

import made_results
import pytest
import slices
from each import each_holds

from wqlab import report
from wqlab.ground.places import ROOT
from wqlab.ground.problem import Problem
from wqlab.results.file import load, save
from wqlab.results.metrics import counted, samples
from wqlab.results.model import Results

TWO = made_results.results({"stock": 1.0, "patched": 2.0}, boots=3, lost=1, icount=True, locks=True)


Lines = list[dict[str, str]]


def call(capsys: pytest.CaptureFixture, path: Path) -> Lines:
    parser = argparse.ArgumentParser()
    report.add_options(parser)
    assert report.command(parser.parse_args(["--csv", str(path)])) == 0
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def exported(capsys: pytest.CaptureFixture, tmp_path: Path, results: Results) -> Lines:
    save(results, tmp_path / "file.json")
    return call(capsys, tmp_path / "file.json")


def test_csv(capsys: pytest.CaptureFixture, tmp_path: Path) -> None:
    found = exported(capsys, tmp_path, TWO)
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
    found = exported(capsys, tmp_path, made_results.counts("wakeups"))
    rows = [row for row in found if row["reason"] == "item queued"]
    assert len(rows) == 2 * 5 * 2  # kernels, boots, figures
    assert {
        row["value"] for row in rows if (row["kernel"], row["figure"]) == ("patched", "locked")
    } == {"0"}


@pytest.mark.parametrize("name", ["sim-max_active-8", "sim-published"])
def test_what_was_simulated_has_its_run(capsys: pytest.CaptureFixture, name: str) -> None:
    """Figures of different max_active have different names. Seen failing: without the runs of counts
    that do not store one."""
    found = call(capsys, ROOT / f"results/{name}.json")
    names = [tuple(text for key, text in line.items() if key != "value") for line in found]
    assert len(set(names)) == len(names)
    assert all(line["run"] for line in found if line["section"] == "sim")


@pytest.mark.tier("test")
def test_stored_results(capsys: pytest.CaptureFixture) -> None:
    """All of their figures are there, those of one thing together."""
    each_holds(slices.MEASURED, lambda path: check_figures(path, call(capsys, path)))


def check_figures(path: Path, found: Lines) -> None:
    results = load(path)
    boots = [boot for boot in results.boots if boot.passed]
    rows = sum(not row.missing for boot in boots for row in boot.rows)
    counts = sum(len(boot.counts) for boot in boots)
    instructions = sum(line["figure"] == "instructions" for line in found)
    figure = {"figure", "unit", "value"}
    things = groupby(found, lambda line: [line[key] for key in line if key not in figure])
    number = len(list(things))
    assert number == rows + counts + instructions > 0
    for boot in boots[:1]:
        for count in boot.counts:
            key = next(iter(count.figures))
            assert counted([boot], count.labels, key) == [count.figures[key]]


def test_nothing_to_export(capsys: pytest.CaptureFixture, tmp_path: Path) -> None:
    save(made_results.results({"stock": 1.0}, boots=1, lost=1), tmp_path / "file.json")
    with pytest.raises(Problem, match="no boot has passed"):
        call(capsys, tmp_path / "file.json")
