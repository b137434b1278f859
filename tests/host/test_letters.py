# SPDX-License-Identifier: GPL-2.0
"""Letters of docs/letters hold the patch of mainline's series with their subject: its text, and what
it changes.

Seen failing: with a word more in the letter, and with a line less in its diff.
"""

import re
from pathlib import Path

import pytest

from wqlab.bases import base_names
from wqlab.places import ROOT


def text(mail: str) -> list[str]:
    """Its subject and its body, without tags."""
    subject = re.search(r"^Subject: \[PATCH\] (.*(?:\n .*)*)", mail, re.MULTILINE)
    assert subject
    body = mail[subject.end() : mail.index("\n---\n")]
    return [" ".join(subject[1].split()), re.sub(r"\nCc: .*", "", body).strip()]


def changes(mail: str) -> list[str]:
    return re.findall(r"^[+-](?![+-]{2} ).*", mail[mail.index("\ndiff --git ") :], re.MULTILINE)


@pytest.mark.parametrize("letter", sorted((ROOT / "docs/letters").glob("*")), ids=lambda p: p.stem)
def test_letter(letter: Path) -> None:
    mail = letter.read_text()
    patches = [path.read_text() for path in (ROOT / f"patches/{base_names()[-1]}").glob("*.patch")]
    [patch] = [patch for patch in patches if text(patch)[0] == text(mail)[0]]
    assert text(mail) == text(patch)
    assert changes(mail) == changes(patch)
