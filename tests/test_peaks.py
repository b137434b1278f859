# SPDX-License-Identifier: GPL-2.0
"""What is read of the peaks of a boot.

Seen failing: with a parser that takes the first result of a boot for every cell, and with a
table that compares with max_active alone.
"""

import pytest
from conftest import ROOT
from wqpeaks import Cell, PeaksError, cells, commands, peaks, table
from wqtopology import load_scenario

MACHINE = load_scenario(ROOT / "scenarios/nodes-4-cpuless.toml")


def lines(**changes: object) -> list[str]:
    """What a kernel says that keeps the promise, but for the changes."""
    said = ["> load items=1 scopes=default", "kernel test_workqueue: scope=default items=1"]
    for cell in cells(MACHINE):
        row = {"items": cell.items, "max_active": cell.max_active, "lost": 0, "twice": 0}
        row |= {"running_peak": cell.wanted} | changes
        words = " ".join(f"{key}={value}" for key, value in row.items())
        said += [f"> {cell.command}", "result ok", f"kernel test_workqueue: scope=x {words}"]
    return said


def test_every_cell_is_asked_for_once() -> None:
    asked = commands(MACHINE).splitlines()[1:]
    assert asked == [cell.command for cell in cells(MACHINE)]
    assert len(set(asked)) == len(asked)


def test_issuers() -> None:
    """A node without CPUs issues nothing."""
    found = {cell.issuers: sorted(cell.cpus) for cell in cells(MACHINE)}
    assert found == {"all CPUs": [0, 1, 2, 3, 4, 5], "one node": [0, 1], "last node": [4, 5]}
    assert all(cell.wanted <= cell.items for cell in cells(MACHINE))
    assert {cell.wanted for cell in cells(MACHINE)} == {1, 3, 4, 8, 16, 48, 64, 512}


def test_peaks() -> None:
    found = peaks(MACHINE, lines())
    assert found == {cell: cell.wanted for cell in cells(MACHINE)}
    assert "*" not in "".join(table({cell: [peak] for cell, peak in found.items()}))


def test_table_marks_what_is_not_wanted() -> None:
    found: dict[Cell, list[int]] = {cell: [cell.wanted] * 2 for cell in cells(MACHINE)}
    first, *_, last = found
    found[first], found[last] = [1, 2], [128, 128]
    shown = table(found)
    assert "1-2*" in shown[1]
    assert shown[-1].endswith(" 128*")
    assert "".join(shown).count("*") == 2


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"lost": 1}, "not every item ran once"),
        ({"twice": 1}, "not every item ran once"),
        ({"items": 1}, "not every item ran once"),
        ({"max_active": 9}, "another max_active"),
    ],
)
def test_bad_results(changes: dict[str, object], error: str) -> None:
    with pytest.raises(PeaksError, match=error):
        peaks(MACHINE, lines(**changes))


def test_missing_result() -> None:
    with pytest.raises(PeaksError, match="0 results, not 1"):
        peaks(MACHINE, lines()[:-1])
