# SPDX-License-Identifier: GPL-2.0
"""Build kernels, boot and measure them in turn on virtual machines, and report.

Kernels:

  stock     the base without the series; with --ksrc, your source
  patched   the same with the series
  mainline  the newest base, without any series
  first-N   the base with the first N patches, for each N of --patches

Parts:

  layout   the pods of each scope on a large machine, by wq_dump.py
  icount   instructions of one round trip of a work item
  locks    what happens to pool->lock, in kernels with lock statistics
  time     throughput, latencies and kworkers of test_workqueue, in each mode and scope
  work     bursts and a single producer, with 1 us of work in each item
  limit    bursts with max_active=2, where every item that finishes lets another start
  nodes    the same on two NUMA nodes, with sixteen CPUs on four and eight as well, with
           max_active=2, 8, one for each CPU and no fewer than are in flight
  sizes    as time, in scope cache_shard, for each size of --sizes
  native   much of that on User Mode Linux, not emulated, of kernels whose has several CPUs

docs/measuring.md says how each figure is made. A boot that passed is kept in build/bench
until something that it depends on changes, so a measurement that was interrupted goes on
where it was. A boot that did not pass never counts, and is made again the next time.
FILE holds nothing but the results of the latest run.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from wqlab.ground.git import git_env
from wqlab.ground.places import BUILD
from wqlab.ground.problem import FAILED, OK, Problem, Usage
from wqlab.ground.run import Progress, check, run, say
from wqlab.guests import vm
from wqlab.kernels.arch import find_arch
from wqlab.kernels.bases import base_names, load_base
from wqlab.kernels.build import build, check_patches, flavours
from wqlab.kernels.obtain import obtain
from wqlab.kernels.options import add_base, names, numbers, output, positive
from wqlab.kernels.source import Source
from wqlab.measure import tasks as measure
from wqlab.measure.tasks import PARTS, TIMED, Built, Look, Store, find_built, plan
from wqlab.results import SCHEMA, Boot, Machine, Results, made, save, this_machine

KERNELS = ("stock", "patched", "mainline")
BOOTS, ITEMS = 5, 20000
QUICK_BOOTS, QUICK_ITEMS = 1, 2000


def add_kernels(parser: argparse.ArgumentParser) -> None:
    """--kernels, for sources()."""
    parser.add_argument(
        "--kernels",
        type=names(KERNELS),
        default=list(KERNELS),
        metavar="NAME,...",
        help=f"of {','.join(KERNELS)} (all); mainline is left out if its source cannot be had",
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    add_base(parser)
    add_kernels(parser)
    parser.add_argument(
        "--patches",
        type=numbers,
        default=[],
        metavar="N,...",
        help="of the base's series, for kernels with only the first N",
    )
    parser.add_argument(
        "--flavour",
        choices=sorted(name for name, flavour in flavours().items() if not flavour.arch),
        default=measure.FLAVOUR,
        help=f"of configs/flavours.toml, for all parts but locks ({measure.FLAVOUR})",
    )
    parser.add_argument(
        "--boots", type=positive, metavar="N", help=f"of each kernel in each part ({BOOTS})"
    )
    parser.add_argument("--items", type=positive, metavar="N", help=f"work items per CPU ({ITEMS})")
    parser.add_argument(
        "--parts",
        type=names(PARTS),
        default=list(PARTS[:-1]),
        metavar="NAME,...",
        help=f"of {','.join(PARTS)} (all but native)",
    )
    parser.add_argument(
        "--sizes",
        type=numbers,
        default=[1, 2],
        metavar="N,...",
        help="cores per shard (1,2); '' for none",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="to see it work: one boot of each and few items; nothing can be claimed from that",
    )
    parser.add_argument(
        "--out",
        type=output,
        default=BUILD / "bench.json",
        metavar="FILE",
        help="the results (build/bench.json)",
    )


def feasible(args: argparse.Namespace, notes: list[str]) -> list[str]:
    """The parts that this host and these options allow."""
    parts = list(args.parts)
    if "sizes" in parts and (not args.sizes or args.kernels == ["stock"]):
        parts.remove("sizes")
    if measure.host_cpus() < 2 and (left_out := [part for part in parts if part in TIMED]):
        parts = [part for part in parts if part not in TIMED]
        notes.append(f"not measured on a host with one CPU: {', '.join(left_out)}")
    if not parts:
        raise Usage(
            f"--parts {','.join(args.parts)} measures nothing: "
            + (notes[0] if notes else "the part sizes needs --sizes and a kernel besides stock")
        )
    return parts


def has_series(source: Source) -> bool:
    """Whether the source has all patches already: they can be taken off one by one."""
    git = ["git", "-C", str(source.repo)]
    with tempfile.TemporaryDirectory() as folder:
        env = {**git_env(), "GIT_INDEX_FILE": f"{folder}/index"}
        check([*git, "read-tree", "HEAD"], wrong="the source cannot be read", env=env)
        return bool(source.base.patches) and not any(
            run([*git, "apply", "--cached", "--reverse", patch.path], limit=60, env=env).status
            for patch in reversed(source.base.patches)
        )


def several_cpus(source: Source) -> bool:
    """Whether its User Mode Linux can have them: that of 7.3 can, 6.18 cannot."""
    git: list[str | Path] = ["git", "-C", source.repo, "grep", "-q", "UML_SUBARCH_SUPPORTS_SMP"]
    return not run([*git, "HEAD", "--", "arch/um/Kconfig"], limit=60, env=git_env()).status


def sources(
    args: argparse.Namespace, notes: list[str], firsts: Sequence[int] = ()
) -> dict[str, tuple[Source, int | None]]:
    """What each kernel is built from, with so many patches (None: all); also with only the first
    N, for each N of `firsts`."""
    found: dict[str, tuple[Source, int | None]] = {}

    def leave_out(name: str, why: str) -> None:
        say(f"{name} is not measured: {why}")
        notes.append(f"{name} was not measured: {why}")

    if firsts or {"stock", "patched"} & set(args.kernels):
        source = obtain(args.base, args.ksrc)
        if args.ksrc:
            notes.append(
                f"the source is not that of base {args.base.name}, but one of {source.version}"
            )
        there = bool(args.ksrc) and has_series(source)
        if "stock" in args.kernels:
            if there:
                leave_out("stock", "the series is in the source of --ksrc already")
            else:
                found["stock"] = source, 0
        if "patched" in args.kernels:
            found["patched"] = source, 0 if there else None
            if not there:
                with source.hold():  # that the series fits is seen before anything is built
                    pass
    newest = load_base(base_names()[-1])
    if "mainline" in args.kernels:
        if newest == args.base and not args.ksrc and "stock" in found:
            leave_out("mainline", f"it is {newest.name}, which is measured as stock")
        else:
            try:
                found["mainline"] = obtain(newest), 0
            except Problem as problem:
                leave_out("mainline", f"its source could not be had: {problem}")
    for number in firsts:
        if there:
            leave_out(f"first-{number}", "the series is in the source of --ksrc already")
        else:
            found[f"first-{number}"] = source, number
    if not found:
        raise Problem(f"nothing to measure: {'; '.join(notes)}")
    return found


def make_boots(
    kernels: list[Built], parts: list[str], args: argparse.Namespace, notes: list[str]
) -> int:
    """Make the boots that are not kept from before, and write the results of all."""
    tasks = plan(
        kernels,
        parts,
        boots=args.boots,
        items=args.items,
        sizes=args.sizes,
        cpus=measure.host_cpus(),
        flavour=args.flavour,
    )
    kind = {task: (task.scenario.name, task.kernel.builds[task.flavour].arch) for task in tasks}
    machines = {
        of: this_machine(vm.emulation(task.kernel.builds[task.flavour], task.scenario))
        for of, task in {kind[task]: task for task in tasks}.items()
    }
    keys = {task: task.key(machines[kind[task]]) for task in tasks}
    store = Store(BUILD / "bench/boots")
    done: dict[str, Boot | Look] = {}
    for task, key in keys.items():
        if kept := store.get(key, Look) if task.part == "layout" else store.get(key, Boot):
            done[key] = measure.kept_for(task, kept)
    missing = [task for task in tasks if keys[task] not in done]
    progress = Progress([task.part for task in missing])
    for task in tasks:
        if task not in missing:
            progress.saw(task.part, done[keys[task]].seconds or 0)

    measured = ", ".join(f"{kernel.name} ({kernel.described.release})" for kernel in kernels)
    say(f"measuring {measured}: {len(tasks)} boots, {len(done)} of them kept from before")
    try:
        for task in missing:
            out = BUILD / "bench/now"
            boot: Boot | Look
            if task.part == "layout":
                boot = measure.make_look(task, out)
                if boot.reason:
                    notes.append(f"no layout of {task.kernel.name}: {boot.reason}")
            else:
                boot = measure.make_boot(task, machines[kind[task]], out)
            done[keys[task]] = boot
            if boot.passed:
                store.put(keys[task], boot)
            how = "pass" if boot.passed else boot.why
            step = progress.step(task.part, boot.seconds or 0, counts=boot.passed)
            say(f"{step} {task.label}: {how} in {boot.seconds:.1f} s{progress.left()}")
    except (KeyboardInterrupt, SystemExit):
        notes.append(f"interrupted after {progress.done} of {len(missing)} boots")
        raise
    finally:
        if done:
            write(args, kernels, list(machines.values()), list(done.values()), notes)
        passed = sum(boot.passed for boot in done.values())
        say(f"{passed} of {len(tasks)} boots passed")
        if passed < len(tasks):
            say("the same command goes on with the boots that are missing")
    if not passed:
        raise Problem("no boot has passed: there is nothing to report")
    return OK if passed == len(tasks) else FAILED


def write(
    args: argparse.Namespace,
    kernels: list[Built],
    machines: list[Machine],
    done: list[Boot | Look],
    notes: list[str],
) -> None:
    command = f"wqlab bench --base {args.base.name} --kernels {','.join(args.kernels)}"
    command += f" --boots {args.boots} --items {args.items} --parts {','.join(args.parts)}"
    command += f" --sizes {','.join(map(str, args.sizes)) or repr('')}"
    command += " --ksrc ..." if args.ksrc else ""
    command += f" --flavour {args.flavour}" if args.flavour != measure.FLAVOUR else ""
    command += f" --patches {','.join(map(str, args.patches))}" if args.patches else ""
    boots = [boot for boot in done if isinstance(boot, Boot)]
    used = {boot.machine for boot in boots}
    save(
        Results(
            schema=SCHEMA,
            made=[made(command)],
            machines=list({m.id: m for m in machines if m.id in used}.values()),
            kernels=[kernel.described for kernel in kernels],
            boots=boots,
            layouts=[look.layout for look in done if isinstance(look, Look) and look.layout],
            notes=notes,
        ),
        args.out,
    )
    say(f"stored in {args.out}")


def command(args: argparse.Namespace) -> int:
    from wqlab.report import write_report  # what it needs is seen to be here before any build

    check_patches(args.base, *args.patches)
    args.boots = args.boots or (QUICK_BOOTS if args.quick else BOOTS)
    args.items = args.items or (QUICK_ITEMS if args.quick else ITEMS)
    notes: list[str] = []
    parts = feasible(args, notes)
    for note in notes:
        say(note)
    vm.qemu_version(find_arch().qemu)  # there is one
    built = sorted({measure.flavour_of(part, args.flavour) for part in parts})
    kernels: list[Built] = []
    for name, (source, patches) in sources(args, notes, args.patches).items():
        those = [flavour for flavour in built if flavour != "native" or several_cpus(source)]
        if those != built:
            notes.append(f"{name} has no native part: its User Mode Linux has one CPU")
            say(notes[-1])
        if those:
            paths = [
                build(source, flavour, patches=patches, modules=["test_workqueue"])
                for flavour in those
            ]
            kernels.append(find_built(name, paths))
    if not kernels:
        raise Problem(f"nothing to measure: {'; '.join(notes)}")
    status = make_boots(kernels, parts, args, notes)
    if parts == ["layout"]:
        say("no report is made of layouts alone")
    else:
        write_report([args.out], BUILD / "report")
    return status
