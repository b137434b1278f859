# SPDX-License-Identifier: GPL-2.0
"""An audit as a page in Markdown and as lines for the terminal."""

from collections import Counter
from collections.abc import Iterable, Mapping

from audit.report import MUCH, Audit, Note, Row, advice
from wqlab.ground.text import plural, table


def escaped(text: str) -> str:
    """The text as a cell of a table in Markdown."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def markdown(head: list[str], rows: Iterable[list[str]]) -> list[str]:
    """The lines of a table, and an empty one."""
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


def several(audit: Audit) -> list[int]:
    """The numbers of nodes, above one, that the audit counts for."""
    return sorted({one.nodes for row in audit.rows for one in row.meanings} - {1})


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


def narrowed(audit: Audit, notes: list[Note]) -> list[str]:
    """The sections about what was reported, and about what the exact limit makes narrower."""
    rows, many = changing(audit), several(audit)
    return [
        "## Callers that were reported",
        "",
        *markdown(["file", "workqueue", "now", "what to do"], reported(audit, notes)),
        f"## Fewer at once: {plural(len(rows), 'call site')}",
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
                for row in rows
            ],
        ),
    ]


def scaling(audit: Audit, notes: list[Note]) -> list[str]:
    """The section about limits that are computed from the number of CPUs."""
    rows = [row for row in audit.rows if {"cpus", "cpus-each"} & set(row.findings)]
    return [
        f"## Limits that grow with the CPUs: {plural(len(rows), 'call site')}",
        "",
        *markdown(
            ["where", "workqueue", "of", "max_active", f"on {audit.cpus} CPUs", "what to do"],
            [
                [row.place, row.name, row.kind, row.limit, str(max(row.active)), advice(row, notes)]
                for row in rows
            ],
        ),
    ]


def waiting(audit: Audit) -> list[str]:
    """The section about items that wait, with the lines that show it."""
    rows = [row for row in audit.rows if row.waits]
    return [
        f"## Unbound workqueues whose items wait: {plural(len(rows), 'call site')}",
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
                for row in rows
            ],
        ),
    ]


def reclaiming(audit: Audit) -> list[str]:
    """The section about items that must not wait, and flush what may have to."""
    return [
        f"## Flushes that may wait for memory: {plural(len(audit.flushes), 'call')}",
        "",
        (
            "An item of a workqueue with `WQ_MEM_RECLAIM` flushes or destroys one without, or "
            "flushes an item there, which check_flush_dependency() warns of when it happens. Seen "
            "are items that are set up, queued and flushed in one file, through functions of that "
            "file; conditions are not. Where a name stands for workqueues of both kinds, nothing "
            "is said."
        ),
        "",
        *markdown(
            ["where", "item's function", "of", "calls", "of", "through"],
            [
                [one.place, one.through[0], one.by, one.call, one.of, " > ".join(one.through[1:])]
                for one in audit.flushes
            ],
        ),
    ]


def widened(audit: Audit) -> list[str]:
    """The section about workqueues of which one node may run more with the exact limit."""
    rows = [row for row in audit.rows if "wider" in row.findings]
    asked = sorted(
        (row for row in rows if row.limit != "0"), key=lambda row: (-row.wider, row.place)
    )
    return [
        f"## More on one node: {plural(len(rows), 'call site')}",
        "",
        (
            "Where all items are queued on one node, as many run as before on all. "
            f"{len(rows) - len(asked)} of them leave the limit to the kernel; these say one:"
        ),
        "",
        *markdown(
            ["where", "workqueue", "max_active", *(f"{n} nodes" for n in several(audit))],
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


def lost(audit: Audit) -> list[str]:
    """The section about call sites that could not be resolved, and why."""
    rows = [row for row in audit.rows if row.why]
    return [
        f"## Not resolved: {plural(len(rows), 'call site')} of {len(audit.rows)}",
        "",
        *markdown(
            ["where", "workqueue", "max_active", "why"],
            [[row.place, row.name, row.limit, row.why] for row in rows],
        ),
    ]


def page(audit: Audit, notes: list[Note]) -> str:
    """The whole audit in Markdown."""
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
        *narrowed(audit, notes),
        *scaling(audit, notes),
        *waiting(audit),
        *reclaiming(audit),
        *widened(audit),
        *lost(audit),
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
    some = f"as far as a single file shows them: {len(audit.flushes)}"
    lines += ["", f"items with WQ_MEM_RECLAIM that flush workqueues without, {some}"]
    lines += [f"  {one.place}: {one.through[0]}() of {one.by}: {one.call}" for one in audit.flushes]
    lost = [row for row in audit.rows if row.why]
    lines += ["", f"{plural(len(lost), 'call site')} could not be resolved:"]
    lines += [f"  {row.place}: {row.why}" for row in lost]
    return lines
