# SPDX-License-Identifier: GPL-2.0
"""Results of measurements: the file format of docs/results-schema.md, read, checked, merged.

Also what every script that measures needs: a description of the machine it runs on, and
what test_workqueue has logged, as rows.
"""

import hashlib
import json
import os
import platform
import re
import subprocess
import types
import typing
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from datetime import date
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = 2
PREFIX = "test_workqueue: "
POOL_LOCK = "&pool->lock"

Section = Literal["time", "locks", "icount", "sizes", "local"]
Verdict = Literal["pass", "fail", "lost"]


class ResultsError(Exception):
    """One line about a file or a log that can't be used."""


@dataclass(frozen=True)
class Made:
    """What made the file."""

    date: str  # YYYY-MM-DD
    command: str
    project: str  # commit of this repository, with "-dirty" where it had changes; "" unknown


@dataclass(frozen=True)
class Machine:
    """A machine that was measured on; None is what could not be found out."""

    id: str  # of all below but kernel, governor and load
    cpu_model: str
    cpus: int
    memory_mib: int
    system: str  # the distribution
    kernel: str  # the host's, where the measured one ran under emulation
    governor: str | None
    load: float  # of the last minute, when measuring began
    topology: str  # "1 socket, 2 cores, 2 CPUs, 1 LLC, 1 node"
    emulation: str | None  # QEMU and its accelerator; None is bare metal


@dataclass(frozen=True)
class Kernel:
    id: str  # unique in the file
    name: str  # stock, patched, mainline; another one for what was found running
    release: str  # as uname -r says
    base: str  # of bases/; "" where it was not built here
    patches: int | None  # of patches/BASE; None is unknown
    builds: dict[str, str] = field(default_factory=dict)  # by configuration: key of the build


@dataclass(frozen=True)
class Lock:
    """What /proc/lock_stat says of one class of locks."""

    acquisitions: int
    contentions: int
    hold_total_ns: int
    hold_max_ns: int
    wait_total_ns: int
    wait_max_ns: int
    acq_bounces: int  # acquisitions on another CPU than the last one
    con_bounces: int


@dataclass(frozen=True)
class Row:
    """One run of test_workqueue in one scope."""

    scope: str
    mode: str  # "" if missing
    missing: bool = False  # the kernel does not have the scope
    values: dict[str, int] = field(default_factory=dict)  # see lib/test_workqueue.c
    locks: dict[str, Lock] | None = None  # by class, of this run alone


@dataclass(frozen=True)
class Contention:
    """A place where a lock was waited for, as perf lock contention reports it."""

    caller: str
    contended: int
    wait_total_ns: int


@dataclass(frozen=True)
class Perf:
    """What perf saw while test_workqueue ran."""

    slowpath_percent: float | None  # of cycles, in native_queued_spin_lock_slowpath
    contention: list[Contention] | None
    why_not: str  # one line about what is None, "" if nothing is


@dataclass(frozen=True)
class Boot:
    """One boot of one kernel; in section local, one load of the module."""

    machine: str  # id
    kernel: str  # id
    section: Section
    config: str  # of configs/; "" where the kernel was not built here
    scenario: str  # of scenarios/; "" without one
    append: str  # boot parameters beyond those that every boot has
    runs: list[str]  # parameters of test_workqueue, of each load
    number: int  # from 1, within what is otherwise the same
    seconds: float
    verdict: Verdict
    reason: str  # one line, "" if passed
    rows: list[Row] = field(default_factory=list)  # of a boot that passed
    size: int | None = None  # in section sizes: workqueue.cache_shard_size
    perf: Perf | None = None  # in section local

    @property
    def passed(self) -> bool:
        return self.verdict == "pass"

    @property
    def why(self) -> str:
        """Why it does not count."""
        return f"{self.verdict}: {self.reason}"


@dataclass(frozen=True)
class Layout:
    """The pods of each scope on a large machine, read from the memory of the guest."""

    kernel: str  # id
    scenario: str
    default: str  # scope
    pods: dict[str, list[str]]  # by scope: cpulists


@dataclass(frozen=True)
class Results:
    schema: int
    made: list[Made]
    machines: list[Machine]
    kernels: list[Kernel]
    boots: list[Boot]
    layouts: list[Layout] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what was to be measured and could not be

    def machine(self, key: str) -> Machine:
        return next(machine for machine in self.machines if machine.id == key)

    def kernel(self, key: str) -> Kernel:
        return next(kernel for kernel in self.kernels if kernel.id == key)

    def passed(self, *sections: Section) -> Iterator[Boot]:
        """The boots that count."""
        return (b for b in self.boots if b.passed and b.section in sections)

    def not_passed(self) -> Iterator[Boot]:
        """The boots that don't, to be reported."""
        return (boot for boot in self.boots if not boot.passed)


# --- what a row says ---------------------------------------------------------------------


@dataclass(frozen=True)
class Metric:
    """A figure of a row; docs/measuring.md says how it is made."""

    key: str
    label: str
    unit: str
    better: Literal["higher", "lower", ""]  # "" is a matter of judgement


METRICS = {
    metric.key: metric
    for metric in (
        Metric("items_per_sec", "throughput", "items/s", "higher"),
        *(
            Metric(f"{time}_{rank}_ns", f"{label}, {rank.replace('p999', 'p99.9')}", "ns", "lower")
            for time, label in (("queue", "queue_work()"), ("start", "queue to start"))
            for rank in ("p50", "p90", "p95", "p99", "p999", "max")
        ),
        Metric("kworkers_before", "kworkers before", "", ""),
        Metric("kworkers_peak", "kworkers", "", ""),
        Metric("kworkers_after", "kworkers after", "", ""),
        Metric("kworkers_new", "kworkers started", "", ""),
        Metric("pools", "pools in use", "", ""),
        Metric("running_peak", "running at once", "items", ""),
        Metric("lock_acquisitions", "acquisitions of pool->lock", "per item", "lower"),
        Metric("lock_contentions", "contentions of pool->lock", "per item", "lower"),
        Metric("lock_hold_ns", "pool->lock held", "ns per item", "lower"),
        Metric("lock_wait_ns", "pool->lock waited for", "ns per item", "lower"),
        Metric("instructions", "round trip", "instructions", "lower"),
    )
}
_OF_LOCKS = {
    "lock_acquisitions": "acquisitions",
    "lock_contentions": "contentions",
    "lock_hold_ns": "hold_total_ns",
    "lock_wait_ns": "wait_total_ns",
}


def value(row: Row, metric: str) -> float | None:
    """A metric of one row, None where the row does not have it."""
    if metric == "kworkers_new":
        before, peak = (row.values.get(f"kworkers_{when}") for when in ("before", "peak"))
        return None if before is None or peak is None else peak - before
    if metric not in _OF_LOCKS:
        return row.values.get(metric)
    if row.locks is None or not row.values.get("items"):
        return None
    # A class may come more than once, as &pool->lock and &pool->lock/1.
    total = sum(
        getattr(lock, _OF_LOCKS[metric])
        for name, lock in row.locks.items()
        if name.partition("/")[0] == POOL_LOCK
    )
    return total / row.values["items"]


def instructions(boot: Boot, scope: str) -> float | None:
    """Instructions per item, of a boot whose clock counts them, from its shortest and longest run.

    What a run costs beyond its items drops out of the difference.
    """
    runs = sorted(
        (row.values["items"], row.values["items"] * 1e9 / row.values["items_per_sec"])
        for row in boot.rows
        if row.scope == scope and not row.missing
    )
    if len(runs) < 2 or runs[0][0] == runs[-1][0]:
        return None
    return (runs[-1][1] - runs[0][1]) / (runs[-1][0] - runs[0][0])


def samples(boots: Iterable[Boot], scope: str, mode: str, metric: str) -> list[float]:
    """The metric in each of these boots, one figure for each boot that has it."""
    found = []
    for boot in boots:
        if metric == "instructions":
            figures = [instructions(boot, scope)] if boot.section == "icount" else []
        else:
            rows = [row for row in boot.rows if (row.scope, row.mode) == (scope, mode)]
            figures = [value(row, metric) for row in rows]
        figures = [figure for figure in figures if figure is not None]
        if figures:
            found.append(sum(figures) / len(figures))
    return found


def parse_row(text: str) -> Row | None:
    """A line of test_workqueue as a row, None if it is about something else."""
    if not text.startswith(PREFIX + "scope="):
        return None
    scope, *words = text.removeprefix(PREFIX + "scope=").split()
    if words == ["missing"]:
        return Row(scope, "", missing=True)
    try:
        pairs = dict(word.split("=") for word in words)
        mode = pairs.pop("mode")
        row = Row(scope, mode, values={key: int(number) for key, number in pairs.items()})
    except (ValueError, KeyError):
        raise ResultsError(f"not a line of test_workqueue: {text}") from None
    lacks = [key for key in ("items", "items_per_sec", "lost", "twice") if key not in row.values]
    if lacks:
        raise ResultsError(f"a line of test_workqueue without {', '.join(lacks)}: {text}")
    return row


# --- the file ----------------------------------------------------------------------------


def _load(kind: Any, data: Any, where: str) -> Any:
    """Data from JSON as what a field is declared to be, or ResultsError."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if is_dataclass(kind):
        if not isinstance(data, dict):
            raise ResultsError(f"{where} is not an object")
        hints = typing.get_type_hints(kind)
        for key in data:
            if key not in hints:
                raise ResultsError(f'{where} has "{key}", which schema {SCHEMA} does not know')
        for entry in fields(kind):
            needed = entry.default is MISSING and entry.default_factory is MISSING
            if needed and entry.name not in data:
                raise ResultsError(f'{where} has no "{entry.name}"')
        return kind(**{k: _load(hints[k], v, f"{where}.{k}") for k, v in data.items()})
    if origin is list:
        if not isinstance(data, list):
            raise ResultsError(f"{where} is not a list")
        return [_load(args[0], item, f"{where}[{i}]") for i, item in enumerate(data)]
    if origin is dict:
        if not isinstance(data, dict):
            raise ResultsError(f"{where} is not an object")
        return {key: _load(args[1], item, f'{where}["{key}"]') for key, item in data.items()}
    if origin is types.UnionType:
        return None if data is None else _load(args[0], data, where)
    if origin is Literal:
        if data not in args:
            raise ResultsError(f"{where} is {data!r}, not one of {', '.join(args)}")
        return data
    if kind is float and type(data) is int:
        return float(data)
    if type(data) is not kind:
        raise ResultsError(f"{where} is {data!r}, not of type {kind.__name__}")
    return data


def from_json(kind: type, text: str) -> Any:
    """An object of one of these dataclasses, or ResultsError."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ResultsError(f"not JSON: {error}") from None
    return _load(kind, data, kind.__name__)


def check(results: Results) -> Results:
    """The results themselves, if they are consistent."""
    for name, things in (("machine", results.machines), ("kernel", results.kernels)):
        known = [thing.id for thing in things]
        if len(set(known)) != len(known):
            raise ResultsError(f"two of its {name}s have the same id")
        used = [getattr(boot, name) for boot in results.boots]
        if name == "kernel":
            used += [layout.kernel for layout in results.layouts]
        for key in used:
            if key not in known:
                raise ResultsError(f'a boot is of {name} "{key}", which is not described')
    for i, boot in enumerate(results.boots):
        if boot.rows and not boot.passed:
            raise ResultsError(f"boots[{i}] did not pass, but has rows")
        for row in boot.rows:
            if not row.missing and (
                row.values.get("lost") or row.values.get("twice") or not row.values.get("items")
            ):
                raise ResultsError(f"boots[{i}] passed, but lost items or ran them twice")
    return results


def loads(text: str) -> Results:
    """Results from JSON; ResultsError says what is wrong with it."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ResultsError(f"not JSON: {error}") from None
    if not isinstance(data, dict):
        raise ResultsError("not results: an object is expected")
    schema = data.get("schema", 1 if "scopes" in data and "runs" in data else None)
    if schema is None:
        raise ResultsError('not results: it has no "schema"')
    if schema != SCHEMA:
        raise ResultsError(f"schema {schema}, and only schema {SCHEMA} is read: measure again")
    return check(_load(Results, data, "results"))


def load(path: Path) -> Results:
    """Results from a file; ResultsError names the file."""
    try:
        return loads(path.read_text())
    except OSError as error:
        raise ResultsError(f"{path}: {error.strerror}") from None
    except (ResultsError, UnicodeDecodeError) as error:
        raise ResultsError(f"{path}: {error}") from None


def dumps(results: Results) -> str:
    return json.dumps(asdict(check(results)), indent=1) + "\n"


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is never seen half written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    part.replace(path)


def save(results: Results, path: Path) -> None:
    write_whole(path, dumps(results))


def merge(parts: Iterable[Results]) -> Results:
    """All in one. What is in several of them, as a whole machine or boot may be, is there once."""

    def union(name: str) -> list:
        found: list = []
        for part in merged:
            found += [item for item in getattr(part, name) if item not in found]
        return found

    merged = list(parts)
    machines = {machine.id: machine for part in merged for machine in part.machines}
    kernels: dict[str, Kernel] = {}
    for kernel in union("kernels"):
        if kernels.setdefault(kernel.id, kernel) != kernel:
            raise ResultsError(f'two different kernels have the id "{kernel.id}"')
    return check(
        Results(
            schema=SCHEMA,
            made=union("made"),
            machines=list(machines.values()),
            kernels=list(kernels.values()),
            boots=union("boots"),
            layouts=union("layouts"),
            notes=union("notes"),
        )
    )


# --- where and by what -------------------------------------------------------------------


def short_id(*parts: object) -> str:
    """A name for what is made of these parts."""
    return hashlib.sha256(json.dumps([str(part) for part in parts]).encode()).hexdigest()[:8]


def made(command: str) -> Made:
    """Today, by this command, with the repository as it is."""
    git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(git, capture_output=True, text=True, check=False, timeout=30)
        project = done.stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        project = ""
    return Made(date=date.today().isoformat(), command=command, project=project)


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _topology(cpus: Iterable[int]) -> str:
    sys = Path("/sys/devices/system/cpu")
    sockets, cores, llcs, count = set(), set(), set(), 0
    for cpu in cpus:
        count += 1
        here = sys / f"cpu{cpu}"
        sockets.add(_read(here / "topology/physical_package_id"))
        cores.add(_read(here / "topology/thread_siblings_list") or cpu)
        shared = {
            _read(cache / "level"): _read(cache / "shared_cpu_list")
            for cache in here.glob("cache/index*")
        }
        llcs.add(shared[max(shared)] if shared else None)
    nodes = len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or 1
    return ", ".join(
        [
            _count(len(sockets), "socket"),
            _count(len(cores), "core"),
            _count(count, "CPU"),
            _count(len(llcs), "LLC"),
            _count(nodes, "node"),
        ]
    )


def _cpu_model() -> str:
    """As /proc/cpuinfo names it, or else lscpu, which knows the numbers of Arm's."""
    model = re.search(r"^model name\s*:\s*(.+)$", _read(Path("/proc/cpuinfo")) or "", re.MULTILINE)
    if not model:
        try:
            lscpu = subprocess.run(
                ["lscpu"],
                env=os.environ | {"LC_ALL": "C"},
                capture_output=True,
                text=True,
                check=False,
                timeout=30,
            )
            model = re.search(r"^Model name:\s*(.+)$", lscpu.stdout, re.MULTILINE)
        except (OSError, subprocess.TimeoutExpired):
            pass
    return model[1].strip() if model else platform.machine()


def this_machine(emulation: str | None) -> Machine:
    """The machine that this runs on."""
    memory = re.search(r"^MemTotal:\s*(\d+) kB", _read(Path("/proc/meminfo")) or "", re.MULTILINE)
    cpus = sorted(os.sched_getaffinity(0))
    try:
        system = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        system = platform.system()
    lasting = {
        "cpu_model": _cpu_model(),
        "cpus": len(cpus),
        "memory_mib": int(memory[1]) // 1024 if memory else 0,
        "system": system,
        "topology": _topology(cpus),
        "emulation": emulation,
    }
    return Machine(
        id=short_id(*lasting.values()),
        kernel=platform.release(),
        governor=_read(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        load=round(os.getloadavg()[0], 2),
        **lasting,
    )
