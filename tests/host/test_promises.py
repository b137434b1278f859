# SPDX-License-Identifier: GPL-2.0
"""tests/promises.toml: each promise of the series has tests, and mutants that break it and are caught.

Seen failing: with a promise that has no test, a case and a function that are not there, a mutant that is
not there, one that another case catches, a promise that has neither mutants nor says why, and one that
`make test` doesn't look at.
"""

import ast
import re
import tomllib
from functools import cache

import pytest

from wqlab.ground.places import ROOT

PROMISES = tomllib.loads((ROOT / "tests/promises.toml").read_text())
WANTED = [
    f"{letter}{n}" for letter, last in (("S", 10), ("M", 7), ("W", 3)) for n in range(1, last + 1)
]
KUNIT = (ROOT / "kernel/workqueue_kunit.c").read_text()
CASES = set(re.findall(r"\bKUNIT_CASE\w*\((\w+)", KUNIT)) | {"scaling"}  # that is simulated
SERIES = ROOT / "tests/mutants/series"


@cache
def functions(path: str) -> dict[str, bool]:
    """The tests of a file, and whether only --tier full runs each."""
    tree = ast.parse((ROOT / "tests" / path).read_text())
    return {
        node.name: any("tier('full')" in ast.unparse(mark) for mark in node.decorator_list)
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def is_there(test: str) -> bool:
    path, _, name = test.rpartition("::")
    return name in functions(path) if path else name in CASES


def in_make_test(test: str) -> bool:
    path, _, name = test.rpartition("::")
    return not functions(path)[name] if path else True


def caught_by(mutant: str) -> str:
    """The case that the first line of a mutant names."""
    text = (SERIES / f"{mutant}.diff").read_text()
    [case] = re.findall(r"\ACaught by: (\w+)", text)
    return case


def test_all_are_there() -> None:
    assert set(WANTED) <= PROMISES.keys()


@pytest.mark.parametrize("name", PROMISES)
def test_promise(name: str) -> None:
    promise = PROMISES[name]
    assert promise.keys() <= {"says", "tests", "mutants", "missing"} and promise["says"]
    assert promise["tests"], "nothing tests it"
    assert [test for test in promise["tests"] if not is_there(test)] == [], "no such tests"
    assert any(map(in_make_test, promise["tests"])), "make test doesn't look at it"
    others = {mutant: caught_by(mutant) for mutant in promise.get("mutants", [])}
    assert {m: case for m, case in others.items() if case not in promise["tests"]} == {}
    if not others:
        pytest.skip(f"no mutant breaks it: {promise['missing']}")
