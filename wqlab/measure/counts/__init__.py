# SPDX-License-Identifier: GPL-2.0
"""Count something in each kernel, in boots of its own.

  costs    what a work item costs: context switches, and on machines that have a clock for
           them instructions; in runs of test_workqueue, without anything that is traced
  hotplug  what a change of the topology costs: instructions of the functions that follow it, at
           boot, when a CPU comes online and when shards are resized, on a machine with 512 CPUs;
           needs kernels with wqmany
  irqsoff  for how long interrupts are off at most while 10,000 items wait for max_active, are
           cancelled, activated and executed, in simulated time; needs kernels of flavour irqsoff
           with wqcrowd
  peaks    how many items that sleep run at once under each max_active, which promises
           min(max_active, items), on machines with one to eight NUMA nodes
  reclaim  how many items a rescuer gets done per second while no worker can be created, on two
           CPUs that share max_active=1, in one pool, two or two nodes; needs kernels with wqreclaim
  wakeups  what wakes up workers, and how often a pool->lock is held meanwhile, by a trace of
           runs of test_workqueue and of the KUnit suite workqueue_wakeups; needs kernels of
           flavour debug
  NAME     what a load of loads/ comes to in short form; needs kernels of flavour loads, or in
           simulated time simloads

Kernels are booted in turn. All figures of each boot that is done are stored at once, and stay
should the command be interrupted. Prints what `wqlab report FILE` does.

Exit status: 0 done, 1 a boot did not pass or was not complete, 2 wrong usage.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from wqlab.ground.places import BUILD
from wqlab.ground.problem import OK, Problem, Usage
from wqlab.ground.text import plural
from wqlab.guests import vm
from wqlab.guests.qemu import BootOptions
from wqlab.guests.scenario import Scenario, find_scenario
from wqlab.kernels.builddir import BuildDir, named_build
from wqlab.kernels.options import checked, positive
from wqlab.measure.campaign import Campaign, Outcome, Step, add_out, blank, host, read
from wqlab.measure.counts import calls
from wqlab.measure.counts.costs import COSTS
from wqlab.measure.counts.hotplug import HOTPLUG
from wqlab.measure.counts.irqsoff import IRQSOFF
from wqlab.measure.counts.kind import Kind
from wqlab.measure.counts.loads import kind_of, simulated_kind_of
from wqlab.measure.counts.peaks import PEAKS
from wqlab.measure.counts.reclaim import RECLAIM
from wqlab.measure.counts.wakeups import WAKEUPS
from wqlab.measure.load import LOADS
from wqlab.measure.sim.emulator import emulator
from wqlab.measure.sim.machine import Machine, find_machine
from wqlab.measure.sim.simulate import boot as simulated
from wqlab.results.host import kernel_of
from wqlab.results.model import Boot

KINDS: dict[str, Kind] = {
    kind.section: kind for kind in (COSTS, HOTPLUG, IRQSOFF, PEAKS, RECLAIM, WAKEUPS)
}
KINDS |= {load.name: kind_of(load) for load in LOADS.values()}
KINDS |= {
    f"{load.name}-simulated": simulated_kind_of(load) for load in LOADS.values() if load.simulated
}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=KINDS, help="what is counted")
    parser.add_argument(
        "--kernel",
        type=named_build,
        action="append",
        required=True,
        metavar="NAME=DIR",
        help="what to call it, and its directory from wqlab build --module; may be repeated",
    )
    parser.add_argument(
        "--scenario",
        type=checked(find_scenario),
        action="append",
        metavar="SCENARIO",
        help="of scenarios/, may be repeated (bench-2; for peaks, six of nodes-*)",
    )
    parser.add_argument("--boots", type=positive, default=1, metavar="N", help="of each (1)")
    add_out(parser, None, "build/KIND.json")


def check(kind: Kind, kernels: Sequence[tuple[str, BuildDir]]) -> None:
    """Usage if a name is given twice, or a kernel lacks the module."""
    names = Counter(name for name, _ in kernels)
    if twice := [name for name, number in names.items() if number > 1]:
        raise Usage(f"two kernels are called {twice[0]}: give each a name of its own")
    for name, kernel in kernels:
        modules = [module.stem for module in kernel.modules]
        if kind.module and kind.module not in modules:
            raise Usage(f"{name} has no {kind.module}.ko: build it with --module {kind.module}")


def boot(kind: Kind, kernel: BuildDir, scenario: Scenario, blank: Boot, name: str) -> Outcome:
    """Boot once and count."""
    boots: Callable[..., vm.Record] = kind.boot or vm.boot
    where: Scenario | Machine = scenario
    if kind.simulated:
        boots, where = kind.boot or simulated, find_machine(scenario.name)
    elif kind.functions:
        boots = partial(calls.boot, functions=kind.functions)
    record = boots(
        kernel,
        where,
        kind.job,
        BUILD / kind.section / name,
        BootOptions(
            append=kind.append,
            commands=kind.commands(scenario),
            timeout=kind.slower * scenario.timeout,
        ),
    )
    return read(blank, record, lambda said: {"counts": kind.counts(scenario, said)})


def emulation(kind: Kind, kernel: BuildDir, scenario: Scenario) -> str:
    """What the guest runs on, as results have it."""
    if kind.simulated:
        return find_machine(scenario.name).emulation
    return vm.probe_emulation(kernel, scenario, emulator("wqcount")[0] if kind.functions else None)


def plan(kind: Kind, args: argparse.Namespace) -> list[Step]:
    """The boots in the order in which they are made, kernels in turn."""
    described = {
        name: kernel_of(name, kernel.release, [kernel.path]) for name, kernel in args.kernel
    }
    steps = []
    for scenario in args.scenario or [find_scenario(name) for name in kind.machines]:
        its_host = host(emulation(kind, args.kernel[0][1], scenario))
        for number in range(1, args.boots + 1):
            for name, kernel in args.kernel:
                about = described[name]
                empty = blank(
                    its_host,
                    about,
                    kind.section,
                    [kind.run] if kind.run else [],
                    number,
                    flavour=about.builds[0].flavour,
                    scenario=scenario.name,
                    append=" ".join(part for part in (scenario.append, kind.append) if part),
                )
                out = f"{name}-{scenario.name}-{number}"
                make = partial(boot, kind, kernel, scenario, empty, out)
                label = f"{name} on {scenario.name}"
                steps.append(Step(label, kind.section, its_host, about, make))
    return steps


def command(args: argparse.Namespace) -> int:
    kind = KINDS[args.kind]
    check(kind, args.kernel)
    campaign = Campaign(args.typed, args.out or BUILD / f"{args.kind}.json")
    found = campaign.run(plan(kind, args), kind.at_once)
    if failed := list(found.not_passed()):
        raise Problem(f"{len(failed)} of {plural(len(found.boots), 'boot')} did not pass")
    from wqlab.report import terminal  # needs numpy

    print(terminal.text(found))
    return OK
