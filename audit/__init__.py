# SPDX-License-Identifier: GPL-2.0
"""Read what all callers in a kernel's source ask of max_active, and what their limits mean.

Coccinelle finds the calls that allocate workqueues, and what gives their arguments values. Each
call is listed with the name, the flags and the max_active that it asks for, and with how many
items may run at once under three rules: a limit for each CPU (6.6 to 6.8), a share of it for each
node (6.9 on), and the exact limit of this series. The source is only read.

Writes NAME.json, NAME.csv and NAME.md. With --file, the last two are made again from the JSON of
an earlier run.
"""

import argparse
from collections import Counter
from pathlib import Path

from audit import page, report
from audit.expression import Unknown
from audit.flushes import Workqueue, find_flushes
from audit.limits import Constants, meaning
from audit.report import Audit, Kernel, Note, Row
from audit.resolve import Counts, Resolver
from audit.sites import SOME, Site, constants, find, resolved, values_of
from audit.tree import Tree
from audit.waits import Folder, folders, last_word
from wqlab.ground.files import write_whole
from wqlab.ground.places import BUILD
from wqlab.ground.problem import OK, Problem, Usage
from wqlab.ground.run import check, say
from wqlab.kernels.obtain import obtain
from wqlab.kernels.options import add_base, existing, numbers, output, positive
from wqlab.kernels.source import Source
from wqlab.results.host import made_by
from wqlab.results.model import Made

FEW = 16  # CPUs that a limit which grows with them is told from
INTERNAL = ("__WQ_LEGACY", "__WQ_DEPRECATED")


def row(
    one: Site, resolver: Resolver, known: Constants, cpus: int, nodes: list[int], notes: list[Note]
) -> Row:
    """What a call site asks for means, but for what its items do."""
    found = Row(one.file, one.line, one.function, one.call, one.name, one.flags, one.limit)
    if one.why:
        return _with(found, why=one.why)
    resolver.options.clear()
    flags, asked = values_of(resolver, one, Counts(cpus, max(nodes)))
    _, few = values_of(resolver, one, Counts(FEW, max(nodes)))
    of_nodes = {many: values_of(resolver, one, Counts(cpus, many))[1] for many in nodes}
    kinds = sorted({known.kind(value) for value in flags})
    limits = {many: {known.limit(value) for value in its} for many, its in of_nodes.items()}
    active = sorted(set().union(*limits.values())) if kinds != ["bh"] else []
    findings = []
    if max(asked) > max(few) and "unbound" in kinds:
        findings.append("cpus")
    elif max(asked) > max(few) and "percpu" in kinds:
        findings.append("cpus-each")
    if max(asked) > known.most:
        findings.append("clamped")
    meanings = []
    if "unbound" in kinds:
        note = report.note_of(one.file, one.name, notes)
        allocated = note.allocated if note else 0
        meanings = [meaning(max(limits[many]), known, cpus, many, allocated) for many in nodes]
        if max(active) == 1:
            findings.append("serial")
        if max(one.narrower for one in meanings) >= report.MUCH:
            findings.append("narrower")
        if max(one.wider for one in meanings) >= report.MUCH:
            findings.append("wider")
    always = [
        name
        for name, bit in sorted(known.flags.items())
        if bit.bit_count() == 1 and "WQ_AFFN" not in name and name not in INTERNAL
        and all(value & bit for value in flags)
    ]  # fmt: skip
    return _with(
        found,
        kind=" or ".join(kinds),
        named=" ".join(always),
        active=active,
        options=sorted(resolver.options),
        meanings=meanings,
        findings=findings,
    )


def _with(found: Row, **more: object) -> Row:
    return Row(**{**vars(found), **more})  # type: ignore[arg-type]


def waiting(found: Row, to: str, folder: Folder, shared: bool) -> Row:
    """With what its items wait for; `shared` is whether others in the folder have its name."""
    each_other, any_of = folder.waits(last_word(to), found.file if shared else "")
    if not each_other and not any_of:
        return found
    findings = [*found.findings, "each-other" if each_other else "waits"]
    return _with(found, findings=findings, waits=[*each_other, *any_of])


def workqueue(one: Site, resolver: Resolver, known: Constants) -> Workqueue:
    """What its flags say of memory."""
    try:
        flags = resolver.values(one.flags, one.scope, SOME)
    except Unknown:
        return Workqueue(one.file, one.to, False, False)
    reclaim = [known.has(value, "WQ_MEM_RECLAIM") for value in flags]
    legacy = any(known.has(value, "__WQ_LEGACY") for value in flags)
    return Workqueue(one.file, one.to, all(reclaim) and not legacy, not any(reclaim))


def audit(source: Source, cpus: int, nodes: list[int], made: Made, notes: list[Note]) -> Audit:
    """Of a whole tree."""
    tree = Tree(source.repo)
    resolver = Resolver(tree)
    known = constants(resolver)
    sites = resolved(resolver, find(tree))
    if not sites:
        raise Problem(f"no workqueue is allocated in {source.version}: is it a kernel's source?")
    rows = [(one, row(one, resolver, known, cpus, nodes, notes)) for one in sites]
    # Where the limit is left to the kernel, it is far above what items need of each other.
    limited = [
        one
        for one, found in rows
        if found.meanings and max(found.active) < known.default and one.to
    ]
    named = Counter(
        (str(Path(file).parent), last_word(to))
        for file, to in {(one.file, last_word(one.to)) for one in sites if one.to}
    )
    where = folders(tree, sorted({one.file for one in limited}))
    queues = [workqueue(one, resolver, known) for one in sites]
    return Audit(
        schema=report.SCHEMA,
        made=made,
        coccinelle=check(["spatch", "--version"], wrong="spatch cannot be run").splitlines()[0],
        kernel=Kernel(source.version, source.tree_id, known.most, known.default, known.least),
        cpus=cpus,
        rows=[
            waiting(
                found,
                one.to,
                where[Path(one.file).parent],
                named[str(Path(one.file).parent), last_word(one.to)] > 1,
            )
            if one in limited
            else found
            for one, found in rows
        ],
        flushes=find_flushes(tree, queues),
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the audit."""
    add_base(parser)
    parser.add_argument(
        "--cpus", type=positive, default=64, metavar="N", help="CPUs to count for (64)"
    )
    parser.add_argument(
        "--nodes",
        type=numbers,
        default=[1, 2, 4, 8],
        metavar="M,...",
        help="numbers of nodes to spread them over (1,2,4,8)",
    )
    parser.add_argument("--file", type=existing, metavar="FILE", help="JSON of an earlier run")
    parser.add_argument(
        "--out",
        type=output,
        metavar="NAME",
        help="what the files are named, without .json (build/audit-BASE)",
    )


def command(args: argparse.Namespace) -> int:
    """Audit a source, or read an earlier audit; write and print what it shows.

    Returns the exit status. Raises Usage for more nodes than CPUs, Problem for a source that
    cannot be read.
    """
    notes = report.load_notes()
    nodes = sorted(set(args.nodes))
    if not nodes or max(nodes) > args.cpus:
        raise Usage(f"--nodes {','.join(map(str, nodes))}: each node has a CPU at least, and there "
                    f"are {args.cpus}")  # fmt: skip
    if args.file:
        found = report.load(args.file)
        out = args.out or args.file.with_suffix("")
    else:
        made = made_by(args.typed)
        found = audit(obtain(args.base, args.ksrc), args.cpus, nodes, made, notes)
        out = args.out or BUILD / f"audit-{args.base.name}"
        write_whole(out.with_name(f"{out.name}.json"), report.dumps(found))
    write_whole(out.with_name(f"{out.name}.csv"), report.as_csv(found, notes))
    write_whole(out.with_name(f"{out.name}.md"), page.page(found, notes))
    print(*page.terminal(found, notes), sep="\n")
    say(f"{out}.json, .csv and .md have all of it")
    return OK
