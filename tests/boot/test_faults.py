# SPDX-License-Identifier: GPL-2.0
"""The test_workqueue module when allocations fail.

Seen failing: with a run that is not freed when it cannot be made, and with parameters that
are not freed when loading fails.
"""

import pytest
from needs import FIND, Boot

from wqlab.vm import Record

LOADS = {"test": 50, "full": 150}


@pytest.mark.parametrize(
    "loads",
    [
        pytest.param(
            loads,
            marks=[
                pytest.mark.needs(
                    Boot("bench-2", "faults", FIND, f"faults.loads={loads}", timeout=900)
                ),
                pytest.mark.tier(tier),
            ],
        )
        for tier, loads in LOADS.items()
    ],
)
def test_failed_allocations_leave_nothing(record: Record, loads: int) -> None:
    for line in record.lines:
        if line.startswith("skipped"):
            pytest.skip(line)
    numbers = {
        line.split()[0]: [int(word) for word in line.split()[1:]] for line in record.lines[:3]
    }
    assert numbers["run"][0] > 20
    assert numbers["load"][0] == loads
    assert min(numbers["random"]) > 10
    assert record.lines[3:] == []
