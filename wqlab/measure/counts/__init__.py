# SPDX-License-Identifier: GPL-2.0
"""Count something in each kernel, in boots of its own.

  costs    what a work item costs: context switches, and on machines that have a clock for
           them instructions; in loads of test_workqueue, without anything that is traced
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
           loads of test_workqueue and of the KUnit suite workqueue_wakeups; needs kernels of
           flavour debug
  NAME     what a load of loads/ comes to in short form; needs kernels of flavour loads, or in
           simulated time simloads

Kernels are booted in turn. All figures of each boot that is done are stored at once, and stay
should the command be interrupted. Prints what `wqlab report FILE` does.

Exit status: 0 done, 1 a boot did not pass or was not complete, 2 wrong usage.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from wqlab import results
from wqlab.ground.places import BUILD
from wqlab.ground.problem import OK, Problem, Usage
from wqlab.ground.run import Progress, say, side_by_side
from wqlab.ground.text import plural
from wqlab.guests import vm
from wqlab.guests.scenario import Scenario, find_scenario
from wqlab.kernels.options import checked, output, positive
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
from wqlab.results import SCHEMA, Boot, Results

KINDS: dict[str, Kind] = {
    kind.section: kind for kind in (COSTS, HOTPLUG, IRQSOFF, PEAKS, RECLAIM, WAKEUPS)
}
KINDS |= {load.name: kind_of(load) for load in LOADS.values()}
KINDS |= {
    f"{load.name}-simulated": simulated_kind_of(load) for load in LOADS.values() if load.simulated
}


@dataclass(frozen=True)
class Task:
    """One boot to be made."""

    kind: Kind
    kernel: vm.Kernel
    described: results.Kernel
    scenario: Scenario
    machine: results.Machine
    number: int

    @property
    def label(self) -> str:
        return f"{self.described.name} on {self.scenario.name}"

    @property
    def how(self) -> tuple[Callable[..., vm.Record], Scenario | Machine]:
        """The function that boots it, and on what."""
        if self.kind.simulated:
            program, plugin = emulator("wqtime")
            where = find_machine(self.scenario.name)
            return partial(self.kind.boot or simulated, program=program, plugin=plugin), where
        if self.kind.functions:
            return partial(calls.boot, functions=self.kind.functions), self.scenario
        return self.kind.boot or vm.boot, self.scenario

    def boot(self) -> Boot:
        kind, name = self.kind, f"{self.described.name}-{self.scenario.name}-{self.number}"
        boot, where = self.how
        record = boot(
            self.kernel,
            where,
            kind.job,
            BUILD / kind.section / name,
            append=kind.append,
            commands=kind.commands(self.scenario),
            timeout=kind.slower * self.scenario.timeout,
        )
        found = Boot(
            machine=self.machine.id,
            kernel=self.described.id,
            section=kind.section,
            flavour=self.described.builds[0].flavour,
            scenario=self.scenario.name,
            append=" ".join(part for part in (self.scenario.append, kind.append) if part),
            runs=[kind.run] if kind.run else [],
            number=self.number,
            seconds=record.seconds,
            verdict=record.verdict,
            reason=record.reason,
            qemu=results.qemu_line(record.command),
        )
        if not found.passed:
            return found
        try:
            return replace(found, counts=kind.counts(self.scenario, record.lines))
        except Problem as problem:
            return replace(found, verdict="fail", reason=str(problem))


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=KINDS, help="what is counted")
    parser.add_argument(
        "--kernel",
        type=vm.named_kernel,
        action="append",
        required=True,
        metavar="NAME=DIR",
        help="what to call it, and its directory from wqlab build --module; may be repeated",
    )
    parser.add_argument(
        "--scenario",
        type=checked(find_scenario),
        action="append",
        metavar="MACHINE",
        help="a machine of scenarios/, may be repeated (bench-2; for peaks, six of nodes-*)",
    )
    parser.add_argument("--boots", type=positive, default=1, metavar="N", help="of each (1)")
    parser.add_argument(
        "--out", type=output, metavar="FILE", help="where to store results (build/KIND.json)"
    )


def plan(args: argparse.Namespace) -> list[Task]:
    """The boots in the order in which they are made, kernels in turn."""
    kind = KINDS[args.kind]
    names = Counter(name for name, _ in args.kernel)
    if twice := [name for name, number in names.items() if number > 1]:
        raise Usage(f"two kernels are called {twice[0]}: give each a name of its own")
    for name, kernel in args.kernel:
        modules = [module.stem for module in kernel.modules]
        if kind.module and kind.module not in modules:
            raise Usage(f"{name} has no {kind.module}.ko: build it with --module {kind.module}")
    described = {
        name: results.kernel_of(name, kernel.release, [kernel.path]) for name, kernel in args.kernel
    }
    scenarios = args.scenario or [find_scenario(name) for name in kind.machines]
    first = args.kernel[0][1]
    program = calls.program() if kind.functions else None
    emulated = (
        {scenario.name: find_machine(scenario.name).emulation for scenario in scenarios}
        if kind.simulated
        else {scenario.name: vm.emulation(first, scenario, program) for scenario in scenarios}
    )
    machines = {name: results.this_machine(how) for name, how in emulated.items()}
    return [
        Task(kind, kernel, described[name], scenario, machines[scenario.name], number)
        for scenario in scenarios
        for number in range(1, args.boots + 1)
        for name, kernel in args.kernel
    ]


def boots(tasks: list[Task]) -> Iterator[Boot]:
    """The boots as they are done, with progress."""
    at_once = tasks[0].kind.at_once
    progress = Progress([task.kind.section for task in tasks], at_once)
    for task, boot in side_by_side(Task.boot, tasks, at_once):
        step = progress.step(task.kind.section, boot.seconds or 0, boot.passed)
        how = "pass" if boot.passed else boot.why
        say(f"{step} {task.label}: {how} in {boot.seconds} s{progress.left()}")
        yield boot


def command(args: argparse.Namespace) -> int:
    out = args.out or BUILD / f"{args.kind}.json"
    tasks = plan(args)
    words = [f"--kernel={name}=..." for name, _ in args.kernel]
    words += [f"--scenario={scenario.name}" for scenario in args.scenario or ()]
    found = Results(
        SCHEMA,
        [results.made(" ".join(["wqlab counts", args.kind, *words, f"--boots={args.boots}"]))],
        list({task.machine.id: task.machine for task in tasks}.values()),
        list({task.described.id: task.described for task in tasks}.values()),
        [],
    )
    try:
        for boot in boots(tasks):
            found = replace(found, boots=[*found.boots, boot])
            results.save(found, out)
    finally:
        if found.boots:
            results.save(found, out)  # which may have been what was interrupted
            say(f"{len(found.boots)} of {plural(len(tasks), 'boot')} stored in {out}")
    if failed := list(found.not_passed()):
        raise Problem(f"{len(failed)} of {plural(len(tasks), 'boot')} did not pass")
    from wqlab.report import terminal  # needs numpy

    print(terminal.text(found))
    return OK
