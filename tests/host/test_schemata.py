# SPDX-License-Identifier: GPL-2.0
"""Many mutants in one file of C: they compile, and wq_mutant chooses one of them.

Seen failing: with copies that all mutants share, with a default that is the last mutant, with
arguments in reverse, without a prototype before a function that calls itself, with heads of
functions left out of the comparison, and with a diff of two functions of which only the first is
kept twice.
"""

import difflib
import subprocess
from pathlib import Path

import pytest
from schemata import DECLARATION, HOME, obstacle, schemata, split

from wqlab.ground.problem import Problem

# What the kernel has and the compiler here lacks
KERNEL = """\
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define EXPORT_SYMBOL_GPL(name)
#define __init
#define __acquires(x)
#define __printf(a, b) __attribute__((format(printf, a, b)))
#define __maybe_unused __attribute__((unused))
extern int (*early)(char *);
#define early_param(name, function) int (*early)(char *) = function
static int kstrtoint(const char *text, int base, int *number)
{
	*number = strtol(text, 0, base);
	return 0;
}
"""

SOURCE = """\
// SPDX-License-Identifier: GPL-2.0
#include "kernel.h"

/**
 * add - a sum
 */
static inline int add(int a,
		      int b)
{
	return a + b;
}

static int depth(int n)
{
	if (!n)
		return 0;
	return 1 + depth(n - 1);
}

static int counter;

extern void count(void);

void
count(void)
{
	static int calls;

	counter = 10 * ++calls;
}

static bool __printf(1, 0) locked(const char *format, int *lock __maybe_unused)
__acquires(lock)
{
#ifdef NEVER
	return false;
#else
	return format[0] == 'a';
#endif
}

static int __init first(const int list[], unsigned int nr)
{
	return nr ? list[0] : -1;
}

static int apply(int (*function)(int a, int b), int n)
{
	return function(n, n);
}

static int __printf(1, 2) log(const char *format, ...)
{
	return format[0];
}

struct pair {
	int a, b;
};

int main(int argc, char **argv)
{
	int list[] = { 7, 8 };

	early(argv[argc - 1]);
	count();
	count();
	printf("%d %d %d %d %d %d %d\\n", add(5, 3), depth(3), counter, locked("a", list),
	       first(list, 2), apply(add, 1), log("a"));
	return 0;
}
"""
ORIGINAL = "8 3 20 1 7 2 97\n"


def write_diff(folder: Path, name: str, *changes: tuple[str, str], path: str = HOME) -> Path:
    changed = SOURCE
    for old, new in changes:
        assert changed.count(old) == 1
        changed = changed.replace(old, new)
    lines = [text.splitlines(keepends=True) for text in (SOURCE, changed)]
    diff = folder / f"{name}.diff"
    diff.write_text("".join(difflib.unified_diff(*lines, f"a/{path}", f"b/{path}")))
    return diff


def read(path: str) -> str:
    if path != HOME:
        raise FileNotFoundError(path)
    return SOURCE


def compile_text(folder: Path, text: str) -> Path:
    (folder / "kernel.h").write_text(KERNEL)
    (folder / "combined.c").write_text(text)
    done = subprocess.run(
        ["gcc", "-Wall", "-Werror", "-fno-builtin", "-Wmissing-prototypes"]
        + ["-o", "combined", "combined.c"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert not done.returncode, done.stderr
    return folder / "combined"


def run(program: Path, number: int) -> str:
    return subprocess.run(
        [program, str(number)], capture_output=True, text=True, timeout=20, check=True
    ).stdout


MUTANTS = {
    "sum": ([("a + b", "a - b")], "2 3 20 1 7 0 97\n"),
    "product": ([("a + b", "a * b * 100")], "1500 3 20 1 7 100 97\n"),
    "deep": ([("1 + depth", "2 + depth")], "8 6 20 1 7 2 97\n"),
    "static": ([("10 * ++calls", "++calls")], "8 3 2 1 7 2 97\n"),
    "locked": ([("== 'a'", "!= 'a'")], "8 3 20 0 7 2 97\n"),
    "two": ([("a + b", "b"), ("list[0] : -1", "list[1] : -1")], "3 3 20 1 8 1 97\n"),
    "longer": ([("return a + b;", "a++;\n\n\tb++;\n\treturn a + b;")], "10 3 20 1 7 4 97\n"),
}


def test_one_build_has_all(tmp_path: Path) -> None:
    diffs = [write_diff(tmp_path, name, *changes) for name, (changes, _) in MUTANTS.items()]
    mutants, overlay = schemata(diffs, read)
    assert list(overlay) == [HOME]
    assert [mutant.name for mutant in mutants] == list(MUTANTS)
    assert [mutant.number for mutant in mutants] == list(range(1, len(MUTANTS) + 1))
    assert overlay[HOME].count(" * add - a sum") == 1
    program = compile_text(tmp_path, overlay[HOME])
    assert run(program, 0) == ORIGINAL
    for mutant in mutants:
        assert run(program, mutant.number) == MUTANTS[mutant.name][1], mutant.name


def test_nothing_else_is_kept_twice(tmp_path: Path) -> None:
    _, overlay = schemata([write_diff(tmp_path, "sum", *MUTANTS["sum"][0])], read)
    before, _, rest = overlay[HOME].partition("static inline int add(int a,\n\t\t      int b);\n")
    assert before == f'{DECLARATION}#line 1 "{HOME}"\n' + SOURCE.partition("static inline")[0]
    assert rest.count("__wq0(int a") == rest.count("__wq1(int a") == 1
    assert SOURCE.partition("return a + b;\n}\n")[2] in rest


def test_messages_name_line_and_diff(tmp_path: Path) -> None:
    """Of the original, the lines are those that it had; of a mutant, those of its diff."""
    changes = [("return a + b;", "return a + c;"), ("list[0] : -1", "list[0] : none")]
    _, overlay = schemata([write_diff(tmp_path, "unknown", *changes)], read)
    text = overlay[HOME].replace("\tearly(", "\tlate(")
    with pytest.raises(AssertionError) as error:
        compile_text(tmp_path, text)
    lines = SOURCE.splitlines()
    for path, what in (
        ("unknown.diff", "return a + b;"),
        ("unknown.diff", "list[0] : -1"),
        (HOME, "early("),
    ):
        number = next(i for i, line in enumerate(lines, 1) if what in line)
        assert f"{path}:{number}:" in str(error.value)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("int a, b;", "int b, a;"), "it changes more than bodies of functions"),
        (("int counter;", "long counter;"), "it changes more than bodies of functions"),
        (("int depth(int n)", "int depth(long n)"), "it changes more than bodies of functions"),
        (("a sum", "the sum"), "it changes more than bodies of functions"),
        (("return function(n, n);", "return 1;"), "apply has parameters that are no plain ones"),
        (("return format[0];", "return 1;"), "log has parameters that are no plain ones"),
        (("\n\tint list[] = { 7", "\n\tint list[] = { 6"), ""),
    ],
)
def test_what_needs_a_build_of_its_own(tmp_path: Path, change: tuple[str, str], why: str) -> None:
    mutants, overlay = schemata([write_diff(tmp_path, "change", change)], read)
    assert mutants[0].unshared == why
    assert bool(mutants[0].number) == (not why)
    assert mutants[0].files == {HOME: SOURCE.replace(*change)}
    assert ("__wq1" in overlay[HOME]) == (not why)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("DEFINE_IT(x)\n{\n\tA;\n}\n", "DEFINE_IT(x) is a macro"),
        ("int f(int a)\n{\n#if 1\n\tA;\n}\n#endif\n", "f and an #if overlap"),
        ("int f\n{\n\tA;\n}\n", "int f is not the head of a function"),
        ("int x[] =\n{\n\tA\n};\n", "it changes more than bodies of functions"),
        ("static int f(void) { A; }\n", "it changes more than bodies of functions"),
    ],
)
def test_what_is_no_plain_function(text: str, why: str) -> None:
    assert obstacle(text, text.replace("A", "B")) == why


def test_split_loses_nothing() -> None:
    parts = split(SOURCE)
    whole = "".join(part if isinstance(part, str) else part.head + part.body for part in parts)
    assert whole == SOURCE
    assert sum(not isinstance(part, str) for part in parts) == 8


def test_diffs_that_cannot_be_mutants(tmp_path: Path) -> None:
    diff = write_diff(tmp_path, "elsewhere", *MUTANTS["sum"][0], path="kernel/none.c")
    with pytest.raises(Problem, match=r"elsewhere.diff changes kernel/none.c, which the kernel"):
        schemata([diff], read)
    diff = write_diff(tmp_path, "stale", *MUTANTS["sum"][0])
    diff.write_text(diff.read_text().replace("return a + b;", "return a + b + 0;"))
    with pytest.raises(Problem, match=r"stale.diff does not apply: .*patch does not apply"):
        schemata([diff], read)
