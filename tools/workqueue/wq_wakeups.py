#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""
Count the wakeups of workers, and how many were done with a pool->lock held

Waking up a worker takes the lock of its run queue and may send an IPI. If that is
done with the pool->lock of a worker_pool held, all producers and workers of that
pool wait for it too. This script shows how often that happens, and where.

It needs a kernel with lockdep (CONFIG_PROVE_LOCKING), CONFIG_STACKTRACE and trace
events. Either have it record for some seconds, as root, or give it a trace that was
recorded elsewhere: the file "trace" of a tracefs instance that was set up with

    echo 'name == "&pool->lock"' > events/lock/lock_acquire/filter
    echo 'name == "&pool->lock"' > events/lock/lock_release/filter
    echo nohash-ptr > trace_options
    echo stacktrace > events/sched/sched_waking/trigger
    echo 1 > events/lock/lock_acquire/enable, and likewise for lock/lock_release,
        sched/sched_waking and workqueue/workqueue_execute_start

It prints a line for each reason to wake up a worker:

  WAKEUPS  how many tasks named kworker/ were woken up for that reason. "not reached"
           if none was: this doesn't tell whether a pool->lock would be held there
  LOCKED   how many of them were woken up with a pool->lock held

All other wakeups of workers, e.g. by a timer that a work item waits for, have one line
together. They, and wakeups of other tasks, are listed if a pool->lock was held. Other
locks of the kernel may be named "&pool->lock", too.

Exit status: 0 if no worker was woken up with a pool->lock held, 1 if some were, 2 if
that can't be told: the trace is incomplete or isn't one, or a worker was woken up for
a reason that the script doesn't know.
"""

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import dropwhile
from pathlib import Path

LOCK = "&pool->lock"
HIDDEN = "(____ptrval____)"
EVENTS = (
    "lock/lock_acquire",
    "lock/lock_release",
    "sched/sched_waking",
    "workqueue/workqueue_execute_start",
)

# Reasons, and the functions that wake up a worker for them. Which of these are
# seen depends on what the compiler has inlined.
REASONS = {
    "item queued": ("__queue_work", "queue_again_with_slot"),  # the latter is KUnit's
    "next item": ("process_one_work", "process_scheduled_works", "worker_thread"),
    "item of another pool": (
        "wq_activate_pending_pwq",
        "node_activate_pending_pwq",
        "pwq_dec_nr_active",
        "pwq_put_slot",
        "pwq_put_surplus",
        "node_search_slots",
        "pwq_start_work",
        "wq_slot_timer_fn",
        "pwq_dec_nr_in_flight",
        "try_to_grab_pending",
        "work_grab_pending",
    ),
    "worker sleeps": ("wq_worker_sleeping",),
    "worker hogs CPU": ("wq_worker_tick",),
    "max_active changed": ("wq_adjust_max_active", "wq_set_nr_slots"),
    "pwq unplugged": ("unplug_oldest_pwq", "pwq_release_workfn"),
    "mayday": ("send_mayday", "pool_mayday_timeout"),
    "rescuer leaves": ("rescuer_thread",),
    "CPU goes offline": ("unbind_workers", "workqueue_offline_cpu"),
    "worker created": ("create_worker",),
    "flush ends": (),  # any of these functions, by a completion
}
REASON_OF = {function: reason for reason, names in REASONS.items() for function in names}

# Functions that only pass a wakeup on; what a stack trace has above the first of them is
# the tracing itself.
WAKE_UP = "try_to_wake_up"
COMPLETE = {"swake_up_locked", "complete_with_flags", "complete"}
KICKS = {
    "kick_pool",
    "kick_pool_unlock",
    "kick_pool_unlock_irq",
    "kick_pool_unlock_irqrestore",
}
SLOTS = {"pwq_pass_slot", "wq_place_slot", "node_pass_spare"}
PASSING = COMPLETE | KICKS | SLOTS | {"wake_up_process", "wake_up_q"}

EVENT = re.compile(
    r"^ *(?P<task>.*)-\d+ +(?:\( *[-\d]+\) +)?\[(?P<cpu>\d+)\] +\S+ +[\d.]+: (?P<what>.*)$"
)
HEADER = re.compile(r"^# entries-in-buffer/entries-written: (\d+)/(\d+)")
LOST = re.compile(r"^CPU:(\d+) \[LOST (?:(\d+) )?EVENTS\]")
ACQUIRE = re.compile(r"^lock_acquire: (\S+) (?:try )?(?:read )?(.*)$")
RELEASE = re.compile(r"^lock_release: (\S+) (.*)$")
WAKING = re.compile(r"^sched_waking: comm=(.*) pid=\d+ prio=\d+ ")
FRAME = re.compile(r"^ => (\w+)")


class TraceError(Exception):
    """A trace can't be used; the message is one line on why."""


@dataclass
class Wakeup:
    comm: str
    locked: bool
    frames: list[str] = field(default_factory=list)

    @property
    def worker(self) -> bool:
        return self.comm.startswith("kworker/")

    @property
    def reason(self) -> str:
        """One of REASONS or, if none fits, the functions on the stack."""
        if WAKE_UP not in self.frames:
            raise TraceError(f"a wakeup of {self.comm} has no stack trace through {WAKE_UP}()")
        frames = self.frames[self.frames.index(WAKE_UP) + 1 :]
        callers = list(dropwhile(PASSING.__contains__, frames))
        if not callers:
            return "unknown"
        passing = frames[: -len(callers)]
        if callers[0] not in REASON_OF:
            if KICKS.intersection(passing):
                raise TraceError(f"{callers[0]}() wakes up a worker, for a reason not known here")
            return " <- ".join(callers[:2])
        return "flush ends" if COMPLETE.intersection(passing) else REASON_OF[callers[0]]


@dataclass
class Counts:
    items: int = 0  # work items executed
    wakeups: list[Wakeup] = field(default_factory=list)

    def by_reason(self) -> tuple[Counter[str], Counter[str]]:
        """Count wakeups of workers by reason: all, and those under a pool->lock."""
        workers = [wakeup for wakeup in self.wakeups if wakeup.worker]
        return (
            Counter(wakeup.reason for wakeup in workers),
            Counter(wakeup.reason for wakeup in workers if wakeup.locked),
        )

    def others(self) -> Counter[str]:
        """Count wakeups of other tasks under a pool->lock."""
        return Counter(
            f"{wakeup.comm}, {wakeup.reason}"
            for wakeup in self.wakeups
            if wakeup.locked and not wakeup.worker
        )


class Cpu:
    """The pool->locks that a CPU holds. Its IRQs are off as long as there are any."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.held: set[str] = set()
        self.fresh = True  # nothing is known of what it held when the trace began

    def acquire(self, address: str) -> None:
        if address in self.held:
            raise TraceError(f"CPU {self.number} takes lock {address} twice: events are missing")
        self.held.add(address)
        self.fresh = False

    def release(self, address: str) -> None:
        if address not in self.held and not self.fresh:
            raise TraceError(
                f"CPU {self.number} drops lock {address}, which it has not taken: events are missing"
            )
        self.held.discard(address)
        self.fresh = False


def parse(lines: Iterable[str]) -> Counts:
    """Count the wakeups in the lines of a file "trace". Raise TraceError if it can't be used."""
    counts = Counts()
    cpus: dict[int, Cpu] = {}
    last: dict[int, Wakeup] = {}  # CPU -> what a stack trace is to come of, or the end
    frames: list[str] | None = None
    seen: Counter[str] = Counter()
    entries = 0
    expected = None

    for number, line in enumerate(lines, 1):
        line = line.rstrip("\n")
        if match := FRAME.match(line):
            if frames is not None:
                frames.append(match[1])
            continue
        frames = None
        if match := HEADER.match(line):
            expected, written = map(int, match.groups())
            if written > expected:
                raise TraceError(
                    f"{written - expected} events were overwritten: use a larger buffer"
                )
        elif match := LOST.match(line):
            raise TraceError(f"{match[2] or 'some'} events of CPU {match[1]} were lost")
        elif match := EVENT.match(line):
            entries += 1
            cpu = cpus.setdefault(int(match["cpu"]), Cpu(int(match["cpu"])))
            what = match["what"]
            if what == "<stack trace>":
                if cpu.number in last:
                    counts.wakeups.append(last.pop(cpu.number))
                    frames = counts.wakeups[-1].frames
                continue
            if cpu.number in last:
                raise TraceError("a wakeup has no stack trace: set the trigger of sched_waking")
            seen[what.split(":")[0]] += 1
            if HIDDEN in what:
                raise TraceError("addresses of locks are hidden: set the trace option nohash-ptr")
            if (event := ACQUIRE.match(what)) and event[2] == LOCK:
                cpu.acquire(event[1])
            elif (event := RELEASE.match(what)) and event[2] == LOCK:
                cpu.release(event[1])
            elif event := WAKING.match(what):
                last[cpu.number] = Wakeup(event[1], bool(cpu.held))
            elif what.startswith("workqueue_execute_start:"):
                counts.items += 1
        elif line and not line.startswith("#"):
            raise TraceError(f'line {number} is not one of a trace: "{line[:60]}"')

    if expected is None:
        raise TraceError('there is no "# entries-in-buffer/entries-written:": not a file "trace"')
    if entries != expected:
        raise TraceError(f"there are {entries} events in place of {expected}: it was cut short")
    for event in EVENTS:
        if not seen[event.split("/")[1]]:
            raise TraceError(f"there is no event {event}: was it enabled, is there lockdep?")
    if not REASONS.keys() & counts.by_reason()[0].keys():
        raise TraceError("no worker was woken up for a reason that is known here")
    return counts


def report(counts: Counts) -> Iterator[str]:
    total, locked = counts.by_reason()
    yield f"{'REASON':<24} {'WAKEUPS':>11} {'LOCKED':>8}"
    for reason in REASONS:
        if total[reason]:
            yield f"{reason:<24} {total[reason]:>11} {locked[reason]:>8}"
        else:
            yield f"{reason:<24} {'not reached':>11}"
    woken = sum(total[reason] for reason in REASONS)
    yield f"{'other':<24} {sum(total.values()) - woken:>11}"
    for reason in sorted(locked.keys() - REASONS.keys()):
        yield f"  {reason:<22} {total[reason]:>11} {locked[reason]:>8}"
    yield ""
    yield (
        f"{woken} wakeups of workers, {sum(locked.values())} with a pool->lock held, "
        f"{counts.items} items executed: {woken / counts.items:.2f} wakeups per item"
    )
    for what, number in sorted(counts.others().items()):
        yield f"with a pool->lock held, {number} wakeups of {what}"


def record(seconds: float, kilobytes: int) -> list[str]:
    """Record on this machine, in a tracefs instance of its own. Return the lines of its trace."""
    tracefs = next(
        (
            path
            for path in map(Path, ("/sys/kernel/tracing", "/sys/kernel/debug/tracing"))
            if (path / "instances").is_dir()
        ),
        None,
    )
    if not tracefs:
        raise TraceError(
            "no tracefs: mount it (mount -t tracefs nodev /sys/kernel/tracing), be root"
        )
    if not (tracefs / "events/lock/lock_acquire").is_dir():
        raise TraceError("this kernel has no lockdep: a kernel with CONFIG_PROVE_LOCKING is needed")
    instance = tracefs / "instances/wq_wakeups"
    try:
        instance.mkdir()
    except FileExistsError:
        raise TraceError(f"{instance} is in use, or is left: rmdir it") from None
    try:
        (instance / "tracing_on").write_text("0")
        (instance / "buffer_size_kb").write_text(str(kilobytes))
        (instance / "trace_options").write_text("nohash-ptr")
        for event in ("lock_acquire", "lock_release"):
            (instance / f"events/lock/{event}/filter").write_text(f'name == "{LOCK}"')
        (instance / "events/sched/sched_waking/trigger").write_text("stacktrace")
        for event in EVENTS:
            (instance / f"events/{event}/enable").write_text("1")
        (instance / "tracing_on").write_text("1")
        time.sleep(seconds)
        (instance / "tracing_on").write_text("0")
        return (instance / "trace").read_text(errors="replace").splitlines()
    finally:
        (instance / "events/enable").write_text("0")
        (instance / "events/sched/sched_waking/trigger").write_text("!stacktrace")
        instance.rmdir()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("trace", nargs="?", type=Path, metavar="TRACE", help="a recorded trace")
    source.add_argument("-r", "--record", type=float, metavar="SECONDS", help="trace this machine")
    parser.add_argument(
        "-b", "--buffer", type=int, default=16384, metavar="KB", help="buffer of each CPU (16384)"
    )
    args = parser.parse_args()
    if args.record is not None and not 0 < args.record < 1e9:
        parser.error(f"-r {args.record} is not a number above 0")
    try:
        if args.record is not None:
            lines = record(args.record, args.buffer)
        else:
            lines = args.trace.read_text(errors="replace").splitlines()
        counts = parse(lines)
    except (TraceError, OSError) as error:
        print(f"wq_wakeups.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    print("\n".join(report(counts)))
    return 1 if sum(counts.by_reason()[1].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
