# SPDX-License-Identifier: GPL-2.0
"""Results of measurements: the one format of all files that measured figures are in.

The dataclasses from Made to Results are the format. Their comments are its documentation, also
in schema.json, which tests/proof/results_schema.py makes of them. Only what was measured is in
a file: medians, intervals and whatever else is said of figures are worked out when it is read.
"""

import hashlib
import json
import os
import platform
import re
import shlex
import types
import typing
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from wqlab.ground.files import write_whole
from wqlab.ground.places import INSTALLED, ROOT
from wqlab.ground.problem import Problem
from wqlab.ground.run import Done, run
from wqlab.ground.text import plural

SCHEMA = 3
WIDTH = 100  # of the lines of a file
POOL_LOCK = "&pool->lock"
OTHER = "other"  # reasons for waking up a worker that are not the workqueue's

Value = int | str | list[str]
# parameters of test_workqueue, results/module.py has what insmod takes; or of a load of loads/
Run = dict[str, Value]
Number = int | float

Section = Literal[
    "time",
    "locks",
    "icount",
    "loads",
    "sizes",
    "local",
    "costs",
    "hotplug",
    "irqsoff",
    "peaks",
    "reclaim",
    "wakeups",
    "setup",
    "sim",
]
Verdict = Literal["pass", "fail", "lost"]


class ResultsError(Problem):
    """One line about a file or a log that can't be used."""


@dataclass(frozen=True)
class Made:
    """What made the file."""

    date: str  # YYYY-MM-DD
    command: str
    # of this repository, with "-dirty" where it had changes; null where that is not known
    commit: str | None


@dataclass(frozen=True)
class Machine:
    """A machine that was measured on. null is what is not known."""

    # made of all below but kernel, microcode, governor and load: the same machine has it elsewhere
    id: str
    cpu_model: str  # of the host, where the measured kernel ran under emulation
    cpus: int  # that could be used
    memory_mib: int | None
    system: str | None  # the distribution
    kernel: str | None  # release; the host's, where the measured one ran under emulation
    microcode: str | None  # its revision, as /proc/cpuinfo has it
    governor: str | None  # of CPU frequency
    load: float | None  # average of the last minute, when measuring began
    topology: str | None  # "1 socket, 2 cores, 2 CPUs, 1 LLC, 1 node"
    emulation: str | None  # "QEMU 7.2.22 tcg,thread=multi, 2 vCPUs"; null is bare metal


@dataclass(frozen=True)
class Build:
    """A kernel in one flavour. null is what is not known."""

    flavour: str | None  # of configs/flavours.toml; null where it was not built here
    key: str | None  # of all that went into it
    compiler: str | None
    config_sha256: str | None  # of its .config


@dataclass(frozen=True)
class Kernel:
    """A source that was measured."""

    id: str  # unique in the file: the name, and a part of the keys of its builds
    # stock is the base without the series, patched with it; of a kernel that was found running
    # it is the release
    name: str
    release: str  # as uname -r says
    base: str | None  # of bases/; null where it was not built here, or is not known
    patches: int | None  # how many of patches/BASE it has; null where that is not known
    builds: list[Build] = field(default_factory=list)  # one for each flavour that is known


@dataclass(frozen=True)
class Lock:
    """What /proc/lock_stat says of one class of locks, in steps of 10 ns."""

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
    """One run of test_workqueue in one scope: a line that it has logged."""

    scope: str
    mode: str  # "" if missing
    missing: bool = False  # the kernel does not have the scope, and nothing else is in the row
    values: dict[str, int] = field(default_factory=dict)  # see lib/test_workqueue.c
    locks: dict[str, Lock] | None = None  # by class, of this run alone, as &pool->lock/1


@dataclass(frozen=True)
class Contention:
    """A place where a lock was waited for, as perf lock contention reports it."""

    caller: str
    contended: int
    wait_total_ns: int


@dataclass(frozen=True)
class Perf:
    """What perf saw while test_workqueue or a load ran."""

    slowpath_percent: float | None  # of cycles, in native_queued_spin_lock_slowpath
    contention: list[Contention] | None
    why_not: str  # one line about what is null, "" if nothing is


@dataclass(frozen=True)
class Count:
    """Something that was counted."""

    # of what: {"load": "serial", "reason": "item queued"}, {"max_active": 8, "scope": "cpu"}
    labels: dict[str, str | int]
    figures: dict[str, Number]  # by name; FIGURES in wqlab/results says what they are
    run: Run | None = None  # during which; null where there was none, or it is not known


@dataclass(frozen=True)
class Boot:
    """One boot of one kernel. Without a scenario it is one load of the module, in section setup
    one run of a KUnit case, in section loads one run of a load."""

    machine: str  # id
    kernel: str  # id
    section: Section
    flavour: str | None  # which of the kernel's builds; null where that is not known
    scenario: str | None  # of scenarios/; null without one
    append: str | None  # boot parameters beyond those that every boot has; null if not known
    runs: list[Run]  # parameters of test_workqueue, of each load of it; or of a load of loads/
    # from 1, within what is otherwise the same; boots of several kernels with the same number
    # were made one after the other
    number: int
    seconds: float | None
    # fail: the guest said so, or items were lost or ran twice; lost: it died, or said nothing in
    # time. Only boots that passed count
    verdict: Verdict
    reason: str  # one line, "" if passed
    qemu: str | None = None  # its command line without directories; null without it, or if unknown
    rows: list[Row] = field(default_factory=list)  # of a boot that passed
    counts: list[Count] = field(default_factory=list)  # of a boot that passed
    size: int | None = None  # in section sizes: workqueue.cache_shard_size
    perf: Perf | None = None  # in sections local and loads

    @property
    def passed(self) -> bool:
        return self.verdict == "pass"

    @property
    def why(self) -> str:
        """Why it does not count."""
        return f"{self.verdict}: {self.reason}"

    def by_run(self) -> Iterator[tuple[Run, Row]]:
        """The rows, each with the run that it is of."""
        rows = iter(self.rows)
        for asked in self.runs:
            scopes = asked.get("scopes")
            count = len(scopes) if isinstance(scopes, list) else len(self.rows)
            yield from ((asked, row) for row in islice(rows, count))


@dataclass(frozen=True)
class Layout:
    """The pods of each scope on a large machine, read from the memory of the guest."""

    kernel: str  # id
    scenario: str
    default: str  # scope
    pods: dict[str, list[str]]  # by scope: cpulists


@dataclass(frozen=True)
class Results:
    """Results of the unbound workqueue benchmark."""

    schema: int
    made: list[Made]  # one for each file that was merged into this one
    machines: list[Machine]
    kernels: list[Kernel]
    boots: list[Boot]
    layouts: list[Layout] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # such as what was not measured

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


# --- what rows and counts say ---------------------------------------------------------------------


@dataclass(frozen=True)
class Metric:
    """A figure of a row or a count; docs/measuring.md says how it is made."""

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
        Metric("switches_per_item", "context switches", "per item", "lower"),
        Metric("cpu_ns_per_item", "CPU time", "ns per item", "lower"),
        Metric("lock_acquisitions", "acquisitions of pool->lock", "per item", "lower"),
        Metric("lock_contentions", "contentions of pool->lock", "per item", "lower"),
        Metric("lock_hold_ns", "pool->lock held", "ns per item", "lower"),
        Metric("lock_wait_ns", "pool->lock waited for", "ns per item", "lower"),
        Metric("instructions", "round trip", "instructions", "lower"),
    )
}
# Of counts, by name
FIGURES = {
    metric.key: metric
    for metric in (
        Metric("switches_per_item", "context switches", "per item", "lower"),
        Metric("instructions_per_call", "instructions", "", "lower"),
        Metric("irqs_off_us", "longest time with interrupts off", "us", "lower"),
        Metric("rescued_per_sec", "items/s of a rescuer without workers", "", "higher"),
        Metric("instructions_per_item", "instructions of all CPUs", "per item", "lower"),
        Metric("steady_items_per_sec", "throughput of the middle half", "items/s", "higher"),
        Metric("moves_per_item", "cache lines that move between CPUs", "per item", "lower"),
        Metric("moves_wait_ns", "waited for them", "ns per item", "lower"),
        Metric("taken_per_item", "locks taken", "per item", "lower"),
        Metric("contended_per_item", "locks taken that were waited for", "per item", "lower"),
        Metric("lock_wait_ns", "locks waited for", "ns per item", "lower"),
        Metric("lock_hold_ns", "locks held", "ns per item", "lower"),
        Metric("items", "work items executed", "", ""),
        Metric("wakeups", "workers woken up", "", "lower"),
        Metric("locked", "workers woken up with a pool->lock held", "", "lower"),
        Metric("wanted", "min(max_active, items)", "items", ""),
        Metric("peak", "running at once", "items", ""),
        Metric("limit", "max_active", "items", ""),
        Metric("traced", "work items executed while traced", "", ""),
        Metric("read_mib", "read", "MiB/s", "higher"),
        Metric("write_mib", "written", "MiB/s", "higher"),
        Metric("cpu_percent", "CPU use", "%", ""),
        Metric("switches_per_io", "context switches", "per I/O", "lower"),
        Metric("kworkers", "kworkers of unbound workqueues at most", "", ""),
        Metric(
            "layout_ns",
            "shards of 4096 CPUs (2048 cores, 16 LLCs, 2 nodes, 256 shards) laid out",
            "ns",
            "lower",
        ),
        Metric("fill_ns", "their masks allocated and filled in", "ns", "lower"),
        Metric("pairs_ns", "all pairs of CPUs compared once, as it was done before", "ns", "lower"),
    )
}
_PER_ITEM = {"switches_per_item": ("switches", 1), "cpu_ns_per_item": ("cpu_us", 1000)}
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
    if metric in _PER_ITEM:
        key, unit = _PER_ITEM[metric]
        used = row.values.get(key)
        return None if used is None else used * unit / max(row.values["items"], 1)
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
        known = [figure for figure in figures if figure is not None]
        if known:
            found.append(sum(known) / len(known))
    return found


def counted(boots: Iterable[Boot], labels: dict[str, str | int], figure: str) -> list[float]:
    """The figure of the count with just these labels, one for each boot that has it."""
    return [
        count.figures[figure]
        for boot in boots
        for count in boot.counts
        if count.labels == labels and figure in count.figures
    ]


def wakeups_per_item(boot: Boot, load: str) -> float | None:
    """How often the workqueue woke up a worker, for each item of this load."""
    items = counted([boot], {"load": load}, "items")
    if not items or not items[0]:
        return None
    woken = sum(
        count.figures["wakeups"]
        for count in boot.counts
        if count.labels.get("load") == load and count.labels.get("reason", OTHER) != OTHER
    )
    return woken / items[0]


# --- the file ----------------------------------------------------------------------------


def _load(kind: Any, data: Any, where: str) -> Any:
    """Data from JSON as what a field is declared to be, or ResultsError."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if is_dataclass(kind) and isinstance(kind, type):
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
        if data is None and types.NoneType in args:
            return None
        kinds = [arg for arg in args if arg is not types.NoneType]
        same = (kind for kind in kinds if type(data) is (typing.get_origin(kind) or kind))
        return _load(next(same, kinds[0]), data, where)
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
        flavours = [build.flavour for build in results.kernel(boot.kernel).builds]
        if boot.flavour is not None and boot.flavour not in flavours:
            raise ResultsError(f'boots[{i}] is of flavour "{boot.flavour}", which is not described')
        if not boot.passed:
            for what in ("rows", "counts"):
                if getattr(boot, what):
                    raise ResultsError(f"boots[{i}] did not pass, but has {what}")
        told_apart = {tuple(sorted(count.labels.items())) for count in boot.counts}
        if len(told_apart) != len(boot.counts):
            raise ResultsError(f"boots[{i}] has two counts of the same labels")
        for count in boot.counts:
            if unknown := set(count.figures) - set(FIGURES):
                raise ResultsError(f'boots[{i}] counts "{min(unknown)}", which is not known')
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
    return to_text(asdict(check(results))) + "\n"


def to_text(data: Any, indent: str = "") -> str:
    """JSON, in lines that can be read and compared: what is short is on one."""
    line = json.dumps(data, ensure_ascii=False)
    if len(indent) + len(line) <= WIDTH or not isinstance(data, dict | list):
        return line
    deeper = indent + " "
    if isinstance(data, dict):
        parts = [
            f"{json.dumps(key, ensure_ascii=False)}: {to_text(value, deeper)}"
            for key, value in data.items()
        ]
    else:
        parts = [to_text(value, deeper) for value in data]
    start, end = "{}" if isinstance(data, dict) else "[]"
    return f"{start}\n{deeper}" + f",\n{deeper}".join(parts) + f"\n{indent}{end}"


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


def _said(*command: str) -> str:
    """The output of a program, "" where it fails or is not there."""
    try:
        done = run(command, limit=30, env=os.environ | {"LC_ALL": "C"}, stderr=False)
    except Problem:
        done = Done(1, "")
    return "" if done.status else done.output.strip()


def made(command: str) -> Made:
    """Today, by this command, with the repository as it is."""
    about = ("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    commit = "" if INSTALLED else _said("git", "-C", str(ROOT), *about)
    return Made(date=date.today().isoformat(), command=command, commit=commit or None)


def kernel_of(name: str, release: str, paths: Iterable[Path]) -> Kernel:
    """A kernel from the build.json of its flavours' directories, of the same source all."""
    builds, sources = [], set()
    for path in paths:
        try:
            data = json.loads((path / "build.json").read_text())
            builds.append(Build(*(data[entry.name] for entry in fields(Build))))
            sources.add((data["base"], data["version"], data["patches"]))
        except (OSError, ValueError, KeyError, TypeError):
            raise Problem(f"{path} is not from wqlab build: it has no build.json of it") from None
    if len(sources) != 1:
        raise Problem(f"the kernels {name} are not of one source: build them from the same one")
    flavours = [build.flavour for build in builds]
    if len(set(flavours)) != len(flavours):
        raise Problem(f"two kernels {name} are of the same flavour: give each flavour once")
    base, _, patches = sources.pop()
    key = short_id(*sorted(str(build.key) for build in builds))
    return Kernel(f"{name}-{key}", name, release, base, patches, builds)


def qemu_line(command: Iterable[str]) -> str:
    """The command as one line, of each path its last part."""
    path = re.compile(r"(?<![^:=,])/[^,]*/")
    return shlex.join(
        word if " " in word and "=" in word else path.sub("", word) for word in command
    )


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def _lscpu(*options: str) -> Any:
    """What lscpu says; an empty object where there is none."""
    try:
        return json.loads(_said("lscpu", "-J", *options))
    except ValueError:
        return {}


def _field(entries: list[dict[str, Any]], name: str) -> str | None:
    """A field of lscpu, which newer ones keep among the children of another."""
    for entry in entries:
        if entry["field"] == name:
            return entry["data"]
        if found := _field(entry.get("children", []), name):
            return found
    return None


def topology(entries: list[dict[str, Any]], cpus: Iterable[int]) -> str | None:
    """As "1 socket, 2 cores, 2 CPUs, 1 LLC, 1 node", of these CPUs among those of lscpu -e."""
    used = set(cpus)
    mine = [entry for entry in entries if entry["cpu"] in used]
    if not mine:
        return None
    caches = next((key for key in mine[0] if ":" in key), "")  # as "l1d:l1i:l2:l3"
    number = {
        "socket": len({entry.get("socket") for entry in mine}),
        "core": len({(entry.get("socket"), entry.get("core")) for entry in mine}),
        "CPU": len(mine),
        "LLC": len({str(entry.get(caches)).rpartition(":")[2] for entry in mine}),
        "node": len({entry.get("node") for entry in mine}),
    }
    return ", ".join(plural(count, what) for what, count in number.items())


def this_machine(emulation: str | None) -> Machine:
    """The machine that this runs on."""
    memory = re.search(r"^MemTotal:\s*(\d+) kB", _read("/proc/meminfo") or "", re.MULTILINE)
    microcode = re.search(r"^microcode\s*:\s*(\S+)", _read("/proc/cpuinfo") or "", re.MULTILINE)
    cpus = os.sched_getaffinity(0)
    try:
        system = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        system = platform.system()
    model = _field(_lscpu().get("lscpu", []), "Model name:")
    lasting: dict[str, Any] = {
        "cpu_model": model or platform.machine(),
        "cpus": len(cpus),
        "memory_mib": int(memory[1]) // 1024 if memory else None,
        "system": system,
        "topology": topology(_lscpu("-e=cpu,core,socket,node,cache").get("cpus", []), cpus),
        "emulation": emulation,
    }
    return Machine(
        id=short_id(*lasting.values()),
        kernel=platform.release(),
        microcode=microcode[1] if microcode else None,
        governor=_read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        load=round(os.getloadavg()[0], 2),
        **lasting,
    )
