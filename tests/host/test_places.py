# SPDX-License-Identifier: GPL-2.0
"""What bash and Python both know, they know alike.

Seen failing: with another folder in common.sh, and with bases in the order of their names.
"""

import subprocess

import pytest

from wqlab.ground.places import CACHE, ROOT
from wqlab.kernels.bases import base_names, series_names


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ('echo "$CACHE"', str(CACHE)),
        ('echo "$ROOT"', str(ROOT)),
        ("list_bases", "\n".join(base_names())),
        ("list_series", "\n".join(series_names())),
    ],
)
def test_one_value(words: str, value: str) -> None:
    script = f'. "{ROOT}/scripts/common.sh"; {words}'
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=True, timeout=20
    )
    assert done.stdout.strip() == value
