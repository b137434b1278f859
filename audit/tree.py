# SPDX-License-Identifier: GPL-2.0
"""A kernel tree, and what coccinelle and git find in it."""

import json
import os
import re
import tempfile
from bisect import bisect
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from wqlab.ground.git import git_env
from wqlab.ground.problem import Problem
from wqlab.ground.run import TIMED_OUT, check, run, say, side_by_side
from wqlab.ground.text import plural

HERE = Path(__file__).parent
CHUNK = 40  # files that one spatch reads
PER_FILE = 60  # seconds that spatch may take for a file
# Programs of the host and what is read by people have no workqueues.
BRANCH = re.compile(r"[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b[ \t]*(.*?)\s*$")
NEVER = re.compile(r"[( ]*0[ )]*(&&[^|]*)?")
ALWAYS = re.compile(r"[( ]*[1-9]\d*[ )]*(\|\|.*)?")
# The beginning of a function, or its prototype, but for the name
BEGINNING = r"^(\w[\w\s*]*?[\s*])"
NOT_KERNEL = ("tools/", "scripts/", "Documentation/")


@dataclass(frozen=True)
class Found:
    """A call, or what gives a name its value: a line that a semantic patch prints."""

    kind: str  # call, assigned, parameter, variable, member or returned
    file: str
    line: int
    function: str  # a variable's own name where it is declared outside of functions
    name: str
    args: tuple[str, ...] = ()  # of a call
    to: str = ""  # what the result of a call is assigned to
    number: int = 0  # of a parameter
    op: str = ""  # of an assignment; "moved" is in steps or through a pointer
    value: str = ""


def neat(text: str) -> str:
    """As coccinelle prints an expression, but with spaces as people set them."""
    text = re.sub(r" ?(->|\.(?!\.)) ?", r"\1", " ".join(text.split()))
    text = re.sub(r"(?<=\w) \(", "(", text)
    text = re.sub(r"\( ", "(", re.sub(r" (?=[),\]\[])", "", text)).replace("[ ", "[")
    return re.sub(r"(^|[(|?:,=] ?)([-!~&*]) ", r"\1\2", text)


@lru_cache(maxsize=2048)
def code(path: Path) -> str:
    """A file without its comments and strings; all else stays where it is."""
    if not path.is_file():
        return ""

    whole = r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""
    return compiled(
        re.sub(
            whole,
            lambda found: re.sub(r"[^\n]", " ", found[0]),
            path.read_text(errors="replace"),
            flags=re.DOTALL,
        )
    )


def compiled(text: str) -> str:
    """The text without what no configuration compiles, as after `#if 0`; the rest stays where it
    is."""
    out, levels = [], []  # for each #if: may this be compiled, and is an earlier branch for sure
    for line in text.splitlines(keepends=True):
        word, asked = found.groups() if (found := BRANCH.match(line)) else ("", "")
        if word in ("if", "ifdef", "ifndef"):
            levels.append((True, False))
        if word == "endif" and levels:
            levels.pop()
        elif word and levels:
            over = levels[-1][1]
            never = word in ("if", "elif") and bool(NEVER.fullmatch(asked))
            always = word == "else" or (word in ("if", "elif") and bool(ALWAYS.fullmatch(asked)))
            levels[-1] = (not over and not never, over or always)
        live = word or all(may for may, _ in levels)
        out.append(line if live else re.sub(r"[^\n]", " ", line))
    return "".join(out)


@lru_cache(maxsize=2048)
def empty_lines(path: Path) -> frozenset[int]:
    """The numbers of those that have no code, as `code` gives it."""
    lines = code(path).splitlines()
    return frozenset(number for number, line in enumerate(lines, 1) if not line.strip())


@dataclass(frozen=True)
class Tree:
    """A git repository with a kernel's source."""

    path: Path

    def grep(self, option: str, pattern: str, where: Sequence[str]) -> list[str]:
        """Lines of `git grep` with the option; where is pathspecs."""
        done = run(
            ["git", "-C", self.path, "grep", option, "-E", "-e", pattern, "--", *where],
            limit=120,
            env=git_env(),
        )
        if done.status not in (0, 1):
            raise Problem(f"git grep failed in {self.path}: {done.output.strip()}")
        return done.output.splitlines()

    def files(self, names: Collection[str], where: Sequence[str] = ("*.c", "*.h")) -> list[str]:
        """Those of the kernel that one of the names is in."""
        if not names:
            return []
        found = self.grep("-lw", f"({'|'.join(sorted(names))})", where)
        return [name for name in found if not name.startswith(NOT_KERNEL)]

    def beside(self, file: str) -> list[str]:
        """Pathspecs for the files in the folder of this one."""
        return [f":(glob){Path(file).parent}/*.{end}" for end in "ch"]

    def text(self, file: str) -> str:
        """A file of the tree, as `code` gives it."""
        return code(self.path / file)

    def meant(self, name: str, file: str, also: str) -> str:
        """The file that defines the function which a call in this file is of: the file itself,
        or a header that it includes, or else the nearest. `also` is one that does define it."""
        where = defined(self, name) | {also: defined(self, name).get(also, False)}
        if file in where:
            return file
        seen = [each for each, hidden in where.items() if not hidden]
        whole = (self.path / file).read_text(errors="replace")
        heads = set(
            re.findall(r'^[ \t]*#[ \t]*include[ \t]*["<](?:[^">]*/)?([^/">]+)', whole, re.MULTILINE)
        )

        def far(each: str) -> tuple[bool, int, str]:
            return Path(each).name not in heads, -len(os.path.commonpath([each, file])), each

        return min(seen, key=far, default="")

    def match(
        self, patch: str, names: Collection[str], files: Iterable[str], label: str
    ) -> tuple[list[Found], dict[str, str]]:
        """What a semantic patch of this folder finds of the names, in order, and the files that
        coccinelle could not read, with the reason."""
        wanted = sorted(set(files))
        if not wanted or not names:
            return [], {}
        chunks = [tuple(wanted[at : at + CHUNK]) for at in range(0, len(wanted), CHUNK)]
        found: list[Found] = []
        wrong: dict[str, str] = {}
        say(f"{label}: {plural(len(wanted), 'file')}")
        with tempfile.TemporaryDirectory() as place:
            script = Path(place) / patch
            script.write_text(
                (HERE / patch).read_text().replace("{NAMES}", f'"^({"|".join(sorted(names))})$"')
            )
            check(
                ["spatch", "--very-quiet", "--parse-cocci", script],
                wrong=f"spatch does not take {patch} (is its Python support there?)",
            )

            def one(files: Sequence[str]) -> tuple[list[Found], dict[str, str]]:
                return self._match(script, files)

            for number, (_, (more, bad)) in enumerate(side_by_side(one, chunks), 1):
                found += [one for one in more if one.line not in empty_lines(self.path / one.file)]
                wrong |= bad
                if len(chunks) > 1 and number % 4 == 0:
                    say(f"{label}: {number} of {len(chunks)} parts")
        found.sort(key=lambda one: (one.file, one.line, one.kind, one.name, one.value))
        return list(dict.fromkeys(found)), wrong

    def _match(self, script: Path, files: Sequence[str]) -> tuple[list[Found], dict[str, str]]:
        groups = script.with_name(f"groups-{files[0].replace('/', '-')}")
        groups.write_text("\n\n".join(files) + "\n")
        done = run(
            [
                *("spatch", "--very-quiet", "--no-includes", "--timeout", str(PER_FILE)),
                *("--sp-file", script, "--file-groups", groups),
            ],
            limit=PER_FILE * 5,
            cwd=self.path,
        )
        found = [_found(json.loads(line)) for line in done.output.splitlines() if line[:1] == "{"]
        if not done.status:
            return found, {}
        if len(files) > 1:  # which of them is it?
            wrong: dict[str, str] = {}
            for file in files:
                more, bad = self._match(script, [file])
                found += more
                wrong |= bad
            return found, wrong
        if done.status == TIMED_OUT:
            return found, {files[0]: f"coccinelle took more than {PER_FILE} s"}
        said = [line for line in done.output.splitlines() if line.strip() and line[:1] != "{"]
        return found, {files[0]: f"coccinelle failed: {said[-1].strip() if said else done.status}"}


@lru_cache(maxsize=512)
def defined(tree: Tree, name: str) -> dict[str, bool]:
    """The files that define the function, and whether no other one sees it there."""
    found = {}
    for file in tree.files([name]):
        pattern = rf"{BEGINNING}{name}\s*\([^;{{}}]*\{{"
        if begun := re.search(pattern, tree.text(file), re.MULTILINE):
            found[file] = file.endswith(".c") and "static" in begun[1].split()
    return found


def _found(line: dict[str, Any]) -> Found:
    for key in ("to", "value"):
        if key in line:
            line[key] = neat(line[key])
    if "op" in line:  # attributes of a declaration may be ahead of it
        line["op"] = line["op"].split()[-1]
    if "args" in line:
        line["args"] = tuple(neat(arg) for arg in line["args"])
    return Found(**line)


def arguments(text: str, whole: str, at: int) -> tuple[str, ...]:
    """Those of the call whose parenthesis opens there; `whole` has the strings, which text has
    blanked. None at all if it does not end."""
    found, start, depth = [], at + 1, 0
    for number in range(at, len(text)):
        sign = text[number]
        depth += (sign in "([{") - (sign in ")]}")
        if depth == 0 or (depth == 1 and sign == ","):
            found.append(neat(whole[start:number]))
            start = number + 1
        if depth == 0:
            return tuple(found)
    return ()


def calls_in(text: str, names: Collection[str]) -> Iterator[tuple[int, str, int]]:
    """Line, name and where the arguments begin, of each call in text that `code` gave, other
    than prototypes and definitions, as far as this can be told by looking at words. What is not
    called where it is named, as a pointer to a function is, has no arguments: -1."""
    any_of = "|".join(sorted(names))
    begun = re.finditer(rf"{BEGINNING}({any_of})\s*\(", text, re.MULTILINE)
    breaks = [one.start() for one in re.finditer("\n", text)]
    beginnings = {found.start(2) for found in begun}
    for found in re.finditer(rf"(?<![\w>.])({any_of})\b", text):
        before, after = text[: found.start()].rstrip()[-60:], found.end()
        if found.start() in beginnings or re.search(r"\bEXPORT_SYMBOL\w*\s*\($", before):
            continue
        alone = before.endswith("(") and not re.search(r"\w[ \t]*\($", before)  # in parentheses
        called = re.compile(r"\s*\)?\s*\(" if alone else r"\s*\(").match(text, after)
        if called and re.match(r"\s*(?:const|struct|void)\b", text[called.end() :][:40]):
            continue
        line = bisect(breaks, found.start()) + 1
        yield line, found[1], called.end() - 1 if called else -1
