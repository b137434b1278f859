# SPDX-License-Identifier: GPL-2.0
"""One boot of a kernel on a machine in simulated time, and what sim/wqtime.c has counted."""

import json
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import cache
from pathlib import Path

from wqlab.ground.problem import Problem
from wqlab.ground.run import check
from wqlab.guests import vm
from wqlab.guests.qemu import BootOptions
from wqlab.guests.vm import Record
from wqlab.kernels.builddir import BuildDir
from wqlab.measure.sim.emulator import ACCEL, with_plugin
from wqlab.measure.sim.machine import Machine
from wqlab.measure.tasks import parse_runs
from wqlab.results.model import Count, Number, Row, Run
from wqlab.results.module import rows_of, words

# Moves or acquisitions per item, to be stored: in all, and of one function
LEAST, LEAST_OF_ONE = 0.1, 0.5
LEAST_OF_KIND = 0.001  # acquisitions of a kind of lock per item
TIMEOUT = 1800  # seconds for a boot with all its runs
START_NS = 20_000  # CPUs start up to so far apart
# From where a line comes: the nearest that both CPUs have in common. In a machine's file, each
# has the time that it takes by the same name.
DISTANCES = ("core", "cluster", "llc", "node", "far")
# Functions whose first argument is a lock
LOCK = re.compile(r"_raw_spin_lock(_irq|_irqsave|_bh)?")
UNLOCK = re.compile(r"_raw_spin_unlock(_irq|_irqrestore|_bh)?")
SLOW = ("native_queued_spin_lock_slowpath", "queued_spin_lock_slowpath")
QUEUE = "queue_work_on"
OF_POOL = "worker_thread"  # takes no other lock than its pool's
SWITCH = re.compile(r"__\w+_sys_sethostname")  # by which the guest turns time on and off


@dataclass(frozen=True)
class Symbols:
    """The functions of a kernel, to name addresses by."""

    functions: list[tuple[int, int, str]]  # start, end, name; sorted
    workqueue: frozenset[str] = frozenset()  # those that only kernel/workqueue.c knows

    @classmethod
    @cache
    def of(cls, kernel: BuildDir) -> "Symbols":
        """The functions of a kernel, and which of them are local to a file. Problem without symbols."""
        said = check(
            ["readelf", "--symbols", "--wide", kernel.path / "vmlinux"],
            wrong=f"the symbols of {kernel.release} cannot be read",
        )
        # number, address, size, type, binding, visibility, section, name; behind the name of a
        # file come those that are local to it
        found, local, file = set(), set(), ""
        for entry in map(str.split, said.splitlines()):
            if len(entry) == 8 and entry[3] == "FILE":
                file = entry[7]
            elif len(entry) == 8 and entry[3] == "FUNC":
                start, size = int(entry[1], 16), int(entry[2], 0)
                found.add((start, start + size, entry[7]))
                if entry[4] == "LOCAL" and file == "workqueue.c":
                    local.add(entry[7])
        return cls(sorted(found), frozenset(local))

    def name(self, address: int) -> str:
        """The function at an address."""
        index = bisect_right(self.functions, address, key=lambda function: function[0]) - 1
        _, end, name = self.functions[index] if index >= 0 else (0, 0, "")
        return name if address < end else "(module)"

    @property
    def file(self) -> str:
        """What the plugin reads."""

        def kind(name: str) -> str:
            if LOCK.fullmatch(name):
                return "lock"
            if UNLOCK.fullmatch(name):
                return "unlock"
            if SWITCH.fullmatch(name):
                return "switch"
            return "slow" if name in SLOW else "queue" if name == QUEUE else ""

        return "".join(
            f"{kind(name)} {at:x} {end:x}\n" for at, end, name in self.functions if kind(name)
        )


@dataclass(frozen=True)
class Moved:
    """The cache lines that one function, or all, needed in the counted part of a run."""

    waited_ps: int
    moves: tuple[int, ...]  # from DISTANCES

    @classmethod
    def sum(cls, of: Iterable["Moved"]) -> "Moved":
        """All of them together."""
        none = (0,) * (1 + len(DISTANCES))
        several = ((one.waited_ps, *one.moves) for one in of)
        waited, *moves = map(sum, zip(none, *several, strict=True))
        return cls(waited, tuple(moves))


@dataclass(frozen=True)
class Took:
    """What happened at locks that one function takes, in the counted part of a run."""

    taken: int
    contended: int
    waited_ps: int
    held_ps: int

    def figures(self, each: float) -> dict[str, Number]:
        """Per item, of which there were 1 / `each`."""
        return {
            "taken_per_item": self.taken * each,
            "contended_per_item": self.contended * each,
            "lock_wait_ns": self.waited_ps * each / 1e3,
            "lock_hold_ns": self.held_ps * each / 1e3,
        }

    @classmethod
    def sum(cls, several: Iterable["Took"]) -> "Took":
        """All of them together."""
        return cls(*map(sum, zip(*map(astuple, several), strict=True)))


@dataclass(frozen=True)
class Measured:
    """One run of test_workqueue on the machine."""

    row: Row
    items: int = 0  # that were queued in the counted part
    seconds: float = 0.0  # which took so long
    insns: int = 0
    lines: dict[str, Moved] = field(default_factory=dict)  # by the function that needs them
    locks: dict[str, Took] = field(default_factory=dict)  # by the function that takes them
    kinds: dict[str, Took] = field(default_factory=dict)  # by what they are, see kinds()

    @property
    def items_per_sec(self) -> float:
        """Items/s in the middle of the run, in simulated time."""
        return self.items / self.seconds


def read_run(text: str, row: Row, symbols: Symbols) -> Measured:
    """A line of the plugin."""
    data = json.loads(text)
    if not data["last_ps"]:
        raise Problem(f"{row.scope}: fewer items were queued than were to be counted")
    lines: dict[str, list[Moved]] = defaultdict(list)
    for pc, waited, *moves in data["sites"]:
        lines[symbols.name(pc)].append(Moved(waited, tuple(moves)))
    locks, kinds = locks_of(data["locks"], symbols)
    first, last = counted(
        row.values["threads"], row.values["items"] // row.values["threads"], row.values["warmup"]
    )
    return Measured(
        row=row,
        items=last - first,
        seconds=(data["last_ps"] - data["first_ps"]) / 1e12,
        insns=data["insns"],
        lines={name: Moved.sum(sites) for name, sites in lines.items()},
        locks=locks,
        kinds=kinds,
    )


def locks_of(counted: list[list[int]], symbols: Symbols) -> tuple[dict[str, Took], dict[str, Took]]:
    """What happened at locks, by the function that takes them and by what they are, of lines of the
    plugin's: the lock, where it's taken, and what a Took has."""
    taken = [(lock, symbols.name(at - 1), Took(*took)) for lock, at, *took in counted]
    kind_of = kinds_of([(lock, name) for lock, name, _ in taken], symbols)
    locks: dict[str, list[Took]] = defaultdict(list)
    kinds: dict[str, list[Took]] = defaultdict(list)
    for lock, name, took in taken:
        locks[name].append(took)
        kinds[kind_of[lock]].append(took)
    return (
        {name: Took.sum(its) for name, its in locks.items()},
        {kind: Took.sum(its) for kind, its in kinds.items()},
    )


def kinds_of(taken: list[tuple[int, str]], symbols: Symbols) -> dict[int, str]:
    """What each lock is, by its address, of locks and the functions that took them."""
    takers: dict[int, set[str]] = defaultdict(set)
    for lock, name in taken:
        takers[lock].add(name)

    def kind(names: set[str]) -> str:
        if OF_POOL in names:
            return "pool->lock"
        return "max_active" if names & symbols.workqueue else "others"

    return {lock: kind(names) for lock, names in takers.items()}


def counted(threads: int, items: int, warmup: int) -> tuple[int, int]:
    """The calls of queue_work_on() that are counted: the middle half."""
    before = threads * warmup
    return before + threads * items // 4, before + threads * items * 3 // 4


def boot(
    kernel: BuildDir,
    machine: Machine,
    job: str,
    out: Path,
    options: BootOptions,
    *,
    count: tuple[int, int] = (1, 1),
    has: Sequence[str] = (),
) -> Record:
    """As vm.boot(), for a job that turns time on and off: simulated time. `count` are calls of
    queue_work_on(), between which the plugin counts; `has` are more features of the CPUs."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "cpus").write_text(machine.cpus)
    (out / "symbols").write_text(Symbols.of(kernel).file)
    (out / "counts").unlink(missing_ok=True)
    arguments = {
        **{name: f"{value:g}" for name, value in machine.costs.items()},
        "cpus": out / "cpus",
        "symbols": out / "symbols",
        "out": out / "counts",
        "count": f"{count[0]}:{count[1]}",
        "start": START_NS,
    }
    qemu = with_plugin("wqtime", arguments)
    # a leaf of CPUID that does not exist reads as the last one, and QEMU's leaf 0x1f, the last
    # one with several dies, fails an assertion if ECX is large
    more = ["-icount", "shift=0,sleep=off", "-global", "x86_64-cpu.level=0x20"]
    for feature in has:
        more += ["-global", f"x86_64-cpu.{feature}=on"]
    options = replace(
        options,
        append=f"quiet {options.append}".rstrip(),
        accel=ACCEL,
        emulator=replace(qemu, options=(*more, *qemu.options)),
    )
    return vm.boot(kernel, machine.scenario, job, out, options)


def simulate(
    kernel: BuildDir,
    machine: Machine,
    asked: list[Run],
    out: Path,
    append: str = "",
    on_line: Callable[[str], None] = lambda line: None,
) -> tuple[list[Measured], Record]:
    """Boot the kernel on the machine and make the runs, all of as many items."""
    symbols = Symbols.of(kernel)
    record = boot(
        kernel,
        machine,
        "sim",
        out,
        BootOptions(
            append=append,
            commands="".join(f"{words(run)}\n" for run in asked),
            timeout=TIMEOUT,
            on_line=on_line,
        ),
        count=counted(**{key: int(str(asked[0][key])) for key in ("threads", "items", "warmup")}),
    )
    if record.verdict != "pass":
        raise Problem(f"{record.verdict}: {record.reason}; see {out}")
    found = list(parse_runs(record.lines))
    texts = (out / "counts").read_text().splitlines()
    if not len(found) == len(texts) == len(asked):
        raise Problem(f"{len(found)} runs and {len(texts)} counts, not {len(asked)}")
    return [
        read_run(text, row, symbols) if not row.missing else Measured(row)
        for run, (_, said, _), text in zip(asked, found, texts, strict=True)
        for row in rows_of(run, said)
    ], record


def counts(one: Measured) -> list[Count]:
    """Figures of a run for results: in all, by function, and by lock."""
    scope, each = one.row.scope, 1 / one.items
    lines = Moved.sum(one.lines.values())
    total = {
        "steady_items_per_sec": one.items_per_sec,
        "moves_per_item": sum(lines.moves) * each,
        "moves_wait_ns": lines.waited_ps * each / 1e3,
        "instructions_per_item": one.insns * each,
    }
    found = [Count({"scope": scope}, total)]
    for name, number in zip(DISTANCES, lines.moves, strict=True):
        if number * each >= LEAST:
            figures = {"moves_per_item": number * each}
            found.append(Count({"scope": scope, "of": "distance", "in": name}, figures))
    for name, moved in sorted(one.lines.items()):
        if sum(moved.moves) * each >= LEAST_OF_ONE:
            figures = {
                "moves_per_item": sum(moved.moves) * each,
                "moves_wait_ns": moved.waited_ps * each / 1e3,
            }
            found.append(Count({"scope": scope, "of": "lines", "in": name}, figures))
    for of, locks, least in (
        ("locks", one.kinds, LEAST_OF_KIND),
        ("lock", one.locks, LEAST_OF_ONE),
    ):
        for name, took in sorted(locks.items()):
            if took.taken * each >= least:
                found.append(Count({"scope": scope, "of": of, "in": name}, took.figures(each)))
    return found
