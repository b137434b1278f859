# SPDX-License-Identifier: GPL-2.0
"""What documents claim is what the files of results say; tests/claims.toml binds the one to the other.

Seen failing: with a number of docs/results.md changed in its last digit; with a number that no claim
has; with the end of an interval rounded twice; with a mark of a link too few, and one too many; with
"boots" of a claim one too high; with "Not all ran the same `burst`" left out; with a file that is not
listed as "-dirty"; with results of a tree with changes kept; with
queries that take the first of two places, numbers that are rounded to fewer digits, and the checks of
boots, verdicts, parameters and age left out.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import answers
import claims
import made_results
import pytest
import slices
from answers import answer, words
from claims import Claim, declared, rounds_to, unclaimed

from wqlab.ground.problem import Problem
from wqlab.report import command
from wqlab.results import file
from wqlab.results.model import Made, Results


@pytest.mark.parametrize("n", range(len(declared()["claim"])))
def test_claim_is_what_the_file_says(n: int) -> None:
    claim = claims.claims()[n]
    assert not (wrong := list(claim.check())), "\n".join(wrong)


@pytest.mark.parametrize("doc", claims.found(declared()["covered"]))
def test_every_number_is_claimed(doc: str) -> None:
    assert not (found := unclaimed(doc)), "\n".join(found)


@pytest.mark.parametrize("doc", [doc for doc in declared()["covered"] if doc.endswith(".md")])
def test_links_say_how_old_a_file_is(doc: str) -> None:
    assert not (wrong := claims.marked_wrong(doc)), "\n".join(wrong)


def test_files_can_be_made_again() -> None:
    """But for those that are listed, and those alone."""
    dirty, elided = set(), set()
    for path in slices.MEASURED:
        for made in answers.results(path.name).made:
            assert made.date and made.command and made.commit, path.name
            assert " /" not in made.command and "=/" not in made.command, path.name
            dirty |= {path.stem} if made.commit.endswith("-dirty") else set()
            elided |= {path.stem} if "..." in made.command else set()
    assert dirty == set(declared()["dirty"])
    assert elided == set(declared()["elided"])


# --- made-up claims -----------------------------------------------------------------------------

TEXT = "it is faster, {patched/stock []} times stock, {patched per=1000} thousand/s."
GOOD = "In `cache` it is faster, 2.09 [1.82 - 2.21] times stock, 132.7 thousand/s. It is old."
OLD = "2025-12-31"


def made_up(boots: int = 5, date: str = "2026-01-02") -> Results:
    found = made_results.results({"stock": 1, "patched": 2}, boots=boots, modes=("serial", "burst"))
    return replace(found, made=[replace(found.made[0], date=date)])


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """What is wrong with a claim in a document, of a file of results."""

    def said(doc: str, found: Results, **table: object) -> str:
        monkeypatch.setattr(answers, "results", lambda _: found)
        monkeypatch.setattr(claims, "document", lambda _: doc)
        answers.all_cells.cache_clear()
        where = "section=time mode=serial scope=cache items_per_sec"
        usual = {"in": "x.md", "file": "x.json", "where": where, "text": TEXT, "boots": 5}
        return "\n".join(Claim.of(usual | table).check())

    monkeypatch.setitem(declared(), "since", "2026-01-01")
    yield said
    answers.all_cells.cache_clear()


def test_made_up_claims(wrong: Callable[..., str]) -> None:
    good = made_up()
    assert wrong(GOOD, good) == wrong(GOOD.replace("1.82 - 2", "1.82 to 2"), good) == ""
    assert "it says 2.08, and {patched/stock" in wrong(GOOD.replace("2.09", "2.08"), good)
    assert "it says 132.8, and" in wrong(GOOD.replace("132.7", "132.8"), good)
    assert "x.md has it 0 times" in wrong(GOOD.replace("thousand", "million"), good)
    assert "x.md has it 2 times" in wrong(f"{GOOD} {GOOD}", good)
    assert "of [5] boots, not [6]" in wrong(GOOD, good, boots=6)
    assert "2 places fit" in wrong(GOOD, good, where="section=time scope=cache items_per_sec")
    assert "0 places fit" in wrong(GOOD, good, where="section=sim scope=cache items_per_sec")


def test_an_older_series_is_said(wrong: Callable[..., str]) -> None:
    assert wrong(GOOD, made_up(date=OLD), older="It is old") == ""
    assert wrong(GOOD + " [x](../results/x.json)", made_up(date=OLD)) == ""
    assert "say so, and where" in wrong(GOOD, made_up(date=OLD))
    assert "does not say that x.json is older" in wrong(GOOD, made_up(date=OLD), older="Once")


def test_few_boots_tell_nothing(wrong: Callable[..., str]) -> None:
    two = made_up(2)
    gets = {"text": "it gets {patched per=1000}", "boots": 2}
    assert wrong("it gets 131.1, of two boots", two, **gets, repeats="of two boots") == ""
    assert "not say that there are 2 boots" in wrong("it gets 131.1", two, **gets)
    assert "not say that there are 2 boots" in wrong("it gets 131.1", two, **gets, repeats="of two")
    faster = {"text": "faster: {patched per=1000}", "boots": 2, "repeats": "of two boots"}
    assert "a verdict of 2 boots" in wrong("faster: 131.1, of two boots", two, **faster)
    simulated = replace(two, boots=[*two.boots, replace(two.boots[0], section="sim", rows=[])])
    assert wrong("faster: 131.1, of two boots", simulated, **faster) == ""


def test_other_parameters_are_said(wrong: Callable[..., str]) -> None:
    good = made_up()
    for key, value in {"work_ns": 5, "max_active": 1, "window": 2, "items": 4}.items():
        rows = [replace(row, values=row.values | {key: value}) for row in good.boots[1].rows]
        mixed = replace(good, boots=[good.boots[0], replace(good.boots[1], rows=rows)])
        mixed = replace(mixed, boots=[*mixed.boots, *good.boots[2:]])
        assert "other parameters for some kernel: True" in wrong(GOOD, mixed), key
        assert wrong(GOOD, mixed, mixed="In `cache` it is") == "", key
    assert "other parameters for some kernel: False" in wrong(GOOD, good, mixed="In `cache` it is")
    rows = [replace(row, values=row.values | {"max_active": 256}) for row in good.boots[1].rows]
    higher = replace(
        good, boots=[good.boots[0], replace(good.boots[1], rows=rows), *good.boots[2:]]
    )
    assert wrong(GOOD, higher) == ""  # a limit that two items in flight do not reach


@pytest.mark.parametrize(
    ("number", "said", "holds"),
    [
        (0.335, "0.33", True),
        (0.335, "0.34", True),
        (0.33499, "0.34", False),
        (1234.4, "1,234", True),
        (1234.6, "1,234", False),
        (0.96, "1.0", True),
        (0.96, "1.00", False),
    ],
)
def test_rounding(number: float, said: str, holds: bool) -> None:
    assert rounds_to(number, said) is holds


def test_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are of more than one place."""
    found = made_up()
    monkeypatch.setattr(answers, "results", lambda _: found)
    answers.all_cells.cache_clear()
    base = words("file=x.json section=time mode=serial items_per_sec patched")

    def one(query: str) -> float:
        [number] = answer(base, query).numbers
        return number

    each = [one(f"scope={scope}") for scope in ("cpu", "cache", "system")]
    among = "scope=cpu|cache|system"
    assert (one(f"least {among}"), one(f"most {among}")) == (min(each), max(each))
    assert one(f"sum {among}") == sum(each) and one(f"middle {among}") == sorted(each)[1]
    assert one("scope=cpu / scope=cache") == each[0] / each[1]
    assert one("scope=cpu per=10") == each[0] / 10
    assert one("scope=cpu more / scope=cache") == each[0] / each[1] - 1
    assert one("scope=cpu low") < each[0] < one("scope=cpu high")
    assert one("scope=cpu range") == one("scope=cpu high") / one("scope=cpu low")
    assert one(f"alike {among} / patched") == 3 and one(f"unlike {among} / stock") == 3
    assert len(claims.each_of(base, among)) == 3
    answers.all_cells.cache_clear()


def test_results_of_a_tree_with_changes_are_not_kept(tmp_path: Path) -> None:
    args = argparse.Namespace(
        files=[tmp_path / "x.json"], pods=None, csv=False, keep=tmp_path / "kept"
    )
    for commit in ("0123456789ab-dirty", None):
        file.save(
            replace(made_up(), made=[Made("2026-01-01", "wqlab bench", commit)]), args.files[0]
        )
        with pytest.raises(Problem, match="a tree that has changes, or with no commit"):
            command(args)
        assert not args.keep.exists()
    file.save(made_up(), args.files[0])
    command(args)
    assert file.load(args.keep) == made_up()
