# SPDX-License-Identifier: GPL-2.0
"""Measure unbound workqueues on the host, with the kernel that it runs, as root.

Is it you? The kernel needs no patch. Builds test_workqueue against the headers of the
running kernel, inserts it for each mode in turn, as often as asked for, each time with the
scopes in another order, and ends with a verdict. Where the shard size can be changed, it is
swept and put back; where perf can, it says where the cycles go. The results are stored in a
file that `wqlab report` reads.

The verdict is by the throughput of mode `serial` (medians of the runs): how many times that of
the default scope is that of the best one?

  2 or more, with fewer CPUs per pool     pool->lock is the bottleneck
  1.25 to 2, with fewer CPUs per pool     pool->lock costs something
  1.25 or more, with more CPUs per pool   pools are too small: items wait though CPUs are idle
  less                                    there is little to gain

There is none where the ranges of the runs overlap, or with fewer than three runs: two of one
scope and two of an equal one are apart in one case of three. Where perf counts cycles and
less than 2 % of them are spent in native_queued_spin_lock_slowpath while the default scope
runs, the scopes differ for another reason than the lock. In mode `fanout` one CPU queues items
of 20 us: pools are too small for that where 1.25 times as many run with more CPUs per pool.

With --watch SECONDS nothing is inserted and nothing is changed: perf records the host under
the load that it has, and the verdict is by the share of all cycles that the functions of
the workqueue code spend waiting for locks: 10 % or more is a bottleneck, 2 % to 10 % costs
something, and with less there is little to gain, unless CPUs were idle for 90 % of the time.
There is none with fewer than 1,000 samples.

The system's default scope is not changed: the module sets that of its own workqueue.
Whatever else was changed is put back on every way out, Ctrl-C and a kill included. What is
finished by then stays in the file, and the same command goes on from there.
"""

import argparse
import platform
import re
import shutil
import statistics
import tempfile
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wqlab.ground.places import LOCAL
from wqlab.ground.problem import FAILED, OK, Problem, Skipped, Usage
from wqlab.ground.run import say
from wqlab.ground.text import plural, table
from wqlab.kernels.options import names, numbers, positive
from wqlab.measure.campaign import Campaign, Outcome, Step, add_out, blank, timed
from wqlab.measure.host import LiveHost, put_back
from wqlab.measure.insert import Instrument, build, check
from wqlab.measure.perf import INSTEAD, under_perf, watch, why_blind
from wqlab.results.file import load
from wqlab.results.model import SCHEMA, Boot, Host, Kernel, Results, Run, Section
from wqlab.results.module import MEASURED, MODES, words

SIZES = [1, 2, 4, 8, 16, 32]
RUNS, ITEMS = 5, 50000
QUICK_ITEMS = 10000
SLEEPERS = 8  # max_active in mode sleep
WORK_NS = 20000  # in mode fanout
PARAMETERS = "sys/module/workqueue/parameters"
# The verdict
BOTTLENECK, COSTLY = 2.0, 1.25  # times the throughput of the default scope
IDLE_LOCK = 2.0  # percent of the cycles
ENOUGH = 3  # runs
SMALL = "are too small, as in virtual machines with a CPU per socket"
BUSY = 0.1  # load average for each CPU, from which on others disturb


@dataclass(frozen=True)
class Insert:
    """The module is inserted once."""

    run: Run
    number: int
    size: int | None = None
    perf: bool = False

    @classmethod
    def of(cls, boot: Boot) -> "Insert":
        """By which the boot was made."""
        return cls(boot.runs[0], boot.number, boot.size, bool(boot.perf))

    def __str__(self) -> str:
        size = "" if self.size is None else f", {self.size} cores per shard"
        return f"{words(self.run)}{size}{', under perf' if self.perf else ''}"


def parameters(mode: str, items: int, cpus: int, scopes: list[str]) -> Run:
    """Of a run on a host with so many CPUs, each of which queues so many items."""
    run: Run = {"mode": mode, "scopes": scopes, "items": items}
    sleep: Run = {"items": max(50, 2000 // cpus), "max_active": SLEEPERS}  # of a millisecond
    fanout: Run = {"work_ns": WORK_NS, "spread": 0}
    return run | (sleep if mode == "sleep" else fanout if mode == "fanout" else {})


def plan(args: argparse.Namespace, cpus: int, sweeps: bool) -> list[Insert]:
    """Everything in turn, so that what changes on the host meanwhile is in all of it."""
    found = []
    sweep = parameters("serial", args.items, cpus, ["cache_shard"])
    for number in range(1, args.runs + 1):
        modes = [parameters(mode, args.items, cpus, list(MEASURED)) for mode in args.modes]
        found += [Insert(mode, number) for mode in modes]
        found += [Insert(sweep, number, size) for size in args.sizes if sweeps]
    for scope in ("cache", "cache_shard") if args.perf else ():
        found.append(Insert(parameters("serial", args.items, cpus, [scope]), 1, perf=True))
    return found


def begun(out: Path, machine: Host, kernel: Kernel) -> Results:
    """What is in the file to go on from."""
    old = load(out)
    if [m.id for m in old.machines] != [machine.id] or old.kernels != [kernel]:
        raise Problem(
            f"{out} holds results of another machine or kernel: name another file with --out"
        )
    return replace(old, boots=[boot for boot in old.boots if boot.passed])


def shard_size(host: LiveHost) -> tuple[Path | None, str]:
    """The parameter to write to, or why there is none."""
    path = host.root / PARAMETERS / "cache_shard_size"
    if not path.exists():
        return None, "shard sizes: the running kernel has no scope cache_shard"
    if not path.stat().st_mode & 0o200:
        return None, "shard sizes: the running kernel takes workqueue.cache_shard_size at boot only"
    return path, ""


@dataclass(frozen=True)
class Making:
    """What it takes to make a run."""

    instrument: Instrument
    machine: Host
    kernel: Kernel
    parameter: Path | None  # for sizes of shards
    temporary: Path
    lacking: set[str]  # scopes that the kernel was seen not to have

    def step(self, one: Insert) -> Step:
        """The step of one run."""
        return Step(str(one), words(one.run), self.machine, self.kernel, lambda: self.make(one))

    def make(self, one: Insert) -> Outcome:
        """Nothing where the kernel has none of the scopes."""
        scopes = one.run["scopes"]
        if isinstance(scopes, list) and self.lacking.issuperset(scopes):
            return Outcome([])
        section: Section = "local" if one.size is None else "sizes"
        boot = blank(self.machine, self.kernel, section, [one.run], one.number, size=one.size)
        if one.size is None or not self.parameter:
            return timed(boot, lambda: self.figures(one))
        with put_back(self.parameter) as put:
            put(str(one.size))
            return timed(boot, lambda: self.figures(one))

    def figures(self, one: Insert) -> dict[str, Any]:
        """Insert the module for one run: its rows, and what perf saw."""
        seen = None
        if one.perf:
            seen, rows = under_perf(self.instrument, one.run, self.temporary)
            if seen.why_not:
                say(f"perf: {seen.why_not}")
        else:
            rows = self.instrument.measure(one.run, one.number)
        self.lacking.update(row.scope for row in rows if row.missing)
        return {"rows": rows, "perf": seen}


def rates(results: Results, mode: str) -> dict[str, list[int]]:
    """Items/s each time that this mode was run as it was at last, by scope."""
    boots = [b for b in results.passed("local") if b.runs[0]["mode"] == mode and not b.perf]
    found: dict[str, list[int]] = {}
    for row in (row for boot in boots if boot.runs == boots[-1].runs for row in boot.rows):
        if not row.missing:
            found.setdefault(row.scope, []).append(row.values["items_per_sec"])
    return found


def tables(results: Results) -> str:
    """The main figures, with nothing but Python; wqlab report has the rest."""
    boots = [boot for boot in results.passed("local") if not boot.perf]
    lines: list[str] = []
    for what in {words(boot.runs[0]): boot.runs[0] for boot in boots}.values():
        rows = [row for boot in boots if boot.runs == [what] for row in boot.rows]
        number = sum(boot.runs == [what] for boot in boots)
        head = ("scope", "items/s", "", "p50 ns", "p90 ns", "p95 ns", "kworkers")
        shown: list[tuple[str, ...]] = [head]
        for scope in dict.fromkeys(row.scope for row in rows):
            values = [row.values for row in rows if row.scope == scope and not row.missing]
            if not values:
                shown.append((scope, "no such scope", "", "", "", "", ""))
                continue
            keys = "items_per_sec", *(f"queue_p{rank}_ns" for rank in (50, 90, 95)), "kworkers_peak"
            columns = [[value[key] for value in values] for key in keys]
            first, *rest = (f"{statistics.median(column):,.0f}" for column in columns)
            span = f"[{min(columns[0]):,} - {max(columns[0]):,}]" if number > 1 else ""
            shown.append((scope, first, span, *rest))
        mode = words({key: value for key, value in what.items() if key != "scopes"})
        lines += ["", f"{mode}, {f'medians of {number} runs' if number > 1 else 'one run'}"]
        lines += table(shown, (True, False, True, False, False, False, False))
    return "\n".join(lines)


def alone(results: Results, base: str) -> list[str]:
    """What is said where a scope with more CPUs per pool is better for one CPU that queues."""
    found = rates(results, "fanout")
    median = {scope: statistics.median(values) for scope, values in found.items()}
    best = max(MEASURED[MEASURED.index(base) :], key=lambda scope: median.get(scope, 0))
    gain = median[best] / median[base] if base in found else 0
    if gain < COSTLY or max(found[base]) >= min(found[best]):
        return []
    told = f"{'At first sight, o' if len(found[base]) < ENOUGH else 'O'}ne CPU that queues gets"
    told += f" {gain:.1f} times as much in {best}: pools of {base} {SMALL}."
    return [f"{told} If that is your load, try workqueue.default_affinity_scope={best}."]


def verdict(results: Results, default: str | None) -> str:
    """Whether another scope than the default one gains something and why, by the rule at the head
    of this file. Scope cache stands for a default that is not known or was not measured."""
    found = rates(results, "serial")
    base = default if default in found else "cache"
    if base not in found or len(found) == 1:
        return f"Is it you? Mode serial was not measured in scope {base} and others: no verdict."
    scopes = sorted(found, key=MEASURED.index)
    median = {scope: statistics.median(found[scope]) for scope in scopes}
    sides = scopes[: scopes.index(base)], scopes[scopes.index(base) + 1 :]
    finer, coarser = (max(side, key=lambda scope: median[scope], default=base) for side in sides)
    best = max(finer, coarser, key=lambda scope: median[scope])
    gain = median[best] / median[base]
    seen = (boot.perf for boot in results.passed("local") if boot.runs[0].get("scopes") == [base])
    perf = next(filter(None, seen), None)
    share = perf.slowpath_percent if perf else None
    if gain < COSTLY:
        said = "there is little to gain here"
    elif max(found[base]) >= min(found[best]):
        said = "the runs differ too much to tell: measure again with more --runs, on an idle host"
    else:
        if best == coarser:
            said = f"pools of {base} {SMALL}"
        elif share is not None and share < IDLE_LOCK:
            said = "the scope matters here, but hardly any cycles are spent waiting for pool->lock"
        else:
            said = f"pool->lock {'is your bottleneck' if gain >= BOTTLENECK else 'costs you something'}"
        said += f", try workqueue.default_affinity_scope={best}"
    if len(found[base]) < ENOUGH:
        said = f"too few runs for a verdict, but at first sight {said}"
    machine, runs = results.machines[0], plural(len(found[base]), "run")
    llcs = re.search(r"(\d+) LLC", machine.topology or "")
    caches = f" with {plural(int(llcs[1]), 'last-level cache')}" if llcs else ""
    power, digits, unit = (1e6, 2, "M") if median[base] >= 1e5 else (1e3, 1, "thousand")
    marks = {scope: " (default)" * (scope == default) for scope in (base, finer, coarser)}
    shown = ", ".join(f"{s}{marks[s]}: {median[s] / power:,.{digits}f}" for s in marks)
    text = [f"Is it you? {shown} {unit} items/s: {said}."]
    text.append(f"This is of {runs}, on {plural(machine.cpus, 'CPU')}{caches}.")
    if perf and share is not None:
        most = f", and {perf.contention[0].caller} waited the longest" if perf.contention else ""
        text.append(
            f"While the module ran in scope {base}, {share:.1f} % of all cycles were spent in"
            f" native_queued_spin_lock_slowpath{most}."
        )
    text += alone(results, base) if SMALL not in said else []
    return textwrap.fill(" ".join(text + busy(machine)), 90)


def busy(machine: Host) -> list[str]:
    """A warning, if others disturb what is measured."""
    said = [f"The host is busy: load average {machine.load}."]
    return said if (machine.load or 0) > BUSY * machine.cpus else []


def measure(args: argparse.Namespace, host: LiveHost, temporary: Path) -> int:
    """Measure what was not measured before, and judge it. Returns the exit status."""
    inserter = check(host)
    machine, kernel = host.machine, host.kernel
    before = Results(SCHEMA, [], [machine], [kernel], [])
    if args.out.exists() and not args.again:
        before = begun(args.out, machine, kernel)
    instrument = Instrument(host, inserter or ["insmod", str(build(host, temporary))])
    say(f"{machine.cpu_model}, {machine.topology}, {machine.emulation or 'bare metal'}")
    say(f"kernel {host.release}, {machine.governor or 'no'} governor, load average {machine.load}")
    for warning in busy(machine):
        say(warning)
    default = host.read(f"{PARAMETERS}/default_affinity_scope")
    say(f"the default scope stays as it is ({default or 'not known'})")

    parameter, reason = shard_size(host)
    notes = [reason] if reason and args.sizes else []
    if args.perf and not shutil.which("perf"):
        args.perf = False
        notes.append("locks and the share of the slow path: perf is not installed")
        say(f"no perf: {host.install('perf')}")
    elif args.perf and (blind := why_blind()):
        say(f"not measured: {blind}: {INSTEAD}")
    for note in notes:
        say(f"not measured: {note}")
    planned = plan(args, machine.cpus, bool(parameter))
    done = [Insert.of(boot) for boot in before.boots]
    missing = [one for one in planned if one not in done]
    if len(missing) < len(planned):
        say(f"{len(missing)} of {len(planned)} runs are to be made")
    lacking = {row.scope for boot in before.boots for row in boot.rows if row.missing}
    making = Making(instrument, before.machines[0], kernel, parameter, temporary, lacking)
    campaign = Campaign(args.typed, args.out, notes, before=before, must_begin=True)
    results = campaign.run([making.step(one) for one in missing])

    if host.read(f"{PARAMETERS}/default_affinity_scope") != default:
        say("the default scope is not what it was: something else has changed it meanwhile")
    print(tables(results))
    print(f"\nstored in {args.out}: wqlab report {args.out} makes the full report of it")
    print("to see your own load: wqlab local --watch 30\n")
    print(verdict(results, default))
    return FAILED if any(results.not_passed()) else OK


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=positive, metavar="N", help=f"of each mode ({RUNS})")
    parser.add_argument(
        "--modes", type=names(MODES), default=list(MODES), help=f"of {','.join(MODES)} (all)"
    )
    parser.add_argument(
        "--sizes",
        type=numbers,
        metavar="N,...",
        help=f"cores per shard, to be swept ({','.join(map(str, SIZES))}); '' for none",
    )
    parser.add_argument("--no-perf", dest="perf", action="store_false", help="leave perf alone")
    quick = "one run of each mode, few items, no sweep: a first answer"
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument(
        "--watch",
        type=positive,
        metavar="SECONDS",
        help="insert nothing: record who waits for locks under the load that the host has",
    )
    again = "begin anew, do not go on from what is in FILE"
    parser.add_argument("--again", action="store_true", help=again)
    add_out(parser, LOCAL / f"{platform.release()}.json", "local/RELEASE.json")


def command(args: argparse.Namespace, host: LiveHost | None = None) -> int:
    host = host or LiveHost()
    if args.watch and any((args.runs, args.sizes, args.quick, args.again)):
        raise Usage("--watch inserts nothing: it goes with none of the options of the runs")
    if host.uid != 0:
        raise Problem("only root can insert a module, or record the whole machine: try sudo")
    args.runs = args.runs or (1 if args.quick else RUNS)
    args.items = QUICK_ITEMS if args.quick else ITEMS
    if args.sizes is None:
        args.sizes = [] if args.quick else SIZES
    with tempfile.TemporaryDirectory(prefix="wq-local-") as temporary:
        if args.watch:
            if not shutil.which("perf"):
                raise Skipped(f"no perf: {host.install('perf')}")
            print(watch(args.watch, host, Path(temporary, "perf.data")))
            return OK
        return measure(args, host, Path(temporary))
