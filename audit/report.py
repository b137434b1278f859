# SPDX-License-Identifier: GPL-2.0
"""The audit as a JSON file, and that file as CSV; page.py shows it to people."""

import csv
import io
import json
import tomllib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from audit.limits import Meaning
from wqlab.ground.problem import Problem
from wqlab.results.model import Made

SCHEMA = 2
NOTES = Path(__file__).with_name("notes.toml")
MUCH = 2.0  # times fewer or more items at once, from which on a change is shown

# What to do about a finding where notes.toml has nothing of the caller
ADVICE = {
    "serial": "If one at a time in the whole system is not wanted, raise the limit; if it is, and "
    "in order, use alloc_ordered_workqueue().",
    "narrower": "If the limit was meant for each node, multiply it by num_online_nodes(); if for "
    "the system, nothing is to be done.",
    "cpus-each": "A limit of each CPU need not know how many there are: say how many items of one "
    "CPU may run at once, or 0.",
    "cpus": "Nothing: the exact limit gives as many as there are CPUs, which is what this asks for.",
}


@dataclass(frozen=True)
class Kernel:
    """The source that was read."""

    release: str
    tree: str  # the id of its tree, in git
    most: int  # WQ_MAX_ACTIVE
    default: int  # WQ_DFL_ACTIVE
    least: int  # WQ_DFL_MIN_ACTIVE


@dataclass(frozen=True)
class Row:
    """A place where a workqueue is allocated."""

    file: str
    line: int
    function: str
    call: str
    name: str
    flags: str  # as the source has them, or what hands them on
    limit: str
    kind: str = ""  # ordered, percpu, unbound or bh; "percpu or unbound" where that depends
    named: str = ""  # the flags by name, those that are always there
    active: list[int] = field(default_factory=list)  # what max_active may be, with `cpus`
    options: list[str] = field(default_factory=list)  # module parameters that change it
    meanings: list[Meaning] = field(default_factory=list)  # of an unbound one, by nodes
    findings: list[str] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)  # what shows that items wait
    why: str = ""  # it could not be resolved

    @property
    def place(self) -> str:
        """FILE:LINE."""
        return f"{self.file}:{self.line}"

    @property
    def narrower(self) -> float:
        """How many times fewer items run at once with the exact limit, at most over all nodes."""
        return max((one.narrower for one in self.meanings), default=1.0)

    @property
    def wider(self) -> float:
        """How many times more one node runs with the exact limit, at most over all nodes."""
        return max((one.wider for one in self.meanings), default=1.0)


@dataclass(frozen=True)
class Flush:
    """A flush of a workqueue without WQ_MEM_RECLAIM by an item of one with it."""

    file: str
    line: int
    by: str  # the workqueue with it, as the source has it
    through: list[str]  # functions: that of the item, then those that lead to the flush
    call: str
    of: str  # the workqueue without it

    @property
    def place(self) -> str:
        """FILE:LINE."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Audit:
    """The file."""

    schema: int
    made: Made
    coccinelle: str  # its version
    kernel: Kernel
    cpus: int  # that all is counted for
    rows: list[Row]
    flushes: list[Flush] = field(default_factory=list)


@dataclass(frozen=True)
class Note:
    """What reading the caller has shown."""

    file: str
    advice: str
    name: str = ""  # of the workqueue, if not all of the file
    reported: str = ""  # the limit that max_active-report.txt has it with
    allocated: int = 0  # the limit that it has before it's raised, if it is


def load_notes(path: Path = NOTES) -> list[Note]:
    """A note with `names` is one of each of them."""
    try:
        return [
            Note(**one, **name)
            for one in tomllib.loads(path.read_text())["caller"]
            for name in [{"name": name} for name in one.pop("names", [])] or [{}]
        ]
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise Problem(
            f"{path}: {error}: a caller has file, name, advice, reported, allocated, and may have "
            "names in place of name"
        ) from None


def note_of(file: str, name: str, notes: Iterable[Note]) -> Note | None:
    """What is known of a workqueue, or else of its file."""
    of_file = {note.name: note for note in notes if note.file == file}
    return of_file.get(name, of_file.get(""))


def advice(row: Row, notes: Iterable[Note]) -> str:
    """What a maintainer should do."""
    if note := note_of(row.file, row.name, notes):
        return note.advice
    return next((ADVICE[key] for key in ADVICE if key in row.findings), "")


def load(path: Path) -> Audit:
    """Read what `dumps` wrote. Raises Problem if the file is not such a one."""
    try:
        data = json.loads(path.read_text())
        if data["schema"] != SCHEMA:
            raise Problem(f"{path}: schema {data['schema']}, and only {SCHEMA} is read")
        data["made"], data["kernel"] = Made(**data["made"]), Kernel(**data["kernel"])
        data["rows"] = [
            Row(**row | {"meanings": [Meaning(**one) for one in row["meanings"]]})
            for row in data["rows"]
        ]
        data["flushes"] = [Flush(**one) for one in data["flushes"]]
        return Audit(**data)
    except OSError as error:
        raise Problem(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise Problem(f"{path} is not what scripts/audit writes: {error}") from None


def dumps(audit: Audit) -> str:
    """JSON, a line for each row."""
    head = asdict(audit)
    rows = ",\n".join(f"  {json.dumps(row)}" for row in head.pop("rows"))
    return f'{json.dumps(head, indent=1)[:-2]},\n "rows": [\n{rows}\n ]\n}}\n'


def as_csv(audit: Audit, notes: Iterable[Note]) -> str:
    """CSV with a line for each call site; docs/loads.md says what the columns are."""
    nodes = sorted({one.nodes for row in audit.rows for one in row.meanings})
    head = ["file", "line", "function", "call", "name", "flags", "max_active", "kind", "active"]
    for number in nodes:
        head += [f"per_cpu_{number}", f"per_node_{number}", f"one_node_{number}"]
        head.append(f"exact_{number}")
    head += ["findings", "waits", "unresolved", "advice"]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    for row in audit.rows:
        cells: list[object] = [row.file, row.line, row.function, row.call, row.name, row.flags]
        cells += [row.limit, row.kind, " ".join(map(str, row.active))]
        by_nodes = {one.nodes: one for one in row.meanings}
        for number in nodes:
            one = by_nodes.get(number)
            cells += [one.per_cpu, one.per_node, one.one_node, one.exact] if one else [""] * 4
        cells += [" ".join(row.findings), "; ".join(row.waits), row.why, advice(row, notes)]
        writer.writerow(cells)
    return out.getvalue()
