# SPDX-License-Identifier: GPL-2.0
"""The KUnit suites, as a real boot runs them.

Seen failing: against a kernel without one of the suites.
"""

import pytest
from conftest import Boot
from wqboot import Record

MACHINES = ["single", "one-llc-12", "llc-4x3x2", "two-nodes-4x11"]
DEBUG_TIMEOUT = 300  # seconds for a boot of a kernel with KASAN


@pytest.mark.parametrize(
    "machine",
    [
        pytest.param(name, marks=pytest.mark.boot(Boot(name, "kunit", timeout=DEBUG_TIMEOUT)))
        for name in MACHINES
    ],
)
def test_kunit(record: Record, machine: str) -> None:
    assert record.scenario == machine
    results = [line for line in record.lines if line.startswith("ok ")]
    suites = {line.split()[2] for line in results}
    assert suites >= {"workqueue", "workqueue_wakeups", "test_workqueue"}
