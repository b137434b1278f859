# SPDX-License-Identifier: GPL-2.0
"""The KUnit suites, as a real boot runs them.

Seen failing: against a kernel without the suite.
"""

import pytest
from conftest import Boot
from wqboot import Record


@pytest.mark.boot(Boot("one-llc-12", "kunit"))
def test_kunit(record: Record) -> None:
    results = [line for line in record.lines if line.startswith("ok ")]
    assert [line for line in results if line.split()[2] == "workqueue"], "no suite named workqueue"
