# SPDX-License-Identifier: GPL-2.0
"""test_workqueue's lines and parameters.

Seen failing: with a parser that takes any line with a scope; with rows_of() that does not look at
the mode, the scopes or the number of items; with a scope more in lib/test_workqueue.h; with
parse_words() that leaves scopes a string; and with scopes that only go backwards.
"""

import re

import pytest

from wqlab.ground.places import ROOT
from wqlab.results.model import ResultsError, Row, Run
from wqlab.results.module import MODES, SCOPES, parse_row, parse_words, rows_of, turned, words

VALUES = {"threads": 2, "items": 100, "items_per_sec": 5000, "lost": 0, "twice": 0}
RUN = {"mode": "serial", "scopes": ["cpu", "cache"], "items": 50}


def line(scope: str, mode: str = "serial", **changes: int) -> str:
    said = " ".join(f"{key}={value}" for key, value in (VALUES | changes).items())
    return f"test_workqueue: scope={scope} mode={mode} {said}"


def test_row() -> None:
    assert parse_row(line("cache")) == Row("cache", "serial", values=VALUES)
    assert parse_row("test_workqueue: scope=cache_shard missing") == Row("cache_shard", "", True)
    assert parse_row("test_workqueue: scopes=x is not a list") is None
    assert parse_row("> mode=serial scope=cache") is None


@pytest.mark.parametrize(
    "text",
    [
        line("cache") + " x",
        line("cache").replace("mode=serial ", ""),
        line("cache").replace("items=100 ", ""),
        line("cache").replace("=100", "=many"),
    ],
)
def test_bad_row(text: str) -> None:
    with pytest.raises(ResultsError):
        parse_row(text)


def test_words() -> None:
    text = "mode=sleep scopes=cpu,numa cpus=0-3,8 wq_items=5 max_active=3"
    run = {"mode": "sleep", "scopes": ["cpu", "numa"], "cpus": "0-3,8", "items": 5}
    assert parse_words(text) == run | {"max_active": 3}
    assert words(parse_words(text)) == text
    for bad in ("mode", "wq_items=many", "a=b=c"):
        with pytest.raises(ResultsError):
            parse_words(bad)


def test_scopes_are_turned() -> None:
    """Each comes first as often as last, and the run itself stays as it is."""
    run: Run = {"mode": "serial", "scopes": ["cpu", "cache", "system"]}
    assert [words(turned(run, number)).partition("scopes=")[2] for number in range(1, 8)] == [
        "cpu,cache,system",
        "system,cache,cpu",
        "cache,system,cpu",
        "cpu,system,cache",
        "system,cpu,cache",
        "cache,cpu,system",
        "cpu,cache,system",
    ]
    assert run == {"mode": "serial", "scopes": ["cpu", "cache", "system"]}
    assert turned({"mode": "serial"}, 2) == {"mode": "serial"}


def test_rows_of() -> None:
    """In the order that was asked for; other lines are passed over."""
    said = ["insmod: loaded", line("cpu"), line("cache")]
    assert [row.scope for row in rows_of(RUN, said)] == ["cpu", "cache"]
    missing = [line("cpu"), "test_workqueue: scope=cache missing"]
    assert [row.missing for row in rows_of(RUN, missing)] == [False, True]
    assert [row.scope for row in rows_of({"mode": "serial"}, said)] == ["cpu", "cache"]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ([], "not one row for each scope, but none"),
        ([line("cpu")], "not one row for each scope, but cpu, of: mode=serial scopes=cpu,cache"),
        ([line("cpu"), line("cache"), line("cache")], "not one row for each scope"),
        ([line("cpu"), line("cache", lost=1)], "scope cache, mode serial: 1 items lost"),
        ([line("cpu", twice=2), line("cache")], "2 items twice"),
        ([line("cpu"), line("cache", mode="burst")], "not the mode of"),
        ([line("cpu"), line("cache", items=99)], "99 items ran, not all"),
        ([line("cpu"), line("cache", items_per_sec=0)], "no items per second"),
    ],
)
def test_what_is_not_of_the_run(said: list[str], message: str) -> None:
    with pytest.raises(ResultsError, match=message):
        rows_of(RUN, said)


def test_names_are_those_of_the_module() -> None:
    module = (ROOT / "lib/test_workqueue.c").read_text()
    for name, known in (("SCOPES", SCOPES), ("MODES", (*MODES, "rate"))):
        text = re.search(rf'#define {name}\s+"(.*)"', module)
        assert text and tuple(text[1].split(", ")) == known
