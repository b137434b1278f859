# SPDX-License-Identifier: GPL-2.0
"""What scripts that count something in each kernel share: their options, boots and JSON file."""

import argparse
import json
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import date
from pathlib import Path

from wqboot import ROOT, Kernel, named_kernel
from wqresults import this_machine, write_whole
from wqtopology import Scenario, load_scenario


def counts_parser(description: str, default: str, out: str) -> argparse.ArgumentParser:
    """Of a script that counts something in each kernel; default says on which machines if none
    is given, out is where below build/ the counts go."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--kernel",
        type=named_kernel,
        action="append",
        required=True,
        metavar="NAME=DIR",
        help="what to call it, and its directory from scripts/build; more than one may be given",
    )
    parser.add_argument(
        "--scenario", action="append", metavar="NAME", help=f"a machine ({default})"
    )
    parser.add_argument("--boots", type=_positive, default=1, metavar="N", help="of each (1)")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / out, metavar="FILE")
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def each_boot(
    args: argparse.Namespace, default: str
) -> Iterator[tuple[Scenario, int, str, Kernel]]:
    """The boots that the args of a counts_parser() ask for, kernels in turn: the machine, the
    number of the boot from 1 on, the kernel's name, the kernel. TopologyError before the first
    one if there is no such machine."""
    names = args.scenario or [default]
    for scenario in [load_scenario(ROOT / f"scenarios/{name}.toml") for name in names]:
        for number in range(1, args.boots + 1):
            for name, kernel in args.kernel:
                yield scenario, number, name, kernel


def save_counts(
    args: argparse.Namespace, script: str, what: str, accels: Iterable[str], kernels: object
) -> None:
    """Store what a script with a counts_parser(), called with args, has counted in each kernel."""
    command = [
        *(f"--kernel={name}=..." for name, _ in args.kernel),
        *(f"--scenario={name}" for name in args.scenario or ()),
        f"--boots={args.boots}",
    ]
    result = {
        "what": what,
        "date": date.today().isoformat(),
        "machine": asdict(this_machine(f"QEMU {' and '.join(sorted(set(accels)))}")),
        "command": f"scripts/{script} {shlex.join(command)}",
        "n": args.boots,
        "kernels": kernels,
    }
    write_whole(args.out, json.dumps(result, indent=1) + "\n")
    print(f"\nstored in {args.out}")
