# SPDX-License-Identifier: GPL-2.0
"""Items of a workqueue that wait for other items of it, as far as their functions show it.

The source is joined by names: a workqueue by the last word of what it is assigned to, an item by
that of what is queued, a completion by that of what is waited for, all in one folder. Functions
that others call are not followed. So it misses some, and it names some that are none: whoever
reads the report looks at the lines it gives.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from audit.tree import Found, Tree

# The number of the argument that is the workqueue, and of the one that is the item
QUEUE = {
    "queue_work": (0, 1),
    "queue_delayed_work": (0, 1),
    "queue_rcu_work": (0, 1),
    "mod_delayed_work": (0, 1),
    "queue_work_on": (1, 2),
    "queue_delayed_work_on": (1, 2),
    "queue_work_node": (1, 2),
    "mod_delayed_work_on": (1, 2),
}
INIT = {
    "INIT_WORK",
    "INIT_DELAYED_WORK",
    "INIT_WORK_ONSTACK",
    "INIT_DELAYED_WORK_ONSTACK",
    "INIT_RCU_WORK",
}
FLUSH = {"flush_work", "flush_delayed_work", "cancel_work_sync", "cancel_delayed_work_sync"}
DRAIN = {"flush_workqueue", "drain_workqueue"}
WAIT = {
    "wait_for_completion",
    "wait_for_completion_io",
    "wait_for_completion_timeout",
    "wait_for_completion_killable",
    "wait_for_completion_interruptible",
    "wait_for_completion_interruptible_timeout",
}
END = {"complete", "complete_all"}
NAMES = {*QUEUE, *INIT, *FLUSH, *DRAIN, *WAIT, *END}


def last_word(text: str) -> str:
    """As "work" of &sbi->io[n].work."""
    words = re.findall(r"\w+", re.sub(r"\[[^]]*\]", "", text))
    return words[-1] if words else ""


@dataclass
class Folder:
    """What is done with items in one folder."""

    # of a workqueue, and the file that they are queued in
    items: dict[str, set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))
    runs: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # an item
    calls: list[Found] = field(default_factory=list)  # that wait, or end a wait

    def take(self, one: Found) -> None:
        """Add a call of one of NAMES."""
        if at := QUEUE.get(one.name):
            if len(one.args) > max(at):
                item = last_word(one.args[at[1]])
                self.items[last_word(one.args[at[0]])].add((item, one.file))
        elif one.name in INIT:
            if len(one.args) > 1:
                self.runs[last_word(one.args[0])].add(last_word(one.args[1]))
        elif one.args:
            self.calls.append(one)

    def waits(self, workqueue: str, file: str = "") -> tuple[list[str], list[str]]:
        """Of its items, those that wait for others of it, and those that wait for anything. With
        a file, only what is queued there is an item of it: others have one of the same name."""
        items = {item for item, where in self.items.get(workqueue, ()) if file in ("", where)}
        functions = {name for item in items for name in self.runs.get(item, ())}
        mine = [one for one in self.calls if one.function in functions]
        each_other, any_of = [], []
        for one in mine:
            what = last_word(one.args[0])
            where = f"{one.function}() has {one.name}({one.args[0]}), {one.file}:{one.line}"
            if one.name in FLUSH and what in items:
                each_other.append(f"{where}, and {what} is queued here too")
            elif one.name in DRAIN and what == workqueue:
                each_other.append(where)
            elif one.name in WAIT:
                ends = [end for end in mine if end.name in END and last_word(end.args[0]) == what]
                each_other += [f"{where}, which {end.function}() completes" for end in ends]
                if not ends:
                    any_of.append(where)
        return each_other, any_of


def folders(tree: Tree, of: Iterable[str]) -> dict[Path, Folder]:
    """The folders of these files."""
    found: dict[Path, Folder] = defaultdict(Folder)
    beside = sorted({where for file in of for where in tree.beside(file)})
    if not beside:
        return found
    files = tree.files(NAMES, beside)
    calls, _ = tree.match("calls.cocci", NAMES, files, "what items wait for")
    for one in calls:
        if one.kind == "call":
            found[Path(one.file).parent].take(one)
    return found
