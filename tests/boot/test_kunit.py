# SPDX-License-Identifier: GPL-2.0
"""The KUnit suites, as a real boot runs them, each suite to the end of its plan.

Seen failing: against a kernel without one of the suites; and test_lost_cases_are_a_failure with
report() taking what kunit.py's cases say without asking for their plan.
"""

from collections.abc import Callable

import pytest
from needs import FIND, SOURCE, TEST, Boot, Suites, report

from wqlab.kunit import Report
from wqlab.obtain import Source
from wqlab.vm import Record

BOOTS = {
    f"{machine}-{kernel.flavour}": Boot(machine, "kunit", kernel, timeout=300)
    for kernel, machines in (
        (TEST, ("single", "one-llc-12", "llc-4x3x2", "two-nodes-4x11")),
        # with KASAN and lockdep, larger machines take minutes to come up
        (FIND, ("single", "one-llc-12")),
    )
    for machine in machines
}
SUITES = {"workqueue", "workqueue_wakeups", "test_workqueue"}
GOOD = """\
KTAP version 1
1..1
    KTAP version 1
    # Subtest: workqueue
    # module: workqueue
    1..3
    ok 1 one
    # two: not ok 7 said a message
    not ok 2 two
    ok 3 three # SKIP no CPUs
# workqueue: pass:1 fail:1 skip:1 total:3
# Totals: pass:1 fail:1 skip:1 total:3
not ok 1 workqueue
"""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.needs(Suites(boot))) for name, boot in BOOTS.items()],
)
def test_kunit(made: tuple[Record, Report], name: str, each_case: Callable[[Report], None]) -> None:
    record, found = made
    assert record.verdict != "lost", f"{record.reason}: {record.tail}"
    each_case(found)
    assert {case.suite for case in found.cases} >= SUITES
    assert record.verdict == "pass", record.reason


@pytest.mark.needs(SOURCE)
def test_every_case_counts_once(made: Source) -> None:
    found = report(made, (GOOD + GOOD.replace("workqueue", "another")).splitlines())
    outcomes = [("one", "passed"), ("two", "failed"), ("three", "skipped")]
    assert [(case.name, case.outcome) for case in found.cases] == 2 * outcomes
    assert not found.lost


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(GOOD[: GOOD.index("    ok 3")], id="cut-3"),
        pytest.param(GOOD + GOOD[: GOOD.index("    not ok 2")], id="cut-2"),
        pytest.param(GOOD[: GOOD.index("    ok 1")], id="cut-1"),
        pytest.param(GOOD.replace("1..3", "1..4"), id="plan"),
        pytest.param(GOOD + "KTAP version 1\n1..1\nok 1 another # SKIP\n", id="skipped-suite"),
        pytest.param("", id="nothing"),
        pytest.param("Linux version 6.12\n", id="no-ktap"),
    ],
)
@pytest.mark.needs(SOURCE)
def test_lost_cases_are_a_failure(made: Source, text: str) -> None:
    assert report(made, text.splitlines()).lost
