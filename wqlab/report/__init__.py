# SPDX-License-Identifier: GPL-2.0
"""Report what was measured, on one machine or several.

Prints tables, and writes the directory OUT: index.html, a page that needs nothing else; its
figures as SVG; report.txt, with every table; results.json, with all FILEs in one. An older
report in OUT is replaced. With an option of the first group it does something else instead.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from wqlab.ground.files import write_whole
from wqlab.ground.places import BUILD, CACHE
from wqlab.ground.problem import OK, Problem, Usage
from wqlab.kernels.options import existing, output
from wqlab.results.file import load, merge
from wqlab.results.model import Results

OUT = BUILD / "report"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="results, JSON")
    parser.add_argument(
        "-o", "--out", type=Path, help="directory for the report (build/report), or with --pods SVG"
    )
    group = parser.add_argument_group("instead of a report")
    instead = group.add_mutually_exclusive_group()
    instead.add_argument(
        "--csv",
        action="store_true",
        help="print each figure of each boot that passed, one in a line",
    )
    instead.add_argument(
        "--pods",
        type=existing,
        metavar="DUMP",
        help="draw a machine, of what wq_dump.py has printed, with --json or without: its CPUs by "
        "node, last-level cache and core, and the pods of each affinity scope (SVG, to stdout)",
    )
    instead.add_argument(
        "--keep",
        type=output,
        metavar="KEPT",
        help="write them to a file of results/: all that the report shows, what repeats "
        "written once. Left out are the functions and locks of a simulation that no table "
        "has: the command that made the file, which is in it, counts the same again",
    )
    pods = parser.add_argument_group("with --pods")
    pods.add_argument(
        "--shared",
        type=existing,
        metavar="JSON",
        help="output of wq_verify.py --json: the first rows are which CPUs really share a node, a "
        "last-level cache, a cluster and a core",
    )
    pods.add_argument(
        "--contention",
        type=existing,
        metavar="JSON",
        help="output of wq_contention.py --json: pools are the darker the more often their lock "
        "was waited for",
    )
    pods.add_argument(
        "--workqueue",
        default="writeback",
        metavar="NAME",
        help="whose pools are in the last row (writeback)",
    )


def read(files: Sequence[Path]) -> Results:
    """All in one; Problem names the file in which no boot has passed."""
    parts = {path: load(path) for path in files}
    for path, part in parts.items():
        if not any(boot.passed for boot in part.boots):
            raise Problem(f"{path}: no boot has passed: there is nothing to report")
    return merge(parts.values())


def write_report(files: Sequence[Path], out: Path) -> None:
    """Print the tables of these results, and write the report."""
    os.environ.setdefault("MPLCONFIGDIR", str(CACHE / "matplotlib"))  # what it knows of fonts
    from wqlab.report import page, terminal

    out = out.resolve()
    page.is_replaceable(out)
    results = read(files)
    count = page.write(results, out)
    print(terminal.text(results))
    print(f"page: {out / 'index.html'} ({count} figures as SVG beside it)")
    print(f"every table: {out / 'report.txt'}")


def command(args: argparse.Namespace) -> int:
    if bool(args.files) == bool(args.pods):
        raise Usage("name files of results, or with --pods none")
    if args.pods:
        from wqlab.report.picture import write_picture

        write_picture(args.pods, args.shared, args.contention, args.workqueue, args.out)
    elif args.csv:
        from wqlab.report.export import write_csv

        write_csv(read(args.files), sys.stdout)
    elif args.keep:
        from wqlab.report.keep import kept

        results = read(args.files)
        if any((made.commit or "-dirty").endswith("-dirty") for made in results.made):
            raise Problem("not kept: measured with a tree that has changes, or with no commit")
        write_whole(args.keep, kept(results))
    else:
        write_report(args.files, args.out or OUT)
    return OK
