# SPDX-License-Identifier: GPL-2.0
"""Workers that are culled while they are woken up, with KASAN and lockdep."""

import pytest
from needs import CULLING, Boot, Kernel

from wqlab.guests.vm import Record

# A pool without progress for ten seconds is a panic, and so is any warning. Not before the job has
# begun: until then the kernel, which isn't preemptible, may keep a CPU of a busy host longer.
BOOT = Boot(
    "nodes-2",
    "cull",
    Kernel("find", diff=CULLING),
    append="workqueue.watchdog_thresh=0 workqueue.panic_on_stall=1",
)


@pytest.mark.needs(BOOT)
@pytest.mark.tier("full")
def test_culling(record: Record) -> None:
    said = dict(line.split(" ", 1) for line in record.lines)
    if "skipped" in said:
        pytest.skip(said["skipped"])
    assert int(said["runs"]) > 0
    # Where nothing is culled, there are as many workers as were ever needed at once.
    assert int(said["forks"]) > 10 * int(said["runs"])
