# SPDX-License-Identifier: GPL-2.0
"""What `make test` and `make test-full` run: slices of tests/slices.toml, each in a run of its own.

  make test       the tier `test`, and one slice that it has the time for: the commit chooses it, or
                  SLICE=NAME; SLICE=none leaves it out
  make test-full  all slices, or that of SLICE=NAME, but for those that passed at this commit. Each
                  that ends gets into results/proofs.json, and into the tables made from it.

Where the tree has changes or no commit, nothing is recorded, and all slices are run. A KSRC is no kernel
of the record: with it, pytest runs the tests of the tier alone. As a program, this writes the tables.
"""

import argparse
import hashlib
import json
import os
import re
import shlex
import signal
import tempfile
import time
import tomllib
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from wqlab.ground.files import write_whole
from wqlab.ground.git import asked, git
from wqlab.ground.places import ROOT
from wqlab.ground.problem import Usage
from wqlab.ground.run import say, started
from wqlab.kernels.arch import find_arch
from wqlab.kernels.bases import default_base, series_names

FITS = 15  # minutes that `make test` has for a slice
RECORD = "results/proofs.json"
MEASURED = sorted(set((ROOT / "results").glob("*.json")) - {ROOT / RECORD})  # the other results
STATE = "build/test/slices.json"  # what make test-full goes on from
MADE = re.compile(r"(?<=<!-- proofs -->\n).*?(?=<!-- /proofs -->)", re.DOTALL)
COUNTS = "{} passed, {} failed, {} skipped"
OUTER = ("MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "SLICE")  # none of a slice's business


@dataclass(frozen=True)
class Slice:
    """What is run in one go, in the words that scripts/pytest or make gets."""

    name: str
    minutes: int
    pytest: str = ""
    make: str = ""
    base: str = ""  # "": the one that was asked for
    arch: str = ""


@dataclass(frozen=True)
class Row:
    """How a slice ended. There is one row for each slice, base and architecture."""

    slice: str
    base: str
    arch: str
    commit: str
    series: str  # what series() made of the patches
    date: str
    passed: int
    failed: int
    skipped: int
    seconds: int

    @property
    def key(self) -> tuple[str, str, str]:
        return self.slice, self.base, self.arch

    @property
    def counts(self) -> tuple[int, int, int]:
        return self.passed, self.failed, self.skipped


def load_slices(root: Path) -> list[Slice]:
    found = tomllib.loads((root / "tests/slices.toml").read_text())
    return [Slice(name, **about) for name, about in found.items()]


def named(root: Path, name: str) -> list[Slice]:
    """The slice of that name; all without one."""
    found = load_slices(root)
    if name and name not in [one.name for one in found]:
        raise Usage(f"there is no slice {name!r}: it is one of {', '.join(o.name for o in found)}")
    return [one for one in found if name in ("", one.name)]


def key(one: Slice, base: str) -> tuple[str, str, str]:
    """Of the row that a slice gets."""
    return one.name, one.base or base, find_arch(one.arch).name


def load_rows(path: Path) -> list[Row]:
    return [Row(**row) for row in json.loads(path.read_text())] if path.is_file() else []


def add_row(path: Path, new: Row) -> None:
    """Put a row into a file of them, in place of one with the same key."""
    rows = [row for row in load_rows(path) if row.key != new.key] + [new]
    lines = [json.dumps(asdict(row)) for row in sorted(rows, key=lambda row: row.key)]
    write_whole(path, "[\n" + ",\n".join(lines) + "\n]\n")


def series(root: Path, base: str) -> str:
    """Twelve hexadecimal digits of what the patches of a base change: of code, not of mails."""
    paths = sorted((root / "patches" / base).rglob("*.patch"))
    code = "".join(path.read_text().partition("\ndiff --git ")[2] for path in paths)
    return hashlib.sha256(code.encode()).hexdigest()[:12]


def kernel(base: str, arch: str) -> str:
    """As "7.3" or "7.3, arm64"."""
    return base if arch in ("", "x86_64") else f"{base}, {arch}"


def by_kernel(root: Path, rows: Sequence[Row]) -> list[list[str]]:
    """A line for each kernel: which slices prove it."""
    cells: dict[str, list[list[str]]] = {name: [[], [], []] for name in series_names()}
    for row in rows:
        column = 2 if row.failed else int(row.series != series(root, row.base))
        of_it = cells.setdefault(kernel(row.base, row.arch), [[], [], []])
        of_it[column].append(row.slice)
    head = ["kernel", "passed", "passed, of an older series", "failed"]
    return [head, *([name, *map(", ".join, of_it)] for name, of_it in cells.items())]


def by_slice(root: Path, rows: Sequence[Row]) -> list[list[str]]:
    """A line for each slice and kernel: how it ended, and when."""
    found = [["slice", "about min, cold", "kernel", "passed, failed, skipped", "commit and date"]]
    for one in load_slices(root):
        about = [one.name, str(one.minutes)]
        of_it = [row for row in rows if row.slice == one.name]
        for row in of_it:
            counts = ", ".join(map(str, row.counts))
            old = ", of an older series" * (row.series != series(root, row.base))
            when = f"{row.commit[:12]}, {row.date}{old}"
            found.append([*about, kernel(row.base, row.arch), counts, when])
        if not of_it:
            found.append([*about, kernel(one.base or default_base(), one.arch), "", ""])
    return found


# CHANGELOG.md has that of its newest release; those before lose their marks, and so stay as they are
TABLES = {"README.md": by_kernel, "CHANGELOG.md": by_kernel, "CONTRIBUTING.md": by_slice}


def tables(root: Path) -> dict[str, str]:
    """The documents, by their paths, with their tables as the record has them now."""
    found = {}
    for name, lines in TABLES.items():
        head, *rest = lines(root, load_rows(root / RECORD))
        lined = [head, ["---"] * len(head), *rest]
        text = "".join(f"| {' | '.join(cells)} |\n" for cells in lined)
        found[name] = MADE.sub(text, (root / name).read_text())
    return found


def write_tables(root: Path) -> None:
    for name, text in tables(root).items():
        write_whole(root / name, text)


def commit_of(root: Path) -> str:
    """What is checked out; "" where that isn't known, as in a tarball."""
    top = asked(root, "rev-parse", "--show-toplevel")
    return asked(root, "rev-parse", "HEAD") if top == str(root.resolve()) else ""


def clean_commit(root: Path) -> str:
    """The same; "" if more has changed than the record and the tables that are made from it."""
    commit = commit_of(root)
    changed = git(root, "diff", "--name-only", "HEAD").splitlines() if commit else []
    changed += asked(root, "ls-files", "--others", "--exclude-standard").splitlines()
    for name in set(changed) - {RECORD}:
        if name not in TABLES or not (root / name).is_file():
            return ""
        texts = (root / name).read_text().strip(), asked(root, "show", f"HEAD:{name}")
        if len({MADE.sub("", text) for text in texts}) > 1:
            return ""
    return commit


def followed(words: Sequence[str], root: Path, env: dict[str, str]) -> tuple[int, int]:
    """Run a program and hand on to it what would end this one: its status, and that signal or 0."""
    caught = []

    def hand_on(number: int, _: object) -> None:
        caught.append(number)
        with suppress(ProcessLookupError):  # it has just ended
            os.killpg(program.pid, number)

    with started(words, cwd=root, env=env) as program:
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.signal(number, hand_on) for number in numbers}
        status = program.wait()
        for number, handler in before.items():
            signal.signal(number, handler)
    return status, caught[0] if caught else 0


def run(root: Path, one: Slice, base: str, commit: str = "") -> tuple[Row, int]:
    """Run a slice to its end, or until this is ended: its row, and the signal or 0."""
    begin, base = time.monotonic(), one.base or base
    env = {"ARCH": one.arch} if one.arch else {}
    env |= {name: value for name, value in os.environ.items() if name not in {*OUTER, *env}}
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder) / "counts"
        words = ["scripts/pytest", *shlex.split(one.pytest), "--base", base, "--counts", counts]
        if one.make:
            words = ["make", "--no-print-directory", *shlex.split(one.make), f"BASE={base}"]
        status, broken = followed(list(map(str, words)), root, env)
        text = counts.read_text() if counts.is_file() else ""
    # make counts nothing, and neither does what was killed
    passed, failed, skipped = map(int, re.findall(r"\d+", text) or [not status, 0, 0])
    about = commit, series(root, base), datetime.now(UTC).date().isoformat()
    counted = passed, max(failed, int(status != 0)), skipped
    return Row(*key(one, base), *about, *counted, round(time.monotonic() - begin)), broken


def ended(rows: Sequence[Row], broken: int) -> int:
    """Say how slices ended, and in the last line what they come to. Returns the exit status."""
    sums = [sum(numbers) for numbers in zip(*(row.counts for row in rows), strict=True)]
    for row in rows:
        print(f"{row.slice}, {kernel(row.base, row.arch)}: {COUNTS.format(*row.counts)}")
    print(COUNTS.format(*sums), flush=True)
    return 128 + broken if broken else int(sums[1] > 0)


def test(root: Path, base: str, name: str) -> int:
    """The tier `test` and a slice: the one of that name, or that which the commit chooses."""
    commit, why = commit_of(root), f"chosen by SLICE={name}"
    chosen = named(root, name) if name != "none" else []
    if not name:
        fitting = [one for one in chosen if one.minutes <= FITS]
        chosen = [fitting[int(commit, 16) % len(fitting)]] if commit else []
        why = f"chosen by commit {commit[:12]}" if commit else "as there is no commit to choose one"
    told = f"slice: {chosen[0].name if chosen else 'none'}, {why}"
    say(told)
    rows, broken = [], 0
    for one in [Slice("tier test", 30, "--tier test"), *chosen]:
        row, broken = run(root, one, base)
        rows.append(row)
        if broken:
            break
    print(told)
    return ended(rows, broken)


def to_do(left: Collection[Slice]) -> str:
    """Which slices have not passed, and for how long they run."""
    names = ", ".join(one.name for one in left) or "nothing"
    return f"left: {names}; about {sum(one.minutes for one in left)} min"


def full(root: Path, base: str, name: str) -> int:
    """All slices, or the one of that name, but for those that passed at this commit."""
    rows, broken, commit = [], 0, clean_commit(root)
    left = {key(one, base): one for one in named(root, name)}
    for row in load_rows(root / STATE) if commit else []:
        if row.key in left and row.commit == commit and not row.failed:
            rows.append(row)
            del left[row.key]
    for place, one in list(left.items()):
        say(f"slice: {one.name}. {to_do(left.values())}")
        row, broken = run(root, one, base, commit)
        rows.append(row)
        if broken:
            break
        if not row.failed:
            del left[place]
        if not commit or clean_commit(root) != commit:
            say("not recorded: the tree has changes or no commit")
            commit = ""
            continue
        add_row(root / STATE, row)
        add_row(root / RECORD, row)
        write_tables(root)
    say(to_do(left.values()))
    return ended(rows, broken)


def instead(words: Sequence[str], root: Path = ROOT) -> int | None:
    """What is run in place of pytest when it gets these words: the exit status, or None."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--base", default=default_base())
    parser.add_argument("--tier", default="test")
    options, others = parser.parse_known_args(words)
    do = {"test": test, "full": full}.get(options.tier)
    return None if others or not do else do(root, options.base, os.environ.get("SLICE", ""))


if __name__ == "__main__":
    write_tables(ROOT)
