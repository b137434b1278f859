# SPDX-License-Identifier: GPL-2.0
"""The audit as a file, and that file as CSV, as a page and as lines for the terminal."""

import csv
import io
import json
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from audit.limits import Meaning
from wqlab.ground.problem import Problem
from wqlab.ground.text import plural, table
from wqlab.results import Made

SCHEMA = 1
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
    active: list[int] = field(default_factory=list)  # what max_active may be, on the machine
    options: list[str] = field(default_factory=list)  # module parameters that change it
    meanings: list[Meaning] = field(default_factory=list)  # of an unbound one, by nodes
    findings: list[str] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)  # what shows that items wait
    why: str = ""  # it could not be resolved

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def narrower(self) -> float:
        return max((one.narrower for one in self.meanings), default=1.0)

    @property
    def wider(self) -> float:
        return max((one.wider for one in self.meanings), default=1.0)


@dataclass(frozen=True)
class Audit:
    """The file."""

    schema: int
    made: Made
    coccinelle: str  # its version
    kernel: Kernel
    cpus: int  # of the machine that all is said of
    rows: list[Row]


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
    try:
        data = json.loads(path.read_text())
        if data["schema"] != SCHEMA:
            raise Problem(f"{path}: schema {data['schema']}, and only {SCHEMA} is read")
        data["made"], data["kernel"] = Made(**data["made"]), Kernel(**data["kernel"])
        data["rows"] = [
            Row(**row | {"meanings": [Meaning(**one) for one in row["meanings"]]})
            for row in data["rows"]
        ]
        return Audit(**data)
    except OSError as error:
        raise Problem(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise Problem(f"{path} is not what wqlab audit writes: {error}") from None


def dumps(audit: Audit) -> str:
    """JSON, a line for each row."""
    head = asdict(audit)
    rows = ",\n".join(f"  {json.dumps(row)}" for row in head.pop("rows"))
    return f'{json.dumps(head, indent=1)[:-2]},\n "rows": [\n{rows}\n ]\n}}\n'


def as_csv(audit: Audit, notes: Iterable[Note]) -> str:
    nodes = sorted({one.nodes for row in audit.rows for one in row.meanings})
    head = ["file", "line", "function", "call", "name", "flags", "max_active", "kind", "active"]
    for number in nodes:
        head += [f"per_cpu_{number}", f"per_node_{number}", f"one_node_{number}"]
    head += ["exact", "findings", "waits", "unresolved", "advice"]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    for row in audit.rows:
        cells: list[object] = [row.file, row.line, row.function, row.call, row.name, row.flags]
        cells += [row.limit, row.kind, " ".join(map(str, row.active))]
        by_nodes = {one.nodes: one for one in row.meanings}
        for number in nodes:
            one = by_nodes.get(number)
            cells += [one.per_cpu, one.per_node, one.one_node] if one else ["", "", ""]
        cells.append(row.meanings[0].exact if row.meanings else "")
        cells += [" ".join(row.findings), "; ".join(row.waits), row.why, advice(row, notes)]
        writer.writerow(cells)
    return out.getvalue()


# --- the page ---------------------------------------------------------------------------------


def escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def markdown(head: list[str], rows: Iterable[list[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return [*lines, *("| " + " | ".join(map(escaped, row)) + " |" for row in rows), ""]


def summary(audit: Audit) -> Mapping[str, int]:
    """How many there are of each kind."""
    kinds = Counter(row.kind or "not resolved" for row in audit.rows)
    return dict(sorted(kinds.items(), key=lambda pair: (-pair[1], pair[0])))


def changing(audit: Audit) -> list[Row]:
    """Those that the exact limit changes most: fewer items, then the most of them first."""
    rows = [row for row in audit.rows if row.narrower >= MUCH]
    return sorted(rows, key=lambda row: (-row.narrower, row.place))


def before_after(row: Row) -> list[str]:
    """As "16 -> 8" for each number of nodes but one."""
    return [f"{one.per_node} -> {one.exact}" for one in row.meanings if one.nodes > 1]


def reported(audit: Audit, notes: Iterable[Note]) -> list[list[str]]:
    """The callers that were reported to misuse the limit, and what they are now."""
    rows = []
    for note in (note for note in notes if note.reported):
        found = [row for row in audit.rows if (row.file, row.name) == (note.file, note.name)]
        if not found:
            state = "changed: it is not there any more"
        elif same := [row for row in found if row.limit == note.reported]:
            state = f"found in line {same[0].line}: {same[0].kind}, {note.reported}"
        else:
            now = ", ".join(f"{row.limit} in line {row.line}" for row in found)
            state = f"changed: {now}, not {note.reported}"
        rows.append([note.file, note.name, state, note.advice if found else ""])
    return rows


def page(audit: Audit, notes: list[Note]) -> str:
    nodes = [one.nodes for row in audit.rows if row.meanings for one in row.meanings]
    many = sorted(set(nodes) - {1})
    kernel = audit.kernel
    lines = [
        f"# max_active in Linux {kernel.release}",
        "",
        "<!-- SPDX-License-Identifier: GPL-2.0 -->",
        "",
        (
            f"Made by `{audit.made.command}` on {audit.made.date} of tree {kernel.tree[:12]}, with "
            f"{audit.coccinelle}. What is counted is how many items of a workqueue run at once on "
            f"{audit.cpus} CPUs. [docs/loads.md](../../docs/loads.md) says how it is found and what "
            "it cannot see."
        ),
        "",
        *markdown(
            ["workqueues", "call sites"],
            [[kind, str(number)] for kind, number in summary(audit).items()],
        ),
        (
            f"`WQ_MAX_ACTIVE` is {kernel.most}; 0 stands for {kernel.default}; a node's share is "
            f"{kernel.least} at least, or the limit if that is less."
        ),
        "",
        "## Callers that were reported",
        "",
        *markdown(["file", "workqueue", "now", "what to do"], reported(audit, notes)),
        f"## Fewer at once: {plural(len(changing(audit)), 'call site')}",
        "",
        (
            "How many run at once at most, with shares of nodes and with the exact limit, on "
            f"{', '.join(map(str, many))} nodes."
        ),
        "",
        *markdown(
            ["where", "workqueue", "max_active", *(f"{n} nodes" for n in many), "what to do"],
            [
                [row.place, row.name, row.limit, *before_after(row), advice(row, notes)]
                for row in changing(audit)
            ],
        ),
    ]
    scaling = [row for row in audit.rows if {"cpus", "cpus-each"} & set(row.findings)]
    lines += [
        f"## Limits that grow with the CPUs: {plural(len(scaling), 'call site')}",
        "",
        *markdown(
            ["where", "workqueue", "of", "max_active", f"on {audit.cpus} CPUs", "what to do"],
            [
                [row.place, row.name, row.kind, row.limit, str(max(row.active)), advice(row, notes)]
                for row in scaling
            ],
        ),
    ]
    waiting = [row for row in audit.rows if row.waits]
    lines += [
        f"## Unbound workqueues whose items wait: {plural(len(waiting), 'call site')}",
        "",
        (
            "With lines to look at. Only where an item waits for another one of the same workqueue "
            "can a limit be too low: those are marked."
        ),
        "",
        *markdown(
            ["where", "workqueue", "limit", "each other", "what shows it"],
            [
                [
                    row.place,
                    row.name,
                    str(max(row.active)),
                    "yes" if "each-other" in row.findings else "",
                    "; ".join(row.waits),
                ]
                for row in waiting
            ],
        ),
    ]
    wider = [row for row in audit.rows if "wider" in row.findings]
    most = sorted(wider, key=lambda row: (-row.wider, row.place))
    asked = [row for row in most if row.limit != "0"]
    lines += [
        f"## More on one node: {plural(len(wider), 'call site')}",
        "",
        (
            f"Where all items are queued on one node, as many run as before on all. "
            f"{len(wider) - len(asked)} of them leave the limit to the kernel; these say "
            "one:"
        ),
        "",
        *markdown(
            ["where", "workqueue", "max_active", *(f"{n} nodes" for n in many)],
            [
                [
                    row.place,
                    row.name,
                    row.limit,
                    *(f"{m.one_node} -> {m.exact}" for m in row.meanings if m.nodes > 1),
                ]
                for row in asked
            ],
        ),
    ]
    lost = [row for row in audit.rows if row.why]
    lines += [
        f"## Not resolved: {plural(len(lost), 'call site')} of {len(audit.rows)}",
        "",
        *markdown(
            ["where", "workqueue", "max_active", "why"],
            [[row.place, row.name, row.limit, row.why] for row in lost],
        ),
    ]
    return "\n".join(lines)


def terminal(audit: Audit, notes: list[Note]) -> list[str]:
    """What is printed."""
    lines = [
        f"{plural(len(audit.rows), 'call site')} in {audit.kernel.release}: "
        + ", ".join(f"{number} {kind}" for kind, number in summary(audit).items()),
        "",
        "fewer at once with the exact limit, by nodes:",
    ]
    many = next((row.meanings for row in audit.rows if row.meanings), [])
    head = ["where", "workqueue", *(f"{one.nodes} nodes" for one in many if one.nodes > 1)]
    rows = [[row.place, row.name, *before_after(row)] for row in changing(audit)]
    lines += table([head, *rows], [True, True, *[False] * (len(head) - 2)])
    lines += ["", "reported callers:"]
    lines += table([row[:3] for row in reported(audit, notes)], [True, True, True])
    lost = [row for row in audit.rows if row.why]
    lines += ["", f"{plural(len(lost), 'call site')} could not be resolved:"]
    lines += [f"  {row.place}: {row.why}" for row in lost]
    return lines
