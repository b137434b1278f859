# SPDX-License-Identifier: GPL-2.0
"""What is measured, by which boots, and what each boot has shown.

Boots are stored one by one, so that a measurement that was interrupted goes on where it was.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import wqboot
import wqresults
from wqboot import ROOT
from wqresults import Boot, Lock, Machine, ResultsError, Row
from wqtopology import Scenario, format_pods, load_scenario

SCOPES = "cpu,smt,cache_shard,cache,numa,system"
LAYOUT = "smt-26x2"
ICOUNT = "icount-1"
NODES = "nodes-2x1"
COUNTED_BOOTS = 5
# KUnit suites in the kernel would run at boot.
APPEND = "kunit.enable=0"
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

Part = Literal["layout", "time", "work", "limit", "nodes", "locks", "icount", "sizes"]
PARTS: tuple[Part, ...] = (
    "layout",
    "icount",
    "locks",
    "time",
    "work",
    "limit",
    "nodes",
    "sizes",
)
TIMED: tuple[Part, ...] = ("locks", "time", "work", "limit", "nodes", "sizes")


@dataclass(frozen=True)
class Built:
    """A kernel to measure, built in one or more configurations."""

    name: str
    base: str
    patches: int | None
    builds: dict[str, wqboot.Kernel]  # by configuration
    keys: dict[str, str]

    def described(self) -> wqresults.Kernel:
        key = wqresults.short_id(*sorted(self.keys.items()))
        release = next(iter(self.builds.values())).release
        return wqresults.Kernel(
            f"{self.name}-{key}", self.name, release, self.base, self.patches, self.keys
        )


def find_builds(words: list[str]) -> list[Built]:
    """Kernels from NAME=DIR words, where several of a name are its configurations."""
    found: dict[str, Built] = {}
    for word in words:
        name, equals, path = word.rpartition("=")
        kernel = wqboot.find_kernel(Path(path))
        name = name if equals else "patched"
        try:
            made = json.loads((kernel.path / "build.json").read_text())
            key, config = str(made["key"]), str(made["config"]).split(",")[-1]
            base, patches = str(made["base"]), made["patches"]
        except (OSError, ValueError, KeyError):
            raise wqboot.BootError(f"{path} is not from scripts/build: no build.json") from None
        if not any(module.name == "test_workqueue.ko" for module in kernel.modules):
            raise wqboot.BootError(f"{path} has no test_workqueue.ko: build it with --module")
        built = found.setdefault(name, Built(name, base, patches, {}, {}))
        if config in built.builds:
            raise wqboot.BootError(f"two kernels {name} of configuration {config}")
        if (base, patches) != (built.base, built.patches):
            raise wqboot.BootError(f"the kernels {name} are not of the same source")
        built.builds[config] = kernel
        built.keys[config] = key
    return list(found.values())


def timed_scenario(cpus: int) -> Scenario:
    """The largest machine for measuring time that has no more CPUs than the host."""
    fitting = [
        scenario
        for path in (ROOT / "scenarios").glob("bench-*.toml")
        if (scenario := load_scenario(path)).cpus <= cpus
    ]
    if not fitting:
        raise wqboot.BootError("time can't be measured on one CPU: two are needed at least")
    return max(fitting, key=lambda scenario: scenario.cpus)


@dataclass(frozen=True, eq=False)
class Task:
    """One boot to be made."""

    kernel: Built
    part: Part
    config: str
    scenario: Scenario
    append: str
    runs: tuple[str, ...]
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
                wqresults.short_id(
                    machine.id,
                    self.kernel.keys[self.config],
                    self.scenario,
                    self.append,
                    *self.runs,
                ),
                str(self.number),
            ]
        )


def plan(
    kernels: list[Built],
    parts: list[Part],
    *,
    boots: int,
    items: int,
    sizes: list[int],
    cpus: int,
) -> list[Task]:
    """The boots in the order in which they are made: the first one of everything comes first."""
    icount = load_scenario(ROOT / f"scenarios/{ICOUNT}.toml")
    # The first items after boot cost more than later ones, and have workers created.
    few = max(items // 20, 1)
    warmup = f"warmup={few}"
    counted = [
        f"mode=serial threads=1 scopes=cache items={number} {warmup}" for number in (few, few * 50)
    ]
    tasks: list[Task] = []

    def add(
        part: Part, config: str, scenario: Scenario, runs: list[str], number: int, size=None
    ) -> None:
        # Who goes first changes from boot to boot.
        turn = (number - 1) % len(kernels)
        for kernel in kernels[turn:] + kernels[:turn]:
            if config not in kernel.builds or (size is not None and kernel.name == "stock"):
                continue
            append = scenario.append
            if size is not None:
                append = f"workqueue.cache_shard_size={size}"
            append = " ".join(word for word in (append, APPEND) if word)
            bare = replace(scenario, append="")
            tasks.append(Task(kernel, part, config, bare, append, tuple(runs), number, size))

    if "layout" in parts:
        add("layout", "bench", load_scenario(ROOT / f"scenarios/{LAYOUT}.toml"), [], 1)
    for number in range(1, boots + 1):
        if "icount" in parts and number <= COUNTED_BOOTS:
            add("icount", "bench", icount, counted, number)
        if not set(TIMED) & set(parts):
            continue
        timed = timed_scenario(cpus)
        if "locks" in parts:
            # lock statistics are slow, and counts need no more
            runs = [
                f"mode=serial scopes={scope} items={max(items // 4, 1)}"
                for scope in SCOPES.split(",")
            ]
            add("locks", "lockstat", timed, runs, number)
        if "time" in parts:
            runs = [
                f"mode={mode} scopes={SCOPES} {warmup} items={number}"
                for mode, number in (
                    ("serial", items),
                    ("burst", items),
                    ("fanout", items * timed.cpus),
                    ("sleep max_active=16", few),
                    ("chain", items),
                )
            ]
            add("time", "bench", timed, runs, number)
        if "work" in parts:
            runs = [
                f"mode={mode} scopes={SCOPES} {warmup} items={number} work_ns=1000"
                for mode, number in (("burst", items), ("fanout", items * timed.cpus))
            ]
            add("work", "bench", timed, runs, number)
        if "limit" in parts:
            runs = [f"mode=burst scopes={SCOPES} {warmup} items={items} max_active=2"]
            add("limit", "bench", timed, runs, number)
        for limit in (2, 8, 256) if "nodes" in parts else ():
            nodes = load_scenario(ROOT / f"scenarios/{NODES}.toml")
            runs = [f"mode=burst scopes={SCOPES} {warmup} items={items} max_active={limit}"]
            add("nodes", "bench", nodes, runs, number)
        for size in sizes if "sizes" in parts else []:
            runs = [
                f"mode={mode} scopes=cache_shard {warmup} items={items}"
                for mode in ("serial", "burst")
            ]
            add("sizes", "bench", timed, runs, number, size)
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


def parse_runs(lines: list[str]) -> Iterator[tuple[str, list[Row], dict[str, Lock] | None]]:
    """What guest/jobs/bench has printed: of each run its parameters, rows and locks."""
    runs: list[tuple[str, list[Row], list[str]]] = []
    for line in lines:
        if line.startswith("> "):
            runs.append((line[2:], [], []))
        elif not runs:
            continue
        elif line.startswith("lock "):
            runs[-1][2].append(line[5:])
        elif row := wqresults.parse_row(line):
            runs[-1][1].append(row)
    for words, rows, locks in runs:
        yield words, rows, parse_lock_stat(locks) if locks else None


def rows_of(lines: list[str], runs: tuple[str, ...], config: str) -> list[Row]:
    """The rows of a boot; ResultsError if any is missing, or an item was lost or ran twice."""
    found = list(parse_runs(lines))
    if [words for words, *_ in found] != list(runs):
        raise ResultsError(f"{len(found)} of {len(runs)} runs of test_workqueue were seen")
    all_rows: list[Row] = []
    for words, rows, locks in found:
        given = dict(word.split("=") for word in words.split())
        if [row.scope for row in rows] != sorted_scopes(given["scopes"]):
            raise ResultsError(f"not one row for each scope of: {words}")
        for row in rows:
            if row.missing:
                all_rows.append(row)
                continue
            where = f"scope {row.scope}, mode {row.mode}"
            for what in ("lost", "twice"):
                if row.values[what]:
                    raise ResultsError(f"{where}: {row.values[what]} items {what}")
            if row.mode != given["mode"]:
                raise ResultsError(f"{where}: not the mode of: {words}")
            if row.values["items"] != row.values.get("threads", 0) * int(given["items"]):
                raise ResultsError(f"{where}: {row.values['items']} items ran, not all")
            if row.values["items_per_sec"] < 1:
                raise ResultsError(f"{where}: no items per second")
            if config == "lockstat" and not any(
                name.partition("/")[0] == wqresults.POOL_LOCK for name in locks or {}
            ):
                raise ResultsError(f"{where}: nothing about {wqresults.POOL_LOCK}")
            all_rows.append(replace(row, locks=locks) if config == "lockstat" else row)
    if all(row.missing for row in all_rows):
        raise ResultsError("the kernel has none of the scopes")
    return all_rows


def sorted_scopes(scopes: str) -> list[str]:
    """In the order in which test_workqueue takes them."""
    order = ["cpu", "smt", "cache_shard", "cache", "numa", "system", "default"]
    return sorted(scopes.split(","), key=order.index)


# --- making the boots --------------------------------------------------------------------


def qemu_version(kernel: wqboot.Kernel) -> str:
    """As "QEMU 7.2.22"."""
    if not shutil.which(kernel.arch.qemu):
        raise wqboot.BootError(f"no {kernel.arch.qemu}: install qemu-system")
    done = subprocess.run(
        [kernel.arch.qemu, "--version"], capture_output=True, text=True, check=False, timeout=30
    )
    match = re.search(r"version (\d[\d.]*)", done.stdout)
    return f"QEMU {match[1] if match else 'of unknown version'}"


def machine_of(task: Task, qemu: str) -> Machine:
    """The host, and the virtual machine that the kernel sees."""
    accel = wqboot.choose_accel(task.kernel.builds[task.config], task.scenario)
    count = task.scenario.cpus
    shift = "" if task.scenario.icount is None else f", icount shift={task.scenario.icount}"
    cpus = f"{count} vCPU{'' if count == 1 else 's'}"
    return wqresults.this_machine(f"{qemu} {accel}{shift}, {cpus}")


def make_boot(task: Task, machine: Machine, out: Path) -> Boot:
    """Make one boot and read it."""
    record = wqboot.boot(
        task.kernel.builds[task.config],
        task.scenario,
        "bench",
        out,
        append=task.append,
        commands="".join(f"{run}\n" for run in task.runs),
    )
    verdict, reason, rows = record.verdict, record.reason, []
    if verdict == "pass":
        try:
            rows = rows_of(record.lines, task.runs, task.config)
        except ResultsError as error:
            verdict, reason = "fail", str(error)
    return Boot(
        machine=machine.id,
        kernel=task.kernel.described().id,
        section="time" if task.part in ("work", "limit", "nodes") else task.part,
        config=task.config,
        scenario=task.scenario.name,
        append=task.append,
        runs=list(task.runs),
        number=task.number,
        seconds=record.seconds,
        verdict=verdict,
        reason=reason,
        rows=rows,
        size=task.size,
    )


@dataclass(frozen=True)
class Look:
    """A boot to look at the pods of a large machine."""

    seconds: float
    reason: str  # "" if there is a layout
    layout: wqresults.Layout | None

    @property
    def passed(self) -> bool:
        return self.layout is not None

    @property
    def why(self) -> str:
        return self.reason


def make_look(task: Task, out: Path) -> Look:
    kernel = task.kernel.builds[task.config]
    record = wqboot.boot(
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
    layout = wqresults.Layout(
        task.kernel.described().id, task.scenario.name, record.dump.default, pods
    )
    return Look(record.seconds, "", layout)


@dataclass(frozen=True)
class Store:
    """Boots that passed, one file each; those that did not are made again."""

    path: Path

    def get(self, name: str, kind: type) -> Boot | Look | None:
        file = self.path / f"{name}.json"
        try:
            return wqresults.from_json(kind, file.read_text())
        except OSError:
            return None
        except ResultsError:  # of an older form
            file.unlink()
            return None

    def put(self, name: str, boot: Boot | Look) -> None:
        wqresults.write_whole(self.path / f"{name}.json", json.dumps(asdict(boot)) + "\n")


def kept_for(task: Task, kept: Boot | Look) -> Boot | Look:
    """Of the kernel as it is called now; that depends on all configurations it is built in."""
    name = task.kernel.described().id
    if isinstance(kept, Boot):
        return replace(kept, kernel=name)
    return replace(kept, layout=replace(kept.layout, kernel=name))


def host_cpus() -> int:
    return len(os.sched_getaffinity(0))
