# SPDX-License-Identifier: GPL-2.0
"""The mutants that are generated: what is made of a source, and what was stored of the series'.

Seen failing: with mutants of lines that comments and strings have, of the first line of a statement
alone, and of what a function with a bool for an argument returns; with names that count lines; with
numbers from 2; with what was survived left out of the file; with a digest of names; with a mutant tried
again that is known, or caught at the first failure of a case; with equivalent ones counted; with
functions left out that cannot be shared; and with a reason for a mutant that there is not, a caught
one, and a series that the file is not of.
"""

import json
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

import generate
import pytest
from breaks import Break, breaks, digest, overlay
from farm import Making, Need
from generate import EQUIVALENT, STORED, Outcomes, read_source, summary
from mutants import Found, Run
from needs import SOURCE
from schemata import HOME

from wqlab.ground.problem import Problem, Skipped
from wqlab.kernels.bases import default_base

CAUGHT = 97.0  # percent, at least, of those that are not equivalent

STOCK = """\
static int old(int a)
{
	if (a)
		a--;
	while (a &&
	       b(2))
		;
	return a;
}
"""
SERIES = """\
static int old(int a)
{
	/* if (a > 2) a = 3; */
	if (a)
		a--;
	if (a > 1 &&
	    !b("<= ;"))
		goto out;
	else
		a = c[1] + (a << 2);
out:
	while (a &&
	       b(3))
		;
	for (int i = 0; i < a; i++)
		lockdep_assert_held(&lock);
	return a >= 7;
}

static bool first(struct list_head *list, bool any)
{
	struct item *one = list_first_entry_or_null(&list[0],
						    struct item, node);
	static const int levels[] = { [0] = 1, };
	LIST_HEAD(left);

	do {
		list_add(&one->node, &left);
	} while (--levels);
	list_for_each_entry(one, &left, node)
		while (one->next)
			;
	switch (any) {
	case true:
		return false;
	}
	return one;
}

static int number(bool any)
{
	return any;
}
"""
MUTANTS = """\
old-invert: if (!(a > 1 &&
old-invert: while (!(a &&
old-edge: if (a >= 1 &&
old-edge: for (int i = 0; i <= a; i++)
old-edge: return a > 7;
old-join: if (a > 1 ||
old-drop: ;
old-drop: ;
first-invert: } while (!(--levels));
first-invert: while (!(one->next))
first-end: struct item *one = (list_empty(&list[0]) ? NULL : list_last_entry(&list[0],
first-end: list_add_tail(&one->node, &left);
first-end: list_for_each_entry_reverse(one, &left, node)
first-drop: ;
first-invert: return !(one);
"""


def changed(one: Break) -> str:
    """The first line of a mutant that is another one in the series."""
    lines = zip(
        one.function.body.splitlines(), SERIES[SERIES.index(one.function.head) :].splitlines()[1:]
    )
    return next(line.strip() for line, old in lines if line != old)


def test_breaks() -> None:
    found = breaks(STOCK, SERIES)
    shown = [f"{one.name.rpartition('-')[0]}: {changed(one)}" for one in found]
    assert shown == MUTANTS.splitlines()
    assert len({one.name for one in found}) == len(found)
    dropped = [one.line for one in found if "-drop-" in one.name]
    assert dropped == ["goto out;", "a = c[1] + (a << 2);", "list_add(&one->node, &left);"]


def test_names_stay() -> None:
    """Whatever is added before them: reasons in equivalent.toml go by name."""
    more = SERIES.replace("\tif (a > 1", "\tif (a > 9)\n\t\ta = 0;\n\tif (a > 1")
    names, more_names = ({one.name for one in breaks(STOCK, text)} for text in (SERIES, more))
    assert names < more_names
    twice = SERIES.replace("\tdo {\n", "\tlist_add(&one->node, &left);\n\tdo {\n")
    assert len({one.name for one in breaks(STOCK, twice)}) == len(breaks(STOCK, twice))


def test_digest() -> None:
    known = digest(breaks(STOCK, SERIES))
    assert digest(breaks(STOCK, SERIES)) == known
    other = [text.replace("a--;", "a++;") for text in (STOCK, SERIES)]
    assert [one.name for one in breaks(*other)] == [one.name for one in breaks(STOCK, SERIES)]
    assert digest(breaks(*other)) != known


def test_function_that_cannot_be_shared() -> None:
    odd = "int odd(int (*get)(void))\n{\n\treturn get();\n}\n"
    assert breaks(odd, odd) == []
    with pytest.raises(Problem, match="^no mutants of int odd"):
        breaks("", odd)


def test_overlay_chooses(tmp_path: Path) -> None:
    """Number N is the N-th of them."""
    text = "int value(int a)\n{\n\tif (a > 1)\n\t\ta = 10;\n\treturn a;\n}\n"
    found = breaks("", text)
    assert [one.name.split("-")[1] for one in found] == ["invert", "edge", "drop"]
    file = tmp_path / "main.c"
    head = "int wq_mutant;\n#define READ_ONCE(x) (x)\n"
    main = "#include <stdio.h>\nint main(void)\n{\n\tfor (; wq_mutant < 4; wq_mutant++)\n"
    main += '\t\tprintf("%d %d %d\\n", value(0), value(1), value(2));\n}\n'
    made = overlay(text, found)[HOME].partition("\nint wq_mutant;")[0]
    file.write_text(head + made + "\n" + main)
    subprocess.run(["gcc", "-o", tmp_path / "main", file], check=True)
    done = subprocess.run([tmp_path / "main"], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["0 1 10", "10 10 2", "0 10 10", "0 1 2"]


# --- what was found ---------------------------------------------------------------------------


UML, MACHINE = Run(), Run(machine="nodes-4")


def test_outcomes(tmp_path: Path) -> None:
    outcomes = Outcomes(tmp_path / "new/file")
    outcomes.add("a", UML, Found(UML))
    outcomes.add("a", MACHINE, Found(MACHINE, ("a_case",)))
    outcomes.add("b", UML, Found(UML))
    again = Outcomes(tmp_path / "new/file")
    assert again.known == {
        "a": {"KUnit": "", "KUnit on nodes-4": "a_case on nodes-4"},
        "b": {"KUnit": ""},
    }
    assert [again.catcher(name) for name in "abc"] == ["a_case on nodes-4", "", ""]


def test_goes_on_on_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what the stored file has, that nothing is tried twice."""
    monkeypatch.setattr(generate, "STORED", tmp_path / "stored")
    found = breaks(STOCK, SERIES)[:3]
    outcomes = Outcomes(tmp_path / "here")
    outcomes.add(found[0].name, UML, Found(UML, ("a_case",)))
    outcomes.add(found[1].name, UML, Found(UML))
    stored = generate.store(found, outcomes)
    assert json.loads((tmp_path / "stored").read_text())["outcomes"] == stored
    again = Outcomes(tmp_path / "there", stored)
    assert [again.catcher(one.name) for one in found] == ["a_case", "", ""]
    again.add(found[1].name, MACHINE, Found(MACHINE))
    assert again.known[found[1].name] == {"KUnit": "", "KUnit on nodes-4": ""}
    assert generate.store(found, again)[1]["survived"] == ["KUnit", "KUnit on nodes-4"]


def test_tries_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was caught, or has survived this run before, is not booted again."""
    outcomes = Outcomes(tmp_path / "file")
    outcomes.add("caught", UML, Found(UML, ("a_case",)))
    outcomes.add("survivor", UML, Found(UML))
    looked: list[str] = []

    def look(kernel: str, mutant: generate.Mutant, run: Run, out: Path) -> Found:
        assert kernel == "kernel of " + run.flavour
        assert mutant.number == numbers.get(mutant.name, 0)
        looked.append(mutant.name)
        fails = mutant.name == "survivor" or (
            mutant.name == "new" and looked.count("new") in (2, 3)
        )
        lost = "no end" * (mutant.name == "lost")
        return Found(run, ("b_case",) if fails else (), lost)

    monkeypatch.setattr(generate, "look", look)
    numbers = {"caught": 1, "survivor": 2, "new": 3, "lost": 4}
    for run in (UML, MACHINE):
        generate.try_all(
            list(numbers), numbers, run, outcomes, lambda run: f"kernel of {run.flavour}"
        )
    assert looked[0] == "original" and sorted(looked[1:3]) == ["lost", "new"]
    # on a machine a case has to fail three times in a row
    assert looked[3] == "original" and sorted(looked[4:]) == ["new"] * 3 + ["survivor"] * 3
    assert {name: outcomes.catcher(name) for name in numbers} == {
        "caught": "a_case",
        "survivor": "b_case on nodes-4",
        "new": "",
        "lost": "the kernel did not survive: no end",
    }


def test_summary() -> None:
    stored = [
        {"name": name, "line": f"{name};", "caught": name[1:]} for name in ("ax", "b", "c", "dx")
    ]
    assert summary(stored, {"c": "why"}).splitlines() == [
        "SURVIVED b: b;",
        "2 of 3 caught (66.7 %), 1 equivalent",
    ]


@dataclass(frozen=True)
class Breaks(Need):
    """The mutants of the series."""

    before = (SOURCE,)

    def make(self, farm: Making) -> list[Break]:
        if farm.options.ksrc or farm[SOURCE].base.name != default_base():
            raise Skipped(f"{STORED.name} is of {default_base()}'s own source")
        return breaks(*read_source(farm[SOURCE]))


@pytest.mark.needs(Breaks())
def test_stored(made: list[Break]) -> None:
    """The file is of this series, and as many are caught as is claimed."""
    found, stored = made, json.loads(STORED.read_text())
    assert stored["mutants"] == digest(found), (
        f"{STORED.name} is of an older series: run python3 tests/proof/generate.py"
    )
    assert [row["name"] for row in stored["outcomes"]] == [one.name for one in found]
    equivalent = tomllib.loads(EQUIVALENT.read_text())
    caught = {row["name"] for row in stored["outcomes"] if row["caught"]}
    assert not set(equivalent) - {one.name for one in found}, "no such mutants"
    assert not set(equivalent) & caught, "they are not equivalent"
    assert all(reason.endswith(".") for reason in equivalent.values())
    real = [one for one in found if one.name not in equivalent]
    share = 100 * sum(one.name in caught for one in real) / len(real)
    assert share >= CAUGHT, summary(stored["outcomes"], equivalent)
