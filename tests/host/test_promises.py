# SPDX-License-Identifier: GPL-2.0
"""tests/promises.toml: each promise is under tests that are there and run when they are said to, at
least one of them in `make test`, and a mutant breaks it which one of them catches.

Seen failing: with a promise, a test, a function, a case and a diff left out or misspelt; with a diff
that names a case of another promise; with a promise that only --tier full tests; with a case that
one CPU skips said to be quick; and with a fix of part 1 that no promise has.
"""

import re
import sys
import tomllib
from functools import cache
from typing import Any

import pytest
import test_small_models
from mutants import TORTURE, named_run

from wqlab.ground.places import ROOT
from wqlab.ground.run import check

TIERS = ("quick", "test", "full")
MUTANTS = ROOT / "tests/mutants/series"
TORTURE_TEST = "tests/boot/test_torture.py::test_torture"
MODEL_TEST = "tests/models/test_small_models.py::test_mistake_is_found"
FOLDERS = ("tests/boot", "tests/models")
PART_1 = "fixes"  # of patches/7.3/parts
FIXES = "F"

Promise = dict[str, Any]
PROMISES: dict[str, Promise] = tomllib.loads((ROOT / "tests/promises.toml").read_text())
ALL = {
    *(f"S{number}" for number in range(1, 11)),
    *(f"M{number}" for number in range(1, 8)),
    *(f"W{number}" for number in range(1, 4)),
}

each_promise = pytest.mark.parametrize("name", PROMISES)


@cache
def cases() -> dict[str, str]:
    """The KUnit cases and their first tier: "test" where they need several CPUs, which User Mode
    Linux does not have in tier quick."""
    found = {}
    text = (ROOT / "kernel/workqueue_kunit.c").read_text()
    for case in re.findall(r"KUNIT_CASE\w*\((\w+)", text):
        match = re.search(rf"^static void {case}\(.*?^}}", text, re.MULTILINE | re.DOTALL)
        assert match, f"{case} has no body"
        several = re.search(r"kunit_skip|new_helper\(", match[0])
        found[case] = "test" if several else "quick"
    return found


@cache
def functions() -> dict[str, str]:
    """The tests of pytest, and the first tier that has them, without parameters."""
    found: dict[str, str] = {}
    for tier in TIERS:
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", f"--tier={tier}"]
        said = check([*command, *FOLDERS], wrong="tests cannot be collected", limit=120, cwd=ROOT)
        for line in said.splitlines():
            if line.startswith("tests/"):
                found.setdefault(line.split("[")[0], tier)
    return found


def proofs(promise: Promise) -> dict[str, str]:
    """Its tests, and the tier that each is said to run in."""
    return {test: tier for tier in TIERS for test in promise.get(tier, [])}


def first_tier(test: str) -> str | None:
    """In which it does; None if there is no such test."""
    return functions().get(test) if "::" in test else cases().get(test)


def catcher(mutant: str) -> str:
    """The test that a mutant names, which is what catches it."""
    if " " in mutant:
        model, broken = mutant.split()
        assert broken in test_small_models.MODELS[model].breaks
        return MODEL_TEST
    named = named_run(MUTANTS / f"{mutant}.diff")
    assert named, f"{mutant} names nothing"
    return TORTURE_TEST if named.case == TORTURE else named.case.split("[")[0]


def test_each_is_there() -> None:
    assert {name for name in PROMISES if not name.startswith(FIXES)} == ALL


def test_each_fix_is_there() -> None:
    """Patches of part 1, but for the last one, which adds the KUnit tests."""
    [line] = [
        line
        for line in (ROOT / "patches/7.3/parts").read_text().splitlines()
        if f" {PART_1} " in line
    ]
    last, subjects = line.split(f" {PART_1} ")[1], []
    for path in sorted((ROOT / "patches/7.3").glob("0*.patch")):
        subject = re.search(
            r"^Subject: \[PATCH\] (.*?)\n(?! )", path.read_text(), re.MULTILINE | re.DOTALL
        )
        assert subject
        subjects.append(" ".join(subject[1].split()))
        if subjects[-1] == last:
            break
    fixes = [promise["patch"] for name, promise in PROMISES.items() if name.startswith(FIXES)]
    assert fixes == subjects[:-1]


@each_promise
def test_nothing_is_missing(name: str) -> None:
    promise = PROMISES[name]
    assert promise["promise"].endswith(".") and "\n" not in promise["promise"]
    if why := promise.get("missing"):
        pytest.skip(f"{name} is not proven whole: {why}")
    assert proofs(promise), "no test"
    assert promise.get("mutants"), "no mutant"


@each_promise
def test_tests_run_when_they_are_said_to(name: str) -> None:
    said = proofs(PROMISES[name])
    unknown = [test for test in said if not first_tier(test)]
    assert not unknown, "there is no such test"
    late = [
        test for test, tier in said.items() if TIERS.index(first_tier(test)) > TIERS.index(tier)
    ]
    assert not late, "not in that tier"
    assert any(first_tier(test) != "full" for test in said), "not in `make test`"


@each_promise
def test_mutants_are_caught_by_its_tests(name: str) -> None:
    promise = PROMISES[name]
    caught = {mutant: catcher(mutant) for mutant in promise.get("mutants", [])}
    others = {mutant: test for mutant, test in caught.items() if test not in proofs(promise)}
    assert not others, "by none of its tests"
