# SPDX-License-Identifier: GPL-2.0
"""Flushes that check_flush_dependency() of kernel/workqueue.c warns of when they happen: an item of
a workqueue with WQ_MEM_RECLAIM waits for one without, which may need memory to go on.

The source is joined by names, as in waits.py, but an item by those of its own file alone. A name
that stands for workqueues of both kinds, or of a kind that is not known, is left out. Functions of
the same file are followed from an item's function, whatever the conditions on the way.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from audit.report import Flush
from audit.tree import BEGINNING, Tree, arguments, calls_in
from audit.waits import FLUSH, INIT, QUEUE, last_word

SYSTEM = re.compile(r"system_\w*wq")  # none of them has WQ_MEM_RECLAIM
SCHEDULE = {
    "schedule_work": 0,
    "schedule_delayed_work": 0,
    "schedule_work_on": 1,
    "schedule_delayed_work_on": 1,
}
DECLARE = {"DECLARE_WORK", "DECLARE_DELAYED_WORK"}
# Cancelling is not warned of: what it waits for runs already.
OF_ITEM = {name for name in FLUSH if not name.startswith("cancel")} | {"flush_rcu_work"}
OF_QUEUE = {"flush_workqueue", "__flush_workqueue", "drain_workqueue", "destroy_workqueue"}
OF_QUEUE |= {"flush_scheduled_work"}
NAMES = {*QUEUE, *SCHEDULE, *INIT, *DECLARE, *OF_ITEM, *OF_QUEUE}
DEEPEST = 4  # functions that call each other


@dataclass(frozen=True)
class Workqueue:
    """One that is allocated."""

    file: str
    to: str  # what it is assigned to
    # It has WQ_MEM_RECLAIM and is not of the old kind, or it has not: neither, if not known
    reclaims: bool
    lacks: bool


@dataclass
class Uses:
    """What a file does with items."""

    runs: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # an item
    queued: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # an item, on
    flushes: list[tuple[str, int, str, str]] = field(default_factory=list)  # function, line, call
    calls: dict[str, set[str]] = field(default_factory=dict)  # a function, those of the same file


def read(tree: Tree, file: str) -> Uses:
    """A file of the tree."""
    text, whole = tree.text(file), (tree.path / file).read_text(errors="replace")
    uses = Uses()
    bodies: list[tuple[int, int, str]] = []
    begun = rf"{BEGINNING}(\w+)\s*\([^;{{}}]*\{{"
    for found in re.finditer(begun, text, re.MULTILINE):
        end = text.find("\n}", found.end())
        if found[2] not in NAMES and end > 0:
            bodies.append((found.end(), end, found[2]))
    names = {name for _, _, name in bodies}
    for start, end, name in bodies:
        called = set(re.findall(r"(?<![\w>.])(\w+)\s*\(", text[start:end]))
        uses.calls[name] = uses.calls.get(name, set()) | (called & names)
    for line, name, at in calls_in(text, NAMES):
        args = arguments(text, whole, at) if at >= 0 else ()
        if len(args) <= (max(QUEUE[name]) if name in QUEUE else SCHEDULE.get(name, 0)):
            continue
        if name in QUEUE:
            uses.queued[last_word(args[QUEUE[name][1]])].add(args[QUEUE[name][0]])
        elif name in SCHEDULE:
            uses.queued[last_word(args[SCHEDULE[name]])].add("system_percpu_wq")
        elif name in INIT or name in DECLARE:
            uses.runs[last_word(args[0])].add(last_word(args[-1]))
        else:
            inside = [each for start, end, each in bodies if start <= at <= end]
            uses.flushes += [(each, line, name, args[0]) for each in inside[-1:]]
    return uses


class Queues:
    """What is known of workqueues by what they are assigned to."""

    def __init__(self, known: Iterable[Workqueue]) -> None:
        self.known: dict[str, list[Workqueue]] = defaultdict(list)
        for one in known:
            if one.to:
                self.known[last_word(one.to)].append(one)

    def of(self, text: str, file: str) -> list[Workqueue]:
        """Those that an expression of this file may be: of the file, or of its folder, or else a
        variable that one file of the tree allocates."""
        there = self.known.get(last_word(text), [])
        here = [one for one in there if one.file == file]
        near = [one for one in there if Path(one.file).parent == Path(file).parent]
        everywhere = {one.file for one in there}
        one_place = len(everywhere) == 1 and not re.search(r"->|\.|\[|\(", text)
        return here or near or (there if one_place else [])

    def reclaims(self, text: str, file: str) -> bool:
        """Whether it is for sure one whose items must not wait for others."""
        found = self.of(text, file)
        return bool(found) and all(one.reclaims for one in found)

    def lacks(self, text: str, file: str) -> bool:
        """Whether it is for sure one without WQ_MEM_RECLAIM."""
        if SYSTEM.fullmatch(text):
            return True
        found = self.of(text, file)
        return bool(found) and all(one.lacks for one in found)


def reached(uses: Uses, function: str) -> dict[str, list[str]]:
    """The functions of the file that this one leads to, each with those on the way."""
    found, last = {function: [function]}, [function]
    for _ in range(DEEPEST):
        now = [(one, name) for one in last for name in sorted(uses.calls.get(one, ()))]
        last = []
        for one, name in now:
            if name not in found:
                found[name] = [*found[one], name]
                last.append(name)
    return found


def of_file(file: str, uses: Uses, queues: Queues) -> Iterator[Flush]:
    """The flushes of one file."""
    for item, functions in sorted(uses.runs.items()):
        on = uses.queued.get(item)
        if not on or not all(queues.reclaims(each, file) for each in on):
            continue
        for function in sorted(functions):
            way = reached(uses, function)
            for where, line, name, what in uses.flushes:
                if where not in way:
                    continue
                if name in OF_ITEM:
                    targets = uses.queued.get(last_word(what), set())
                else:
                    targets = {what or "system_percpu_wq"}
                if targets and all(queues.lacks(each, file) for each in targets):
                    yield Flush(file, line, " or ".join(sorted(on)), way[where],
                                f"{name}({what})", " or ".join(sorted(targets)))  # fmt: skip


def find_flushes(tree: Tree, known: Iterable[Workqueue]) -> list[Flush]:
    """Those of a tree with these workqueues."""
    queues = Queues(known)
    names = [*OF_ITEM, *OF_QUEUE]
    both = set(tree.files(names)) & set(tree.files([*INIT, *DECLARE])) & set(tree.files(QUEUE))
    found = (one for file in sorted(both) for one in of_file(file, read(tree, file), queues))
    return list({(one.file, one.line, one.by): one for one in found}.values())
