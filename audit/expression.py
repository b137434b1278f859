# SPDX-License-Identifier: GPL-2.0
"""C expressions of integers: what they may come to.

An expression has a set of values: a name that is assigned several, or a condition that nobody
knows, gives each of them. Whoever evaluates says what names and calls are.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, product

Values = frozenset[int]

MOST = 64  # values that are still told apart
TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F]+|\d+)[uUlL]*\b|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<string>\"(?:\\.|[^\"])*\")|(?P<sign><<|>>|->|<=|>=|==|!=|&&|\|\||[-+*/%&|^~!?:<>()\[\],.]))"
)


class Unknown(Exception):
    """It cannot be told what an expression comes to, and why."""


@dataclass(frozen=True)
class Number:
    """An integer."""

    value: int


@dataclass(frozen=True)
class Name:
    """A variable, or with `of` a member of something."""

    name: str
    of: bool = False


@dataclass(frozen=True)
class Call:
    """A function or a macro, and what it is given."""

    name: str
    args: tuple["Node", ...]


@dataclass(frozen=True)
class Sum:
    """An operator and what it is applied to; "?" is the conditional."""

    sign: str
    parts: tuple["Node", ...]


Node = Number | Name | Call | Sum

LEVELS = [["||"], ["&&"], ["|"], ["^"], ["&"], ["==", "!="], ["<", ">", "<=", ">="], ["<<", ">>"]]
LEVELS += [["+", "-"], ["*", "/", "%"]]
TYPES = {"int", "unsigned", "long", "short", "char", "u8", "u16", "u32", "u64", "size_t", "signed"}
TYPES |= {"uint8_t", "uint16_t", "uint32_t", "uint64_t", "uint", "ulong", "s8", "s16", "s32", "s64"}
TYPES |= {"__u8", "__u16", "__u32", "__u64", "ssize_t", "bool", "const"}
TYPEOF = ("typeof", "__typeof__", "__typeof", "typeof_unqual")
# Words of C that no name can be: how large a type is, say, depends on the machine
KEYWORDS = {"sizeof", "_Alignof", "__alignof__", "_Generic", "struct", "union", "enum", *TYPEOF}
TYPED = {"min_t", "max_t", "clamp_t"}  # whose first argument is a type


def tokens(text: str) -> Iterator[str]:
    """The tokens of an expression, in order. Raises Unknown at what is none."""
    at, text = 0, text.strip()
    while at < len(text):
        found = TOKEN.match(text, at)
        if not found:
            raise Unknown(f"'{text}' is not understood")
        yield found["number"] or found["name"] or found["string"] or found["sign"]
        at = found.end()


class Parser:
    """Of one expression."""

    def __init__(self, text: str) -> None:
        self.text, self.left = text, list(tokens(text))

    def whole(self) -> Node:
        """The expression. Raises Unknown unless all of the text is one."""
        found = self.conditional()
        if self.left:
            raise self.wrong()
        return found

    def wrong(self) -> Unknown:
        """What to raise for a text that is no expression."""
        return Unknown(f"'{self.text}' is not understood")

    def take(self, *signs: str) -> str:
        """The next token, if it is one of these; "" if not."""
        return self.left.pop(0) if self.left and self.left[0] in signs else ""

    def must(self, sign: str) -> None:
        """Take this token, or raise Unknown."""
        if not self.take(sign):
            raise self.wrong()

    def conditional(self) -> Node:
        """An expression with `?:`, which binds least."""
        condition = self.binary(0)
        if not self.take("?"):
            return condition
        if self.take(":"):  # GNU C: the condition itself, unless it is 0
            return Sum("?:", (condition, self.conditional()))
        yes = self.conditional()
        self.must(":")
        return Sum("?", (condition, yes, self.conditional()))

    def binary(self, level: int) -> Node:
        """An expression of the operators of this level of LEVELS and of those that bind more."""
        if level == len(LEVELS):
            return self.unary()
        found = self.binary(level + 1)
        while sign := self.take(*LEVELS[level]):
            found = Sum(sign, (found, self.binary(level + 1)))
        return found

    def unary(self) -> Node:
        """An operand, with the signs in front of it."""
        if self.take("*", "&"):
            raise Unknown(f"'{self.text}' goes through a pointer")
        if sign := self.take("-", "~", "!", "+"):
            return Sum(f"unary {sign}", (self.unary(),))
        return self.postfix()

    def cast(self) -> bool:
        """Past a cast to an integer, or to whatever type something has."""
        inside = self.left[1 : self.end(1)]
        typed = len(inside) > 2 and inside[0] in TYPEOF and self.end(3) == len(inside)
        if not inside or not (typed or set(inside) <= TYPES):
            return False
        del self.left[: len(inside) + 2]
        return True

    def end(self, at: int) -> int:
        """Where what begins there ends: at the comma or the parenthesis that is not part of it."""
        depth = 0
        for number in range(at, len(self.left)):
            if not depth and self.left[number] in (")", ","):
                return number
            depth += {"(": 1, ")": -1}.get(self.left[number], 0)
        raise self.wrong()

    def postfix(self) -> Node:
        """A number, a name, a call, or an expression in parentheses."""
        if not self.left:
            raise self.wrong()
        if self.left[0] == "(":
            if self.cast():
                return self.unary()
            self.take("(")
            found = self.conditional()
            self.must(")")
        else:
            word = self.left.pop(0)
            if word[0].isdigit() and not re.fullmatch(r"0\d*[89]\d*", word):
                return Number(int(word, 8 if re.fullmatch(r"0[0-7]+", word) else 0))
            if not (word[0].isalpha() or word[0] == "_"):
                raise self.wrong()
            if word in KEYWORDS:
                raise Unknown(f"'{self.text}' depends on {word}")
            found = Name(word)
        while sign := self.take("(", "[", "->", "."):
            if sign == "(" and isinstance(found, Name) and not found.of:
                if found.name in TYPED:
                    del self.left[: self.end(0)]
                    self.must(",")
                found = Call(found.name, tuple(self.arguments()))
            elif sign == "[":
                self.conditional()
                self.must("]")
                raise Unknown(f"'{self.text}' is an element of an array")
            elif sign != "(" and self.left:
                found = Name(self.left.pop(0), of=True)
            else:
                raise self.wrong()
        return found

    def arguments(self) -> Iterator[Node]:
        """Those of a call, up to and with its closing parenthesis."""
        while not self.take(")"):
            yield self.conditional()
            if not self.take(","):
                self.must(")")
                return


def parse(text: str) -> Node:
    """The tree of an expression. Raises Unknown where it is none, or one of pointers or arrays."""
    return Parser(text).whole()


def divided(a: int, b: int) -> int:
    """The quotient as C has it: rounded towards 0. Raises Unknown where b is 0."""
    if not b:
        raise Unknown("it divides by 0")
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


BINARY: dict[str, Callable[[int, int], int]] = {
    "||": lambda a, b: int(bool(a or b)),
    "&&": lambda a, b: int(bool(a and b)),
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "&": lambda a, b: a & b,
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    ">": lambda a, b: int(a > b),
    "<=": lambda a, b: int(a <= b),
    ">=": lambda a, b: int(a >= b),
    "<<": lambda a, b: a << min(b, 64),
    ">>": lambda a, b: a >> min(b, 64),
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": divided,
    "%": lambda a, b: a - b * divided(a, b),
    "?:": lambda a, b: a or b,
}
UNARY: dict[str, Callable[[int], int]] = {
    "unary -": lambda a: -a,
    "unary +": lambda a: a,
    "unary ~": lambda a: ~a,
    "unary !": lambda a: int(not a),
}
# What the kernel calls as functions, of integers
FUNCTIONS: dict[str, Callable[..., int]] = {
    **dict.fromkeys(("min", "min_t", "umin", "min3"), min),
    "min_not_zero": lambda *v: min(filter(None, v), default=0),
    **dict.fromkeys(("max", "max_t", "umax", "max3"), max),
    **dict.fromkeys(("clamp", "clamp_t", "clamp_val"), lambda v, low, high: min(max(v, low), high)),
    **dict.fromkeys(("READ_ONCE", "likely", "unlikely"), lambda v: v),
    **dict.fromkeys(
        ("DIV_ROUND_UP", "DIV_ROUND_UP_ULL", "DIV_ROUND_UP_SECTOR_T"),
        lambda a, b: divided(a + b - 1, b),
    ),
    "BIT": lambda n: 1 << min(n, 64),
    "roundup_pow_of_two": lambda n: 1 << max(n - 1, 0).bit_length(),
    "ilog2": lambda n: max(n, 1).bit_length() - 1,
}


def joined(sets: Iterable[Values]) -> Values:
    """All values of the sets. Raises Unknown where they are more than MOST."""
    found = frozenset(value for values in sets for value in values)
    if len(found) > MOST:
        raise Unknown(f"it has more than {MOST} values")
    return found


def applied(how: Callable[..., int], parts: list[Values]) -> Values:
    """All that it comes to."""
    found = set()
    for values in product(*parts):
        try:
            found.add(how(*values))
        except (TypeError, ValueError, OverflowError):  # as a shift by a negative number
            raise Unknown("an operator or a function has arguments that it does not take") from None
    return joined([frozenset(found)])


def evaluate(node: Node, known: Callable[[Name | Call], Values]) -> Values:
    """What it may come to; `known` says what names and calls are, or raises Unknown."""
    if isinstance(node, Number):
        return frozenset({node.value})
    if isinstance(node, Name):
        return known(node)
    if isinstance(node, Call):
        if how := FUNCTIONS.get(node.name):
            return applied(how, [evaluate(part, known) for part in node.args])
        return known(node)
    if node.sign == "?":
        try:
            conditions = {bool(value) for value in evaluate(node.parts[0], known)}
        except Unknown:
            conditions = {True, False}
        which = [part for part, value in zip(node.parts[1:], (True, False), strict=True)
                 if value in conditions]  # fmt: skip
        return joined(evaluate(part, known) for part in which)
    parts = [evaluate(part, known) for part in node.parts]
    return applied(UNARY[node.sign] if len(parts) == 1 else BINARY[node.sign], parts)


def shown(values: Values, most: int = 4) -> str:
    """As "1", "1 or 8", "4 to 64"."""
    ordered = sorted(values)
    if len(ordered) > most:
        return f"{ordered[0]} to {ordered[-1]}"
    return " or ".join(str(value) for value in islice(ordered, most))
