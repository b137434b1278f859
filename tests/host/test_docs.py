# SPDX-License-Identifier: GPL-2.0
"""The documents: each link leads somewhere, and none has grown beyond what anybody reads.

Seen failing: with a link to a file that is not there, with one to a heading that is not there, and
with a limit of fewer words.
"""

import re
from pathlib import Path

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


def leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    to = page.parent / path if path else page
    return "://" in link or (to.exists() and (not anchor or anchor in anchors(to)))


def test_links_lead_somewhere() -> None:
    links = [(page, link) for page in PAGES for link in LINK.findall(page.read_text())]
    assert links
    assert not [f"{page.name}: {link}" for page, link in links if not leads_somewhere(page, link)]


def test_documents_are_short() -> None:
    assert words(*DOCS) <= 12_000
    assert words(ROOT / "CONTRIBUTING.md") <= 900
    assert words(ROOT / "README.md") <= 450
