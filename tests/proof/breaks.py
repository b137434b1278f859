# SPDX-License-Identifier: GPL-2.0
"""Simple mutants of all that the series adds to functions of kernel/workqueue.c.

  invert  a condition of if or while, or what a function returns that is a bool
  join    && for ||, and || for &&
  edge    > for >=, < for <=, and the other way round
  end     the other end of a list
  drop    a statement

What only checks, as lockdep_assert_held(), is not dropped. tests/proof/generate.py tries them.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from schemata import (
    COMMENT,
    DEFINITION,
    HOME,
    Function,
    Signature,
    Unshared,
    assemble,
    groups,
    signature,
    split,
)

from wqlab.ground.problem import Problem

OTHER_EDGE = {">": ">=", ">=": ">", "<": "<=", "<=": "<"}
OTHER_JOIN = {"&&": "||", "||": "&&"}
ENDS = (
    ("list_add", "list_add_tail"),
    ("list_move", "list_move_tail"),
    ("list_splice", "list_splice_tail"),
    ("list_splice_init", "list_splice_tail_init"),
    ("list_first_entry", "list_last_entry"),
    ("list_next_entry", "list_prev_entry"),
    ("list_for_each_entry", "list_for_each_entry_reverse"),
    ("list_for_each_entry_safe", "list_for_each_entry_safe_reverse"),
)
OTHER_END = {one: other for pair in ENDS for one, other in (pair, pair[::-1])}
# What is no code, or comes before that of a statement
NO_CODE = re.compile(rf'{COMMENT.pattern}|"(\\.|[^"\\])*"|^#(.*\\\n)*.*', re.DOTALL | re.MULTILINE)
CONTROL = re.compile(r"\s*(?:else\b|do\b|case\b[^:]*:|\w+\s*:)")
CONTROLLING = re.compile(r"\s*(?:if|while|switch|for|\w*for_each\w*)\s*(?=\()")
# Declarations, what returns a value, the end of a do, and what only checks
NO_EFFECT = re.compile(r"(?!goto\b)\w+\s+\**\s*\w|while\b|LIST_HEAD|DEFINE_|lockdep_|[^\w*+-]|$")


@dataclass(frozen=True)
class Edit:
    """A piece of text and what is put in its place."""

    operator: str
    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Break:
    """A mutant of one function."""

    name: str  # of the function, the operator and a hash of what is changed
    place: int  # of the function in the file, as split() has it
    function: Function
    line: str  # what is changed


def code_of(text: str) -> str:
    """The text, with spaces for comments, strings and what is for the preprocessor."""
    return NO_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def closing(code: str, opened: int) -> int:
    """Where the parenthesis closes that opens there."""
    return opened + next(iter(groups(code[opened:])))[1]


def statements(code: str) -> Iterator[tuple[int, int]]:
    """Where each starts and ends that has a semicolon at its end, without what controls it."""
    start = depth = 0
    for place, letter in enumerate(code):
        depth += (letter in "([") - (letter in ")]")
        if letter in "{}" and not depth:
            start = place + 1
        elif letter == ";" and not depth:
            while match := CONTROL.match(code, start, place) or CONTROLLING.match(
                code, start, place
            ):
                at = match.end()
                end = closing(code, at) + 1 if CONTROLLING.match(match[0] + "(") else at
                if not code[end:place].strip():
                    break  # its body is empty
                start = end
            yield start + len(code[start:]) - len(code[start:].lstrip()), place + 1
            start = place + 1


def edits(is_bool: bool, code: str, text: str) -> Iterator[Edit]:
    """All of the body of a function, which may be one that returns a bool."""

    def invert(start: int, end: int) -> Edit:
        return Edit("invert", start, end, f"!({text[start:end]})")

    for match in re.finditer(r"\b(?:if|while)\s*(?=\()", code):
        yield invert(match.end() + 1, closing(code, match.end()))
    for match in re.finditer(r"(?<= )(?:[<>]=?)(?= )", code):
        yield Edit("edge", *match.span(), OTHER_EDGE[match[0]])
    for match in re.finditer(r"&&|\|\|", code):
        yield Edit("join", *match.span(), OTHER_JOIN[match[0]])
    for match in re.finditer(r"\b(list_\w+?)(_or_null)?(?=\()", code):
        other = OTHER_END.get(match[1])
        if other and match[2]:
            end = closing(code, match.end()) + 1
            args = text[match.end() : end]
            first = args[1:].split(",")[0]
            other = f"(list_empty({first}) ? NULL : {other}{args})"
            yield Edit("end", match.start(), end, other)
        elif other:
            yield Edit("end", *match.span(), other)
    for start, end in statements(code):
        returned = re.match(r"return\b(?!;)", code[start:])
        if returned:
            if is_bool and text[start + 7 : end - 1] not in ("true", "false"):
                yield invert(start + 7, end - 1)
        elif not NO_EFFECT.match(code, start):
            yield Edit("drop", start, end, ";")


def added_lines(old: str, new: str) -> set[int]:
    """The numbers of lines of code, from 0, that `new` has and `old` lacks."""
    before, after = ([line.strip() for line in text.splitlines()] for text in (old, new))
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    changes = (range(*op[3:]) for op in matcher.get_opcodes() if op[0] != "equal")
    return {number for lines in changes for number in lines}


def breaks(stock: str, series: str) -> list[Break]:
    """The mutants of what the series adds, in the order of the file."""

    def functions(text: str) -> Iterator[tuple[int, Signature, Function]]:
        for place, part in enumerate(split(text)):
            if isinstance(part, Function):
                try:
                    yield place, signature(part), part
                except Unshared as error:
                    if part.body not in stock:
                        raise Problem(f"no mutants of {part.head}: {error}") from None

    before: dict[str, str] = {}
    for _, sign, function in functions(stock):
        before[sign.name] = before.get(sign.name, "") + code_of(function.body)
    found: list[Break] = []
    for place, sign, function in functions(series):
        name, code, body = sign.name, code_of(function.body), function.body
        is_bool = bool(re.search(r"\bbool\b", sign.before))
        lines = added_lines(before.get(name, ""), code)
        number: Counter[str] = Counter()
        for edit in edits(is_bool, code, body):
            first, last = (code[:at].count("\n") for at in (edit.start, edit.end))
            if lines.isdisjoint(range(first, last + 1)):
                continue
            shown = " ".join("".join(body.splitlines(True)[first : last + 1]).split())
            key = f"{edit.operator} {shown} {' '.join(edit.text.split())}"
            number[key] += 1
            digest = hashlib.sha256(f"{key} {number[key]}".encode()).hexdigest()[:4]
            text = body[: edit.start] + edit.text + body[edit.end :]
            other = Function(function.line, function.head, text)
            found.append(Break(f"{name}-{edit.operator}-{digest}", place, other, shown))
    return found


def digest(found: Iterable[Break]) -> str:
    """Sixteen hexadecimal digits of all mutants."""
    text = "\0".join(f"{one.name}\0{one.function.body}" for one in found)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def overlay(series: str, found: Sequence[Break]) -> dict[str, str]:
    """The file with all mutants, of which the first is number 1."""
    others: dict[int, dict[int, tuple[str, Function]]] = {}
    for number, one in enumerate(found, 1):
        others.setdefault(one.place, {})[number] = one.name, one.function
    return {HOME: assemble(HOME, split(series), others) + DEFINITION}
