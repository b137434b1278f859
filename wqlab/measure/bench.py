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

from wqlab.ground.places import BUILD
from wqlab.ground.problem import FAILED, OK, Problem, Usage
from wqlab.ground.run import CORES, say
from wqlab.guests.qemu import qemu_version
from wqlab.kernels.arch import find_arch
from wqlab.kernels.build import check_patches
from wqlab.kernels.flavours import flavours
from wqlab.kernels.options import add_base, names, numbers, positive
from wqlab.measure import tasks
from wqlab.measure.campaign import Campaign, add_out
from wqlab.measure.subjects import (
    FLAVOUR,
    Subject,
    add_kernels,
    build_subject,
    several_cpus,
    sources,
)
from wqlab.measure.tasks import PARTS, TIMED, plan, steps_of

BOOTS, ITEMS = 5, 20000
QUICK_BOOTS, QUICK_ITEMS = 1, 2000


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
        default=FLAVOUR,
        help=f"of configs/flavours.toml, for all parts but locks ({FLAVOUR})",
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
    add_out(parser, BUILD / "bench.json", "build/bench.json")


def feasible(args: argparse.Namespace, notes: list[str]) -> list[str]:
    """The parts that this host and these options allow."""
    parts = list(args.parts)
    if "sizes" in parts and (not args.sizes or args.kernels == ["stock"]):
        parts.remove("sizes")
    if CORES < 2 and (left_out := [part for part in parts if part in TIMED]):
        parts = [part for part in parts if part not in TIMED]
        notes.append(f"not measured on a host with one CPU: {', '.join(left_out)}")
    if not parts:
        raise Usage(
            f"--parts {','.join(args.parts)} measures nothing: "
            + (notes[0] if notes else "the part sizes needs --sizes and a kernel besides stock")
        )
    return parts


def subjects(args: argparse.Namespace, parts: list[str], notes: list[str]) -> list[Subject]:
    """The kernels, each in the flavours that the parts take and its source has."""
    wanted = sorted({tasks.flavour_of(part, args.flavour) for part in parts})
    found = []
    for name, (source, patches) in sources(args, notes, args.patches).items():
        those = [flavour for flavour in wanted if flavour != "native" or several_cpus(source)]
        if those != wanted:
            notes.append(f"{name} has no native part: its User Mode Linux has one CPU")
            say(notes[-1])
        if those:
            found.append(build_subject(name, source, patches, those))
    if not found:
        raise Problem(f"nothing to measure: {'; '.join(notes)}")
    return found


def command(args: argparse.Namespace) -> int:
    from wqlab.report import write_report  # what it needs is seen to be here before any build

    check_patches(args.base, *args.patches)
    notes: list[str] = []
    parts = feasible(args, notes)
    for note in notes:
        say(note)
    qemu_version(find_arch().qemu)  # there is one
    kernels = subjects(args, parts, notes)
    trials = plan(
        kernels,
        parts,
        boots=args.boots or (QUICK_BOOTS if args.quick else BOOTS),
        items=args.items or (QUICK_ITEMS if args.quick else ITEMS),
        sizes=args.sizes,
        cpus=CORES,
        flavour=args.flavour,
    )
    steps = steps_of(list(trials), BUILD / "bench/now")
    measured = ", ".join(f"{kernel.name} ({kernel.described.release})" for kernel in kernels)
    say(f"measuring {measured}")
    campaign = Campaign(args.typed, args.out, notes, keep=BUILD / "bench/boots")
    campaign.run(steps)
    if not campaign.passed:
        raise Problem("no boot has passed: there is nothing to report")
    if parts == ["layout"]:
        say("no report is made of layouts alone")
    else:
        write_report([args.out], BUILD / "report")
    return OK if campaign.passed == len(steps) else FAILED
