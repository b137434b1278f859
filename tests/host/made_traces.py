# SPDX-License-Identifier: GPL-2.0
"""Made-up traces of what wakes up workers."""


def trace(*events: str, entries: int | None = None, written: int | None = None) -> list[str]:
    """The lines of a trace of these events: "CPU TASK WHAT", with " => " for stack traces."""
    lines = []
    count = 0
    for event in events:
        if event.startswith((" => ", "CPU:")):
            lines.append(event)
            continue
        cpu, task, what = event.split(" ", 2)
        count += 1
        lines.append(f"{task:>16}-77      [00{cpu}] d..2.    1.00000{count % 10}: {what}")
    entries = count if entries is None else entries
    written = entries if written is None else written
    return [
        "# tracer: nop",
        "#",
        f"# entries-in-buffer/entries-written: {entries}/{written}   #P:2",
        "#",
        *lines,
    ]


TAKE = "lock_acquire: 0000000012345678 &pool->lock"
DROP = "lock_release: 0000000012345678 &pool->lock"
WAKE = "sched_waking: comm=kworker/u8:1 pid=30 prio=120 target_cpu=001"
WAKE_OTHER = "sched_waking: comm=ksoftirqd/0 pid=12 prio=120 target_cpu=000"
START = "workqueue_execute_start: work struct 00000000ab: function fn"


def stack(*frames: str) -> list[str]:
    tracing = ("trace_event_buffer_commit", "trace_event_raw_event_sched_wakeup_template")
    return [f" => {frame}" for frame in (*tracing, "try_to_wake_up", *frames, "ret_from_fork")]


def wakeup(cpu: int, *frames: str, what: str = WAKE) -> list[str]:
    return [f"{cpu} bash {what}", f"{cpu} bash <stack trace>", *stack(*frames)]


REST = [f"1 kworker/u8:1 {START}"]
UNDER = [
    f"0 bash {TAKE}",
    *wakeup(0, "kick_pool", "__queue_work", "queue_work_on"),
    f"0 bash {DROP}",
]
AFTER = [
    f"0 bash {TAKE}",
    f"0 bash {DROP}",
    *wakeup(
        0, "kick_pool_unlock", "kick_pool_unlock_irq", "process_one_work.isra.0", "worker_thread"
    ),
]
