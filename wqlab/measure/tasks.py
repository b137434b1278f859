# SPDX-License-Identifier: GPL-2.0
"""What is measured, by which boots, and what each boot has shown.

Boots are stored one by one, so that a measurement that was interrupted goes on where it was.
"""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from wqlab import results
from wqlab.ground.files import write_whole
from wqlab.ground.places import ROOT
from wqlab.ground.problem import Problem
from wqlab.guests import vm
from wqlab.guests.scenario import Scenario, format_pods, load_scenario
from wqlab.results import Boot, Lock, Machine, ResultsError, Row, Run, Section, Verdict
from wqlab.results.module import MEASURED, rows_of, words

T = TypeVar("T")

LAYOUT = "smt-26x2"
ICOUNT = "icount-1"
COUNTED_BOOTS = 5
LOCK_COLUMNS = {
    "acquisitions": "acquisitions",
    "contentions": "contentions",
    "acq_bounces": "acq-bounces",
    "con_bounces": "con-bounces",
}
LOCK_TIMES = {
    "hold_total_ns": "holdtime-total",
    "hold_max_ns": "holdtime-max",
    "wait_total_ns": "waittime-total",
    "wait_max_ns": "waittime-max",
}

PARTS = ("layout", "icount", "locks", "time", "work", "limit", "nodes", "sizes", "native")
TIMED = PARTS[2:]
NODES = ("nodes-2x*", "nodes-4x*", "nodes-8*")
SECTIONS: dict[str, Section] = {"icount": "icount", "locks": "locks", "sizes": "sizes"}


NATIVE = ("cpu", "system")  # scopes: User Mode Linux has one node and no caches
FLAVOUR = "bench"  # of kernels that are measured, if no other is asked for


@dataclass(frozen=True)
class Built:
    """A kernel to measure, built in one or more flavours."""

    described: results.Kernel
    builds: dict[str, vm.Kernel]  # by flavour

    @property
    def name(self) -> str:
        return self.described.name

    def key(self, flavour: str) -> str:
        """Of all that went into the build."""
        return next(b.key or "" for b in self.described.builds if b.flavour == flavour)


def flavour_of(part: str, flavour: str) -> str:
    """What the kernels of a part are, where `flavour` is to be measured."""
    return {"locks": "lockstat", "native": "native"}.get(part, flavour)


def find_built(name: str, paths: list[Path]) -> Built:
    """A kernel from the directories of its flavours."""
    kernels = [vm.find_kernel(path) for path in paths]
    described = results.kernel_of(name, kernels[0].release, paths)
    flavours = (str(build.flavour) for build in described.builds)
    return Built(described, dict(zip(flavours, kernels, strict=True)))


def largest(cpus: int, names: str) -> list[Scenario]:
    """The largest machine of those names that has no more CPUs than the host, if there is one."""
    fitting = [
        scenario
        for path in (ROOT / "scenarios").glob(f"{names}.toml")
        if (scenario := load_scenario(path)).cpus <= cpus
    ]
    return sorted(fitting, key=lambda scenario: scenario.cpus)[-1:]


def timed_scenario(cpus: int) -> Scenario:
    """The machine for measuring time."""
    if not (found := largest(cpus, "bench-*")):
        raise Problem("time cannot be measured on one CPU: at least two are needed")
    return found[0]


def timed_nodes(cpus: int) -> list[Scenario]:
    """The same with two, four and eight nodes, as far as the host has CPUs for them."""
    return [found for names in NODES for found in largest(cpus, names)]


@dataclass(frozen=True, eq=False)
class Task:
    """One boot to be made."""

    kernel: Built
    part: str
    flavour: str
    scenario: Scenario
    append: str
    runs: list[Run]
    number: int
    size: int | None = None

    @property
    def label(self) -> str:
        size = "" if self.size is None else f", size {self.size}"
        return f"{self.part} {self.kernel.name}{size}, boot {self.number}"

    def key(self, machine: Machine) -> str:
        """The name under which the boot is stored: of all that it depends on."""
        return "-".join(
            [
                self.part,
                self.kernel.name,
                results.short_id(
                    machine.id,
                    self.kernel.key(self.flavour),
                    self.scenario,
                    self.append,
                    *map(words, self.runs),
                ),
                str(self.number),
            ]
        )


def plan(
    kernels: list[Built],
    parts: list[str],
    *,
    boots: int,
    items: int,
    sizes: list[int],
    cpus: int,
    flavour: str = FLAVOUR,
) -> list[Task]:
    """The boots in the order in which they are made: the first one of everything comes first."""
    icount = load_scenario(ROOT / f"scenarios/{ICOUNT}.toml")
    # The first items after boot cost more than later ones, and have workers created.
    few = max(items // 20, 1)
    all_scopes: Run = {"scopes": list(MEASURED), "warmup": few}
    counted: list[Run] = [
        {"mode": "serial", "threads": 1, "scopes": ["cache"], "items": number, "warmup": few}
        for number in (few, few * 50)
    ]
    tasks: list[Task] = []

    def add(
        part: str,
        scenario: Scenario,
        runs: list[Run],
        number: int,
        size: int | None = None,
    ) -> None:
        of = flavour_of(part, flavour)
        # Who goes first changes from boot to boot.
        turn = (number - 1) % len(kernels)
        for kernel in kernels[turn:] + kernels[:turn]:
            if (size is not None and kernel.name == "stock") or of not in kernel.builds:
                continue
            append = scenario.append if size is None else f"workqueue.cache_shard_size={size}"
            bare = replace(scenario, append="")
            tasks.append(Task(kernel, part, of, bare, append, runs, number, size))

    if "layout" in parts:
        add("layout", load_scenario(ROOT / f"scenarios/{LAYOUT}.toml"), [], 1)
    for number in range(1, boots + 1):
        if "icount" in parts and number <= COUNTED_BOOTS:
            add("icount", icount, counted, number)
        if not set(TIMED) & set(parts):
            continue
        timed = timed_scenario(cpus)
        if "locks" in parts:
            # lock statistics are slow, and counts need no more
            locked: list[Run] = [
                {"mode": "serial", "scopes": [scope], "items": max(items // 4, 1), "warmup": 0}
                for scope in MEASURED
            ]
            add("locks", timed, locked, number)
        if "time" in parts:
            runs: list[Run] = [
                {"mode": mode, **all_scopes, "items": count, **more}
                for mode, count, more in (
                    ("serial", items, {}),
                    ("burst", items, {}),
                    ("fanout", items * timed.cpus, {}),
                    ("sleep", few, {"max_active": 16}),
                    ("chain", items, {}),
                )
            ]
            add("time", timed, runs, number)
        if "work" in parts:
            runs = [
                {"mode": mode, **all_scopes, "items": count, "work_ns": 1000}
                for mode, count in (("burst", items), ("fanout", items * timed.cpus))
            ]
            add("work", timed, runs, number)
        # more in flight than may be active, so that each one that finishes lets another start
        window = 32
        bursts: Run = {"mode": "burst", **all_scopes, "items": items, "window": window}
        if "limit" in parts:
            add("limit", timed, [{**bursts, "max_active": 2}], number)
        if "nodes" in parts:
            for nodes in timed_nodes(cpus):
                for limit in sorted({2, 8, nodes.cpus, max(256, window * nodes.cpus)}):
                    add("nodes", nodes, [{**bursts, "max_active": limit}], number)
        if "native" in parts:
            # for a time, as in some cases it can't be told how many items there is time for
            own: Run = {"scopes": list(NATIVE), "secs": 1, "warmup": max(few // 10, 1)}
            runs = [
                {"mode": mode, **own, **more}
                for mode, more in (
                    ("serial", {}),
                    ("burst", {}),
                    ("burst", {"work_ns": 1000}),
                    ("fanout", {"work_ns": 1000}),
                    ("chain", {}),
                    ("burst", {"window": window, "max_active": 2}),
                )
            ]
            add("native", timed, runs, number)
        for size in sizes if "sizes" in parts else []:
            runs = [
                {"mode": mode, "scopes": ["cache_shard"], "warmup": few, "items": items}
                for mode in ("serial", "burst")
            ]
            add("sizes", timed, runs, number, size)
    return tasks


# --- what the guest has said -------------------------------------------------------------


def parse_lock_stat(lines: list[str]) -> dict[str, Lock]:
    """The classes in lines of /proc/lock_stat, the header among them; times are in us there."""
    columns: list[str] = []
    classes: dict[str, Lock] = {}
    for line in lines:
        if line.split()[:2] == ["class", "name"]:
            columns = line.split()[2:]
            continue
        # Below each class are places in the code, of which the kernel says less.
        match = re.fullmatch(r"\s*(\S.*?):((?:\s+[\d.]+)+)\s*", line)
        if not match or not columns:
            continue
        numbers = dict(zip(columns, match[2].split(), strict=False))
        try:
            classes[match[1]] = Lock(
                **{key: int(numbers[column]) for key, column in LOCK_COLUMNS.items()},
                **{key: round(float(numbers[column]) * 1000) for key, column in LOCK_TIMES.items()},
            )
        except (KeyError, ValueError):
            raise ResultsError(f"not a line of /proc/lock_stat: {line.strip()}") from None
    return classes


def parse_runs(lines: list[str]) -> Iterator[tuple[str, list[str], dict[str, Lock] | None]]:
    """What guest/jobs/bench has printed: of each run its parameters, lines and locks."""
    runs: list[tuple[str, list[str], list[str]]] = []
    for line in lines:
        if line.startswith("> "):
            runs.append((line[2:], [], []))
        elif not runs:
            continue
        elif line.startswith("lock "):
            runs[-1][2].append(line[5:])
        else:
            runs[-1][1].append(line)
    for text, said, locks in runs:
        yield text, said, parse_lock_stat(locks) if locks else None


def rows_of_boot(lines: list[str], runs: list[Run], flavour: str) -> list[Row]:
    """The rows of a boot; ResultsError if any is missing, or an item was lost or ran twice."""
    found = list(parse_runs(lines))
    if [text for text, *_ in found] != [words(run) for run in runs]:
        raise ResultsError(f"{len(found)} of {len(runs)} runs of test_workqueue were seen")
    all_rows: list[Row] = []
    for run, (_, said, locks) in zip(runs, found, strict=True):
        for row in rows_of(run, said):
            if flavour == "lockstat" and not row.missing:
                if not any(name.partition("/")[0] == results.POOL_LOCK for name in locks or {}):
                    raise ResultsError(f"scope {row.scope}: nothing about {results.POOL_LOCK}")
                row = replace(row, locks=locks)
            all_rows.append(row)
    if all(row.missing for row in all_rows):
        raise ResultsError("the kernel has none of the scopes")
    return all_rows


# --- making the boots --------------------------------------------------------------------


def make_boot(task: Task, machine: Machine, out: Path) -> Boot:
    """Make one boot and read it."""
    record = vm.boot(
        task.kernel.builds[task.flavour],
        task.scenario,
        "bench",
        out,
        append=task.append,
        commands="".join(f"{words(run)}\n" for run in task.runs),
    )
    verdict, reason, rows = cast(Verdict, record.verdict), record.reason, list[Row]()
    if verdict == "pass":
        try:
            rows = rows_of_boot(record.lines, task.runs, task.flavour)
        except ResultsError as error:
            verdict, reason = "fail", str(error)
    return Boot(
        machine=machine.id,
        kernel=task.kernel.described.id,
        section=SECTIONS.get(task.part, "time"),
        flavour=task.flavour,
        scenario=task.scenario.name,
        append=task.append,
        runs=task.runs,
        number=task.number,
        seconds=record.seconds,
        verdict=verdict,
        reason=reason,
        qemu=results.qemu_line(record.command),
        rows=rows,
        size=task.size,
    )


@dataclass(frozen=True)
class Look:
    """A boot to look at the pods of a large machine."""

    seconds: float
    reason: str  # "" if there is a layout
    layout: results.Layout | None

    @property
    def passed(self) -> bool:
        return self.layout is not None

    @property
    def why(self) -> str:
        return self.reason


def make_look(task: Task, out: Path) -> Look:
    kernel = task.kernel.builds[task.flavour]
    record = vm.boot(
        kernel,
        task.scenario,
        "pods",
        out,
        append=task.append,
        wq_dump=kernel.path / "wq_dump.py",
    )
    if record.verdict != "pass" or not record.dump:
        return Look(record.seconds, f"{record.verdict}: {record.reason}", None)
    pods = {scope: format_pods(pods) for scope, pods in record.dump.pods.items()}
    layout = results.Layout(task.kernel.described.id, task.scenario.name, record.dump.default, pods)
    return Look(record.seconds, "", layout)


@dataclass(frozen=True)
class Store:
    """Boots that passed, one file each; those that did not are made again."""

    path: Path

    def get(self, name: str, kind: type[T]) -> T | None:
        file = self.path / f"{name}.json"
        try:
            return results.from_json(kind, file.read_text())
        except OSError:
            return None
        except ResultsError:  # of an older form
            file.unlink()
            return None

    def put(self, name: str, boot: Any) -> None:
        write_whole(self.path / f"{name}.json", json.dumps(asdict(boot)) + "\n")


def kept_for(task: Task, kept: Boot | Look) -> Boot | Look:
    """Of the kernel as it is called now; that depends on all configurations it is built in."""
    name = task.kernel.described.id
    if isinstance(kept, Boot):
        return replace(kept, kernel=name)
    assert kept.layout  # a boot that has none is not kept
    return replace(kept, layout=replace(kept.layout, kernel=name))


def host_cpus() -> int:
    return len(os.sched_getaffinity(0))
