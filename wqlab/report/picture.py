# SPDX-License-Identifier: GPL-2.0
"""A machine, drawn: its CPUs by node, cache and core, and the pods of each affinity scope."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from wqlab.ground.files import write_whole
from wqlab.ground.problem import Problem, Usage
from wqlab.guests.dump import Dump, parse_dump
from wqlab.guests.scenario import Pods, format_cpulist
from wqlab.report.canvas import FAINT, INK, PAPER, STYLE, on_paper, tidy

LEVELS = {"node": "Node", "llc": "LLC", "cluster": "Cluster", "core": "Core"}
SCOPES = ("numa", "cache", "cache_shard", "smt")  # from the outside to the inside
# Pods next to each other differ, also in grey; which of these a pod has means nothing.
FILLS = ("#c9dcf3", "#f6e3b4", "#9fc1a8", "#e8e8e8")
HEAT = ("#ffffff", "#f4cfc4", "#e08b72", "#b8452c", "#6d1f10")  # of shares up to
STEPS = (0.01, 0.05, 0.20, 0.50)
CPU = 0.13  # inches
LETTER = 0.075
ROW = 0.42
LEFT = 1.2
LEAST = 7.6  # wide


def order(dump: Dump, shared: Mapping[str, Pods]) -> list[int]:
    """CPUs by node, cache, cluster and core, so that pods are together where they can be."""
    scopes = [*shared.values(), *(dump.pods[name] for name in SCOPES if name in dump.pods)]

    def place(cpu: int) -> tuple[int, ...]:
        first = (min((min(pod) for pod in pods if cpu in pod), default=-1) for pods in scopes)
        return (*first, cpu)

    return sorted(frozenset().union(*dump.pods["system"]), key=place)


def spans(cpus: Sequence[int], pods: Pods) -> Iterator[tuple[int, int, int]]:
    """(Pod, first place, number of places) of each piece of a pod."""
    of = {cpu: number for number, pod in enumerate(pods) for cpu in pod}
    start = 0
    for place in range(1, len(cpus) + 1):
        if place == len(cpus) or of.get(cpus[place]) != of.get(cpus[start]):
            if cpus[start] in of:
                yield of[cpus[start]], start, place - start
            start = place


def shares(text: str) -> dict[int, float]:
    """In which share of the samples the lock of each pool was waited for."""
    try:
        locks = json.loads(text)["locks"]
        return {
            int(lock["lock"].removeprefix("pool ")): lock["waited"] / lock["samples"]
            for lock in locks
            if lock["lock"].startswith("pool ")
        }
    except (ValueError, KeyError, TypeError, ZeroDivisionError):
        raise Problem("this is not what wq_contention.py --json has printed") from None


def levels(text: str) -> dict[str, Pods]:
    """Which CPUs share what, from the outside to the inside."""
    try:
        shared = json.loads(text)["shared"]
        return {
            LEVELS[name]: tuple(map(frozenset, groups))
            for name, groups in shared.items()
            if name in LEVELS
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Problem("this is not what wq_verify.py --json has printed") from None


def row(
    axes: Axes,
    height: int,
    cpus: Sequence[int],
    pods: Pods,
    labels: Mapping[int, str],
    fills: Mapping[int, tuple[str, str]],
) -> None:
    """A row of pods, CPU by CPU."""
    for pod, start, count in spans(cpus, pods):
        fill, ink = fills[pod]
        axes.add_patch(
            Rectangle((start, height + 0.08), count, 0.84, facecolor=fill, edgecolor=INK, lw=0.7)
        )
        fitting = [text for text in labels[pod].split("|") if len(text) * LETTER < count * CPU]
        if fitting:
            axes.text(
                start + count / 2, height + 0.5, fitting[0], ha="center", va="center", color=ink,
                fontsize=8,
            )  # fmt: skip


def pools(
    of: Sequence[int], waited: Mapping[int, float] | None
) -> tuple[Pods, dict[int, str], dict[int, tuple[str, str]]]:
    """The CPUs, labels and colours of the pools, given that of each CPU and in which share of the
    samples their locks were waited for."""
    numbers = sorted(set(of))
    pods = tuple(frozenset(c for c, p in enumerate(of) if p == number) for number in numbers)
    heat = {i: (waited or {}).get(number, 0.0) for i, number in enumerate(numbers)}
    labels = {
        i: f"pool {number}" + (f" {heat[i]:.0%}|{heat[i]:.0%}" if waited else f"|{number}")
        for i, number in enumerate(numbers)
    }
    steps = {i: sum(share >= step for step in STEPS) for i, share in heat.items()}
    return pods, labels, {i: (HEAT[n], PAPER if n > 2 else INK) for i, n in steps.items()}


def draw(
    dump: Dump,
    waited: Mapping[int, float] | None,
    workqueue: str,
    shared: Mapping[str, Pods] | None = None,
) -> str:
    """The SVG of a machine and its pods; `waited` has the share of samples in which a pool is waited for."""
    shared = shared or {}
    cpus = order(dump, shared)
    parts = {**shared, **{name: dump.pods[name] for name in SCOPES if name in dump.pods}}
    rows = list(parts)
    height = len(rows) + 1
    width = max(LEAST, LEFT + CPU * len(cpus) + 0.2)
    with mpl.rc_context({**STYLE, "axes.grid": False}):
        figure = Figure(figsize=(width, ROW * height + 0.9))
        axes = figure.add_axes((LEFT / width, 0.2, 1 - (LEFT + 0.2) / width, 0.65))
        axes.set(xlim=(0, len(cpus)), ylim=(height, 0))
        for place, name in enumerate(rows):
            pods = parts[name]
            labels = {
                pod: f"{pod}: {format_cpulist(mask)}|{format_cpulist(mask)}|{pod}"
                for pod, mask in enumerate(pods)
            }
            pieces = [pod for pod, *_ in spans(cpus, pods)]
            # in the order in which they are drawn, so that neighbours differ
            fills = {
                pod: (PAPER if name in shared else FILLS[i % len(FILLS)], INK)
                for i, pod in enumerate(dict.fromkeys(pieces))
            }
            row(axes, place, cpus, pods, labels, fills)
        row(axes, height - 1, cpus, *pools(dump.pool_of[workqueue], waited))
        axes.set_yticks(
            [place + 0.5 for place in range(height)],
            [*(f"{name} *" if name == dump.default else name for name in rows), workqueue],
        )
        step = next(step for step in (1, 2, 4, 8, 16, 32, 64) if step * CPU > 0.3)
        places = range(0, len(cpus), step)
        axes.set_xticks([place + 0.5 for place in places], [str(cpus[place]) for place in places])
        axes.tick_params(length=0, labelsize=8)
        axes.spines[:].set_visible(False)
        about = "CPUs by node, cache and core. * is the default scope."
        if shared:
            about = "White: which CPUs share what. Coloured: pods; * is the default scope."
        if waited is not None:
            limits = ", ".join(f"{step:.0%}" for step in STEPS)
            about += (
                f" Pools are darker from {limits} of samples on in which their lock was waited for."
            )
        title = f"{len(cpus)} CPUs and their pods"
        figure.text(0.1 / width, 0.97, title, va="top", fontsize=11.5, fontweight="bold")
        figure.text(0.1 / width, 0.03, about, va="bottom", fontsize=8, color=FAINT)
        out = StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    return on_paper(tidy(out.getvalue(), "machine", title, about))


def write_picture(
    dump: Path, shared: Path | None, contention: Path | None, workqueue: str, out: Path | None
) -> None:
    """Draw what wq_dump.py has printed, with what wq_verify.py and wq_contention.py have, to a
    file or stdout. Problem if one of them is not that, Usage if there is no such workqueue."""
    found = parse_dump(dump.read_text(errors="replace"))
    if workqueue not in found.pool_of:
        known = ", ".join(sorted(found.pool_of))
        raise Usage(f"no unbound workqueue {workqueue!r} in {dump}: there are {known}")
    waited = shares(contention.read_text()) if contention else None
    svg = draw(found, waited, workqueue, levels(shared.read_text()) if shared else None)
    if out:
        write_whole(out, svg)
    else:
        sys.stdout.write(svg)
