# SPDX-License-Identifier: GPL-2.0
"""The KUnit suites, as a real boot runs them, each suite to the end of its plan.

Seen failing: against a kernel without one of the suites.
"""

from collections.abc import Callable

import pytest
from needs import DEBUG, FIND, OTHERS, RT, TEST, Boot, Suites

from wqlab.kunit import Report
from wqlab.vm import Record

BOOTS = {
    f"{machine}-{kernel.name}": Boot(machine, "kunit", kernel, timeout=600)
    for kernel, machines in (
        (TEST, ("single", "one-llc-12", "llc-4x3x2", "two-nodes-4x11")),
        # larger machines take minutes to come up with these
        (DEBUG, ("single",)),
        (FIND, ("single", "one-llc-12")),
        (RT, ("one-llc-12",)),
        *((kernel, ("single", "clusters-5x4", "nodes-2")) for kernel in OTHERS),
    )
    for machine in machines
}
SUITES = {"workqueue", "workqueue_wakeups", "test_workqueue"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=[
                boot.mark if boot.unfit else pytest.mark.needs(Suites(boot)),
                pytest.mark.tier("full" if boot.kernel in (FIND, RT, *OTHERS) else "test"),
            ],
        )
        for name, boot in BOOTS.items()
    ],
)
def test_kunit(made: tuple[Record, Report], name: str, each_case: Callable[[Report], None]) -> None:
    record, found = made
    assert record.verdict != "lost", f"{record.reason}: {record.tail}"
    each_case(found)
    assert {case.suite for case in found.cases} >= SUITES
    assert record.verdict == "pass", record.reason
