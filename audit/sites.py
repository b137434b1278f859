# SPDX-License-Identifier: GPL-2.0
"""The places where workqueues are allocated, and what is asked for there."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from audit.expression import Unknown, Values, parse
from audit.limits import Constants
from audit.resolve import (
    CONSTANT,
    CPUS,
    NODES,
    ONLINE,
    Counts,
    Given,
    Resolver,
    Scope,
    Waiting,
)
from audit.tree import Found, Tree, arguments, calls_in
from wqlab.ground.problem import Problem

HEADER = "include/linux/workqueue.h"
# What defines and declares the functions below
HOME = (HEADER, "include/drm/drm_managed.h")
ROUNDS = 12
SOME = Counts(16, 2)  # to try expressions with
POINTER = "it is not called here: who calls it through a pointer is not followed"
UNPARSED = "coccinelle does not parse what is around it"


@dataclass(frozen=True)
class Allocator:
    """A function that allocates workqueues: which of its arguments are what, and what it adds."""

    name: int = 0
    flags: int | None = 1
    limit: int | None = 2
    adds: str = "0"


ORDERED = "WQ_UNBOUND | __WQ_ORDERED"
ALLOCATORS = {
    "alloc_workqueue": Allocator(),
    "alloc_workqueue_lockdep_map": Allocator(),
    "devm_alloc_workqueue": Allocator(1, 2, 3),
    "alloc_ordered_workqueue": Allocator(limit=None, adds=ORDERED),
    "alloc_ordered_workqueue_lockdep_map": Allocator(limit=None, adds=ORDERED),
    "devm_alloc_ordered_workqueue": Allocator(1, 2, None, ORDERED),
    "drmm_alloc_ordered_workqueue": Allocator(1, 2, None, ORDERED),
    "alloc_workqueue_noprof": Allocator(),
    "devm_alloc_workqueue_noprof": Allocator(1, 2, 3),
    "create_workqueue": Allocator(0, None, None, "__WQ_LEGACY | WQ_MEM_RECLAIM"),
    "create_freezable_workqueue": Allocator(
        0, None, None, "__WQ_LEGACY | WQ_FREEZABLE | WQ_UNBOUND | WQ_MEM_RECLAIM"
    ),
    "create_singlethread_workqueue": Allocator(
        0, None, None, f"{ORDERED} | __WQ_LEGACY | WQ_MEM_RECLAIM"
    ),
}


@dataclass(frozen=True)
class Site:
    """A call that allocates a workqueue, and what is asked for."""

    file: str
    line: int
    function: str
    call: str  # what is called there: one of ALLOCATORS, or a function that hands on to one
    name: str  # of the workqueue
    flags: str  # an expression
    limit: str
    scope: Scope  # where those two are to be evaluated
    to: str = ""  # what the workqueue is assigned to
    why: str = ""  # it cannot be resolved

    @property
    def order(self) -> tuple[str, int, str]:
        """The key that sites are sorted by."""
        return self.file, self.line, self.name


def constants(resolver: Resolver) -> Constants:
    """Of the tree."""
    names = set(re.findall(r"\b_*WQ_[A-Z_]+", resolver.tree.text(HEADER)))
    resolver.constants |= {name: [(HEADER, 0)] for name in names}
    values: dict[str, int] = {}
    for name in names:
        try:
            (values[name],) = resolver.values(name, Scope(HEADER), SOME)
        except (Unknown, ValueError):
            continue
    if missing := {"WQ_MAX_ACTIVE", "WQ_DFL_ACTIVE", "WQ_DFL_MIN_ACTIVE"} - set(values):
        raise Problem(
            f"{HEADER} of {resolver.tree.path} has no {', '.join(sorted(missing))}: the audit "
            "reads kernels from 6.9 on"
        )
    flags = {name: value for name, value in values.items() if "ACTIVE" not in name}
    return Constants(
        flags, values["WQ_MAX_ACTIVE"], values["WQ_DFL_ACTIVE"], values["WQ_DFL_MIN_ACTIVE"]
    )


def words(text: str) -> str:
    """A workqueue's name: the format, without its quotes."""
    return "".join(re.findall(r'"((?:\\.|[^"])*)"', text)) or text


def filled(form: str, args: tuple[str, ...]) -> str:
    """The format with the arguments that are strings put in."""
    left = list(args)

    def one(found: re.Match[str]) -> str:
        arg = left.pop(0) if left else ""
        return words(arg) if arg.startswith('"') else found[0]

    return re.sub(r"%[-+ #0-9.lhz]*[a-zA-Z]", one, form)


def site(one: Found, to: str) -> Site:
    """The site of a call of one of ALLOCATORS; `to` is what its result is assigned to."""
    how = ALLOCATORS[one.name]
    last = max(how.name, how.flags or 0, how.limit or 0)
    scope = Scope(one.file, one.function)
    if len(one.args) <= last:
        return Site(one.file, one.line, one.function, one.name, "", "", "", scope, to,
                    "it has fewer arguments than it must have")  # fmt: skip
    flags = one.args[how.flags] if how.flags is not None else ""
    if how.adds != "0":
        flags = f"{how.adds} | ({flags})" if flags and flags != "0" else how.adds
    return Site(
        file=one.file,
        line=one.line,
        function=one.function,
        call=one.name,
        name=filled(words(one.args[how.name]), one.args[last + 1 :]),
        flags=flags,
        limit=one.args[how.limit] if how.limit is not None else "1",
        scope=scope,
        to=to,
    )


def sites_of(found: list[Found]) -> Iterator[tuple[Found, str]]:
    """Each call, and what its result is assigned to."""
    to = {(one.file, one.line, one.name): one.to for one in found if one.kind == "assigned"}
    for one in found:
        if one.kind in ("call", "named"):
            yield one, to.get((one.file, one.line, one.name), "")


def find(tree: Tree) -> list[Site]:
    """All calls, also those that only reading words finds: coccinelle does not parse them."""
    files = [file for file in tree.files(ALLOCATORS) if file not in HOME]
    found, wrong = tree.match("calls.cocci", ALLOCATORS, files, "calls that allocate workqueues")
    found = [
        one for one in found if one.function != one.name and not is_macro(tree, one.file, one.line)
    ]
    sites = [site(one, to) for one, to in sites_of(found)]
    for call in left_out(tree, files, ALLOCATORS, [one for one in found if one.kind == "call"]):
        why = hidden(tree, call)
        if why == UNPARSED:
            sites.append(unparsed(site(call, ""), wrong.get(call.file, why)))
        else:
            sites.append(unseen(call, why))
    return sorted(sites, key=lambda one: one.order)


def left_out(
    tree: Tree, files: Iterable[str], names: Collection[str], found: Iterable[Found]
) -> Iterator[Found]:
    """The calls that only reading words finds, and where the functions are "named" only."""
    seen = Counter((one.file, one.line, one.name) for one in found)
    for file in files:
        text, whole = tree.text(file), (tree.path / file).read_text(errors="replace")
        for line, name, at in calls_in(text, names):
            if seen[file, line, name] > 0:
                seen[file, line, name] -= 1
            elif at < 0:
                yield Found("named", file, line, "", name)
            else:
                yield Found("call", file, line, "", name, arguments(text, whole, at))


def hidden(tree: Tree, one: Found) -> str:
    """Why coccinelle does not have it."""
    if is_macro(tree, one.file, one.line):
        return "it is in a macro"
    return POINTER if one.kind == "named" else UNPARSED


def unseen(one: Found, why: str) -> Site:
    """A place of which no more is known."""
    return Site(one.file, one.line, "", one.name, "", "", "", Scope(one.file), why=why)


def unparsed(one: Site, why: str) -> Site:
    """A call that coccinelle has not. Its function is not known, so its arguments must be
    constants."""
    known = {*ONLINE, *CPUS, *NODES}
    named = re.findall(r"\b[A-Za-z_]\w*\b", f"{one.flags} {one.limit}")
    if one.why or not all(name in known or CONSTANT.fullmatch(name) for name in named):
        return replace(one, why=why)
    return one


def is_macro(tree: Tree, file: str, line: int) -> bool:
    """Whether the line belongs to a #define."""
    lines, at = tree.text(file).splitlines(), line - 1
    while at > 0 and lines[at - 1].rstrip().endswith("\\"):
        at -= 1
    return lines[at].lstrip().startswith("#")


def tried(resolver: Resolver, one: Site) -> Unknown | None:
    """What stands against resolving it."""
    problem: Unknown | None = None
    for text in (one.flags, one.limit):
        try:
            resolver.values(text, one.scope, SOME)
        except (Waiting, Given) as found:  # both may want something of the next round
            problem = found
        except Unknown as found:
            problem = problem or found
    return problem


def resolved(resolver: Resolver, sites: list[Site]) -> list[Site]:
    """The same, with calls of functions that hand on their arguments in place of the calls that
    are in those; what cannot be resolved says why."""
    done = [one for one in sites if one.why]
    left = [one for one in sites if not one.why]
    handing: dict[str, list[Found]] = {}
    for _ in range(ROUNDS):
        waiting: list[Site] = []
        for one in left:
            problem = tried(resolver, one)
            if isinstance(problem, Given) and problem.function != one.scope.function:
                done.append(replace(one, why=str(problem)))
            elif isinstance(problem, Given) and problem.function in handing:
                more = list(handed(resolver, one, handing[problem.function]))
                waiting += [call for call in more if not call.why]
                done += [call for call in more if call.why]
                if not more:
                    done.append(replace(one, why=f"{problem}, and no call of it is found"))
            elif isinstance(problem, (Waiting, Given)):
                waiting.append(one)
            else:
                done.append(replace(one, why=str(problem)) if problem else one)
        left = waiting
        new = resolver.callers - set(handing)
        if new:
            tree = resolver.tree
            found, _ = tree.match("calls.cocci", new, tree.files(new), "callers that give values")
            calls = [one for one in found if one.kind == "call"]
            rest = [*left_out(tree, tree.files(new), new, calls)]
            for name in new:
                handing[name] = [one for one in [*found, *rest] if one.name == name]
        if not resolver.look() and not new and not left:
            break
    done += [replace(one, why="it takes too many steps") for one in left]
    return sorted(done, key=lambda one: one.order)


def handed(resolver: Resolver, one: Site, found: list[Found]) -> Iterator[Site]:
    """The calls of the function that a site is in, with what they give it."""
    parameters = {
        each.number: each.name
        for each in (each for name in resolver.found.values() for each in name)
        if each.kind == "parameter"
        and each.file == one.scope.file
        and each.function == one.scope.function
    }
    tree, home = resolver.tree, one.scope.file
    for call, to in sites_of(found):
        if call.function == one.scope.function or tree.meant(call.name, call.file, home) != home:
            continue
        if call.kind == "named" or not call.function:
            yield unseen(call, hidden(tree, call))
            continue
        there = Scope(call.file, call.function)
        given = []
        for number, name in sorted(parameters.items()):
            if number < len(call.args):
                try:
                    given.append((name, parse(call.args[number]), there))
                except Unknown:
                    continue
        strings = tuple(arg for arg in call.args if arg.startswith('"'))
        yield Site(
            file=call.file,
            line=call.line,
            function=call.function,
            call=call.name,
            name=filled(one.name, strings),
            flags=one.flags,
            limit=one.limit,
            scope=Scope(one.scope.file, one.scope.function, tuple(given)),
            to=to or one.to,
        )


def values_of(resolver: Resolver, one: Site, counts: Counts) -> tuple[Values, Values]:
    """The flags and the limit that are asked for."""
    return (
        resolver.values(one.flags, one.scope, counts),
        resolver.values(one.limit, one.scope, counts),
    )
