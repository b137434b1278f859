# SPDX-License-Identifier: GPL-2.0
"""README.md names the kernels that bases/ has.

Seen failing: with another NEWEST in bases/6.12, and with the row of a base left out.
"""

import re

import pytest

from wqlab.bases import load_base, series_names
from wqlab.places import ROOT


@pytest.mark.parametrize("base", series_names())
def test_readme_names_the_kernels_it_was_tried_on(base: str) -> None:
    text = (ROOT / "README.md").read_text()
    [kernels] = re.findall(rf"^\| ([^|]+) \| `{re.escape(base)}/` \|", text, re.MULTILINE)
    found, known = re.findall(r"\d+(?:\.\d+)+", kernels), load_base(base)
    assert known.newest in found
    assert known.minimum in found or known.minimum == base
