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
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from wqlab.ground.files import remove
from wqlab.ground.places import BUILD
from wqlab.ground.problem import OK, Usage
from wqlab.ground.run import CORES
from wqlab.kernels.build import check_patches
from wqlab.kernels.options import add_base, checked, names, numbers, positive
from wqlab.measure.campaign import Campaign, Outcome, Step, add_out, blank, host
from wqlab.measure.sim.emulator import emulator
from wqlab.measure.sim.machine import COSTS, Machine, find_machine
from wqlab.measure.sim.sensitivity import lines as sensitivity
from wqlab.measure.sim.sensitivity import variants
from wqlab.measure.sim.simulate import Measured, counts, simulate
from wqlab.measure.subjects import FLAVOUR, Subject, add_kernels, build_subject, sources
from wqlab.results.host import qemu_line, short_id
from wqlab.results.model import Boot, Results, Run
from wqlab.results.module import MEASURED, MODES, parse_words, words

ITEMS, WARMUP, REPEAT = 60, 20, 3
SIZE = "workqueue.cache_shard_size"


@dataclass(frozen=True, eq=False)
class Simulation:
    """One boot of a kernel on a machine, and what test_workqueue does in it: each of `asked` in each
    scope, that `repeat` times."""

    kernel: Subject
    machine: Machine
    asked: tuple[Run, ...]  # without a scope
    scopes: tuple[str, ...]
    repeat: int
    size: int | None = None  # cores per shard

    @property
    def append(self) -> str:
        """The boot parameter for its shard size, "" for the default."""
        return f"{SIZE}={self.size}" if self.size else ""

    @property
    def runs(self) -> list[Run]:
        """In the order in which they are made."""
        each = product(range(self.repeat), self.asked, self.scopes)
        return [run | {"scopes": [scope]} for _, run, scope in each]

    def step(self, plugin: Path) -> Step:
        """Its step: a boot, known again by all that its figures depend on."""
        its_host = host(self.machine.emulation)
        size = f", size {self.size}" if self.size else ""
        key = short_id(
            its_host.id,
            self.kernel.key(FLAVOUR),
            self.machine.scenario,
            self.append,
            plugin.parent.name,
            plugin.name,
            *map(words, self.runs),
        )
        key = f"{self.machine.name}-{self.kernel.name}-{key}"
        return Step(
            label=f"{self.kernel.name} on {self.machine.name}{size}",
            kind=self.machine.name,
            host=its_host,
            kernel=self.kernel.described,
            make=lambda: self.make(BUILD / "sim/now" / key),
            key=key,
        )

    def make(self, out: Path) -> Outcome:
        """Boot it. Raises Problem if that fails."""
        kernel = self.kernel.builds[FLAVOUR]
        measured, record = simulate(kernel, self.machine, self.runs, out, self.append)
        boots = self.boots(measured, qemu_line(record.command))
        remove(out)
        return Outcome(boots, record.seconds)

    def boots(self, measured: list[Measured], qemu: str) -> list[Boot]:
        """Each repetition of a run as two boots: its rows, and what was counted."""
        boots, rest = [], iter(measured)
        for number, run in product(range(1, self.repeat + 1), self.asked):
            part = [next(rest) for _ in self.scopes]
            timed = blank(
                host(self.machine.emulation),
                self.kernel.described,
                "sizes" if self.size else "time",
                [run | {"scopes": [scope]} for scope in self.scopes],
                number,
                flavour=FLAVOUR,
                scenario=self.machine.scenario.name,
                append=self.append,
                qemu=qemu,
                rows=[one.row for one in part],
                size=self.size,
            )
            found = [count for one in part if not one.row.missing for count in counts(one)]
            boots += [timed, replace(timed, section="sim", rows=[], counts=found, size=None)]
        return boots


def measure(
    simulations: Sequence[Simulation], command: str, out: Path, notes: Sequence[str] = ()
) -> Results:
    """What they give, saved in `out`; those that the same QEMU has made before are kept."""
    _, plugin = emulator()
    campaign = Campaign(command, out, notes, keep=BUILD / "sim/boots")
    # figures do not depend on what runs beside them
    return campaign.run([one.step(plugin) for one in simulations], CORES)


def cost(text: str) -> tuple[str, float]:
    """NAME=NS of --cost. ValueError for another name, or no number."""
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
        help="more parameters of test_workqueue; may be repeated, for a run each",
    )
    add_costs(parser)
    parser.add_argument(
        "--vary",
        type=names(list(COSTS)),
        default=[],
        metavar="NAME,...",
        help="also halve and double each of these costs, and show which comparisons that changes",
    )
    add_out(parser, BUILD / "sim.json", "build/sim.json")


def command(args: argparse.Namespace) -> int:
    from wqlab.report import write_report  # what it needs is seen to be here before any build

    check_patches(args.base, args.patches)
    machine = args.machine.changed(dict(args.cost))
    machines = [machine.with_cores(cores) for cores in args.cores] or [machine]
    if args.vary and (len(machines) > 1 or args.sizes or args.words):
        raise Usage("--vary is for one number of cores, without --sizes and --words")
    varied = variants(machines[0], args.vary)
    machines = [*varied.values()] if args.vary else machines
    emulator()  # there is one
    notes: list[str] = []
    kernels = [
        build_subject(name, source, args.patches if patches is None else 0)
        for name, (source, patches) in sources(args, notes).items()
    ]

    def asked(machine: Machine) -> tuple[Run, ...]:
        threads = 1 if args.mode == "fanout" else machine.scenario.cpus
        one: Run = {"mode": args.mode, "threads": threads}
        one |= {"items": args.items, "warmup": args.warmup}
        return tuple(one | more for more in args.words or [{}])

    simulations = [
        Simulation(one, its, asked(its), tuple(args.scopes), args.repeat, size)
        for its in machines
        for size in args.sizes or [None]
        for one in kernels
        if not (size and one.name == "stock")  # which has no shards
    ]
    found = measure(simulations, args.typed, args.out, notes)
    if args.vary:
        hosts = {name: host(its.emulation).id for name, its in varied.items()}
        print(*sensitivity(found, hosts, args.scopes), sep="\n")
    else:
        write_report([args.out], BUILD / "report")
    return OK
