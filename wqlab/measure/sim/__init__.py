# SPDX-License-Identifier: GPL-2.0
"""Measure kernels on a machine with many CPUs, in simulated time.

The machine is emulated. Each of its CPUs has a clock of its own, on which an instruction, an
atomic operation, a cache line that comes from another CPU and an interrupt take what the machine
in machines/ says; see sim/wqtime.c. The guest's own clock is that one while the module
test_workqueue runs. docs/measuring.md says how far the figures can be trusted.

The same command gives the same figures, on any host. What was simulated once is kept in
build/sim until something that it depends on changes.
"""

import argparse
from dataclasses import dataclass, replace
from itertools import product

from wqlab import results
from wqlab.ground.files import remove
from wqlab.ground.places import BUILD
from wqlab.ground.problem import OK, Usage
from wqlab.ground.run import CORES, Progress, say, side_by_side
from wqlab.ground.text import plural
from wqlab.kernels.build import build, check_patches
from wqlab.kernels.options import add_base, checked, names, numbers, output, positive
from wqlab.kernels.source import Source
from wqlab.measure.bench import add_kernels, sources
from wqlab.measure.sim.emulator import emulator
from wqlab.measure.sim.machine import COSTS, Machine, find_machine
from wqlab.measure.sim.sensitivity import lines as sensitivity
from wqlab.measure.sim.sensitivity import variants
from wqlab.measure.sim.simulate import Measured, counts, simulate
from wqlab.measure.tasks import Built, Store, find_built
from wqlab.results import SCHEMA, Boot, Results, Run
from wqlab.results.module import MEASURED, MODES, parse_words, words

FLAVOUR = "bench"
ITEMS, WARMUP, REPEAT = 60, 20, 3
SIZE = "workqueue.cache_shard_size"


def host(machine: Machine) -> results.Machine:
    """What is simulated, as the machine that it runs on."""
    return results.this_machine(machine.emulation)


@dataclass(frozen=True)
class Task:
    """One boot of a kernel on a machine, and the loads of the module that it makes: each of
    `loads` in each scope, that `repeat` times."""

    kernel: Built
    machine: Machine
    loads: tuple[Run, ...]  # without a scope
    scopes: tuple[str, ...]
    repeat: int
    size: int | None = None  # cores per shard
    append: str = ""

    @property
    def label(self) -> str:
        size = f", size {self.size}" if self.size else ""
        return f"{self.kernel.name} on {self.machine.name}{size}"

    @property
    def parameters(self) -> str:
        """Those of the boot."""
        return " ".join(filter(None, [f"{SIZE}={self.size}" if self.size else "", self.append]))

    @property
    def runs(self) -> list[Run]:
        """In the order in which they are made."""
        return [
            load | {"scopes": [scope]}
            for _ in range(self.repeat)
            for load in self.loads
            for scope in self.scopes
        ]

    @property
    def host(self) -> results.Machine:
        return host(self.machine)


@dataclass(frozen=True)
class Simulated:
    """What one boot has given, as it is kept."""

    boots: list[Boot]


def boots_of(task: Task, measured: list[Measured], qemu: str) -> list[Boot]:
    """Each repetition of a load as two boots: its rows, and what was counted."""
    number_of_scopes, each = len(task.scopes), len(task.scopes) * len(task.loads)
    boots = []
    for number, (i, load) in product(range(task.repeat), enumerate(task.loads)):
        first = number * each + i * number_of_scopes
        part = measured[first : first + number_of_scopes]
        timed = Boot(
            machine=task.host.id,
            kernel=task.kernel.described.id,
            section="sizes" if task.size else "time",
            flavour=FLAVOUR,
            scenario=task.machine.scenario.name,
            append=task.parameters,
            runs=[load | {"scopes": [scope]} for scope in task.scopes],
            number=number + 1,
            seconds=None,
            verdict="pass",
            reason="",
            qemu=qemu,
            rows=[one.row for one in part],
            size=task.size,
        )
        found = [count for one in part if not one.row.missing for count in counts(one)]
        boots += [timed, replace(timed, section="sim", rows=[], counts=found, size=None)]
    return boots


def measure(tasks: list[Task]) -> list[Boot]:
    """What the tasks give, of those that were not made before by the same QEMU."""
    program, plugin = emulator()
    store = Store(BUILD / "sim/boots")
    keys = [
        f"{task.machine.name}-{task.kernel.name}-"
        + results.short_id(
            task.host.id,
            task.kernel.key(FLAVOUR),
            task.machine.scenario,
            task.parameters,
            plugin.parent.name,
            plugin.name,
            *map(words, task.runs),
        )
        for task in tasks
    ]
    done = {key: kept for key in keys if (kept := store.get(key, Simulated))}
    if done:
        say(f"{len(done)} of {plural(len(tasks), 'boot')} are kept from before")
    missing = {key: task for key, task in zip(keys, tasks, strict=True) if key not in done}
    progress = Progress([task.machine.name for task in missing.values()], CORES)

    def boot(key: str) -> tuple[Simulated, float]:
        task, out = missing[key], BUILD / "sim/now" / key
        kernel = task.kernel.builds[FLAVOUR]
        measured, record = simulate(
            kernel, task.machine, task.runs, out, program, plugin, task.parameters
        )
        made = boots_of(task, measured, results.qemu_line(record.command))
        remove(out)
        return Simulated(made), record.seconds

    # figures do not depend on what runs beside them
    for key, (made, seconds) in side_by_side(boot, missing):
        done[key] = made
        store.put(key, made)
        step = progress.step(missing[key].machine.name, seconds)
        say(f"{step} {missing[key].label}: {seconds:.0f} s{progress.left()}")
    return [
        replace(boot, kernel=task.kernel.described.id)
        for key, task in zip(keys, tasks, strict=True)
        for boot in done[key].boots
    ]


def results_of(tasks: list[Task], boots: list[Boot], said: str, notes: list[str]) -> Results:
    hosts = {task.host.id: task.host for task in tasks}
    kernels = {task.kernel.described.id: task.kernel.described for task in tasks}
    made = [results.made(said)]
    return Results(SCHEMA, made, [*hosts.values()], [*kernels.values()], boots, [], notes)


def cost(text: str) -> tuple[str, float]:
    name, equals, value = text.partition("=")
    if name not in COSTS or not equals:
        raise ValueError(f"{text!r} is not NAME=NS: the names are {', '.join(COSTS)}")
    return name, float(value)


def add_costs(parser: argparse.ArgumentParser) -> None:
    """--cost, --repeat, --items and --warmup."""
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


def said_costs(args: argparse.Namespace) -> str:
    """The options of add_costs(), as they are repeated in a file of results."""
    said = f" --items {args.items} --warmup {args.warmup} --repeat {args.repeat}"
    return said + "".join(f" --cost {name}={value:g}" for name, value in args.cost)


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
        "--cores",
        type=numbers,
        default=[],
        metavar="N,...",
        help="behind each last-level cache (the machine's)",
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
    parser.add_argument(
        "--sizes",
        type=numbers,
        default=[],
        metavar="N,...",
        help="cores per shard, each in a boot of its own (the default)",
    )
    parser.add_argument("--mode", choices=MODES, default="serial", help="of test_workqueue")
    parser.add_argument(
        "--words",
        type=checked(parse_words),
        action="append",
        metavar="NAME=VALUE...",
        help="more parameters of test_workqueue; may be repeated, for a load each",
    )
    add_costs(parser)
    parser.add_argument(
        "--vary",
        type=names(list(COSTS)),
        default=[],
        metavar="NAME,...",
        help="also halve and double each of these costs, and show which comparisons that changes",
    )
    parser.add_argument("--append", default="", metavar="STR", help="more boot parameters")
    parser.add_argument(
        "--out", type=output, default=BUILD / "sim.json", metavar="FILE", help="(build/sim.json)"
    )


def said(args: argparse.Namespace) -> str:
    text = f"wqlab sim --base {args.base.name} --machine {args.machine.name} --mode {args.mode}"
    text += f" --kernels {','.join(args.kernels)} --scopes {','.join(args.scopes)}"
    text += said_costs(args)
    for name in ("cores", "sizes", "vary"):
        if values := getattr(args, name):
            text += f" --{name} {','.join(map(str, values))}"
    text += "".join(f" --words '{words(run)}'" for run in args.words or ())
    text += f" --patches {args.patches}" if args.patches else ""
    return text + (f" --append '{args.append}'" if args.append else "")


def kernel(name: str, source: Source, patches: int | None) -> Built:
    return find_built(name, [build(source, FLAVOUR, patches=patches, modules=["test_workqueue"])])


def command(args: argparse.Namespace) -> int:
    from wqlab.report import write_report  # what it needs is seen to be here before any build

    check_patches(args.base, args.patches)
    machine = args.machine.changed(dict(args.cost))
    machines = [machine.with_cores(cores) for cores in args.cores] or [machine]
    if args.vary and (len(machines) > 1 or args.sizes or args.words):
        raise Usage("--vary is for one number of cores, without --sizes and --words")
    varied = variants(machines[0], args.vary)
    machines = [*varied.values()] if args.vary else machines
    emulator()
    notes: list[str] = []
    kernels = [
        kernel(name, source, args.patches if patches is None else 0)
        for name, (source, patches) in sources(args, notes).items()
    ]

    def loads(machine: Machine) -> tuple[Run, ...]:
        threads = 1 if args.mode == "fanout" else machine.scenario.cpus
        one: Run = {"mode": args.mode, "threads": threads}
        one |= {"items": args.items, "warmup": args.warmup}
        return tuple(one | more for more in args.words or [{}])

    tasks = [
        Task(one, its, loads(its), tuple(args.scopes), args.repeat, size, args.append)
        for its in machines
        for size in args.sizes or [None]
        for one in kernels
        if not (size and one.name == "stock")  # which has no shards
    ]
    found = results_of(tasks, measure(tasks), said(args), notes)
    results.save(found, args.out)
    say(f"stored in {args.out}")
    if args.vary:
        hosts = {name: host(its).id for name, its in varied.items()}
        print(*sensitivity(found, hosts, args.scopes), sep="\n")
    else:
        write_report([args.out], BUILD / "report")
    return OK
