# SPDX-License-Identifier: GPL-2.0
"""docs/patches.md has each patch of each base in one row of its part, and nothing else.

Seen failing: with a row left out, with one in another part, with a title named twice, and with one
that no patch has.
"""

import re

import pytest

from series.parts import parts_of
from wqlab.ground.places import ROOT
from wqlab.kernels.bases import Base, load_base, series_names


def beginnings() -> list[tuple[str, str]]:
    """The part and the begin of a title, of each that the first table names."""
    found, part = [], ""
    text = (ROOT / "docs/patches.md").read_text()
    for line in text.split("\n| part |")[1].split("\n\n")[0].splitlines()[2:]:
        named, _, titles, _ = [cell.strip() for cell in line.strip("|").split("|")]
        part = named or part
        found += [(part, title) for title in titles.split("; ")]
    return found


def titles(base: Base) -> list[tuple[str, str]]:
    """The part and the title of each patch, without what it is about."""
    return [
        (part.name, re.sub(r"^(\S+: )+", "", patch.subject))
        for part in parts_of(base)
        for patch in base.patches[part.first - 1 : part.last]
    ]


@pytest.mark.parametrize("name", series_names())
def test_each_patch_has_a_row(name: str) -> None:
    for part, title in titles(load_base(name)):
        rows = [row for row in beginnings() if row[0] == part and title.startswith(row[1])]
        assert len(rows) == 1, f"{part}: {title}: {rows}"


def test_each_title_is_one_of_a_patch() -> None:
    there = [title for name in series_names() for title in titles(load_base(name))]
    for part, begin in beginnings():
        assert any(part == other and title.startswith(begin) for other, title in there), begin
