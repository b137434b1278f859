# SPDX-License-Identifier: GPL-2.0
"""Measure kernels on a machine with many CPUs, in simulated time.

The machine is emulated. Each of its CPUs has a clock of its own, on which an instruction, an
atomic operation, a cache line that comes from another CPU and an interrupt take what the machine
in machines/ says; see sim/wqtime.c. The guest's own clock is that one while the module
test_workqueue runs. docs/simulation.md says how far the figures can be trusted.

The same command gives the same figures, on any host.
"""

import argparse
import json
import re
import statistics
from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path

from wqlab import results, vm
from wqlab.bench import add_kernels, sources
from wqlab.build import build, check_patches
from wqlab.measure import parse_runs
from wqlab.module import MEASURED, MODES, parse_words, rows_of, words
from wqlab.options import add_base, checked, names, output, positive
from wqlab.places import BUILD
from wqlab.problem import OK, Problem
from wqlab.report.tables import spread
from wqlab.results import SCHEMA, Boot, Count, Results, Row, Run
from wqlab.run import check, say
from wqlab.sim.emulator import ROMS, emulator
from wqlab.sim.machine import COSTS, Machine, find_machine
from wqlab.text import table
from wqlab.vm import Emulator, Kernel

FLAVOUR = "sim"
LEAST = 0.01  # per item, to be stored
ITEMS, WARMUP, REPEAT = 60, 20, 3
TIMEOUT = 1800  # seconds for a boot with all its runs
START_NS = 20_000  # CPUs start up to so far apart
# Functions whose first argument is a lock
LOCK = re.compile(r"_raw_spin_lock(_irq|_irqsave|_bh)?")
UNLOCK = re.compile(r"_raw_spin_unlock(_irq|_irqrestore|_bh)?")
SLOW = ("native_queued_spin_lock_slowpath", "queued_spin_lock_slowpath")
QUEUE = "queue_work_on"


@dataclass(frozen=True)
class Symbols:
    """The functions of a kernel, to name addresses by."""

    functions: list[tuple[int, int, str]]  # start, end, name; sorted

    @classmethod
    def of(cls, kernel: Kernel) -> "Symbols":
        said = check(
            ["nm", "--numeric-sort", "--print-size", kernel.path / "vmlinux"],
            wrong=f"the symbols of {kernel.release} cannot be read",
        )
        found = re.findall(r"^(\w+) (\w+) [tTwW] (\S+)$", said, re.MULTILINE)
        return cls([(int(at, 16), int(at, 16) + int(size, 16), name) for at, size, name in found])

    def name(self, address: int) -> str:
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
            return "slow" if name in SLOW else "queue" if name == QUEUE else ""

        return "".join(
            f"{kind(name)} {at:x} {end:x}\n" for at, end, name in self.functions if kind(name)
        )


@dataclass(frozen=True)
class Took:
    """What happened at locks that one function takes, in the counted part of a run."""

    taken: int
    contended: int
    waited_ps: int
    held_ps: int


@dataclass(frozen=True)
class Measured:
    """One run of test_workqueue on the machine."""

    row: Row
    items: int = 0  # that were queued in the counted part
    seconds: float = 0.0  # which took so long
    insns: int = 0
    moves: int = 0  # of cache lines
    waited_ps: int = 0  # for them
    by_function: dict[str, tuple[int, int]] = field(default_factory=dict)  # moves, waited_ps
    locks: dict[str, Took] = field(default_factory=dict)  # by the function that takes them

    @property
    def items_per_sec(self) -> float:
        return self.items / self.seconds


def read_run(text: str, row: Row, symbols: Symbols) -> Measured:
    """A line of the plugin."""
    data = json.loads(text)
    if not data["last_ps"]:
        raise Problem(f"{row.scope}: fewer items were queued than were to be counted")
    moves: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for pc, number, waited in data["sites"]:
        name = symbols.name(pc)
        moves[name][0] += number
        moves[name][1] += waited
    locks: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for _, caller, *figures in data["locks"]:
        name = symbols.name(caller - 1)
        locks[name] = [old + new for old, new in zip(locks[name], figures, strict=True)]
    first, last = counted(
        row.values["threads"], row.values["items"] // row.values["threads"], row.values["warmup"]
    )
    return Measured(
        row=row,
        items=last - first,
        seconds=(data["last_ps"] - data["first_ps"]) / 1e12,
        insns=data["insns"],
        moves=data["moves"],
        waited_ps=data["waited_ps"],
        by_function={name: (one, other) for name, (one, other) in moves.items()},
        locks={name: Took(*figures) for name, figures in locks.items()},
    )


def counted(threads: int, items: int, warmup: int) -> tuple[int, int]:
    """The calls of queue_work_on() that are counted: the middle half."""
    before = threads * warmup
    return before + threads * items // 4, before + threads * items * 3 // 4


def runs(args: argparse.Namespace, cpus: int) -> list[Run]:
    """The parameters of the loads of the module, in the order in which they are made."""
    return [
        {
            "mode": args.mode,
            "scopes": [scope],
            "threads": 1 if args.mode == "fanout" else cpus,
            "items": args.items,
            "warmup": args.warmup,
            **args.words,
        }
        for _ in range(args.repeat)
        for scope in args.scopes
    ]


def simulate(
    kernel: Kernel,
    machine: Machine,
    asked: list[Run],
    out: Path,
    program: Path,
    plugin: Path,
    append: str = "",
) -> list[Measured]:
    """Boot the kernel on the machine and make the runs."""
    symbols = Symbols.of(kernel)
    out.mkdir(parents=True, exist_ok=True)
    (out / "cpus").write_text(machine.cpus)
    (out / "symbols").write_text(symbols.file)
    (out / "counts").unlink(missing_ok=True)
    first, last = counted(
        **{key: int(str(asked[0][key])) for key in ("threads", "items", "warmup")}
    )
    arguments = {
        **{name: f"{value:g}" for name, value in machine.costs.items()},
        "cpus": out / "cpus",
        "symbols": out / "symbols",
        "out": out / "counts",
        "count": f"{first}:{last}",
        "start": START_NS,
    }
    options = ["-icount", "shift=0,sleep=off", "-rtc", "base=2024-11-17,clock=vm", "-seed", "1"]
    options += [word for rom in ROMS for word in ("-L", str(rom))]
    options += ["-plugin", ",".join([str(plugin), *(f"{k}={v}" for k, v in arguments.items())])]
    record = vm.boot(
        kernel,
        machine.scenario,
        "sim",
        out,
        append=f"quiet {append}".rstrip(),
        commands="".join(f"{words(run)}\n" for run in asked),
        timeout=TIMEOUT,
        accel="tcg,thread=single,tb-size=256",
        emulator=Emulator(program, tuple(options)),
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
    ]


def counts(one: Measured) -> list[Count]:
    scope, each = one.row.scope, 1 / one.items
    total = {
        "steady_items_per_sec": one.items_per_sec,
        "moves_per_item": one.moves * each,
        "moves_wait_ns": one.waited_ps * each / 1e3,
        "instructions_per_item": one.insns * each,
    }
    found = [Count({"scope": scope}, total)]
    for name, (moves, waited_ps) in sorted(one.by_function.items()):
        if moves * each >= LEAST:
            figures = {"moves_per_item": moves * each, "moves_wait_ns": waited_ps * each / 1e3}
            found.append(Count({"scope": scope, "of": "lines", "in": name}, figures))
    for name, took in sorted(one.locks.items()):
        if took.taken * each >= LEAST:
            figures = {
                "taken_per_item": took.taken * each,
                "contended_per_item": took.contended * each,
                "lock_wait_ns": took.waited_ps * each / 1e3,
                "lock_hold_ns": took.held_ps * each / 1e3,
            }
            found.append(Count({"scope": scope, "of": "lock", "in": name}, figures))
    return found


def results_of(
    args: argparse.Namespace,
    machine: Machine,
    described: dict[str, results.Kernel],
    measured: dict[str, list[Measured]],
    notes: list[str],
) -> Results:
    """Each repetition as a boot: its rows, and what was counted."""
    costs = ", ".join(f"{name}={value:g}" for name, value in machine.costs.items())
    host = results.this_machine(f"simulated {machine.name} ({costs})")
    said = f"wqlab sim --base {args.base.name} --machine {args.machine.name} --mode {args.mode}"
    said += f" --kernels {','.join(args.kernels)} --scopes {','.join(args.scopes)}"
    said += f" --items {args.items} --warmup {args.warmup} --repeat {args.repeat}"
    said += f" --words '{words(args.words)}'" if args.words else ""
    said += f" --patches {args.patches}" if args.patches else ""
    said += f" --cores {args.cores}" if args.cores else ""
    said += "".join(f" --cost {name}={value:g}" for name, value in args.cost)
    asked = runs(args, machine.scenario.cpus)
    boots = []
    for name, all_runs in measured.items():
        for number in range(args.repeat):
            part = slice(number * len(args.scopes), (number + 1) * len(args.scopes))
            boot = Boot(
                machine=host.id,
                kernel=described[name].id,
                section="time",
                flavour=FLAVOUR,
                scenario=machine.scenario.name,
                append=args.append,
                runs=asked[part],
                number=number + 1,
                seconds=None,
                verdict="pass",
                reason="",
                rows=[one.row for one in all_runs[part]],
            )
            found = [
                count for one in all_runs[part] if not one.row.missing for count in counts(one)
            ]
            boots += [boot, replace(boot, section="sim", rows=[], counts=found)]
    return Results(SCHEMA, [results.made(said)], [host], list(described.values()), boots, [], notes)


# --- what is printed ------------------------------------------------------------------------


def main_table(measured: dict[str, list[Measured]]) -> list[str]:
    rows = [("scope", "kernel", "n", "items/s", "p50 ns", "p95 ns", "moves", "waited ns", "insns")]
    for scope in MEASURED:
        for kernel, all_runs in measured.items():
            if found := [one for one in all_runs if one.row.scope == scope and one.items]:
                rows.append(
                    (
                        scope,
                        kernel,
                        str(len(found)),
                        spread([one.items_per_sec for one in found]),
                        spread([one.row.values["queue_p50_ns"] for one in found]),
                        spread([one.row.values["queue_p95_ns"] for one in found]),
                        f"{statistics.median(one.moves / one.items for one in found):.1f}",
                        f"{statistics.median(one.waited_ps / one.items for one in found) / 1e3:,.0f}",
                        f"{statistics.median(one.insns / one.items for one in found):,.0f}",
                    )
                )
    return table(rows, [True, True, *[False] * 7])


def top(measured: list[Measured], number: int = 8) -> list[str]:
    """Where lines move and locks are waited for, of the runs in one scope of one kernel."""
    items = sum(one.items for one in measured)
    moves: Counter[str] = Counter()
    waits: Counter[str] = Counter()
    for one in measured:
        for name, (count, _) in one.by_function.items():
            moves[name] += count
        for name, took in one.locks.items():
            waits[name] += took.waited_ps
    rows = [("lines move in", "per item", "lock taken in", "waited ns", "held ns", "contended")]
    for line, lock in zip_longest(moves.most_common(number), waits.most_common(number)):
        where, count = line or ("", 0)
        taker, waited = lock or ("", 0)
        there = [one.locks[taker] for one in measured if taker in one.locks]
        taken, held = sum(t.taken for t in there), sum(t.held_ps for t in there)
        contended = sum(t.contended for t in there)
        rows.append(
            (
                where,
                f"{count / items:.2f}" if line else "",
                taker,
                f"{waited / items / 1e3:,.0f}" if lock else "",
                f"{held / items / 1e3:,.0f}" if lock else "",
                f"{contended / taken:.2f}" if taken else "",
            )
        )
    return table(rows, [True, False, True, False, False, False], indent="    ")


# --- the command ----------------------------------------------------------------------------


def cost(text: str) -> tuple[str, float]:
    name, equals, value = text.partition("=")
    if name not in COSTS or not equals:
        raise ValueError(f"{text!r} is not NAME=NS: the names are {', '.join(COSTS)}")
    return name, float(value)


def add_options(parser: argparse.ArgumentParser) -> None:
    add_base(parser)
    parser.add_argument(
        "--machine",
        type=checked(find_machine),
        default=find_machine("grace-72"),
        metavar="MACHINE",
        help="of machines/ (grace-72)",
    )
    parser.add_argument(
        "--cores", type=positive, metavar="N", help="behind each last-level cache (the machine's)"
    )
    add_kernels(parser)
    parser.add_argument(
        "--patches", type=positive, metavar="N", help="patched has only the first N patches"
    )
    parser.add_argument(
        "--scopes",
        type=names(MEASURED),
        default=["cpu", "cache_shard", "cache"],
        metavar="SCOPE,...",
        help=f"of {','.join(MEASURED)} (cpu,cache_shard,cache)",
    )
    parser.add_argument("--mode", choices=MODES, default="serial", help="of test_workqueue")
    parser.add_argument(
        "--words",
        type=checked(parse_words),
        default={},
        metavar="NAME=VALUE...",
        help="more parameters of test_workqueue",
    )
    parser.add_argument("--items", type=positive, default=ITEMS, help=f"per CPU ({ITEMS})")
    parser.add_argument(
        "--warmup", type=positive, default=WARMUP, help=f"items that are not measured ({WARMUP})"
    )
    parser.add_argument(
        "--repeat",
        type=positive,
        default=REPEAT,
        metavar="N",
        help=f"runs of each, in which CPUs start at different times ({REPEAT})",
    )
    parser.add_argument(
        "--cost",
        type=checked(cost),
        action="append",
        default=[],
        metavar="NAME=NS",
        help="in place of the machine's; may be repeated",
    )
    parser.add_argument("--append", default="", metavar="STR", help="more boot parameters")
    parser.add_argument(
        "--out", type=output, default=BUILD / "sim.json", metavar="FILE", help="(build/sim.json)"
    )


def command(args: argparse.Namespace) -> int:
    check_patches(args)
    machine = args.machine.changed(dict(args.cost))
    if args.cores:
        machine = machine.with_cores(args.cores)
    program, plugin = emulator()
    notes: list[str] = []
    kernels = {
        name: vm.find_kernel(
            build(source, FLAVOUR, patches=args.patches if patches is None else 0, module=True)
        )
        for name, (source, patches) in sources(args, notes).items()
    }
    asked = runs(args, machine.scenario.cpus)
    described = {
        name: results.kernel_of(name, kernel.release, [kernel.path])
        for name, kernel in kernels.items()
    }
    measured: dict[str, list[Measured]] = {}
    for name, kernel in kernels.items():
        say(f"{name} on {machine.name}: {len(asked)} runs")
        out = BUILD / "sim" / f"{machine.name}-{name}"
        measured[name] = simulate(kernel, machine, asked, out, program, plugin, args.append)
    results.save(results_of(args, machine, described, measured, notes), args.out)
    say(f"stored in {args.out}")
    print("\n".join(main_table(measured)))
    for name, found in measured.items():
        for scope in args.scopes:
            if mine := [one for one in found if one.row.scope == scope and one.items]:
                print(f"\n  {name}, {scope}:")
                print("\n".join(top(mine)))
    return OK
