# SPDX-License-Identifier: GPL-2.0
"""Report what was measured, on one machine or several.

Prints tables, and writes the directory OUT: index.html, a page that needs nothing else; its
figures as SVG; report.txt, with every table; results.json, with all FILEs in one. An older
report in OUT is replaced.
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from wqlab.ground.places import BUILD, CACHE
from wqlab.ground.problem import OK, Problem


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="results, JSON")
    parser.add_argument(
        "--out",
        type=Path,
        default=BUILD / "report",
        metavar="OUT",
        help="directory for the report (build/report)",
    )


def write_report(files: Sequence[Path], out: Path) -> None:
    """Print the tables of these results, and write the report."""
    os.environ.setdefault("MPLCONFIGDIR", str(CACHE / "matplotlib"))  # what it knows of fonts
    from wqlab.report import page, terminal
    from wqlab.results.file import load, merge

    out = out.resolve()
    page.is_replaceable(out)
    parts = []
    for path in files:
        parts.append(load(path))
        if not any(boot.passed for boot in parts[-1].boots):
            raise Problem(f"{path}: no boot has passed: there is nothing to report")
    results = merge(parts)
    count = page.write(results, out)
    print(terminal.text(results))
    print(f"page: {out / 'index.html'} ({count} figures as SVG beside it)")
    print(f"every table: {out / 'report.txt'}")


def command(args: argparse.Namespace) -> int:
    write_report(args.files, args.out)
    return OK
