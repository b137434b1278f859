# SPDX-License-Identifier: GPL-2.0
"""Boot a kernel in QEMU and run one job of guest/jobs in it.

Prints what the job says and how it ended. Exit status: 0 it passed, 1 it did not.
"""

import argparse
from pathlib import Path

from wqlab.ground.places import BUILD, ROOT
from wqlab.ground.problem import FAILED, OK, Usage
from wqlab.guests.scenario import find_scenario
from wqlab.guests.vm import boot, find_kernel
from wqlab.kernels.options import checked, existing, positive


def job(text: str) -> str:
    jobs = sorted(path.name for path in (ROOT / "guest/jobs").iterdir())
    if text not in jobs:
        raise Usage(f"no job {text!r} in guest/jobs/: there are {', '.join(jobs)}")
    return text


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kernel",
        type=checked(lambda text: find_kernel(existing(text))),
        required=True,
        metavar="DIR",
        help="a build directory (O=)",
    )
    parser.add_argument(
        "--scenario",
        type=checked(find_scenario),
        required=True,
        metavar="MACHINE",
        help="a machine of scenarios/",
    )
    parser.add_argument(
        "--job", type=checked(job), default="hello", help="a job of guest/jobs/ (hello)"
    )
    parser.add_argument("--append", default="", metavar="STR", help="more boot parameters")
    parser.add_argument("--timeout", type=positive, metavar="S", help="seconds (the scenario's)")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="for record.json and logs (build/boot/...)"
    )
    parser.add_argument(
        "--wq-dump", type=existing, metavar="FILE", help="wq_dump.py to run where the job holds"
    )


def command(args: argparse.Namespace) -> int:
    record = boot(
        args.kernel,
        args.scenario,
        args.job,
        args.out or BUILD / "boot" / f"{args.scenario.name}-{args.job}",
        append=args.append,
        timeout=args.timeout,
        wq_dump=args.wq_dump,
        on_line=lambda line: print(f"  {line}", flush=True),
    )
    for line in record.tail:
        print(f"  console: {line}")
    reason = f": {record.reason}" if record.reason else ""
    print(
        f"boot: {record.release} {record.scenario} {record.job} ({record.accel}): "
        f"{record.verdict} in {record.seconds} s{reason}"
    )
    return OK if record.verdict == "pass" else FAILED
