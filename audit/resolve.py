# SPDX-License-Identifier: GPL-2.0
"""What the names in a C expression may come to, from all that the source assigns to them.

Names are looked for near to where they are used: a local variable in its function, a static one
in its file, a member in its file or else in its folder, a macro or an enumerator in the nearest
place that has it. What structure a member is of is not looked at. All that is looked for in one
round is matched in one run of coccinelle; then whatever was waiting for it is evaluated again.
"""

import re
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from audit.expression import (
    BINARY,
    Call,
    Name,
    Node,
    Unknown,
    Values,
    applied,
    evaluate,
    joined,
    parse,
)
from audit.tree import Found, Tree

ONLINE = ("num_online_cpus", "num_possible_cpus", "num_present_cpus", "num_active_cpus")
CPUS = {"nr_cpu_ids", "NR_CPUS", "CONFIG_NR_CPUS"}
NODES = {"nr_node_ids", "MAX_NUMNODES", "num_online_nodes", "num_possible_nodes"}
CONSTANT = re.compile(r"_*[A-Z][A-Z0-9_]+")
DEEPEST = 30  # names that lead to each other


class Waiting(Unknown):
    """It was not looked for yet."""


class Given(Unknown):
    """It is what the callers of a function give."""

    def __init__(self, name: str, function: str) -> None:
        super().__init__(f"{name} is what the callers of {function}() give")
        self.function = function


@dataclass(frozen=True)
class Counts:
    """How many CPUs and nodes there are, for expressions that ask."""

    cpus: int
    nodes: int


@dataclass(frozen=True)
class Scope:
    """Where an expression is."""

    file: str
    function: str = ""
    # the parameters of the function, or of a macro, and what is given for them, where
    given: tuple[tuple[str, Node, "Scope"], ...] = ()


@dataclass
class Resolver:
    """What is known of the names of a tree, and what is still to be looked for."""

    tree: Tree
    found: dict[str, list[Found]] = field(default_factory=lambda: defaultdict(list))
    asked: set[tuple[str, str]] = field(default_factory=set)  # a name, and where: found by now
    _asking: set[tuple[str, str]] = field(default_factory=set)  # in this round
    # what to ask for in the next round: names with the files, and constants
    wanted: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    constants: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)  # constants to look for
    callers: set[str] = field(default_factory=set)  # functions whose callers must be known
    options: set[str] = field(default_factory=set)  # module parameters that were met
    _stack: list[tuple[str, Scope]] = field(default_factory=list)
    _partial: dict[tuple[str, Scope], Values] = field(default_factory=dict)

    # Rounds

    def look(self) -> bool:
        """Look for all that is wanted. False if nothing is."""
        if not self.wanted and not self.missing:
            return False
        names, files = set(self.wanted), set().union(*self.wanted.values())
        found, _ = self.tree.match("definitions.cocci", names, files, "where values come from")
        for one in found:
            if one not in self.found[one.name]:
                self.found[one.name].append(one)
        self.wanted.clear()
        self.asked |= self._asking
        self._asking.clear()
        if self.missing:
            self._look_for_constants(self.missing)
            self.missing = set()
        return True

    def _ask(self, name: str, key: str, files: Collection[str]) -> bool:
        """Whether it was looked for in these files; if not, it will be."""
        if not files or (name, key) in self.asked:
            return True
        self._asking.add((name, key))
        self.wanted[name] |= set(files)
        return False

    def _look_for_constants(self, names: Collection[str]) -> None:
        any_of = "|".join(sorted(names))
        pattern = rf"^\s*#\s*define\s+({any_of})\b|^\s*({any_of})\s*(=[^=]|,|$)"
        pattern += rf"|\benum\b.*\b({any_of})\b"
        for name in names:
            self.constants.setdefault(name, [])
        for line in self.tree.grep("-n", pattern, ["*.c", "*.h"]):
            file, number, text = line.split(":", 2)
            name = re.findall(rf"\b({any_of})\b", text)[0]
            self.constants[name].append((file, int(number)))

    # Evaluation

    def values(self, text: str | Node, scope: Scope, counts: Counts) -> Values:
        """All that an expression may come to, with these counts. Waiting is to be tried again."""
        node = parse(text) if isinstance(text, str) else text
        return evaluate(node, lambda one: self._known(one, scope, counts))

    def _known(self, one: Name | Call, scope: Scope, counts: Counts) -> Values:
        if one.name in ONLINE or one.name in CPUS:
            return frozenset({counts.cpus})
        if one.name in NODES:
            return frozenset({counts.nodes})
        key = (f"{'.' if isinstance(one, Name) and one.of else ''}{one.name}", scope)
        if key in self._stack or len(self._stack) > DEEPEST:
            if key in self._partial:
                return self._partial[key]
            raise Unknown(f"{one.name} is made of itself")
        self._stack.append(key)
        try:
            if isinstance(one, Call):
                return self._call(one, scope, counts)
            if one.of:
                return self._member(one.name, scope, counts, key)
            return self._variable(one.name, scope, counts, key)
        finally:
            self._stack.pop()
            self._partial.pop(key, None)

    def _variable(self, name: str, scope: Scope, counts: Counts, key: tuple[str, Scope]) -> Values:
        for parameter, text, there in scope.given:
            if parameter == name:
                given = self.values(text, there, counts)
                return self._assigned(self._local(name, scope), scope, counts, key, given)
        if CONSTANT.fullmatch(name):
            return self._constant(name, scope, counts)
        if not scope.function or not scope.file:
            raise Unknown(f"{name} is not a constant")
        if not self._ask(name, scope.file, [scope.file]):
            raise Waiting(name)
        local = self._local(name, scope)
        if any(one.kind == "parameter" for one in self.found[name] if self._inside(one, scope)):
            self.callers.add(scope.function)
            raise Given(name, scope.function)
        if local:
            return self._assigned(local, scope, counts, key)
        # Not of this function: of the file, or else of the folder
        variables = [one for one in self.found[name] if one.kind == "variable"]
        of_file = [one for one in variables if one.file == scope.file]
        given = self._option(name, scope.file, of_file)
        if of_file or given:
            return self._assigned(of_file, scope, counts, key, given)
        if not self._ask(
            name,
            f"{Path(scope.file).parent}/",
            self.tree.files([name], self.tree.beside(scope.file)),
        ):
            raise Waiting(name)
        folder = Path(scope.file).parent
        near = [one for one in variables if Path(one.file).parent == folder]
        near = [one for one in near if one.function == name]
        if not near:
            raise Unknown(f"nothing near gives {name} a value")
        given = self._option(name, near[0].file, near)
        return self._assigned(near, scope, counts, key, given)

    def _inside(self, one: Found, scope: Scope) -> bool:
        return one.file == scope.file and one.function == scope.function

    def _local(self, name: str, scope: Scope) -> list[Found]:
        return [
            one for one in self.found[name] if one.kind == "variable" and self._inside(one, scope)
        ]

    def _option(self, name: str, file: str, found: list[Found]) -> Values:
        """The value that a module parameter has if nobody gives one."""
        if not re.search(rf"\bmodule_param\w*\(\s*(\w+,\s*)?{name}\b", self.tree.text(file)):
            return frozenset()
        self.options.add(name)
        return frozenset() if any(one.function == name for one in found) else frozenset({0})

    def _member(self, name: str, scope: Scope, counts: Counts, key: tuple[str, Scope]) -> Values:
        beside = self.tree.files([name], self.tree.beside(scope.file))
        if not self._ask(name, f".{Path(scope.file).parent}/", beside):
            raise Waiting(name)
        folder = Path(scope.file).parent
        near = [
            one
            for one in self.found[name]
            if one.kind == "member" and Path(one.file).parent == folder
        ]
        near = (
            [one for one in near if self._inside(one, scope)]
            or [one for one in near if one.file == scope.file]
            or near
        )
        if not near:
            raise Unknown(f"nothing near gives the member {name} a value")
        return self._assigned(near, scope, counts, key)

    def _assigned(
        self,
        found: list[Found],
        scope: Scope,
        counts: Counts,
        key: tuple[str, Scope],
        values: Values = frozenset(),
    ) -> Values:
        """All that these assignments give, beside the values that it may have anyhow."""
        name = key[0].lstrip(".")
        later: list[Found] = []
        for last in (False, True):
            for one in later if last else found:
                if one.op not in ("=", "|=", "&="):
                    raise Unknown(
                        f"{name} changes in steps or through a pointer ({one.file}:{one.line})"
                    )
                if one.op != "=" and not values:
                    later.append(one)
                    continue
                if values:
                    self._partial[key] = values
                there = scope if self._inside(one, scope) else Scope(one.file, one.function)
                try:
                    more = self.values(one.value, there, counts)
                except Waiting:
                    raise
                except Unknown as reason:
                    if not last and "made of itself" in str(reason):
                        later.append(one)
                        continue
                    raise
                if one.op != "=":
                    more = applied(BINARY[one.op[0]], [values, more])
                values = joined([values, more])
        if not values:
            raise Unknown(f"nothing near gives {name} a value")
        return values

    def _call(self, one: Call, scope: Scope, counts: Counts) -> Values:
        if CONSTANT.fullmatch(one.name):
            return self._constant(one.name, scope, counts, one.args)
        beside = self.tree.files([one.name], self.tree.beside(scope.file))
        if not self._ask(one.name, f"{Path(scope.file).parent}/", beside):
            raise Waiting(one.name)
        returned = [
            found
            for found in self.found[one.name]
            if found.kind == "returned" and Path(found.file).parent == Path(scope.file).parent
        ]
        if not returned:
            raise Unknown(f"what {one.name}() returns is not told near")
        return joined(
            self.values(found.value, Scope(found.file, found.function), counts)
            for found in returned
        )

    # Macros and enumerators

    def _constant(
        self, name: str, scope: Scope, counts: Counts, args: tuple[Node, ...] | None = None
    ) -> Values:
        """With args, of a macro that takes some."""
        if name not in self.constants:
            self.missing.add(name)
            raise Waiting(name)

        def far(place: tuple[str, int]) -> tuple[bool, bool, int]:
            file = place[0]
            common = 0
            for mine, its in zip(Path(scope.file).parts, Path(file).parts, strict=False):
                if mine != its:
                    break
                common += 1
            return (
                file != scope.file,
                Path(file).parent != Path(scope.file).parent and not file.startswith("include/"),
                -common,
            )

        places = sorted(self.constants[name], key=far)
        for file in dict.fromkeys(place[0] for place in places):
            try:
                found = self._in_file(name, file, scope, counts, args)
            except Waiting:
                raise
            except Unknown:
                continue
            if found:
                return found
        raise Unknown(f"{name} is no constant that can be found")

    def _in_file(
        self, name: str, file: str, scope: Scope, counts: Counts, args: tuple[Node, ...] | None
    ) -> Values:
        """All that it is defined as there, whatever the configuration."""
        text = self.tree.text(file)
        takes = "" if args is None else r"\(([^)]*)\)"
        sets = []
        for found in re.finditer(
            rf"^[ \t]*#[ \t]*define[ \t]+{name}{takes}[ \t]+((?:\\\n|[^\n])+)", text, re.MULTILINE
        ):
            *parameters, value = found.groups()
            names = [one.strip() for one in parameters[0].split(",")] if parameters else []
            given = tuple((one, arg, scope) for one, arg in zip(names, args or (), strict=False))
            sets.append(self.values(value.replace("\\\n", " "), Scope(file, "", given), counts))
        for body in re.findall(r"\benum\b[^{};()]*\{([^}]*)\}", text) if args is None else []:
            if re.search(rf"\b{name}\b", body):
                sets.append(self._enumerator(name, body, file, counts))
        return joined(sets)

    def _enumerator(self, name: str, body: str, file: str, counts: Counts) -> Values:
        value: Values = frozenset({-1})
        body = re.sub(r"^[ \t]*#.*$", "", body, flags=re.MULTILINE)
        for entry in body.split(","):
            word, _, given = (part.strip() for part in entry.partition("="))
            if given:
                wanted = word == name
                try:
                    value = self.values(given, Scope(file), counts)
                except Waiting:
                    raise
                except Unknown:
                    if wanted:
                        raise
                    value = frozenset()
            else:
                value = frozenset(one + 1 for one in value)
            if word == name:
                return value
        return frozenset()
