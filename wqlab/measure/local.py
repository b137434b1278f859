# SPDX-License-Identifier: GPL-2.0
"""Measure unbound workqueues on this very machine, with the kernel that it runs, as root.

Is it you? The kernel needs no patch. Builds test_workqueue against the headers of the
running kernel, loads it for each mode in turn, as often as asked for, each time with the
scopes in another order, and ends with a verdict. Where the shard size can be changed, it is swept and put back; where perf can, it
says where the cycles go. The results are stored in a file that `wqlab report` reads.

The verdict compares the throughput of mode `serial` in the scope `cache`, where all CPUs of
a last-level cache share a pool and its pool->lock, with the best of `cpu` and `cache_shard`,
where fewer CPUs do or none (medians of the loads):

  twice as much or more   pool->lock is the bottleneck
  1.25 times to twice     pool->lock costs something
  less                    there is little to gain

There is none where the ranges of the loads overlap. Where perf counts cycles and less than
2 % of them are spent in native_queued_spin_lock_slowpath while `cache` runs, the scopes
differ for another reason than the lock.

With --watch SECONDS nothing is loaded and nothing is changed: perf records the machine under
the load that it has, and the verdict is by the share of all cycles that the functions of
the workqueue code spend waiting for locks: 10 % or more is a bottleneck, 2 % to 10 % costs
something, and with less there is little to gain.

The system's default scope is not changed: the module sets that of its own workqueue.
Whatever else was changed is put back on every way out, Ctrl-C and a kill included. What is
finished by then stays in the file, and the same command goes on from there.
"""

import argparse
import gzip
import hashlib
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from wqlab.ground.places import LOCAL, ROOT
from wqlab.ground.problem import FAILED, OK, Problem, Skipped, Usage
from wqlab.ground.run import TIMED_OUT, Done, Progress, run, say
from wqlab.ground.text import plural, table
from wqlab.kernels.options import names, numbers, output, positive
from wqlab.measure import perf
from wqlab.measure.perf import Blind
from wqlab.results import (
    SCHEMA,
    Boot,
    Build,
    Kernel,
    Perf,
    Results,
    Row,
    Run,
    made,
    save,
    short_id,
    this_machine,
)
from wqlab.results import load as load_results
from wqlab.results.module import MEASURED, MODES, rows_of, turned, words

MODULE = "test_workqueue"
SIZES = [1, 2, 4, 8, 16, 32]
RUNS, ITEMS = 5, 50000
QUICK_ITEMS = 10000
BUILD_LIMIT = 300.0  # seconds
LOAD_LIMIT = 900.0  # for one load of the module, which makes a run in each scope
END_LIMIT = 10.0  # for what takes no time
SLEEPERS = 8  # max_active in mode sleep
SYSTEMS = ("Debian, Ubuntu", "Fedora", "openSUSE", "Arch")  # the columns of the file packages
PARAMETERS = "sys/module/workqueue/parameters"
# The verdict
BOTTLENECK, COSTLY = 2.0, 1.25  # times the throughput of scope cache
IDLE_LOCK = 2.0  # percent of the cycles
WATCHED_BOTTLENECK, WATCHED_COSTLY = 10.0, 2.0


@dataclass(frozen=True)
class Host:
    """The machine; tests have one of their own."""

    root: Path = Path("/")
    uid: int = os.geteuid()
    release: str = platform.release()
    version: str = platform.version()

    def read(self, path: str) -> str | None:
        try:
            return (self.root / path).read_text(errors="replace").strip()
        except OSError:
            return None

    @property
    def headers(self) -> Path:
        return self.root / "lib/modules" / self.release / "build"


# --- the module --------------------------------------------------------------------------


def modinfo(host: Host) -> set[str]:
    """The parameters of the module that modprobe would load; none if there is no such module."""
    done = run(["modinfo", "-k", host.release, "-F", "parm", MODULE], limit=30)
    return set() if done.status else {line.partition(":")[0] for line in done.output.splitlines()}


def is_ours(parameters: set[str]) -> bool:
    """And not the one of that name in mainline."""
    return {"scopes", "sleep_us"} <= parameters


def only_signed(host: Host) -> str:
    """Why the kernel refuses modules that are not signed, "" if it does not."""
    lockdown = re.search(r"\[(\w+)\]", host.read("sys/kernel/security/lockdown") or "")
    if lockdown and lockdown[1] != "none":
        return f"lockdown={lockdown[1]}, as Secure Boot sets it"
    if host.read("sys/module/module/parameters/sig_enforce") == "Y":
        return "module.sig_enforce"
    return ""


def check(host: Host) -> list[str]:
    """The command that loads the module, without its parameters; empty: build it first."""
    if host.read("proc/modules") is None:
        raise Problem("the running kernel was built without modules (CONFIG_MODULES)")
    if host.read("proc/sys/kernel/modules_disabled") == "1":
        raise Problem("modules cannot be loaded until the next boot (kernel.modules_disabled=1)")
    if (loaded := host.root / "sys/module" / MODULE).exists():
        if not (loaded / "initstate").exists():
            raise Problem(f"{MODULE} is built into the running kernel, which loads no other one")
        raise Problem(f"{MODULE} is loaded already: rmmod {MODULE}, then try again")
    why, known = only_signed(host), modinfo(host)
    if not why and (host.headers / "Makefile").is_file():
        if known and not is_ours(known):
            say(f"modprobe {MODULE} would load mainline's, another module: this project's is built")
        return []
    if is_ours(known):
        return ["modprobe", MODULE]
    if why:
        raise Problem(
            f"the kernel loads signed modules only ({why}): install the module signed, with "
            "dkms install lib and its key enrolled (mokutil --import), or turn that off"
        )
    need = "/lib/modules/RELEASE/build/Makefile"
    raise Problem(f"no headers of the running kernel in {host.headers}: {install(need, host)}")


def install(need: str, host: Host) -> str:
    """What a line of the file packages says to install."""
    lines = [line.split() for line in (ROOT / "packages").read_text().splitlines()]
    names = next((line[2:] for line in lines if line[:1] == [need]), [need] * len(SYSTEMS))
    names = [name.replace("RELEASE", host.release) for name in names]
    return "install " + ", ".join(map("{} ({})".format, names, SYSTEMS))


def build(host: Host, out: Path) -> Path:
    """The module, built from copies of its sources in out."""
    config = host.read(f"lib/modules/{host.release}/build/include/config/auto.conf")
    clang = "CONFIG_CC_IS_CLANG=y" in (config or "").splitlines()
    for tool in ("make", "clang" if clang else "gcc"):
        if not shutil.which(tool):
            raise Problem(f"no {tool} to build {MODULE} with: {install(tool, host)}")
    for source in ("Kbuild", f"{MODULE}.c", f"{MODULE}.h"):
        shutil.copy(ROOT / "lib" / source, out)
    command = [
        "make",
        "-C",
        str(host.headers),
        f"M={out}",
        *(["LLVM=1"] if clang else []),
        "modules",
    ]
    done = run(command, limit=BUILD_LIMIT, label=f"building {MODULE} for {host.release}")
    module = out / f"{MODULE}.ko"
    if done.status or not module.is_file():
        lines = done.output.splitlines()
        wrong = [
            line for line in lines if re.search(r"error|\*\*\*|not found", line, re.IGNORECASE)
        ]
        raise Problem(f"{MODULE} cannot be built: {(wrong or lines or ['no message'])[0]}")
    return module


class Log:
    """What the kernel says from now on."""

    def __init__(self, host: Host) -> None:
        self.fd = os.open(host.root / "dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.fd, 0, os.SEEK_END)

    def lines(self) -> Iterator[str]:
        while True:
            try:
                records = os.read(self.fd, 8192)
            except BlockingIOError:
                return
            except BrokenPipeError:  # overwritten before it was read
                raise Problem("the kernel log was overrun by other messages") from None
            if not records:
                return
            for record in records.decode(errors="replace").splitlines():
                if not record.startswith(" "):  # else it continues a record, with details
                    yield record.partition(";")[2]

    def close(self) -> None:
        os.close(self.fd)


@dataclass(frozen=True)
class Instrument:
    """The module, and how to load it."""

    host: Host
    loader: list[str]

    def measure(
        self, what: Run, number: int = 1, around: Callable[[list[str]], Done] | None = None
    ) -> list[Row]:
        """Load it with these parameters, for the time `number`, which makes the run, and unload
        it."""
        log = Log(self.host)
        run_now = turned(what, number)
        try:
            command = [*self.loader, *words(run_now).split()]
            done = around(command) if around else run(command, limit=LOAD_LIMIT)
            said = list(log.lines())
        finally:
            log.close()
            with deaf():
                self.unload()
        if done.status == TIMED_OUT:
            raise Problem(f"{command[0]} took more than {LOAD_LIMIT:.0f} s")
        if done.status:
            why = [line for line in said if line.startswith(f"{MODULE}: ") and "=" in line]
            text = (done.output.splitlines() or ["no message"])[-1]
            raise Problem(explain(text, why[-1:]))
        return sorted(rows_of(run_now, said), key=lambda row: MEASURED.index(row.scope))

    def unload(self) -> None:
        if (self.host.root / "sys/module" / MODULE).exists():
            done = run(["rmmod", MODULE], limit=END_LIMIT)
            if done.status:
                say(f"{MODULE} could not be unloaded: {done.output.strip()}")


def explain(text: str, said: list[str]) -> str:
    for sign, meaning in (
        ("Operation not permitted", "the kernel refuses modules that are not signed (lockdown?)"),
        ("Key was rejected", "the kernel refuses modules that are not signed by a key it knows"),
        ("Required key", "the kernel refuses modules that are not signed by a key it knows"),
        ("Invalid module format", "the headers are not those of the running kernel"),
    ):
        if sign in text:
            return f"{meaning}: {text}"
    return "; ".join([text, *said])


# --- what is changed, and put back -------------------------------------------------------


@contextmanager
def put_back(path: Path) -> Iterator[Callable[[str], None]]:
    """A way to write to a parameter, which is put back whatever happens.

    Should this program be killed, the shell at the other end of a pipe does it.
    """
    before = path.read_text().strip()
    guard = subprocess.Popen(
        ["sh", "-c", 'read -r _ || echo "$1" >"$2"', "sh", before, str(path)],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield lambda value: write(path, value)
    finally:
        with deaf():
            write(path, before)
            guard.communicate(b"done\n", timeout=END_LIMIT)
            say(f"{path.name} is {path.read_text().strip()} again")


def write(path: Path, value: str) -> None:
    try:
        path.write_text(f"{value}\n")
    except OSError as error:
        raise Problem(f"{path}: {error.strerror}, with {value}") from None


@contextmanager
def deaf() -> Iterator[None]:
    """Not to be interrupted while things are put back."""
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, signal.SIG_IGN) for number in signals]
    try:
        yield
    finally:
        for number, handler in zip(signals, before):
            signal.signal(number, handler)


# --- perf --------------------------------------------------------------------------------


def under_perf(instrument: Instrument, what: Run, out: Path) -> tuple[Perf, list[Row]]:
    """What perf sees while the module runs, and what the module says of the same runs."""
    data, reasons = out / "perf.data", []
    rows: list[Row] = []
    share = contention = None

    def attempt(command: list[str | Path], name: str) -> Done | None:
        """perf with the loader as its workload; None, having noted why, if it cannot."""
        done = Done(1, "")

        def around(loader: list[str]) -> Done:
            nonlocal done
            done = run([*command, "--", *loader], limit=LOAD_LIMIT)
            # whether the module was loaded is seen by what it said
            return Done(0, done.output)

        try:
            rows[:] = instrument.measure(what, around=around)
        except Problem:
            done = done if done.status else Done(1, f"{MODULE} gave no results under perf")
        if done.status:
            reasons.append(f"{name}: {perf.why(done)}")
            return None
        return done

    if attempt(["perf", "record", "-a", "-q", "-e", "cycles", "-o", data], "cycles"):
        try:
            share = perf.read_slowpath(perf.report_cycles(data))
        except Blind as error:
            reasons.append(str(error))
    found = attempt(["perf", "lock", "contention", "-a", "-b"], "contention, with BPF")
    if found:
        contention = perf.read_contention(found.output)
    elif attempt(["perf", "lock", "record", "-a", "-o", data], "contention, with tracepoints"):
        done = run(["perf", "lock", "contention", "-i", data], limit=perf.LIMIT)
        if done.status:
            reasons.append(f"contention: {perf.why(done)}")
        else:
            contention = perf.read_contention(done.output)
    if not rows:
        rows = instrument.measure(what)
    data.unlink(missing_ok=True)
    if contention is not None:  # one way was enough
        reasons = [reason for reason in reasons if not reason.startswith("contention")]
    return Perf(share, contention, "; ".join(reasons)), rows


def watch(seconds: int, out: Path) -> str:
    """Who waits for locks under the load that the machine has, as a table and a verdict."""
    data = out / "perf.data"
    record = ["perf", "record", "-a", "-q", "-g", "-F", "99", "-e", "cycles", "-o", str(data)]
    done = run(
        [*record, "--", "sleep", str(seconds)],
        limit=seconds + perf.LIMIT,
        label=f"recording this machine for {seconds} s",
    )
    if done.status:
        raise Skipped(f"perf cannot tell: cycles: {perf.why(done)}")
    try:
        report = perf.report_cycles(data, "folded,0,callee,function,percent")
    except Blind as error:
        raise Skipped(f"perf cannot tell: {error}") from None
    all_locks, waiters = perf.read_slowpath(report), perf.read_waiters(report)
    rows = [("% of cycles", "waiting for a lock", "called from")]
    rows += [(f"{w.percent:.2f}", w.name, w.caller or "?") for w in waiters[: perf.CALLERS]]
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


# --- the whole ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """One load of the module."""

    run: Run
    number: int
    size: int | None = None
    perf: bool = False

    def is_done_by(self, boot: Boot) -> bool:
        return (
            boot.passed
            and (boot.runs, boot.number, boot.size) == ([self.run], self.number, self.size)
            and bool(boot.perf) == self.perf
        )

    def __str__(self) -> str:
        size = "" if self.size is None else f", {self.size} cores per shard"
        return f"{words(self.run)}{size}{', under perf' if self.perf else ''}"


def parameters(mode: str, items: int, cpus: int, scopes: list[str]) -> Run:
    if mode == "sleep":  # a millisecond each, and few at a time
        few = max(50, 2000 // cpus)
        return {"mode": mode, "scopes": scopes, "items": few, "max_active": SLEEPERS}
    return {"mode": mode, "scopes": scopes, "items": items}


def plan(args: argparse.Namespace, cpus: int) -> list[Job]:
    """Everything in turn, so that what changes on the machine meanwhile is in all of it."""
    jobs = []
    for number in range(1, args.runs + 1):
        jobs += [
            Job(parameters(mode, args.items, cpus, list(MEASURED)), number) for mode in args.modes
        ]
        sweep = parameters("serial", args.items, cpus, ["cache_shard"])
        jobs += [Job(sweep, number, size=size) for size in args.sizes]
    if args.perf:
        for scope in ("cache", "cache_shard"):
            jobs.append(Job(parameters("serial", args.items, cpus, [scope]), 1, perf=True))
    return jobs


def hypervisor(host: Host) -> str | None:
    """What the machine is a guest of, None for bare metal."""
    if not re.search(r"^flags\s*:.*\bhypervisor\b", host.read("proc/cpuinfo") or "", re.MULTILINE):
        return None
    done = run(["systemd-detect-virt", "--vm"], limit=END_LIMIT)
    name = "" if done.status or done.output.strip() == "none" else done.output.strip()
    return f"virtual machine ({name or host.read('sys/class/dmi/id/sys_vendor') or 'unknown'})"


def built(host: Host) -> Build:
    """What can be said of how the running kernel was built."""
    compiler = re.search(r"\(([^()]*(?:gcc|clang)\b.*?)\) #", host.read("proc/version") or "")
    config = None
    for name, opened in ((f"boot/config-{host.release}", open), ("proc/config.gz", gzip.open)):
        try:
            with opened(host.root / name, "rb") as file:
                config = hashlib.sha256(file.read()).hexdigest()
                break
        except OSError:
            continue
    return Build(None, None, compiler[1] if compiler else None, config)


def running_kernel(host: Host) -> Kernel:
    key = f"{host.release}-{short_id(host.release, host.version)}"
    return Kernel(key, host.release, host.release, None, None, [built(host)])


def start(args: argparse.Namespace, host: Host) -> Results:
    """Results without boots, or those in the file to go on from."""
    machine = this_machine(hypervisor(host))
    kernel = running_kernel(host)
    options = [] if args.sizes == SIZES else [f"--sizes {','.join(map(str, args.sizes))}"]
    options += [] if args.perf else ["--no-perf"]
    command = f"wqlab local --runs {args.runs} --items {args.items}"
    command += f" --modes {','.join(args.modes)}"
    now = made(" ".join([command, *options]))
    new = Results(SCHEMA, [now], [machine], [kernel], [])
    if args.again or not args.out.exists():
        return new
    old = load_results(args.out)
    if [m.id for m in old.machines] != [machine.id] or old.kernels != [kernel]:
        raise Problem(
            f"{args.out} holds results of another machine or kernel: name another file with --out"
        )
    return replace(
        old,
        made=old.made if now in old.made else [*old.made, now],
        boots=[boot for boot in old.boots if boot.passed],
        notes=[],
    )


def shard_size(host: Host) -> tuple[Path | None, str]:
    """The parameter to write to, or why there is none."""
    path = host.root / PARAMETERS / "cache_shard_size"
    if not path.exists():
        return None, "shard sizes: the running kernel has no scope cache_shard"
    if not path.stat().st_mode & 0o200:
        return None, "shard sizes: the running kernel takes workqueue.cache_shard_size at boot only"
    return path, ""


def store(results: Results, out: Path) -> None:
    """In the file, which belongs to who called sudo."""
    new = [path for path in (out, *out.parents) if not path.exists()]
    save(results, out)
    if "SUDO_UID" in os.environ and "SUDO_GID" in os.environ:
        for path in new:
            os.chown(path, int(os.environ["SUDO_UID"]), int(os.environ["SUDO_GID"]))


# --- what is printed ---------------------------------------------------------------------


def rates(results: Results, what: Run) -> dict[str, list[int]]:
    """Items per second in each load of this run, by scope."""
    found: dict[str, list[int]] = {}
    for boot in results.passed("local"):
        if boot.runs == [what] and not boot.perf:
            for row in boot.rows:
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
            figures = [value["items_per_sec"] for value in values]
            keys = ("queue_p50_ns", "queue_p90_ns", "queue_p95_ns", "kworkers_peak")
            medians = [statistics.median(value[key] for value in values) for key in keys]
            shown.append(
                (
                    scope,
                    f"{statistics.median(figures):,.0f}",
                    f"[{min(figures):,} - {max(figures):,}]",
                    *(f"{median:,.0f}" for median in medians),
                )
            )
        mode = words({key: value for key, value in what.items() if key != "scopes"})
        lines += ["", f"{mode}, {f'medians of {number} loads' if number > 1 else 'one load'}"]
        lines += table(shown, (True, False, True, False, False, False, False))
    return "\n".join(lines)


def verdict(results: Results, default: str | None) -> str:
    """Whether pool->lock is a bottleneck here, by the rule at the head of this file."""
    machine = results.machines[0]
    boots = [boot for boot in results.passed("local") if boot.runs[0]["mode"] == "serial"]
    plain = [boot for boot in boots if not boot.perf]
    found = rates(results, plain[-1].runs[0]) if plain else {}
    others = {scope: found[scope] for scope in ("cpu", "cache_shard") if scope in found}
    if "cache" not in found or not others:
        return "Is it you? Mode serial was not measured in the scopes cache and cpu: no verdict."
    median = {scope: statistics.median(some) for scope, some in found.items()}
    best = max(others, key=lambda scope: median[scope])
    gain = median[best] / median["cache"]
    shown = ", ".join(f"{scope}: {million(median[scope])} items/s" for scope in ("cache", *others))
    share = next(
        (b.perf.slowpath_percent for b in boots if b.perf and b.runs[0]["scopes"] == ["cache"]),
        None,
    )
    if gain < COSTLY:
        said = "there is little to gain here"
    elif max(found["cache"]) >= min(found[best]):
        said = "the loads differ as much as the scopes do, so this cannot be told: measure again"
        said += " with more --runs, on an idle machine"
    elif share is not None and share < IDLE_LOCK:
        said = "the scope matters here, but hardly any cycles are spent waiting for pool->lock"
    elif gain >= BOTTLENECK:
        said = "pool->lock is your bottleneck"
    else:
        said = "pool->lock costs you something"
    text = [f"Is it you? {shown}: {said}."]
    if share is not None:
        text.append(
            f"While the module ran in scope cache, {share:.1f} % of all cycles were spent in"
            " native_queued_spin_lock_slowpath."
        )
    if llcs := re.search(r"(\d+) LLC", machine.topology or ""):
        caches = plural(int(llcs[1]), "last-level cache")
        text.append(f"This machine has {plural(machine.cpus, 'CPU')} on {caches}.")
    if default:
        text.append(f"The default scope is {default}.")
    if len(found["cache"]) == 1:
        text.append("This is from one load: measure without --quick before you rely on it.")
    text.append("To see your own load: wqlab local --watch 30.")
    return textwrap.fill(" ".join(text), 90)


def million(rate: float) -> str:
    return f"{rate / 1e6:.2g} M" if rate >= 1e5 else f"{rate:,.0f}"


def measure(args: argparse.Namespace, host: Host, temporary: Path) -> int:
    loader = check(host)
    results = start(args, host)
    machine, kernel = results.machines[0], results.kernels[0]
    if not loader:
        loader = ["insmod", str(build(host, temporary))]
    instrument = Instrument(host, loader)
    default = host.read(f"{PARAMETERS}/default_affinity_scope")
    say(f"{machine.cpu_model}, {machine.topology}, {machine.emulation or 'bare metal'}")
    load = machine.load or 0
    say(f"kernel {host.release}, governor {machine.governor or 'none'}, load {load:g}")
    say(f"the default scope stays as it is ({default or 'not known'})")
    if load > 0.1 * machine.cpus:
        say("the machine is busy, which all figures will show")

    parameter, reason = shard_size(host)
    notes = [reason] if reason and args.sizes else []
    if args.perf and not shutil.which("perf"):
        args.perf = False
        notes.append("locks and the share of the slow path: perf is not installed")
        say(f"no perf: {install('perf', host)}")
    for note in notes:
        say(f"not measured: {note}")
    jobs = plan(args, machine.cpus)
    todo = [job for job in jobs if not any(map(job.is_done_by, results.boots))]
    todo = [job for job in todo if parameter or job.size is None]
    if len(todo) < len(jobs):
        say(f"{len(todo)} of {len(jobs)} loads of the module are to be made")
    progress = Progress([words(job.run) for job in todo])
    lacking = {row.scope for boot in results.boots for row in boot.rows if row.missing}

    def one(job: Job) -> None:
        nonlocal results
        kind = words(job.run)
        scopes = job.run["scopes"]
        if isinstance(scopes, list) and lacking.issuperset(scopes):
            progress.step(kind, 0, counts=False)
            return
        started, seen = time.monotonic(), None
        text, rows = "", list[Row]()
        try:
            if job.perf:
                seen, rows = under_perf(instrument, job.run, temporary)
                if seen.why_not:
                    say(f"perf: {seen.why_not}")
            else:
                rows = instrument.measure(job.run, job.number)
        except Problem as error:
            text = str(error)
        seconds = round(time.monotonic() - started, 1)
        lacking.update(row.scope for row in rows if row.missing)
        boot = Boot(
            machine=machine.id,
            kernel=kernel.id,
            section="local" if job.size is None else "sizes",
            flavour=None,
            scenario=None,
            append="",
            runs=[job.run],
            number=job.number,
            seconds=seconds,
            verdict="fail" if text else "pass",
            reason=text,
            rows=rows,
            size=job.size,
            perf=seen,
        )
        results = replace(results, boots=[*results.boots, boot], notes=notes)
        store(results, args.out)
        step = progress.step(kind, seconds, counts=boot.passed)
        say(f"{step} {job}: {boot.verdict} in {seconds} s{progress.left()}")
        if text:
            say(f"  {text}")
            if not list(results.passed("local", "sizes")):
                raise Problem(text)

    try:
        plain = [job for job in todo if job.size is None]
        for number in dict.fromkeys(job.number for job in todo):
            for job in (job for job in plain if job.number == number and not job.perf):
                one(job)
            sweep = [job for job in todo if job.number == number and job.size is not None]
            if sweep and parameter:
                with put_back(parameter) as put:
                    for job in sweep:
                        put(str(job.size))
                        one(job)
        for job in (job for job in plain if job.perf):
            one(job)
    except (KeyboardInterrupt, SystemExit):
        say(f"interrupted: {progress.done} of {len(todo)} loads are done; the same command goes on")
        raise
    if host.read(f"{PARAMETERS}/default_affinity_scope") != default:
        say("the default scope is not what it was: something else has changed it meanwhile")
    print(tables(results))
    print(f"\nstored in {args.out}: wqlab report {args.out} makes the full report of it\n")
    print(verdict(results, default))
    return FAILED if any(results.not_passed()) else OK


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=positive, metavar="N", help=f"loads per mode ({RUNS})")
    parser.add_argument("--items", type=positive, metavar="N", help=f"per producer ({ITEMS})")
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
    parser.add_argument(
        "--quick",
        action="store_true",
        help="one load per mode, few items, no sweep: a first answer",
    )
    parser.add_argument(
        "--watch",
        type=positive,
        metavar="SECONDS",
        help="load nothing: record who waits for locks under the load that the machine has",
    )
    parser.add_argument(
        "--again", action="store_true", help="begin anew, do not go on from what is in FILE"
    )
    parser.add_argument(
        "--out",
        type=output,
        default=LOCAL / f"{platform.release()}.json",
        metavar="FILE",
        help="(local/RELEASE.json)",
    )


def command(args: argparse.Namespace, host: Host | None = None) -> int:
    host = host or Host()
    if args.watch and any((args.runs, args.items, args.sizes, args.quick, args.again)):
        raise Usage("--watch loads nothing: it goes with none of the options of the loads")
    if host.uid != 0:
        raise Problem("only root can load a module, or record the whole machine: try sudo")
    if args.runs is None:
        args.runs = 1 if args.quick else RUNS
    if args.items is None:
        args.items = QUICK_ITEMS if args.quick else ITEMS
    if args.sizes is None:
        args.sizes = [] if args.quick else SIZES
    with tempfile.TemporaryDirectory(prefix="wq-local-") as temporary:
        if args.watch:
            if not shutil.which("perf"):
                raise Skipped(f"no perf: {install('perf', host)}")
            print(watch(args.watch, Path(temporary)))
            return OK
        return measure(args, host, Path(temporary))
