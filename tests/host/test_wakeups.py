# SPDX-License-Identifier: GPL-2.0
"""tools/workqueue/wq_wakeups.py on saved traces."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from made_traces import AFTER, DROP, REST, TAKE, UNDER, WAKE, WAKE_OTHER, stack, trace, wakeup

from wqlab.ground.places import ROOT
from wqlab.measure.counts.wakeups import wq_wakeups

TOOL = ROOT / "tools/workqueue/wq_wakeups.py"
DATA = ROOT / "tests/data"


def test_under_and_after() -> None:
    counts = wq_wakeups.parse(trace(*UNDER, *AFTER, *REST, *REST))
    total, locked = counts.by_reason()
    assert total == {"item queued": 1, "next item": 1}
    assert locked == {"item queued": 1}
    assert counts.items == 2
    text = "\n".join(wq_wakeups.report(counts))
    assert "2 wakeups of workers, 1 with a pool->lock held, 2 items executed: 1.00" in text
    assert text.count("not reached") == len(wq_wakeups.REASONS) - 2


def test_real_trace() -> None:
    """Of the KUnit suite, on a machine of two nodes with two CPUs each, with the series."""
    with (DATA / "wakeups-suite.trace").open() as file:
        counts = wq_wakeups.parse(file)
    total, locked = counts.by_reason()
    assert not locked
    assert counts.items == 25
    assert {reason: total[reason] for reason in wq_wakeups.REASONS if total[reason]} == {
        "item queued": 8,
        "next item": 2,
        "item of another pool": 3,
        "worker sleeps": 1,
        "worker hogs CPU": 1,
        "mayday": 1,
        "CPU goes offline": 1,
        "worker created": 7,
    }


def test_lock_of_another_cpu() -> None:
    """What counts is what the waker holds, and that it's the lock of a pool."""
    other = TAKE.replace("pool->lock", "rq->lock").replace("1234", "9999")
    counts = wq_wakeups.parse(
        trace(f"1 sh {TAKE}", f"0 bash {other}", *AFTER[2:], f"1 sh {DROP}", *REST)
    )
    assert not counts.by_reason()[1]


def test_two_locks() -> None:
    """It's enough if one of them is held; taking the second may have been a try."""
    second = TAKE.replace("1234", "4321")
    events = [
        f"0 bash {TAKE}",
        f"0 bash {second.replace(': 0', ': 0', 1).replace('&', 'try &')}",
        f"0 bash {DROP}",
        *wakeup(0, "kick_pool", "pwq_dec_nr_in_flight", "process_one_work"),
        f"0 bash {second.replace('acquire', 'release')}",
    ]
    total, locked = wq_wakeups.parse(trace(*events, *REST)).by_reason()
    assert total == locked == {"item of another pool": 1}


def test_flush() -> None:
    """Its last item completes what the flusher waits for, with the lock or without."""
    done = ("swake_up_locked", "complete_with_flags")
    total, locked = wq_wakeups.parse(
        trace(
            f"0 bash {TAKE}",
            *wakeup(0, *done, "pwq_dec_nr_in_flight", "process_one_work"),
            f"0 bash {DROP}",
            *wakeup(0, *done, "process_one_work", "worker_thread"),
            *wakeup(0, "process_one_work", "worker_thread"),
            *REST,
        )
    ).by_reason()
    assert total == {"flush ends": 2, "next item": 1}
    assert locked == {"flush ends": 1}


def test_slot_is_passed() -> None:
    """By functions that pass it on, for an item of another pool or because max_active is set."""
    passed = ("kick_pool_unlock", "pwq_pass_slot", "wq_place_slot")
    spare = ("kick_pool_unlock_irqrestore", "node_pass_spare")
    total, locked = wq_wakeups.parse(
        trace(
            *wakeup(0, *passed, "pwq_put_slot", "process_one_work"),
            *wakeup(0, *passed, "wq_set_nr_slots", "workqueue_set_max_active"),
            *wakeup(0, *spare, "node_search_slots", "process_scheduled_works"),
            *wakeup(0, *passed, "node_pass_spare", "wq_slot_timer_fn", "call_timer_fn"),
            *AFTER,
            *REST,
        )
    ).by_reason()
    assert total == {"item of another pool": 3, "max_active changed": 1, "next item": 1}
    assert not locked


# Seen failing: where it was counted as one of the others
def test_unknown_reason() -> None:
    """Who kicks a pool is known, unless it's an interrupt meanwhile, or nothing can be said."""
    irq = wakeup(0, "hrtimer_wakeup", "__hrtimer_run_queues", "kick_pool_unlock", "__queue_work")
    assert wq_wakeups.parse(trace(*irq, *AFTER, *REST)).by_reason()[0]["item queued"] == 0
    kick = wakeup(0, "kick_pool_unlock", "brand_new", "process_one_work")
    with pytest.raises(
        wq_wakeups.TraceError, match=r"brand_new\(\) wakes up a worker, for a reason"
    ):
        wq_wakeups.parse(trace(*kick, *AFTER, *REST)).by_reason()


def test_other_wakeups() -> None:
    """Of other tasks, and of workers for other reasons: shown where a lock was held."""
    quiet = wakeup(0, "hrtimer_wakeup", "__hrtimer_run_queues")
    loud = wakeup(0, "complete", "wq_barrier_func", "process_one_work")
    other = wakeup(0, "wakeup_softirqd", "raise_softirq_irqoff", what=WAKE_OTHER)
    counts = wq_wakeups.parse(
        trace(*quiet, f"0 bash {TAKE}", *loud, *other, f"0 bash {DROP}", *AFTER, *REST)
    )
    assert counts.by_reason()[1] == {"wq_barrier_func <- process_one_work": 1}
    text = "\n".join(wq_wakeups.report(counts))
    assert "wq_barrier_func <- process_one_work" in text
    assert "hrtimer_wakeup" not in text
    assert "1 wakeups of ksoftirqd/0, wakeup_softirqd <- raise_softirq_irqoff" in text
    assert re.search(r"^other +2$", text, re.MULTILINE)
    assert "1 wakeups of workers, 1 with" in text


def test_begins_under_a_lock() -> None:
    """A lock may have been taken before the trace began."""
    wq_wakeups.parse(trace(f"0 bash {DROP}", *UNDER, *REST))


BROKEN = {
    "lost": ([*UNDER, "CPU:1 [LOST 123 EVENTS]", *REST], "123 events of CPU 1 were lost"),
    "lost some": ([*UNDER, "CPU:1 [LOST EVENTS]", *REST], "some events of CPU 1 were lost"),
    "taken twice": ([UNDER[0], *UNDER, *REST], "takes lock 0000000012345678 twice"),
    "not taken": ([*UNDER, UNDER[-1], *REST], "which it has not taken"),
    "hidden": (
        [*UNDER, f"1 sh {TAKE.replace('0000000012345678', '(____ptrval____)')}", *REST],
        "hidden",
    ),
    "no start": (UNDER, "no event workqueue/workqueue_execute_start"),
    "no lock": ([*UNDER[1:-1], *REST], "no event lock/lock_acquire"),
    "no stack": ([UNDER[0], UNDER[1], UNDER[-1], *REST], "no stack trace"),
    "no wakeup": ([UNDER[0], *wakeup(0, "complete", "f"), UNDER[-1], *REST], "no worker was woken"),
    "other stack": (
        [UNDER[0], UNDER[1], UNDER[2], *stack("f")[:2], UNDER[-1], *REST],
        "no stack trace through try_to_wake_up",
    ),
    "noise": ([*UNDER, *REST, "CPU: 0 UID: 0 PID: 1 Comm: init"], "is not one of a trace"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_incomplete(name: str) -> None:
    events, message = BROKEN[name]
    with pytest.raises(wq_wakeups.TraceError, match=message):
        wq_wakeups.parse(trace(*events))


def test_overwritten() -> None:
    with pytest.raises(wq_wakeups.TraceError, match="100 events were overwritten"):
        wq_wakeups.parse(trace(*UNDER, *REST, entries=5, written=105))


@pytest.mark.parametrize("keep", [0, 3, 5, 8])
def test_truncated(keep: int) -> None:
    with pytest.raises(wq_wakeups.TraceError):
        wq_wakeups.parse(trace(*UNDER, *AFTER, *REST)[:keep])


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, TOOL, *words], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("events", "status"), [((*UNDER, *REST), 1), ((*AFTER, *REST), 0), (UNDER, 2)]
)
def test_status(tmp_path: Path, events: tuple[str, ...], status: int) -> None:
    path = tmp_path / "trace"
    path.write_text("\n".join(trace(*events)) + "\n")
    result = run(path)
    assert result.returncode == status
    assert len(result.stderr.splitlines()) == (status == 2)


def test_no_such_file(tmp_path: Path) -> None:
    result = run(tmp_path / "none")
    assert result.returncode == 2
    assert "No such file" in result.stderr


@pytest.mark.parametrize("seconds", ["-5", "0", "nan", "inf"])
def test_no_time_to_record(seconds: str) -> None:
    """Not taken for a wakeup with a lock held, which is 1."""
    result = run("-r", seconds)
    assert result.returncode == 2
    assert result.stderr.endswith("is not a number above 0\n")


def test_a_wakeup_that_the_end_has_cut_is_not_counted() -> None:
    whole = wq_wakeups.parse(trace(*UNDER, *REST))
    cut = wq_wakeups.parse(trace(*UNDER, *REST, f"0 bash {TAKE}", f"0 bash {WAKE}"))
    assert cut == whole
