# SPDX-License-Identifier: GPL-2.0
"""The audit of callers: a small tree with known answers, and the files of whole ones.

Seen failing: with shares of nodes rounded down, or without their floor; with `|=` that forgets what
was there before; with a member of another file taken before one of the same; with the two
definitions of a macro taken for one; with an enumerator that counts from 1; with macros' bodies
counted as call sites; without the search by words, which finds what coccinelle does not parse; with
any arguments of those taken for constants; with workqueues of one name taken for one; with a
completion that anybody completes taken for one of the same workqueue; with --nodes that are more
than --cpus; with a line of a stored CSV changed, and with a note of a caller that is not there;
with names that coccinelle's words are given to it as a list, with `sizeof` taken for a name, with
`typeof` for no cast, with the type of min_t() taken for an argument; with limits worked out for the
largest number of nodes only; with `(f)(x)` taken for no call, with pointers to functions and calls
that coccinelle does not parse left out; with callers sought in the folder of a function only, or
whatever function of the name they mean; with what `#if 0` and `#else` of `#if 1` leave out taken
for code, by words or by coccinelle; with a name that stands for workqueues of both kinds taken for
one with WQ_MEM_RECLAIM, or for one without it, with cancelling, items that nobody queues and items
of create_workqueue() taken for flushes that warn, without the functions that lead to one, system
workqueues and flush_scheduled_work(); with a reported caller sought by its first call only, with
the note of a file taken before that of a workqueue; with a patch for a caller whose context is
changed; with a row less in the table of docs/loads.md; and with the mutants audit-*.diff of
tests/mutants/scripts.
"""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from audit import audit, page, report
from audit.expression import Call, Name, Unknown, Values, evaluate, parse, shown
from audit.limits import Constants, meaning, shares
from audit.report import Audit, Kernel, Note, Row
from audit.tree import Found, Tree, arguments, calls_in, code, compiled, neat
from wqlab.ground.places import ROOT
from wqlab.ground.problem import Problem
from wqlab.kernels.bases import base_names, load_base
from wqlab.kernels.obtain import obtain
from wqlab.results.model import Made

SMALL = Path(__file__).with_name("data")
STORED = sorted((ROOT / "results/audit").glob("*.json"))
LIMIT = 600.0  # seconds that a whole tree may take
KNOWN = Constants({"WQ_BH": 1, "WQ_UNBOUND": 2, "__WQ_ORDERED": 4}, 512, 256, 8)

needs_spatch = pytest.mark.skipif(
    shutil.which("spatch") is None, reason="spatch is not here: install coccinelle"
)


def run_audit(cache: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    env = {key: text for key, text in os.environ.items() if key != "WQ_SETUP"}
    return subprocess.run(
        [sys.executable, "-m", "audit", *map(str, words)],
        cwd=ROOT, env=env | {"XDG_CACHE_HOME": str(cache)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


# --- expressions ------------------------------------------------------------------------------


def known(one: Name | Call) -> Values:
    values = {"two": {2}, "some": {1, 9}, "cpus": {64}}
    if one.name in values:
        return frozenset(values[one.name])
    raise Unknown(f"{one.name} is not known")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1 << 4 | 3", {19}),
        ("2 + 3 * 4 - -1", {15}),
        ("(unsigned int)010 / 3", {2}),
        ("0x10u % 7", {2}),
        ("-7 / 2", {-3}),
        ("!two", {0}),
        ("min_t(unsigned int, cpus + 2, 8)", {8}),
        ("clamp(some, 2, 4)", {2, 4}),
        ("DIV_ROUND_UP(cpus, 7)", {10}),
        ("nobody ? 4 : 2", {2, 4}),
        ("two > 1 ? 4 : nobody", {4}),
        ("some ?: 7", {1, 9}),
        ("two * some", {2, 18}),
        ("max(two, some) & ~1", {2, 8}),
        ("1 == 1 && 2 < 1", {0}),
        ("(typeof(two + 1))two << 1", {4}),
        ("min_t(typeof(f(a, b)), 4, two)", {2}),
        ("max_t(struct a *, 4, two)", {4}),
        ("min_not_zero(0, 4)", {4}),
        ("min_not_zero(0, 0)", {0}),
    ],
)
def test_expressions(text: str, values: set[int]) -> None:
    assert evaluate(parse(text), known) == values


@pytest.mark.parametrize(
    "text",
    [
        "nobody + 1",
        "1 +",
        "a[3]",
        "f(",
        "1 / (two - 2)",
        "a ? b",
        "{1}",
        "sizeof(two)",
        "sizeof two",
        "(typeof(two), 3)",
        "(typeof(two) 3",
        "(struct a)3",
        "1 << (two - 3)",
        "089",
        "min_t(int)",
    ],
)
def test_expressions_that_nobody_knows(text: str) -> None:
    with pytest.raises(Unknown):
        evaluate(parse(text), known)


def test_values_as_words() -> None:
    assert shown(frozenset({8, 1})) == "1 or 8"
    assert shown(frozenset(range(4, 12))) == "4 to 11"


def test_text_as_people_write_it() -> None:
    assert neat("min_t ( int , ret -> n [ 2 ] , - 1 )") == "min_t(int, ret->n[2], -1)"


def test_words_of_code(tmp_path: Path) -> None:
    file = tmp_path / "a.c"
    file.write_text(
        '/* f(1) */ f(2); s = "f(3)"; // f(4)\n\'"\'; f\n(5); x.f(6); p->f(7); of(8);\n'
        "void f(const char *name);\nvoid f(u8 name)\n{\n}\n#if 0\nf(9);\n#endif\n"
        "(f)(10); g(f); EXPORT_SYMBOL(f);"
    )
    text, whole = code(file), file.read_text()
    found = list(calls_in(text, ["f"]))
    assert [(line, name) for line, name, _ in found] == [(1, "f"), (2, "f"), (11, "f"), (11, "f")]
    assert [arguments(text, whole, at) for _, _, at in found[:3]] == [("2",), ("5",), ("10",)]
    assert found[3][2] == -1


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("#if 0\na\n#else\nb\n#endif\nc", "b c"),
        ("#if (0) && X\na\n#elif Y\nb\n#else\nc\n#endif", "b c"),
        ("#if 0 || X\na\n#endif", "a"),
        ("#if 1\na\n#elif Y\nb\n#else\nc\n#endif", "a"),
        ("# if 0\n#ifdef X\na\n#else\nb\n#endif\nc\n#endif\nd", "d"),
        ("#ifdef X\n#if 0\na\n#endif\nb\n#else\nc\n#endif", "b c"),
        ("#if X\na\n#elif 1\nb\n#else\nc\n#endif", "a b"),
    ],
)
def test_what_no_configuration_compiles(text: str, left: str) -> None:
    lines = compiled(text).splitlines()
    assert len(lines) == len(text.splitlines())
    assert " ".join(line for line in lines if line.strip(" ") and line[0] != "#") == left


def test_what_cannot_be_searched(tmp_path: Path) -> None:
    """It is not taken for a tree without callers."""
    with pytest.raises(Problem, match="git grep failed"):
        Tree(tmp_path / "nowhere").files(["f"])


def test_files_that_coccinelle_cannot_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are named with the reason, and what is in the others is found."""
    fake = tmp_path / "spatch"
    fake.write_text(
        "#!/bin/sh\n"
        'case "$*" in *--parse-cocci*) exit ;; esac\n'
        "for groups; do :; done\n"
        "grep -q b.c \"$groups\" && echo 'exception: bent' && exit 2\n"
        """echo '{"kind": "call", "file": "a.c", "line": 7, "function": "g", "name": "f"}'\n"""
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found, wrong = Tree(tmp_path).match("calls.cocci", ["f"], ["a.c", "b.c"], "calls")
    assert found == [Found("call", "a.c", 7, "g", "f")]
    assert wrong == {"b.c": "coccinelle failed: exception: bent"}


def test_arguments() -> None:
    def of(whole: str) -> tuple[str, ...]:
        return arguments(re.sub('"[^"]*"', lambda one: " " * len(one[0]), whole), whole, 1)

    assert of('f("a, (b", A | B, min(1, 2), x[3, 4]) + g(5)') == (
        '"a, (b"', "A | B", "min(1, 2)", "x[3, 4]"
    )  # fmt: skip
    assert of('f("a", 1') == ()


# --- limits -----------------------------------------------------------------------------------


def test_limits_as_they_were_measured() -> None:
    """docs: 8 ran 8, 16 and 32 at once on 1, 2 and 4 nodes; 16 queued on one node of two ran 8,
    and 64 queued on one of four ran 16."""
    assert [meaning(8, KNOWN, 16, nodes).per_node for nodes in (1, 2, 4)] == [8, 16, 32]
    assert meaning(16, KNOWN, 16, 2).one_node == 8
    assert meaning(64, KNOWN, 16, 4).one_node == 16


def test_limit_that_is_raised_has_the_min_active_of_its_allocation() -> None:
    assert meaning(8, KNOWN, 64, 8, allocated=1).per_node == 8
    assert meaning(8, KNOWN, 64, 8, allocated=1).one_node == 1
    assert meaning(8, KNOWN, 64, 8, allocated=4).per_node == 32


def test_limits() -> None:
    found = meaning(4, KNOWN, 64, 8)
    assert (found.per_cpu, found.per_node, found.one_node, found.exact) == (256, 32, 4, 4)
    assert (found.narrower, found.wider) == (8, 1)
    assert meaning(256, KNOWN, 64, 4).wider == 4
    # node 0 has 3 of 5 CPUs: shares are rounded up, so they are more than the limit together
    assert shares(16, 8, [3, 2]) == [10, 8]
    assert shares(100, 8, [3, 2]) == [60, 40]
    assert shares(13, 8, [1, 1]) == [8, 8]
    assert shares(33, 8, [1, 1]) == [17, 17]
    assert [KNOWN.limit(asked) for asked in (-1, 0, 1, 600)] == [1, 256, 1, 512]
    assert [KNOWN.kind(flags) for flags in (0, 1, 2, 6)] == ["percpu", "bh", "unbound", "ordered"]


# --- a small tree -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    place = tmp_path_factory.mktemp("audit")
    done = run_audit(place, "--ksrc", SMALL, "--out", place / "small")
    assert done.returncode == 0, done.stderr
    found = report.load(place / "small.json")
    lines = list(csv.reader((place / "small.csv").read_text().splitlines()))
    assert [line[4] for line in lines[1:]] == [row.name for row in found.rows]
    assert "6.12.0-made-up" in (place / "small.md").read_text()
    assert f"{len(found.rows)} call sites in 6.12.0-made-up" in done.stdout
    return found


def by_name(found: Audit, name: str) -> Row:
    [row] = [row for row in found.rows if row.name == name]
    return row


ANSWERS = {
    # name: kind, max_active on 64 CPUs, findings
    "each": ("percpu", [256], []),
    "one": ("unbound", [1], ["serial", "narrower"]),
    "eight-%s": ("unbound", [8], ["narrower"]),
    "all": ("unbound", [256], ["wider"]),
    "many": ("unbound", [128], ["cpus", "wider"]),
    "last": ("unbound", [5], ["narrower"]),
    "counted": ("percpu", [1], []),
    "soft": ("bh", [], []),
    "inorder-%d": ("ordered", [1], []),
    "single": ("ordered", [1], []),
    "legacy": ("percpu", [1], []),
    "frozen": ("unbound", [1], ["serial", "narrower"]),
    "local": ("unbound", [8], ["narrower"]),
    "option": ("unbound", [6], ["narrower"]),
    "member": ("unbound", [12], ["narrower"]),
    "returned": ("unbound", [3, 64], ["cpus", "wider"]),
    "either": ("percpu or unbound", [2, 4], ["narrower"]),
    "square": ("percpu", [64], ["cpus-each"]),
    "on-first": ("unbound", [5], ["narrower"]),
    "on-second": ("unbound", [64], ["cpus", "wider"]),
    "both": ("unbound", [1], ["serial", "narrower", "each-other"]),
    "other": ("unbound", [2], ["narrower"]),
    "constant": ("unbound", [3], ["narrower"]),  # which coccinelle does not parse
    "elsewhere": ("unbound", [2], ["narrower"]),
    "type": ("unbound", [4], ["narrower"]),
    "cast": ("unbound", [5], ["narrower"]),
    "words": ("unbound", [7], ["narrower"]),  # of coccinelle, which it takes for no names
    "nodes": ("unbound", [2, 4, 8, 16], ["narrower", "wider"]),
    "paren": ("unbound", [4], ["narrower"]),
    "far-away": ("unbound", [6], ["narrower"]),  # of a header in include/
    "beside": ("unbound", [7], ["narrower"]),  # of one in another folder
    "live": ("unbound", [2], ["narrower"]),
    "always": ("unbound", [3], ["narrower"]),
    "with": ("percpu", [2], []),
    "without": ("percpu", [2], []),
    "old": ("percpu", [1], []),
    "perhaps": ("percpu", [2], []),
    "twice": ("percpu", [2], []),
    "again": ("percpu", [2], []),
}
UNRESOLVED = {
    "stepped": "steps changes in steps or through a pointer (drivers/a/names.c:39)",
    "lost": "given is what the callers of names_init() give, and no call of it is found",
    "odd": "'a->sizes[2]' is an element of an array",
    "far": "what elsewhere() returns is not told near",
    "size": "'sizeof(c->bits) * 2' depends on sizeof",
    "shift": "an operator or a function has arguments that it does not take",
}


@needs_spatch
@pytest.mark.parametrize("name", ANSWERS)
def test_small_tree(small: Audit, name: str) -> None:
    row = by_name(small, name)
    assert (row.kind, row.active, row.findings) == ANSWERS[name]


@needs_spatch
@pytest.mark.parametrize("name", UNRESOLVED)
def test_what_cannot_be_resolved_says_why(small: Audit, name: str) -> None:
    assert by_name(small, name).why == UNRESOLVED[name]


@needs_spatch
def test_no_call_is_left_out(small: Audit) -> None:
    """Those that coccinelle does not parse are found by reading words."""
    rest = [row for row in small.rows if row.name not in {*ANSWERS, *UNRESOLVED}]
    assert [(row.place, row.why) for row in rest] == [
        ("drivers/a/a.h:14", "it is in a macro"),
        ("drivers/b/garbled.c:7", "coccinelle does not parse what is around it"),
        ("drivers/c/garbled.c:7", "coccinelle does not parse what is around it"),
        *(
            (
                f"drivers/c/kinds.c:{line}",
                "it is not called here: who calls it through a pointer is not followed",
            )
            for line in (21, 25, 26)
        ),
    ]


@needs_spatch
def test_more_of_the_small_tree(small: Audit) -> None:
    assert by_name(small, "option").options == ["asked"]
    assert by_name(small, "local").named == "WQ_UNBOUND"
    assert by_name(small, "last").named == "WQ_UNBOUND"
    assert by_name(small, "eight-%s").named == "WQ_SYSFS WQ_UNBOUND"
    assert by_name(small, "on-first").call == "hand_on"
    eight = {one.nodes: one for one in by_name(small, "eight-%s").meanings}[8]
    assert (eight.per_cpu, eight.per_node, eight.exact) == (512, 64, 8)
    assert [one.exact for one in by_name(small, "nodes").meanings] == [2, 4, 8, 16]
    waits = by_name(small, "both").waits
    assert "first() has wait_for_completion(&b->done), drivers/b/waits.c:9" in waits[0]
    assert waits[1:] == [
        "second() has wait_for_completion_timeout(&b->hardware), drivers/b/waits.c:17"
    ]


@needs_spatch
def test_flushes_that_may_wait_for_memory(small: Audit) -> None:
    """Not those of items on workqueues of both kinds or of an unknown one, nor cancelling."""
    assert [(one.line, one.by, one.through, one.call, one.of) for one in small.flushes] == [
        (7, "e->with", ["reclaim", "helper"], "flush_work(&e->plain)", "system_percpu_wq"),
        (15, "e->with", ["reclaim"], "flush_workqueue(e->without)", "e->without"),
        (16, "e->with", ["reclaim"], "flush_delayed_work(&e->late)", "e->without"),
        (17, "e->with", ["reclaim"], "flush_scheduled_work()", "system_percpu_wq"),
        (18, "e->with", ["reclaim"], "flush_workqueue(system_unbound_wq)", "system_unbound_wq"),
    ]
    assert "reclaim() of e->with: flush_work(&e->plain)" in "\n".join(page.terminal(small, []))
    assert "| helper |" in page.page(small, [])


@needs_spatch
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--ksrc", SMALL, "--nodes", "1,8", "--cpus", "4"], "there are 4"),
        (["--ksrc", SMALL, "--nodes", "x"], "'x' is not a number above 0"),
        (["--ksrc", SMALL / "nowhere"], "nowhere does not exist"),
        (["--ksrc", SMALL / "drivers"], "not a kernel's source"),
        (["--file", SMALL / "Makefile"], "is not what scripts/audit writes"),
    ],
)
def test_what_is_wrong(words: list, message: str, tmp_path: Path) -> None:
    done = run_audit(tmp_path, *words, "--out", tmp_path / "out")
    assert done.returncode in (1, 2)
    assert message in done.stderr.splitlines()[-1]
    assert not list(tmp_path.glob("out*"))


@needs_spatch
def test_a_tree_without_workqueues(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(SMALL, tree)
    shutil.rmtree(tree / "drivers")
    shutil.rmtree(tree / "include/made")
    done = run_audit(tmp_path, "--ksrc", tree, "--out", tmp_path / "out")
    assert done.returncode == 1
    assert "no workqueue is allocated in 6.12.0-made-up" in done.stderr.splitlines()[-1]


def test_reported_callers() -> None:
    """dm-crypt has two calls with one name."""
    one = Row("a.c", 5, "f", "alloc_workqueue", "x", "WQ_UNBOUND", "1", "unbound")
    two = replace(one, line=9, limit="num_online_cpus()")
    notes = [Note("a.c", "do", name, "num_online_cpus()") for name in ("x", "y")]

    def states(*rows: Row) -> list[str]:
        audit = Audit(1, Made("", "", None), "", Kernel("", "", 512, 256, 8), 64, list(rows))
        return [state for _, _, state, _ in page.reported(audit, notes)]

    gone = "changed: it is not there any more"
    assert states(one, two) == ["found in line 9: unbound, num_online_cpus()", gone]
    assert states(one) == ["changed: 1 in line 5, not num_online_cpus()", gone]


def test_advice() -> None:
    """That of a note for the workqueue, or for the file, or by what was found."""
    row = Row("a.c", 5, "f", "alloc_workqueue", "x", "", "1", findings=["narrower", "serial"])
    notes = [Note("a.c", "of file"), Note("a.c", "of x", "x"), Note("b.c", "of y", "y")]
    assert report.advice(row, notes) == "of x"
    assert report.advice(replace(row, name="z"), notes) == "of file"
    assert report.advice(replace(row, file="b.c"), notes) == report.ADVICE["serial"]
    assert report.advice(replace(row, file="b.c", findings=[]), notes) == ""


# --- whole trees ------------------------------------------------------------------------------


def test_there_are_stored_audits() -> None:
    assert [path.stem for path in STORED] == ["6.12", "7.3"]


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_stored_audit(path: Path) -> None:
    """The page is what --file makes of the JSON, which is as it is written."""
    found, notes = report.load(path), report.load_notes()
    assert report.dumps(found) == path.read_text()
    assert page.page(found, notes) == path.with_suffix(".md").read_text()
    assert len(found.rows) > 800
    assert sum(bool(row.why) for row in found.rows) < len(found.rows) / 20


def test_csv() -> None:
    """A line for each row, with what each number of nodes means."""
    stored = report.load(STORED[0])
    lines = list(csv.DictReader(report.as_csv(stored, []).splitlines()))
    assert [(line["file"], line["name"]) for line in lines] == [
        (row.file, row.name) for row in stored.rows
    ]
    for line, row in zip(lines, stored.rows, strict=True):
        for one in row.meanings:
            kinds = ("per_cpu", "per_node", "one_node", "exact")
            told = [line[f"{kind}_{one.nodes}"] for kind in kinds]
            assert told == [str(getattr(one, kind)) for kind in kinds]
        assert (line["findings"], line["unresolved"]) == (" ".join(row.findings), row.why)


def test_notes_are_of_callers() -> None:
    """Each of them, in one kernel at least."""
    rows = [row for path in STORED for row in report.load(path).rows]
    there = {(row.file, name) for row in rows for name in ("", row.name)}
    assert not [note for note in report.load_notes() if (note.file, note.name) not in there]


def test_the_document_has_each_that_changes_most_and_was_reported() -> None:
    """By the workqueue's name or the driver's, of mainline; each patch is there, too."""
    text = (ROOT / "docs/loads.md").read_text()
    table = text[text.index("| workqueue | at once") : text.index("## The loads")]
    found, notes = report.load(STORED[-1]), report.load_notes()
    reported = [(note.file, note.name) for note in notes if note.reported]
    for file, name in [*((row.file, row.name) for row in page.changing(found)), *reported]:
        plain = re.sub(r"[-_/]%.*|^btrfs", "", name)
        said = re.fullmatch(r"[-a-z_\d]{3,}", plain)
        keys = [plain] if said else [Path(file).stem, Path(file).parent.name]
        assert any(key in table for key in keys), (file, name)
    for patch in (ROOT / "docs/audit").glob("*.patch"):
        assert f"(audit/{patch.name})" in text


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_each_that_changes_has_advice(path: Path) -> None:
    found, notes = report.load(path), report.load_notes()
    assert not [row.place for row in page.changing(found) if not report.advice(row, notes)]


def test_wrong_notes(tmp_path: Path) -> None:
    (tmp_path / "notes.toml").write_text('[[caller]]\nfile = "a.c"\nnmae = "x"\n')
    with pytest.raises(Exception, match="nmae.* a caller has file, name, advice"):
        report.load_notes(tmp_path / "notes.toml")


def test_names_share_a_note(tmp_path: Path) -> None:
    (tmp_path / "notes.toml").write_text(
        '[[caller]]\nfile = "a.c"\nnames = ["x", "y"]\nadvice = "none"\n'
    )
    found = report.load_notes(tmp_path / "notes.toml")
    assert found == [Note("a.c", "none", "x"), Note("a.c", "none", "y")]


def test_another_schema(tmp_path: Path) -> None:
    data = json.loads(STORED[0].read_text())
    (tmp_path / "old.json").write_text(json.dumps(data | {"schema": 0}))
    with pytest.raises(Exception, match="schema 0, and only 2 is read"):
        report.load(tmp_path / "old.json")


@needs_spatch
@pytest.mark.tier("full")
@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_whole_tree(path: Path) -> None:
    """It is as stored, unless the base has a newer version by now."""
    stored = report.load(path)
    source = obtain(load_base(path.stem))
    started = time.monotonic()
    nodes = sorted({one.nodes for row in stored.rows for one in row.meanings})
    found = audit(source, stored.cpus, nodes, stored.made, report.load_notes())
    assert time.monotonic() - started < LIMIT
    if found.kernel.tree != stored.kernel.tree:
        assert abs(len(found.rows) - len(stored.rows)) < 20
        return
    assert replace(found, coccinelle=stored.coccinelle) == stored


@pytest.mark.tier("full")
@pytest.mark.parametrize(
    "patch", sorted((ROOT / "docs/audit").glob("*.patch")), ids=lambda p: p.stem
)
def test_patches_for_callers_apply(patch: Path) -> None:
    """To mainline."""
    repo = obtain(load_base(base_names()[-1])).repo
    done = subprocess.run(
        ["git", "-C", repo, "apply", "--check", patch],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert not done.returncode, done.stderr
