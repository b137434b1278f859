# SPDX-License-Identifier: GPL-2.0
"""The documents: each link leads somewhere, and none has grown beyond what anybody reads.

Seen failing: with a link to a file that is not there, with one to a heading that is not there, and
with a limit of fewer words.
"""

import re
from pathlib import Path

import pytest
import slices

from wqlab.ground.places import ROOT

DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [*DOCS, ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """What a link may have behind #: the headings, as GitHub writes them."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def words(*pages: Path) -> int:
    """But for tables that slices.py makes."""
    return sum(len(slices.MADE.sub("", page.read_text()).split()) for page in pages)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        to = page.parent / path if path else page
        assert to.exists(), link
        assert not anchor or anchor in anchors(to), link


def test_documents_are_short() -> None:
    assert words(*DOCS) <= 12_000
    assert words(ROOT / "CONTRIBUTING.md") <= 900
    assert words(ROOT / "README.md") <= 450
