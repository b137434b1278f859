# SPDX-License-Identifier: GPL-2.0
"""perf: the share of cycles in native_queued_spin_lock_slowpath, and who waits for locks."""

import re
import shutil
from pathlib import Path

from wqlab.ground.problem import Problem, Skipped
from wqlab.ground.run import Done, run
from wqlab.ground.text import table
from wqlab.measure.host import LiveHost
from wqlab.measure.insert import INSERT_LIMIT, MODULE, Instrument
from wqlab.results.model import Contention, Perf, Row, Run

LIMIT = 300.0  # seconds for perf to read what it has recorded
CALLERS = 8  # of those that waited, the first ones
WATCHED_BOTTLENECK, WATCHED_COSTLY = 10.0, 2.0  # percent of all cycles, in workqueue code
ENOUGH = 1000  # samples: 2 % of them are 1.1 % to 2.9 %, with a probability of 95 %
IDLE = 10.0  # percent of the time of all CPUs, below which a host has no load worth watching
UNITS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9}
TIME = r"([\d.]+) +(ns|us|ms|s|m|h)"
WAITED = re.compile(rf"^\s*(\d+) +{TIME} +{TIME} +{TIME} +(\S+) +(\S.*)$", re.MULTILINE)
SYMBOL = r"(?:native_|__pv_)?queued_spin_lock_slowpath"
SLOWPATH = re.compile(rf"^\s*([\d.]+)%\s+\d+\s+\[\w\]\s+{SYMBOL}\b", re.MULTILINE)
SAMPLES = re.compile(r"^\s*[\d.]+%\s+(\d+)\s+\[.\]", re.MULTILINE)
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
INSTEAD = "count waits with drgn tools/workqueue/wq_contention.py --bpf --for 30 instead"


class Blind(Skipped):
    """perf cannot tell, in one line."""


def why(done: Done) -> str:
    """The line of perf that says what is wrong."""
    lines = [line.strip() for line in done.output.splitlines() if line.strip()]
    signs = r"not supported|not built-in|unknown|invalid|permission|fail|no such"
    telling = [line for line in lines if re.search(signs, line, re.IGNORECASE)]
    return (telling or lines or [f"status {done.status}"])[0].rstrip(".:")


def why_blind() -> str:
    """Why perf counts no cycles here, "" if it does."""
    if not shutil.which("perf"):
        return "perf is not installed"
    done = run(["perf", "stat", "-a", "-e", "cycles", "--", "true"], limit=LIMIT)
    if not done.status and "not supported" not in done.output:
        return ""
    return f"perf counts no cycles here ({' '.join(why(done).split())})"


def report_cycles(data: Path, graph: str = "none") -> str:
    """What perf report prints of recorded cycles: every symbol that was seen, and how often."""
    if "cycles" not in run(["perf", "evlist", "-i", data], limit=LIMIT).output:
        raise Blind("cycles: this host counts none, and a timer is blind under the lock")
    command = ["perf", "report", "-i", str(data), "--stdio", "--no-children", "-s", "symbol", "-n"]
    done = run([*command, "-q", "--max-stack", "10", "-g", graph], limit=LIMIT)
    if done.status or "%" not in done.output:
        raise Blind(f"cycles: {why(done)}")
    return done.output


def read_slowpath(report: str) -> float:
    """The share of cycles, in percent."""
    return round(sum(float(share) for share in SLOWPATH.findall(report)), 2)


def read_waiters(report: str) -> list[tuple[float, str, str, bool]]:
    """From the call chains of perf report -g folded,...,callee, who waited for spin locks, the most
    first: percent of all cycles, function, caller, and whether it is of the workqueue code, of which
    the caller is not."""
    shares: dict[tuple[str, str, bool], float] = {}
    for percent, chain in CHAIN.findall(report):
        names = [name.partition(".")[0] for name in chain.split(";")]  # without .isra.0
        names = [name for name in names if not LOCKING.fullmatch(name)] or ["?"]
        ours = bool(WORKQUEUE.fullmatch(names[0]))
        outside = (name for name in names[1:] if not (ours and WORKQUEUE.fullmatch(name)))
        who = names[0], next(outside, "?"), ours
        shares[who] = shares.get(who, 0) + float(percent)
    return sorted(((percent, *who) for who, percent in shares.items()), reverse=True)


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
    record: list[str | Path] = ["perf", "lock", "record", "-a", "-o", data]
    if not found and attempt(record, "contention, with tracepoints"):
        found = run(["perf", "lock", "contention", "-i", data], limit=LIMIT)
    if found and found.status:
        reasons.append(f"contention: {why(found)}")
    elif found:
        contention = read_contention(found.output)
    if not rows:
        rows = instrument.measure(what)
    data.unlink(missing_ok=True)
    if contention is not None:  # one way was enough
        reasons = [reason for reason in reasons if not reason.startswith("contention")]
    return Perf(share, contention, "; ".join(reasons)), rows


def watch(seconds: int, host: LiveHost, data: Path) -> str:
    """Who waits for locks under the load of the host: a table and a verdict. Blind if need be."""
    if blind := why_blind():
        raise Blind(f"{blind}: {INSTEAD}")
    record = ["perf", "record", "-a", "-q", "-g", "-F", "99", "-e", "cycles", "-o", str(data)]
    label = f"recording this host for {seconds} s"
    before = host.cpu_times()
    done = run([*record, "--", "sleep", str(seconds)], limit=seconds + LIMIT, label=label)
    used, ticks = (now - then for now, then in zip(host.cpu_times(), before))
    if done.status:
        raise Blind(f"cycles: {why(done)}")
    report = report_cycles(data, "folded,0,callee,function,percent")
    waiters, samples = read_waiters(report), sum(map(int, SAMPLES.findall(report)))
    head = ("% of cycles", "waiting for a spin lock", "called from", "workqueue code")
    rows = [(f"{part:.2f}", *names, "*" * ours) for part, *names, ours in waiters[:CALLERS]]
    lines = [*table([head, *rows], (False, True, True, True)), ""] if rows else []
    share = sum(percent for percent, _, _, ours in waiters if ours)
    busy = 100 * used / max(1, ticks)
    if samples < ENOUGH:
        said = f"that is too few samples for a verdict, {ENOUGH:,} would do: watch for longer"
    elif share >= WATCHED_BOTTLENECK:
        said = "pool->lock is your bottleneck"
    elif share >= WATCHED_COSTLY:
        said = "pool->lock costs you something"
    elif busy < IDLE:
        said = "the host was idle, so this cannot be told: watch it under load"
    else:
        said = "there is little to gain here"
    lines.append(
        f"{read_slowpath(report):.1f} % of all cycles were spent waiting for spin locks"
        f" (native_queued_spin_lock_slowpath), {share:.1f} % in workqueue code, by"
        f" {samples:,} samples of CPUs that were {busy:.0f} % busy: {said}."
    )
    for _, name, caller, ours in waiters[:1]:
        if not ours:
            lines.append(f"The hottest lock is not workqueue's: {name} takes it, for {caller}.")
    return "\n".join(lines)
