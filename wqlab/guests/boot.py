# SPDX-License-Identifier: GPL-2.0
"""Boot a kernel in QEMU and run one job of guest/jobs in it.

Prints what the job says and how it ended. Exit status: 0 it passed, 1 it did not.
"""

import argparse
from pathlib import Path

from wqlab.ground.places import BUILD, ROOT
from wqlab.ground.problem import FAILED, OK, Usage
from wqlab.guests.qemu import BootOptions
from wqlab.guests.scenario import find_scenario
from wqlab.guests.vm import boot
from wqlab.kernels.builddir import find_build
from wqlab.kernels.options import checked, existing


def job(text: str) -> str:
    """The value of --job; raises Usage if there is no such job."""
    jobs = sorted(path.name for path in (ROOT / "guest/jobs").iterdir())
    if text not in jobs:
        raise Usage(f"no job {text!r} in guest/jobs/: there are {', '.join(jobs)}")
    return text


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kernel",
        type=checked(lambda text: find_build(existing(text))),
        required=True,
        metavar="DIR",
        help="a build directory (O=)",
    )
    parser.add_argument(
        "--scenario",
        type=checked(find_scenario),
        required=True,
        metavar="SCENARIO",
        help="a file of scenarios/",
    )
    parser.add_argument(
        "--job", type=checked(job), default="hello", help="a job of guest/jobs/ (hello)"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="for record.json and logs (build/boot/...)"
    )


def command(args: argparse.Namespace) -> int:
    record = boot(
        args.kernel,
        args.scenario,
        args.job,
        args.out or BUILD / "boot" / f"{args.scenario.name}-{args.job}",
        BootOptions(on_line=lambda line: print(f"  {line}", flush=True)),
    )
    for line in record.tail:
        print(f"  console: {line}")
    reason = f": {record.reason}" if record.reason else ""
    print(
        f"boot: {record.release} {record.scenario} {record.job} ({record.accel}): "
        f"{record.verdict} in {record.seconds} s{reason}"
    )
    return OK if record.verdict == "pass" else FAILED
