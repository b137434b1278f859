# SPDX-License-Identifier: GPL-2.0
"""What documents, cover letters and changelogs claim, bound to the files of results/ it comes from.

tests/claims.toml has the claims. A claim is text in which {queries} stand for numbers, and rows of a
table; "..." is anything short. The text is looked for in documents, whatever its line breaks, and each
number there has to be what its query gives, rounded to as many digits as are written. What queries are,
tests/proof/answers.py says. tests/host/test_claims.py prints what differs, and all numbers that no claim
has.
"""

import math
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from itertools import chain, product
from typing import Any

import answers
from answers import OVER_ALL, Answer, Cell, ClaimError, Words, answer, words

from wqlab.ground.places import ROOT
from wqlab.ground.stats import ENOUGH

PATH = ROOT / "tests/claims.toml"
LINK = re.compile(r"\]\((?:\.\./)*results/([\w.-]+\.json)\)([†‡]*)")
NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?"
HOLE = re.compile(r"\{([^}]*)\}")
VERDICT = re.compile(r"\b(slower|faster|fewer|gains?|loses?|longer|shorter|no difference)\b")


def flat(text: str) -> str:
    """With one space for any white space."""
    return " ".join(text.split())


@cache
def document(name: str) -> str:
    """Its text, flat; of a patch, its changelog."""
    text = (ROOT / name).read_text()
    return flat(text.partition("\n\n")[2].partition("\n---\n")[0] if is_patch(name) else text)


def is_patch(name: str) -> bool:
    return name.endswith(".patch")


def found(names: str | list[str]) -> list[str]:
    """The documents of these names, in which "*" stands for any."""
    each = [names] if isinstance(names, str) else names
    paths = [sorted(ROOT.glob(one)) if "*" in one else [ROOT / one] for one in each]
    assert all(paths), f"there is no {names}"
    return [str(path.relative_to(ROOT)) for some in paths for path in some]


def rounds_to(number: float, said: str) -> bool:
    """Whether it's written so, with as many digits. "-" is no number."""
    if said == "-":
        return math.isnan(number)
    digits = len(said.partition(".")[2])
    return abs(number - float(said.replace(",", ""))) <= 0.5 * 10.0**-digits * (1 + 1e-9)


def each_of(base: Words, text: str) -> list[str]:
    """The queries that one with key=1|2|4 stands for."""
    query = base | words(text)
    lists = {key: value.split("|") for key, value in query.items() if "|" in value}
    if OVER_ALL & query.keys():
        return [text]
    values = [dict(zip(lists, one, strict=True)) for one in product(*lists.values())]
    return [
        shlex.join([*shlex.split(text), *(f"{k}={v}" for k, v in one.items())]) for one in values
    ]


@dataclass(frozen=True)
class Claim:
    """A table of claims.toml."""

    docs: list[str]
    pattern: re.Pattern[str]  # a group for each number, and for each label of a row
    queries: list[tuple[Words, str | None]]  # in the order of the groups; None for a label
    boots: set[int]  # of each kernel
    repeats: str  # where the document says how many, if they are fewer than five
    mixed: str  # where it says that kernels ran with different parameters
    older: str  # where it says that they are of an older series, if it has no link with a mark

    @classmethod
    def of(cls, table: dict[str, Any]) -> "Claim":
        """As it stands in the file."""
        base = words(table.get("where", "")) | ({"file": table["file"]} if "file" in table else {})
        pieces: list[str] = []
        queries: list[tuple[Words, str | None]] = []

        def literal(text: str) -> str:
            plain = re.escape(flat(f"x{text}x")[1:-1]).replace(r"\ ", " ")
            return plain.replace(r"\.\.\.", ".{0,150}?")

        def put(text: str, more: Words) -> None:
            for n, part in enumerate(HOLE.split(text)):
                if n % 2 == 0:
                    pieces.append(literal(part))
                    continue
                bracket = rf"({NUMBER}) \[({NUMBER}) ?(?:-|to) ?({NUMBER})\]"
                many = each_of(more, part)
                pieces.append(" ".join([bracket if "[]" in part else f"({NUMBER}|-)"] * len(many)))
                queries.extend((more, query) for query in many)

        put(table.get("text", ""), base)
        labels = [[table["head"], "", ""]] if "head" in table else []
        for label, said, *own in [*labels, *table.get("rows", [])]:
            pieces.append(f" ({literal(label)}) ")
            queries.append(({}, None))
            put((own or [table["row"]])[0], base | words(said))
        put(" " + table.get("then", ""), base)
        pattern = re.compile(re.sub(" +", " ", "".join(pieces)).strip())
        boots = table.get("boots", [])
        return cls(
            found(table["in"]),
            pattern,
            queries,
            boots=set(boots) if isinstance(boots, list) else {boots},
            **{key: table.get(key, "") for key in ("repeats", "mixed", "older")},
        )

    def found_in(self, doc: str) -> re.Match[str]:
        """Where it stands in a document: just once."""
        found = list(self.pattern.finditer(document(doc)))
        if len(found) != 1:
            raise ClaimError(f"{doc} has it {len(found)} times: {self.pattern.pattern[:300]}")
        return found[0]

    def check(self) -> list[str]:
        """What is wrong with it, a line for each."""
        try:
            found_out = [None if q is None else answer(base, q) for base, q in self.queries]
            found = {doc: self.found_in(doc) for doc in self.docs}
        except ClaimError as error:
            return [str(error)]
        used = [one for each in found_out if each for one in each.used]
        wrong = []
        for doc, match in found.items():
            each = [*self.numbers(match, found_out), *self.repeated(doc, match[0], used)]
            each += [*self.alike(doc, used), *self.dated(doc, used)]
            wrong += [f"{doc}: {line}" for line in each]
        return wrong

    def numbers(self, match: re.Match[str], answers: list[Answer | None]) -> Iterator[str]:
        """Numbers that are not what the file gives."""
        at = iter(match.groups())
        for (_, query), found in zip(self.queries, answers, strict=True):
            if found is None:
                next(at)
                continue
            for number in found.numbers:
                if not rounds_to(number, said := next(at)):
                    yield f"it says {said}, and {{{query}}} is {number:.6g}: {match[0][:200]}"

    def repeated(self, doc: str, text: str, used: list[tuple[Cell, str, int]]) -> Iterator[str]:
        """Figures of more or fewer boots than the claim says, or too few for a verdict."""
        boots = {n for _, _, n in used}
        if boots != self.boots:
            yield f"of {sorted(boots)} boots, not {sorted(self.boots)}: {text[:80]}"
        if not boots or min(boots) >= ENOUGH:
            return
        if VERDICT.search(text) and not all(cell.exact for cell, _, _ in used):
            yield f"a verdict of {min(boots)} boots: {text[:80]}"
        if not self.repeats or flat(self.repeats) not in document(doc):
            yield f"it does not say that there are {min(boots)} boots: {text[:80]}"

    def alike(self, doc: str, used: list[tuple[Cell, str, int]]) -> list[str]:
        """Kernels side by side that ran with different parameters, where that is not said."""
        found: dict[int, set[str]] = {}
        for cell, kernel, _ in used:
            found.setdefault(id(cell.panel), set()).update(cell.parameters(kernel))
        differ = any(len(each) > 1 for each in found.values())
        if differ == bool(self.mixed) and flat(self.mixed) in document(doc):
            return []
        return [f"other parameters for some kernel: {differ}; said: {self.mixed}; {found}"]

    def dated(self, doc: str, used: list[tuple[Cell, str, int]]) -> Iterator[str]:
        """Files of an older series that the document neither links to, with a mark, nor says so."""
        if is_patch(doc):  # which speaks of that patch alone
            return
        linked = {name for name, _ in LINK.findall(document(doc))}
        for name in sorted({cell.file for cell, _, _ in used} - linked):
            older = "†" in marks(name)
            if older and not self.older:
                yield f"{name} is of an older series: say so, and where"
            if older and flat(self.older) not in document(doc):
                yield f"it does not say that {name} is older: {self.older}"


def marks(name: str) -> str:
    """What is behind a link to a file: † if it's of an older series, ‡ if of a tree with changes."""
    made, kernels = answers.results(name).made, answers.results(name).kernels
    older = any(one.date < declared()["since"] for one in made) and any(k.patches for k in kernels)
    dirty = any(one.commit is None or one.commit.endswith("-dirty") for one in made)
    return "†" * older + "‡" * dirty


def marked_wrong(doc: str) -> list[str]:
    """Links of a document to files of results that have not the marks that they need."""
    return [
        f"{name} is marked {has!r}, not {marks(name)!r}"
        for name, has in LINK.findall(document(doc))
        if (ROOT / "results" / name).name != "proofs.json" and has != marks(name)
    ]


@cache
def declared() -> dict[str, Any]:
    """What claims.toml has."""
    return tomllib.loads(PATH.read_text())


@cache
def claims() -> list[Claim]:
    """All claims."""
    return [Claim.of(table) for table in declared()["claim"]]


def unclaimed(doc: str) -> list[str]:
    """Numbers of a document that no claim has and that are nothing plain, with what is around."""
    text = document(doc)
    found = [match for one in claims() if doc in one.docs for match in one.pattern.finditer(text)]
    spans = [match.span(n + 1) for match in found for n in range(len(match.groups()))]
    plain = declared()["plain"]
    own = [patterns for name, patterns in plain.items() if fnmatch(doc, name)]
    for pattern in [*plain["all"], *chain.from_iterable(own)]:
        spans += [match.span() for match in re.finditer(pattern, text)]
    blank = bytearray(len(text))
    for start, end in spans:
        blank[start:end] = b"x" * (end - start)
    return [
        text[max(0, one.start() - 50) : one.end() + 30]
        for one in re.finditer(NUMBER, text)
        if not all(blank[one.start() : one.end()])
    ]
