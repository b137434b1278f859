#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0

desc = """
Draws a machine as unbound workqueues see it: one SVG on stdout, from what
"wq_dump.py --json" prints, and if there is a second file, from what
"wq_contention.py --json" prints.

A column for each CPU, in the order of nodes, last-level caches and cores. Rows:

  CPU       its number; those that unbound workqueues may not use in brackets,
            those that are offline crossed out
  SCOPE     the pods of each affinity scope, the default one in bold. A pod is a
            box with its number and how many CPUs it has. Neighbours differ in
            shade, and boxes of a pod that isn't in one piece share a number
  pools     unbound pools that more than one workqueue uses, the most used first:
            a box over the CPUs of the pool with its ID; the darker, the more
            often its lock was found with somebody waiting, which is said in %
"""

import argparse
import html
import json
import sys

parser = argparse.ArgumentParser(description=desc, formatter_class=argparse.RawTextHelpFormatter)
parser.add_argument("dump", help="output of wq_dump.py --json, - for stdin")
parser.add_argument("contention", nargs="?", help="output of wq_contention.py --json")
args = parser.parse_args()

MARGIN = 110  # for the names of the rows
ROW = 24
GAP = 6
SHADES = ("#d7e3f4", "#a9c4e4")
MAX_POOL_ROWS = 12


def err(s):
    print(f"wq_draw.py: {s}", file=sys.stderr, flush=True)
    sys.exit(1)


def load(path, keys):
    try:
        with sys.stdin if path == "-" else open(path) as file:
            data = json.load(file)
    except (OSError, ValueError) as e:
        err(f"{path}: {e}")
    missing = [key for key in keys if not isinstance(data, dict) or key not in data]
    if missing:
        err(f'{path} has no "{missing[0]}": it is not what the script prints with --json')
    return data


dump = load(args.dump, ("cpus", "online", "unbound_cpus", "scopes", "pools"))
shares = {}
if args.contention:
    for lock in load(args.contention, ("locks",))["locks"]:
        kind, _, number = lock["lock"].partition(" ")
        if kind == "pool" and lock["samples"]:
            shares[int(number)] = lock["waited"] / lock["samples"]


def pod_of(scope):
    pods = dump["scopes"].get(scope, {"pods": []})["pods"]
    return {cpu: nr for nr, pod in enumerate(pods) for cpu in pod["cpus"]}


nodes, llcs, cores = pod_of("numa"), pod_of("cache"), pod_of("smt")
cpus = sorted(
    dump["cpus"], key=lambda cpu: (nodes.get(cpu, 0), llcs.get(cpu, 0), cores.get(cpu, 0), cpu)
)
column = {cpu: nr for nr, cpu in enumerate(cpus)}
WIDTH = 18 if len(cpus) <= 96 else 10


# columns of @pod, as (first, number) for each piece of it that is in one
def pieces(pod):
    found = []
    for nr in sorted(column[cpu] for cpu in pod if cpu in column):
        if found and sum(found[-1]) == nr:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((nr, 1))
    return found


out = []
y = GAP


def text(x, y, s, size=11, anchor="middle", more=""):
    out.append(
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}"{more}>'
        f"{html.escape(s)}</text>"
    )


def row_name(s, bold=False):
    text(MARGIN - 8, y + ROW / 2 + 4, s, anchor="end", more=' font-weight="bold"' if bold else "")


# labels: from the longest to the shortest that may fit
def box(first, nr, fill, labels, title, ink="#000"):
    x, width = MARGIN + first * WIDTH, nr * WIDTH
    out.append(
        f"<g><title>{html.escape(title)}</title>"
        f'<rect x="{x}" y="{y}" width="{width}" height="{ROW}" fill="{fill}" '
        f'stroke="#333" stroke-width="0.7"/>'
    )
    for label in labels:
        if len(label) * 6 <= width - 2:
            text(x + width / 2, y + ROW / 2 + 4, label, 10, more=f' fill="{ink}"')
            break
    out.append("</g>")


def cpu_list(cpus):
    runs = []
    for cpu in sorted(cpus):
        if runs and runs[-1][1] + 1 == cpu:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(f"{a}-{b}" if a < b else f"{a}" for a, b in runs)


row_name("CPU")
for cpu in cpus:
    x = MARGIN + (column[cpu] + 0.5) * WIDTH
    name = f"{cpu}" if cpu in dump["unbound_cpus"] else f"({cpu})"
    more = "" if cpu in dump["online"] else ' text-decoration="line-through"'
    if WIDTH < 18:
        text(
            x + 3,
            y + ROW - 2,
            name,
            8,
            "start",
            f'{more} transform="rotate(-90 {x + 3:g} {y + ROW - 2:g})"',
        )
    else:
        text(x, y + ROW / 2 + 4, name, 9, more=more)
y += ROW + GAP

for name, scope in dump["scopes"].items():
    row_name(name, scope["default"])
    boxes = sorted(
        (first, count, nr)
        for nr, pod in enumerate(scope["pods"])
        for first, count in pieces(pod["cpus"])
    )
    for i, (first, count, nr) in enumerate(boxes):
        pod = scope["pods"][nr]
        size = len(pod["cpus"])
        box(
            first,
            count,
            SHADES[i % 2],
            (f"{nr}: {size} CPUs", f"{nr}: {size}", f"{nr}"),
            f"{name} pod {nr}: CPUs {cpu_list(pod['cpus'])}, node {pod['node']}",
        )
    y += ROW + GAP

# a row has pools that don't overlap
rows = []
pools = [pool for pool in dump["pools"] if pool["cpu"] is None and pool["ref"] > 1]
for pool in sorted(pools, key=lambda pool: (-shares.get(pool["id"], 0), -pool["ref"], pool["id"])):
    mine = {column[cpu] for cpu in pool["pod_cpus"] if cpu in column}
    for row in rows:
        if not row[0] & mine:
            break
    else:
        row = [set(), []]
        rows.append(row)
    row[0] |= mine
    row[1].append(pool)

for _, members in rows[:MAX_POOL_ROWS]:
    row_name("pools")
    for pool in members:
        share = shares.get(pool["id"])
        grey = 255 - round(200 * (share or 0))
        percent = [] if share is None else [f"{pool['id']}: {share * 100:.1f}%"]
        for first, count in pieces(pool["pod_cpus"]):
            box(
                first,
                count,
                f"#{grey:02x}{grey:02x}{grey:02x}",
                (*percent, f"{pool['id']}"),
                f"pool {pool['id']}, nice {pool['nice']}, {pool['workers']} workers, "
                f"{pool['ref']} pool_workqueues"
                + ("" if share is None else f", lock waited for in {share * 100:.2f}% of samples"),
                "#fff" if grey < 128 else "#000",
            )
    y += ROW + GAP
if len(rows) > MAX_POOL_ROWS:
    text(
        MARGIN,
        y + 10,
        f"{sum(len(row[1]) for row in rows[MAX_POOL_ROWS:])} more pools are not shown",
        anchor="start",
    )
    y += ROW

print(
    f'<svg xmlns="http://www.w3.org/2000/svg" width="{MARGIN + len(cpus) * WIDTH + GAP}" '
    f'height="{y}" font-family="sans-serif">'
)
print('<rect width="100%" height="100%" fill="#fff"/>')
print("\n".join(out))
print("</svg>")
