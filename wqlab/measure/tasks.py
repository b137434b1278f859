# SPDX-License-Identifier: GPL-2.0
"""What is measured, by which boots, and what each boot has shown."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path

from wqlab.ground.places import ROOT
from wqlab.ground.problem import Problem
from wqlab.guests import vm
from wqlab.guests.qemu import BootOptions
from wqlab.guests.scenario import Scenario, find_scenario, format_pods, load_scenario
from wqlab.kernels.builddir import BuildDir
from wqlab.measure.campaign import Outcome, Step, blank, host, read
from wqlab.measure.subjects import FLAVOUR, Subject
from wqlab.results.host import short_id
from wqlab.results.metrics import POOL_LOCK
from wqlab.results.model import Host, Layout, Lock, ResultsError, Row, Run, Section
from wqlab.results.module import MEASURED, rows_of, words

COUNTED_BOOTS = 5
WINDOW = 32  # more in flight than may be active, so that each that finishes lets another start
# The columns of /proc/lock_stat, by the fields of Lock; times are in us there
LOCK_COLUMNS = {
    one.name: one.name.replace("_total_ns", "time-total").replace("_max_ns", "time-max")
    for one in fields(Lock)
}

PARTS = ("layout", "icount", "locks", "time", "work", "limit", "nodes", "sizes", "native")
TIMED = PARTS[2:]
NODES = ("nodes-2x*", "nodes-4x*", "nodes-8*")
SECTIONS: dict[str, Section] = {"icount": "icount", "locks": "locks", "sizes": "sizes"}
NATIVE = ("cpu", "system")  # scopes: User Mode Linux has one node and no caches


def flavour_of(part: str, flavour: str) -> str:
    """What the kernels of a part are, where `flavour` is to be measured."""
    return {"locks": "lockstat", "native": "native"}.get(part, flavour)


# --- the boots ---------------------------------------------------------------------------


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


def scenarios_of(part: str, cpus: int) -> list[Scenario]:
    """The machines of a part, on a host with so many CPUs."""
    fixed = {"layout": "smt-26x2", "icount": "icount-1"}
    if part in fixed:
        return [find_scenario(fixed[part])]
    return timed_nodes(cpus) if part == "nodes" else [timed_scenario(cpus)]


def runs_of(part: str, items: int, cpus: int) -> list[list[Run]]:
    """What test_workqueue does in each boot of a part, on a machine with so many CPUs, each of
    which is to queue so many items."""
    # The first items after boot cost more than later ones, and have workers created.
    few = max(items // 20, 1)
    scopes: Run = {"scopes": list(MEASURED), "warmup": few}
    burst: Run = {"mode": "burst", **scopes, "items": items, "window": WINDOW}
    match part:
        case "icount":
            one: Run = {"mode": "serial", "threads": 1, "scopes": ["cache"]}
            return [[{**one, "items": number, "warmup": few} for number in (few, few * 50)]]
        case "locks":  # statistics of locks are slow, and counts need no more
            one = {"items": max(items // 4, 1), "warmup": 0}
            return [[{"mode": "serial", "scopes": [scope], **one} for scope in MEASURED]]
        case "time":
            many, each = {"items": items * cpus}, {"items": items}
            sleep = {"items": few, "max_active": 16}
            modes = {"serial": each, "burst": each, "fanout": many, "sleep": sleep, "chain": each}
            return [[{"mode": mode, **scopes, **more} for mode, more in modes.items()]]
        case "work":
            numbers = {"burst": items, "fanout": items * cpus}
            own: Run = {"work_ns": 1000}
            return [[{"mode": m, **scopes, "items": n, **own} for m, n in numbers.items()]]
        case "limit":
            return [[{**burst, "max_active": 2}]]
        case "nodes":
            limits = sorted({2, 8, cpus, max(256, WINDOW * cpus)})
            return [[{**burst, "max_active": limit}] for limit in limits]
        case "native":
            # for a time, as in some cases it can't be told how many items there is time for
            own = {"scopes": list(NATIVE), "secs": 1, "warmup": max(few // 10, 1)}
            runs: list[Run] = [{"mode": mode, **own} for mode in ("serial", "burst")]
            runs += [{"mode": mode, **own, "work_ns": 1000} for mode in ("burst", "fanout")]
            runs.append({"mode": "chain", **own})
            return [[*runs, {"mode": "burst", **own, "window": WINDOW, "max_active": 2}]]
        case "sizes":
            own = {"scopes": ["cache_shard"], "warmup": few, "items": items}
            return [[{"mode": mode, **own} for mode in ("serial", "burst")]]
    return [[]]


@dataclass(frozen=True, eq=False)
class Trial:
    """One boot to be made."""

    kernel: Subject
    part: str
    flavour: str
    scenario: Scenario
    append: str
    runs: list[Run]
    number: int
    size: int | None = None

    @property
    def build(self) -> BuildDir:
        """What it boots."""
        return self.kernel.builds[self.flavour]

    def step(self, its_host: Host, out: Path) -> Step:
        """The boot as a step of a campaign; files in `out`."""
        key = short_id(
            its_host.id,
            self.kernel.key(self.flavour),
            self.scenario,
            self.append,
            *map(words, self.runs),
        )
        size = "" if self.size is None else f", size {self.size}"
        return Step(
            label=f"{self.part} {self.kernel.name}{size}, boot {self.number}",
            kind=self.part,
            host=its_host,
            kernel=self.kernel.described,
            make=partial(self.look, out)
            if self.part == "layout"
            else partial(self.boot, its_host, out),
            key=f"{self.part}-{self.kernel.name}-{key}-{self.number}",
        )

    def boot(self, its_host: Host, out: Path) -> Outcome:
        """Measure."""
        commands = "".join(f"{words(run)}\n" for run in self.runs)
        options = BootOptions(append=self.append, commands=commands)
        record = vm.boot(self.build, self.scenario, "bench", out, options)
        boot = blank(
            its_host,
            self.kernel.described,
            SECTIONS.get(self.part, "time"),
            self.runs,
            self.number,
            flavour=self.flavour,
            scenario=self.scenario.name,
            append=self.append,
            size=self.size,
        )
        return read(
            boot, record, lambda said: {"rows": rows_of_boot(said, self.runs, self.flavour)}
        )

    def look(self, out: Path) -> Outcome:
        """At the pods of a large machine."""
        options = BootOptions(append=self.append, wq_dump=self.build.path / "wq_dump.py")
        record = vm.boot(self.build, self.scenario, "pods", out, options)
        kernel, dump = self.kernel.described, record.dump
        if record.verdict != "pass" or not dump:
            why = f"{record.verdict}: {record.reason}"
            note = f"no layout of {kernel.name}: {why}"
            return Outcome([], record.seconds, why=why, notes=[note])
        pods = {scope: format_pods(pods) for scope, pods in dump.pods.items()}
        layout = Layout(kernel.id, self.scenario.name, dump.default, pods)
        return Outcome([], record.seconds, [layout])


def plan(
    kernels: list[Subject],
    parts: Sequence[str],
    *,
    boots: int,
    items: int,
    sizes: Sequence[int],
    cpus: int,
    flavour: str = FLAVOUR,
) -> Iterator[Trial]:
    """The boots in the order in which they are made: the first one of everything comes first."""
    most = {"layout": 1, "icount": COUNTED_BOOTS}
    for number in range(1, boots + 1):
        # who goes first changes from boot to boot
        turn = (number - 1) % len(kernels)
        for part in (one for one in PARTS if one in parts and number <= most.get(one, boots)):
            of = flavour_of(part, flavour)
            its = [one for one in kernels[turn:] + kernels[:turn] if of in one.builds]
            for scenario in scenarios_of(part, cpus):
                bare = replace(scenario, append="")
                for size in sizes if part == "sizes" else [None]:
                    append = f"workqueue.cache_shard_size={size}" if size else scenario.append
                    for runs in runs_of(part, items, scenario.cpus):
                        for kernel in its:
                            if not (size and kernel.name == "stock"):  # which has no shards
                                yield Trial(kernel, part, of, bare, append, runs, number, size)


def steps_of(trials: Sequence[Trial], out: Path) -> list[Step]:
    """The boots as steps of a campaign, on this host; files in `out`."""
    kinds = {(trial.scenario.name, trial.build.arch): trial for trial in trials}
    hosts = {of: host(vm.probe_emulation(one.build, one.scenario)) for of, one in kinds.items()}
    return [one.step(hosts[one.scenario.name, one.build.arch], out) for one in trials]


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
            figures = {key: numbers[said.replace("_", "-")] for key, said in LOCK_COLUMNS.items()}
            classes[match[1]] = Lock(
                **{
                    key: round(float(number) * 1000) if key.endswith("_ns") else int(number)
                    for key, number in figures.items()
                }
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
                if not any(name.partition("/")[0] == POOL_LOCK for name in locks or {}):
                    raise ResultsError(f"scope {row.scope}: nothing about {POOL_LOCK}")
                row = replace(row, locks=locks)
            all_rows.append(row)
    if all(row.missing for row in all_rows):
        raise ResultsError("the kernel has none of the scopes")
    return all_rows
