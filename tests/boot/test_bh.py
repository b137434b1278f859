# SPDX-License-Identifier: GPL-2.0
"""Work items of BH workqueues start, which have no worker that could be picked: guest/wqbh.

Seen failing: against tests/mutants/series/bh-picked.diff and bh-not-raised-again.diff.
"""

import pytest
from needs import OTHERS, TEST, Boot

from wqlab.guests.vm import Record

NR_ITEMS = 25
WANTED = {"many": NR_ITEMS, "again": 1, "far": NR_ITEMS}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(kernel.name, marks=Boot("nodes-2x1", "bh", kernel).mark)
        for kernel in (TEST, *OTHERS)
    ],
)
def test_all_start(record: Record, name: str) -> None:
    lines = [line.split()[1:] for line in record.lines if line.startswith("wqbh ")]
    found = {(kind, what): int(started) for kind, what, started in lines}
    assert found == {
        (kind, what): number for kind in ("bh", "bh_highpri") for what, number in WANTED.items()
    }
