# SPDX-License-Identifier: GPL-2.0
"""Dumps of a guest's memory: drgn runs scripts on them, and what wq_dump.py shows is read."""

import json
import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wqlab.ground.places import ROOT, VENV
from wqlab.ground.problem import Problem
from wqlab.ground.run import TIMED_OUT, Done, run
from wqlab.guests.scenario import Cpus, Pods, TopologyError
from wqlab.kernels.builddir import BuildDir

LIMIT = 120  # seconds for drgn to read the memory
WQ_VERIFY = ROOT / "tools/workqueue/wq_verify.py"


@dataclass(frozen=True)
class Dump:
    """What wq_dump.py showed of a machine."""

    default: str
    pods: dict[str, Pods]  # by scope, in the kernel's order
    nodes: dict[str, tuple[int, ...]]  # by scope, of each pod
    pools: dict[int, Cpus]  # CPUs of the pod that each unbound pool is for
    pool_of: dict[str, tuple[int, ...]]  # by workqueue: the pool of each CPU
    places: tuple[str, ...] = ()  # addresses of the pods of each scope, where they were asked for


def _mask(words: str) -> Cpus:
    """CPUs of 32-bit hex words, least significant first."""
    return frozenset(
        32 * i + bit
        for i, word in enumerate(words.split())
        for bit in range(32)
        if int(word, 16) >> bit & 1
    )


def _indexed(line: str) -> dict[int, str]:
    """ "[0]=a [1]=b c" as {0: "a", 1: "b c"}."""
    return {int(i): value.strip() for i, value in re.findall(r"\[(\d+)\]=([^\[]*)", line)}


def _parse_json(text: str) -> Dump:
    try:
        data = json.loads(text)
        scopes = data["scopes"].items()
        return Dump(
            next(name for name, scope in scopes if scope["default"]),
            {
                name: tuple(frozenset(pod["cpus"]) for pod in scope["pods"])
                for name, scope in scopes
            },
            {name: tuple(pod["node"] for pod in scope["pods"]) for name, scope in scopes},
            {
                pool["id"]: frozenset(pool["pod_cpus"])
                for pool in data["pools"]
                if pool["cpu"] is None
            },
            {
                wq["name"]: tuple(wq["pools"].values())
                for wq in data["workqueues"]
                if wq["type"] in ("unbound", "ordered")
            },
        )
    except (ValueError, KeyError, TypeError, StopIteration) as error:
        raise TopologyError(f"dump: not what wq_dump.py --json prints: {error!r}") from None


def parse_dump(text: str) -> Dump:
    """Read what tools/workqueue/wq_dump.py prints, with --json or without.

    Raises TopologyError if it is not whole or contradicts itself.
    """
    if text.startswith("{"):
        return _parse_json(text)
    pods: dict[str, Pods] = {}
    nodes: dict[str, tuple[int, ...]] = {}
    sections = re.findall(
        r"^([A-Z_]+)( \(default\))?\n"
        r"  nr_pods +(\d+)\n"
        r"  pod_cpus(.*)\n"
        r"  pod_node(.*)\n"
        r"  cpu_pod(.*)\n",
        text,
        re.MULTILINE,
    )
    defaults = [name.lower() for name, default, *_ in sections if default]
    if len(defaults) != 1:
        raise TopologyError(
            f"dump: {len(defaults)} default scopes in {len(sections)} scopes, not 1"
        )
    for name, _, count, cpus_line, node_line, cpu_line in sections:
        scope = name.lower()
        masks = [_mask(words) for words in _indexed(cpus_line).values()]
        if len(masks) != int(count):
            raise TopologyError(
                f"dump: scope {scope} has {len(masks)} pods, but nr_pods is {count}"
            )
        for cpu, pod in _indexed(cpu_line).items():
            if cpu not in masks[int(pod)]:
                raise TopologyError(f"dump: scope {scope}: CPU {cpu} is not in its pod {pod}")
        pods[scope] = tuple(masks)
        nodes[scope] = tuple(int(node) for node in _indexed(node_line).values())
    pools = {
        int(pool): _mask(words)
        for pool, words in re.findall(
            r"^pool\[(\d+)\].* pod_cpus=([0-9a-fx ]*?)(?: strict)?$", text, re.MULTILINE
        )
    }
    rows = re.findall(r"^(\S+) +(?:unbound|ordered)(?:,S)? +((?:\d+ +)*)\d+$", text, re.MULTILINE)
    pool_of = {name: tuple(int(pool) for pool in row.split()) for name, row in rows}
    if not pools or not pool_of:
        raise TopologyError("dump: no unbound pools or no unbound workqueues")
    places = tuple(re.findall(r"^placed at (.*)$", text, re.MULTILINE))
    return Dump(defaults[0], pods, nodes, pools, pool_of, places)


def run_drgn(build: BuildDir, core: Path, script: Path, out: Path, *words: str) -> Done:
    """Run a script for drgn on a memory dump of a kernel, with the arguments `words`.

    Its output is returned, and stays in `out` as a .log of the script's name, its errors as
    drgn.log. Raises Problem without drgn, and TopologyError after LIMIT.
    """
    path = os.pathsep.join(
        [str(Path(sys.executable).parent), str(VENV / "bin"), os.environ.get("PATH", "")]
    )
    drgn = shutil.which("drgn", path=path)
    if not drgn:
        raise Problem("no drgn, which reads the kernel's memory: scripts/setup installs it")
    command: list[str | Path] = [drgn, "-c", core, "-s", build.path / "vmlinux", script, *words]
    done = run(
        ["sh", "-c", 'exec "$@" 2>"$0"', out / "drgn.log", *command],
        limit=LIMIT,
        env=os.environ | {"DEBUGINFOD_URLS": ""},
    )
    (out / f"{script.stem}.log").write_text(done.output)
    if done.status == TIMED_OUT:
        raise TopologyError(f"drgn took more than {LIMIT} s")
    return done


def drgn_failed(script: Path, out: Path) -> TopologyError:
    """What to raise when a script has failed: the last line that it said."""
    said = (out / "drgn.log").read_text(errors="replace").strip().splitlines()
    last = (said or ["no message"])[-1]
    return TopologyError(f"drgn {script.name}: {last}")


def read_core(build: BuildDir, core: Path, wq_dump: Path, out: Path) -> Dump:
    """What wq_dump.py shows of a memory dump; raises TopologyError if it fails."""
    done = run_drgn(build, core, wq_dump, out)
    if done.status:
        raise drgn_failed(wq_dump, out)
    return parse_dump(done.output)


def verify_core(build: BuildDir, core: Path, out: Path) -> dict[str, Any]:
    """What wq_verify.py --json says of a memory dump; raises TopologyError if it fails."""
    done = run_drgn(build, core, WQ_VERIFY, out, "--json")
    try:
        return json.loads(done.output)
    except ValueError:
        raise drgn_failed(WQ_VERIFY, out) from None
