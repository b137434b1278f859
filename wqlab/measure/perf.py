# SPDX-License-Identifier: GPL-2.0
"""perf: the share of cycles in native_queued_spin_lock_slowpath, and who waits for locks."""

import re
from dataclasses import dataclass
from pathlib import Path

from wqlab.ground.problem import Problem, Skipped
from wqlab.ground.run import Done, run
from wqlab.ground.text import table
from wqlab.measure.insert import INSERT_LIMIT, MODULE, Instrument
from wqlab.results.model import Contention, Perf, Row, Run

LIMIT = 300.0  # seconds for perf to read what it has recorded
CALLERS = 8  # of those that waited, the first ones
WATCHED_BOTTLENECK, WATCHED_COSTLY = 10.0, 2.0  # percent of all cycles, in workqueue code
UNITS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9}
TIME = r"([\d.]+) +(ns|us|ms|s|m|h)"
WAITED = re.compile(rf"^\s*(\d+) +{TIME} +{TIME} +{TIME} +(\S+) +(\S.*)$", re.MULTILINE)
SYMBOL = r"(?:native_|__pv_)?queued_spin_lock_slowpath"
SLOWPATH = re.compile(rf"^\s*([\d.]+)%\s+\[\w\]\s+{SYMBOL}\b", re.MULTILINE)
CHAIN = re.compile(rf"^\s*([\d.]+)%\s+{SYMBOL};(\S+)\s*$", re.MULTILINE)
LOCKING = re.compile(rf"{SYMBOL}|_+raw_spin_lock\w*|do_raw_spin_lock")
# Functions of kernel/workqueue.c that take pool->lock, or call those that do
WORKQUEUE = re.compile(
    r"_*(queue|flush|cancel|mod)_(rcu_|delayed_)?work\w*|delayed_work_timer_fn|rcu_work_rcufn|"
    r"process_(one_work|scheduled_works)|worker_\w+|bh_worker|wq_worker_\w+|rescuer_thread|"
    r"kick_pool\w*|pwq_\w+|put_pwq\w*|create_worker|idle_(worker_timeout|cull_fn)|"
    r"pool_mayday_timeout|start_flush_work|(try_to|work)_grab_pending|work_busy|"
    r"\w*workqueue\w*"
)


class Blind(Exception):
    """perf cannot tell, in one line."""


def why(done: Done) -> str:
    """The line of perf that says what is wrong."""
    lines = [line.strip() for line in done.output.splitlines() if line.strip()]
    signs = r"not supported|not built-in|unknown|invalid|permission|fail|no such"
    telling = [line for line in lines if re.search(signs, line, re.IGNORECASE)]
    return (telling or lines or [f"status {done.status}"])[0].rstrip(".:")


def report_cycles(data: Path, graph: str = "none") -> str:
    """What perf report prints of recorded cycles: every symbol that was seen."""
    if "cycles" not in run(["perf", "evlist", "-i", data], limit=LIMIT).output:
        raise Blind("cycles: this host counts none, and a timer is blind under the lock")
    command = ["perf", "report", "-i", str(data), "--stdio", "--no-children", "-s", "symbol"]
    done = run([*command, "-q", "--max-stack", "10", "-g", graph], limit=LIMIT)
    if done.status or "%" not in done.output:
        raise Blind(f"cycles: {why(done)}")
    return done.output


def read_slowpath(report: str) -> float:
    """The share of cycles, in percent."""
    return round(sum(float(share) for share in SLOWPATH.findall(report)), 2)


@dataclass(frozen=True)
class Waiter:
    """A function of the workqueue code that waited for a lock."""

    name: str
    caller: str  # the first function outside the workqueue code
    percent: float  # of all cycles


def read_waiters(report: str) -> list[Waiter]:
    """From the call chains of perf report -g folded,...,callee: who waited most comes first."""
    shares: dict[tuple[str, str], float] = {}
    for percent, chain in CHAIN.findall(report):
        names = [name.partition(".")[0] for name in chain.split(";")]  # without .isra.0
        names = [name for name in names if not LOCKING.fullmatch(name)]
        if names and WORKQUEUE.fullmatch(names[0]):
            outside = (name for name in names if not WORKQUEUE.fullmatch(name))
            who = names[0], next(outside, "")
            shares[who] = shares.get(who, 0) + float(percent)
    found = [Waiter(*who, round(percent, 2)) for who, percent in shares.items()]
    return sorted(found, key=lambda waiter: -waiter.percent)


def read_contention(text: str) -> list[Contention]:
    """The callers from the table of perf lock contention."""
    return [
        Contention(found[8].strip(), int(found[0]), round(float(found[1]) * UNITS[found[2]]))
        for found in WAITED.findall(text)
    ][:CALLERS]


def under_perf(instrument: Instrument, what: Run, out: Path) -> tuple[Perf, list[Row]]:
    """What perf sees while the module runs, and what the module says of the same runs."""
    data, reasons = out / "perf.data", []
    rows: list[Row] = []
    share = contention = None

    def attempt(command: list[str | Path], name: str) -> Done | None:
        """perf that runs what inserts the module; None, having noted why, if it cannot."""
        done = Done(1, "")

        def around(inserter: list[str]) -> Done:
            nonlocal done
            done = run([*command, "--", *inserter], limit=INSERT_LIMIT)
            # whether the module was inserted is seen by what it said
            return Done(0, done.output)

        try:
            rows[:] = instrument.measure(what, around=around)
        except Problem:
            done = done if done.status else Done(1, f"{MODULE} gave no results under perf")
        if done.status:
            reasons.append(f"{name}: {why(done)}")
            return None
        return done

    if attempt(["perf", "record", "-a", "-q", "-e", "cycles", "-o", data], "cycles"):
        try:
            share = read_slowpath(report_cycles(data))
        except Blind as error:
            reasons.append(str(error))
    found = attempt(["perf", "lock", "contention", "-a", "-b"], "contention, with BPF")
    if found:
        contention = read_contention(found.output)
    elif attempt(["perf", "lock", "record", "-a", "-o", data], "contention, with tracepoints"):
        done = run(["perf", "lock", "contention", "-i", data], limit=LIMIT)
        if done.status:
            reasons.append(f"contention: {why(done)}")
        else:
            contention = read_contention(done.output)
    if not rows:
        rows = instrument.measure(what)
    data.unlink(missing_ok=True)
    if contention is not None:  # one way was enough
        reasons = [reason for reason in reasons if not reason.startswith("contention")]
    return Perf(share, contention, "; ".join(reasons)), rows


def watch(seconds: int, out: Path) -> str:
    """Who waits for locks under the load that the host has, as a table and a verdict."""
    data = out / "perf.data"
    record = ["perf", "record", "-a", "-q", "-g", "-F", "99", "-e", "cycles", "-o", str(data)]
    done = run(
        [*record, "--", "sleep", str(seconds)],
        limit=seconds + LIMIT,
        label=f"recording this host for {seconds} s",
    )
    if done.status:
        raise Skipped(f"perf cannot tell: cycles: {why(done)}")
    try:
        report = report_cycles(data, "folded,0,callee,function,percent")
    except Blind as error:
        raise Skipped(f"perf cannot tell: {error}") from None
    all_locks, waiters = read_slowpath(report), read_waiters(report)
    rows = [("% of cycles", "waiting for a lock", "called from")]
    rows += [(f"{w.percent:.2f}", w.name, w.caller or "?") for w in waiters[:CALLERS]]
    lines = table(rows, (False, True, True)) if waiters else []
    share = sum(waiter.percent for waiter in waiters)
    if share >= WATCHED_BOTTLENECK:
        said = "pool->lock is your bottleneck"
    elif share >= WATCHED_COSTLY:
        said = "pool->lock costs you something"
    else:
        said = "there is little to gain here"
    lines += ["", f"{all_locks:.1f} % of all cycles were spent waiting for spin locks"]
    lines[-1] += f" (native_queued_spin_lock_slowpath), {share:.1f} % in workqueue code: {said}."
    return "\n".join(lines).lstrip("\n")
