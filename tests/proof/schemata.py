# SPDX-License-Identifier: GPL-2.0
"""Many mutants in one kernel.

A mutant is the kernel with a diff that breaks it on purpose. Where the diff changes nothing but
bodies of functions, each of them is kept beside the original, and a function with the original's
name calls the one that wq_mutant=NUMBER on the kernel command line chooses; 0 is the original.
Only one of them runs in a boot, so each may have static variables and lock classes of its own.
Any other diff needs a build of its own.

C is read as the kernel writes it: the braces around the body of a function start a line and
are alone there.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from overlay import patched

HOME = "kernel/workqueue.c"  # always built in
DECLARATION = "extern int wq_mutant;\n"
# Early, because functions that parse the kernel command line may be mutants too
DEFINITION = """
int wq_mutant;
EXPORT_SYMBOL_GPL(wq_mutant);

static int __init wq_mutant_setup(char *number)
{
	return kstrtoint(number, 0, &wq_mutant);
}
early_param("wq_mutant", wq_mutant_setup);
"""

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
# What has arguments of its own beside a function's name
ANNOTATION = re.compile(
    r"__(attribute__|printf|scanf|section|aligned|no_sanitize|acquires\w*|releases\w*"
    r"|cond_acquires\w*|must_hold\w*)"
)
UNUSED = re.compile(r"\s__(maybe|always)_unused$")


class Unshared(Exception):
    """Why a function cannot be kept twice."""


@dataclass(frozen=True)
class Function:
    """A definition, or what looks like one."""

    line: int = field(compare=False)  # its first, from 1
    head: str  # all before the brace
    body: str  # with its braces


@dataclass(frozen=True)
class Signature:
    before: str  # the name
    name: str
    after: str
    arguments: list[str]

    def named(self, name: str, *, static: bool) -> str:
        storage = "static " if static and not re.search(r"\bstatic\b", self.before) else ""
        return f"{storage}{self.before}{name}{self.after}"


@dataclass(frozen=True)
class Mutant:
    """One diff, applied."""

    name: str
    files: Mapping[str, str]  # what it makes of those that it changes
    number: int = 0  # as wq_mutant has it; 0 in a build of its own
    unshared: str = ""  # why it needs that


def split(text: str) -> list[str | Function]:
    """A file, as functions and what is between them; joined again, it is the same."""
    lines = text.splitlines(keepends=True)
    parts: list[str | Function] = []
    taken = number = 0
    while number < len(lines):
        if lines[number] == "{\n":
            head, end = number, number + 1
            while head > taken and not re.match(r"\s*$|[#}]|.*([;}]|\*/)$", lines[head - 1]):
                head -= 1
            while end < len(lines) and not lines[end].startswith("}"):
                end += 1
            if head < number and end < len(lines) and lines[end].rstrip() == "}":
                body = "".join(lines[number : end + 1])
                parts.append("".join(lines[taken:head]))
                parts.append(Function(head + 1, "".join(lines[head:number]), body))
                taken = number = end + 1
                continue
        number += 1
    return [*parts, "".join(lines[taken:])]


def heads(parts: Iterable[str | Function]) -> list[str]:
    """All but the bodies of functions."""
    return [part.head if isinstance(part, Function) else part for part in parts]


def groups(text: str) -> Iterable[tuple[int, int]]:
    """Where parentheses open and close that are in no others."""
    depth = opened = 0
    for place, letter in enumerate(text):
        if letter == "(":
            opened = opened if depth else place
            depth += 1
        elif letter == ")":
            depth -= 1
            if not depth:
                yield opened, place


def signature(function: Function) -> Signature:
    """Unshared says why there is no way to call another one in its place."""
    head = COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), function.head)
    line = " ".join(head.split())
    for opened, closed in groups(head):
        match = re.search(r"\w+\s*$", head[:opened])
        if not match:
            break
        if ANNOTATION.fullmatch(match[0].strip()):
            continue
        if not re.search(r"\w", head[: match.start()]):
            raise Unshared(f"{line} is a macro")
        if len(re.findall(r"(?m)^#\s*if", function.body)) != function.body.count("\n#endif"):
            raise Unshared(f"{match[0].strip()} and an #if overlap")
        inside = " ".join(head[opened + 1 : closed].split())
        arguments = []
        for parameter in inside.split(",") if inside not in ("", "void") else []:
            name = re.search(r"(\w+)(\[[^]]*\])*$", UNUSED.sub("", parameter.strip()))
            if not name:
                raise Unshared(f"{match[0].strip()} has parameters that are no plain ones")
            arguments.append(name[1])
        return Signature(head[: match.start()], match[0].strip(), head[opened:], arguments)
    raise Unshared(f"{line} is not the head of a function")


def dispatch(path: str, function: Function, others: Mapping[int, tuple[str, Function]]) -> str:
    """The original, its mutants {number: (name, function)}, and what calls one of them."""
    sign = signature(function)
    end = function.line + (function.head + function.body).count("\n") - 1
    call = f"return {sign.name}__wq{{}}({', '.join(sign.arguments)});\n"
    text = sign.named(sign.name, static=False).rstrip() + ";\n"  # it may call itself
    for number, (source, copy) in {0: (path, function), **others}.items():
        # what the compiler and the kernel say of a mutant has the name of its diff
        text += f'#line {copy.line} "{source}"\n'
        text += sign.named(f"{sign.name}__wq{number}", static=True) + copy.body
    text += f'#line {end} "{path}"\n' + sign.named(sign.name, static=False)
    text += "{\n\tswitch (READ_ONCE(wq_mutant)) {\n"
    for number in others:
        text += f"\tcase {number}:\n\t\t" + call.format(number)
    return text + "\tdefault:\n\t\t" + call.format(0) + f'\t}}\n}}\n#line {end + 1} "{path}"\n'


def combine(path: str, text: str, mutants: Mapping[int, tuple[str, str]]) -> str:
    """A file with all of its mutants {number: (name, text)}, of which wq_mutant chooses."""
    changed = {number: (name, split(other)) for number, (name, other) in mutants.items()}
    parts = split(text)
    others = {
        place: {
            number: (name, function)
            for number, (name, other) in changed.items()
            if isinstance(function := other[place], Function) and function != part
        }
        for place, part in enumerate(parts)
    }
    return assemble(path, parts, others)


def assemble(
    path: str,
    parts: Iterable[str | Function],
    others: Mapping[int, Mapping[int, tuple[str, Function]]],
) -> str:
    """A file, with the mutants {number: (name, function)} of those of its parts that have some."""
    combined = ""
    for place, part in enumerate(parts):
        if isinstance(part, str):
            combined += part
        elif others.get(place):
            combined += dispatch(path, part, others[place])
        else:
            combined += part.head + part.body
    return f'{DECLARATION}#line 1 "{path}"\n{combined}'


def obstacle(before: str, after: str) -> str:
    """Why two versions of a file cannot share a build; "" if they can."""
    old, new = split(before), split(after)
    if heads(old) != heads(new):
        return "it changes more than bodies of functions"
    try:
        for part, other in zip(old, new, strict=True):
            if isinstance(part, Function) and isinstance(other, Function) and part != other:
                signature(part)
                signature(other)
    except Unshared as error:
        return str(error)
    return ""


def schemata(
    diffs: Iterable[Path], read: Callable[[str], str]
) -> tuple[list[Mutant], dict[str, str]]:
    """The mutants, and the files of the kernel that those have in common which can share it."""
    mutants: list[Mutant] = []
    shared: dict[str, dict[int, tuple[str, str]]] = {HOME: {}}
    for number, diff in enumerate(diffs, 1):
        files = patched(diff, read)
        reasons = [obstacle(read(path), text) for path, text in files.items()]
        if why := next(filter(None, reasons), ""):
            mutants.append(Mutant(diff.stem, files, unshared=why))
            continue
        mutants.append(Mutant(diff.stem, files, number))
        for path, text in files.items():
            shared.setdefault(path, {})[number] = diff.name, text
    overlay = {path: combine(path, read(path), texts) for path, texts in shared.items()}
    overlay[HOME] += DEFINITION
    return mutants, overlay
