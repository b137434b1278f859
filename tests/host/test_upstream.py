# SPDX-License-Identifier: GPL-2.0
"""docs/upstream.md has each patch of each base once.

Seen failing: with a patch left out, with one named twice, and with the column of a base left out.
"""

import re

import pytest

from wqlab.bases import load_base, series_names
from wqlab.places import ROOT


def columns(text: str) -> dict[str, list[int]]:
    """The numbers below each heading of the first table, which may be given as 3, 7-9."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|") and not line.startswith("|---")
    ]
    numbers: dict[str, list[int]] = {name: [] for name in rows[0]}
    for row in rows[1:]:
        for name, cell in zip(rows[0], row, strict=True):
            for first, last in re.findall(r"(?:^|, )(\d+)(?:-(\d+))?(?=, |$)", cell):
                numbers[name] += range(int(first), int(last or first) + 1)
    return numbers


@pytest.mark.parametrize("base", series_names())
def test_each_patch_has_a_row(base: str) -> None:
    numbers = columns((ROOT / "docs/upstream.md").read_text())
    assert sorted(numbers[base]) == [patch.number for patch in load_base(base).patches]
