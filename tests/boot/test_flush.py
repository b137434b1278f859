# SPDX-License-Identifier: GPL-2.0
"""A flush doesn't return while the work item executes, whatever is done to the one that is pending:
guest/wqflush, on each kind of workqueue. Stock's does on all but BH ones, which have one worker. And
it ends when the item is cancelled that it waits for, and that waits for one of another pool.

Seen failing: each against the other kernel, and against a kernel that leaves barriers on the worklist.
"""

import pytest
from needs import OTHERS, STOCK, TEST, Boot

from wqlab.guests.vm import Record

MACHINE = "nodes-2x1"
ONE_NODE = "bench-2"  # whose CPUs share a limit on all kernels
FLUSHES = ("flush_work", "flush_delayed_work")
GRABS = ("cancel", "cancel_sync", "disable", "modify")
KINDS = ("unbound", "unbound_worklist", "percpu", "percpu_worklist", "ordered", "bh")
TRIED = {
    (kind, flush, grab)
    for kind in KINDS
    for flush in FLUSHES
    for grab in GRABS
    if (kind, grab) != ("bh", "cancel_sync")
}
OTHER_POOL = ("other_pool", "flush_work", "cancel")


def verdicts(record: Record) -> dict[tuple[str, str, str], str]:
    lines = [line.split()[1:] for line in record.lines if line.startswith("wqflush ")]
    return {(kind, flush, grab): verdict for kind, flush, grab, verdict in lines}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(kernel.name, marks=Boot(MACHINE, "flush", kernel).mark)
        for kernel in (TEST, *OTHERS)
    ],
)
def test_flush_waits(record: Record, name: str) -> None:
    assert verdicts(record) == dict.fromkeys(TRIED, "waits")


@pytest.mark.tier("full")
@pytest.mark.needs(Boot(MACHINE, "flush", STOCK))
def test_flush_of_stock_returns_early(record: Record) -> None:
    found = verdicts(record)
    assert found.keys() == TRIED
    assert {case for case, verdict in found.items() if verdict == "early"} == {
        case for case in TRIED if case[0] != "bh"
    }


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        pytest.param(
            name,
            verdict,
            id=name,
            marks=[
                Boot(ONE_NODE, "flush", kernel, commands="other_pool\n").mark,
                pytest.mark.tier("test" if kernel == TEST else "full"),
            ],
        )
        for name, kernel, verdict in (("series", TEST, "ends"), ("stock", STOCK, "hangs"))
    ],
)
def test_flush_of_cancelled_item(record: Record, name: str, verdict: str) -> None:
    assert verdicts(record) == {OTHER_POOL: verdict}
