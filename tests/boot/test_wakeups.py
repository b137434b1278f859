# SPDX-License-Identifier: GPL-2.0
"""No worker of a pool is woken up with a pool->lock held, by what a traced boot shows.

Seen failing: against stock 6.12 and the series without
its last patches.
"""

import pytest
from needs import DEBUG, Boot

from wqlab.guests.vm import Record, sections
from wqlab.measure.counts.wakeups import APPEND, wq_wakeups

BOOT = Boot("nodes-2", "wakeups", DEBUG, append=APPEND)
LOADS = ["suite", "serial", "burst", "limited", "chain", "fanout", "sleep"]
# Takes a worker that is idle while there is work for it and that nobody has picked: what goes
# wrong without this wakeup has not been seen. And no worker of the suite flushes a workqueue.
UNREACHABLE = {"rescuer leaves", "flush ends"}
# While no worker can be created, what is woken up are rescuers. Flushers are as in the base.
ALLOWED = {"mayday", "flush ends"}


@pytest.mark.needs(BOOT)
@pytest.mark.parametrize("name", LOADS)
def test_no_wakeup_is_under_a_lock(record: Record, name: str) -> None:
    for line in record.lines:
        if line.startswith("skipped "):
            pytest.skip(line.removeprefix("skipped "))
    counts = wq_wakeups.parse(sections(record.lines)[name])
    print(name, *wq_wakeups.report(counts), sep="\n")
    total, locked = counts.by_reason()
    assert total and locked.keys() <= ALLOWED
    if name == "suite":
        missing = {reason for reason in wq_wakeups.REASONS if not total[reason]}
        assert missing <= UNREACHABLE
