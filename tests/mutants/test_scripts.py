# SPDX-License-Identifier: GPL-2.0
"""Each diff of scripts/ breaks wq_verify.py, wq_contention.py or the audit, and the test that its
first line names notices.

The test runs in a copy of this tree that has the diff, so it must need no kernel. Tools that make
mutants by themselves would run all tests for thousands of them, most of which break nothing that
anybody relies on.

Seen failing: with a diff that changes a comment, one that names no test, one that names another than
the one that catches it, one that names one that is not there, and one whose test fails by itself.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from farm import Making, Need
from mutants import Found, Run, fails, find_diffs, named_run, verdict
from overlay import patched

from wqlab.ground.places import ROOT

SCRIPTS = Path(__file__).parent / "scripts"
COPIED = ("audit", "conftest.py", "pyproject.toml", "tests", "tools", "wqlab")
LIMIT = 120.0  # seconds for one run of pytest
WORDS = ("-p", "no:cacheprovider")


@contextmanager
def copied() -> Iterator[Path]:
    """A copy of this tree, but for what no diff changes, which is linked."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        tree.mkdir()
        for one in ROOT.iterdir():
            if one.name in COPIED:
                (shutil.copytree if one.is_dir() else shutil.copy2)(one, tree / one.name)
            elif one.name != "build" and not one.name.startswith("."):
                (tree / one.name).symlink_to(one)
        yield tree


@dataclass(frozen=True)
class TriedInCopy(Need):
    """A run of tests in a copy of this tree."""

    cases: tuple[str, ...]
    diff: Path | None = None  # that the copy has
    guess = 5.0

    def __str__(self) -> str:
        return f"mutant of a script: {self.diff.stem if self.diff else 'none'}"

    def make(self, farm: Making) -> Found:
        with copied() as tree:
            if self.diff:
                texts = patched(self.diff, lambda path: (tree / path).read_text())
                for path, text in texts.items():
                    (tree / path).write_text(text)
            words = [*self.cases, *WORDS, *(["-x"] if self.diff else [])]
            return Found(Run(self.cases[0]), *fails(words, tree, LIMIT))


FOUND = {diff: named_run(diff) for diff in find_diffs(SCRIPTS).values()}
RUNS = {diff: run for diff, run in FOUND.items() if run and run.is_test}
HERE = [diff for diff in RUNS if shutil.which("spatch") or "audit/" not in RUNS[diff].case]
ALL = tuple(sorted({RUNS[diff].case for diff in HERE}))


def test_each_names_a_test() -> None:
    assert not [diff.name for diff in FOUND.keys() - RUNS.keys()]


@pytest.mark.needs(TriedInCopy(ALL))
def test_original_is_not_broken(made: Found) -> None:
    assert not made.catcher


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(
            run,
            id=diff.stem,
            marks=pytest.mark.needs(TriedInCopy((run.case,), diff))
            if diff in HERE
            else pytest.mark.skip(reason="spatch is not here: install coccinelle"),
        )
        for diff, run in RUNS.items()
    ],
)
def test_caught(made: Found, run: Run) -> None:
    well, words = verdict(run, [made])
    assert well, words
