# SPDX-License-Identifier: GPL-2.0
"""The KUnit suites, as a real boot runs them.

Seen failing: against a kernel without one of the suites.
"""

import pytest
from conftest import Boot
from wqboot import Record


@pytest.mark.boot(Boot("one-llc-12", "kunit"))
def test_kunit(record: Record) -> None:
    results = [line for line in record.lines if line.startswith("ok ")]
    suites = {line.split()[2] for line in results}
    assert suites >= {"workqueue", "test_workqueue"}
