# SPDX-License-Identifier: GPL-2.0
"""Which of the mutants of tests/proof/breaks.py tests catch.

This boots each of them with KUnit on User Mode Linux, and those that survive with what else RUNS has
for them. What catches each, or what it has survived, is kept in tests/mutants/generated.json, which
tests/host/test_generate.py compares with the series. A program that was stopped goes on where it was,
and another machine where that file is: empty "survived" there when there are new tests.
"""

import json
import os
import re
import tomllib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from difflib import unified_diff
from functools import cached_property
from pathlib import Path
from typing import Any

import mutants
from breaks import Break, breaks, digest, overlay
from mutants import DISTURBED, ORIGINAL, Found, Kernel, Plan, Run, check_original, look
from schemata import HOME, Mutant

from wqlab.ground.files import write_whole
from wqlab.ground.places import BUILD, ROOT
from wqlab.ground.run import say
from wqlab.guests import kunit
from wqlab.kernels.bases import default_base, load_base
from wqlab.kernels.obtain import obtain
from wqlab.kernels.source import Source

STORED = ROOT / "tests/mutants/generated.json"
EQUIVALENT = ROOT / "tests/mutants/equivalent.toml"
# functions that move CPUs between pods, that take parameters, that allocate and free pods, those that do so
# with workqueues, and those of neither pods nor parameters
MOVE = "topo|place_cpu|replace_pods|restore_unbound|online_cpu"
TAKE = "affn_dfl|shard_size|reapply"
PODS = "layout|pod_type|reapply|shard_size_set|update_topology|replace_pods"
MEMORY = "alloc|free|release"
REST = f"^(?!.*({MOVE}|{TAKE}|{PODS}))"
FULL = " --tier=full"
HOTPLUG = (
    "hotplug.py::test_workqueue_that_was_there",
    "hotplug.py::test_workqueues_made_then",
    "hotplug.py::test_suspend",
    "late.py",
)
NOMEM = (
    "size_is_written_wholly_or_not_at_all",
    "cpus_come_online_without_memory",
    "nothing_is_left",
)
# What boots them, in this order, and whose mutants: KUnit where CPUs are preempted, tests of pods and of
# what is left behind, and twice a kernel with lockdep, as there is nothing to lock on User Mode Linux.
RUNS = (
    (Run(), ""),
    (Run("", "nodes-2"), ""),
    (Run("tests/boot/test_params.py"), TAKE),
    (Run(" ".join(f"tests/boot/test_{one}" for one in HOTPLUG)), MOVE),
    (Run("tests/boot/test_hotplug.py -kadded" + FULL), MOVE),
    (Run(" ".join(f"tests/boot/test_hotplug.py::test_{one}" for one in NOMEM) + FULL), PODS),
    (Run("tests/boot/test_faults.py -k30-8" + FULL), MEMORY),
    (Run("lockdep_has_no_complaint", "nodes-2"), REST),
    (Run(DISTURBED, "nodes-2"), REST),
)
UML_LIMIT, MACHINE_LIMIT = 20.0, 150.0  # seconds; what the original needs is 5 and 70


def read_source(source: Source) -> tuple[str, str]:
    """The file without and with the series."""
    with source.hold(0) as stock, source.hold() as series:
        return (stock / HOME).read_text(), (series / HOME).read_text()


@dataclass(frozen=True)
class Outcomes:
    """What is known of each mutant, kept in a file as it is found, on top of what STORED has."""

    path: Path
    stored: Sequence[dict[str, Any]] = ()

    @cached_property
    def known(self) -> dict[str, dict[str, str]]:
        """{mutant: {run: what has caught it}}, "" where nothing has."""
        lines = self.path.read_text().splitlines() if self.path.is_file() else []
        found = {
            row["name"]: {"": row["caught"]}
            if row["caught"]
            else dict.fromkeys(row["survived"], "")
            for row in self.stored
        }
        for name, run, catcher in map(json.loads, lines):
            found.setdefault(name, {})[run] = catcher
        return found

    def add(self, name: str, run: Run, found: Found) -> None:
        self.known.setdefault(name, {})[str(run)] = found.catcher
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps([name, str(run), found.catcher]) + "\n")
        say(f"{name}: {found.catcher or 'survives ' + str(run)}")

    def catcher(self, name: str) -> str:
        return next(filter(None, self.known.get(name, {}).values()), "")


def try_all(
    names: Sequence[str], numbers: dict[str, int], run: Run, outcomes: Outcomes, kernel: Callable
) -> None:
    """Boot those that nothing has caught, and that this run was not yet tried on."""
    left = [
        n for n in names if not outcomes.catcher(n) and str(run) not in outcomes.known.get(n, {})
    ]
    if not left:
        return
    say(f"{len(left)} mutants with {run}")
    built, out = kernel(run), BUILD / "test/generated"

    def tried(mutant: Mutant) -> Found:
        """On a machine, a case has to fail three times: one may where the host is busy."""
        for _ in range(3 if run.machine else 1):
            found = look(built, mutant, run, out)
            if found.lost or not found.failed:
                break
        return found

    check_original(tried(ORIGINAL))
    with ThreadPoolExecutor(1 if run.is_test else 2) as pool:
        chosen = [Mutant(name, {}, numbers[name]) for name in left]
        list(pool.map(lambda one: outcomes.add(one.name, run, tried(one)), chosen))


def store(found: Sequence[Break], outcomes: Outcomes) -> list[dict[str, Any]]:
    """Write STORED, and return what it has of each mutant."""
    stored = []
    for one in found:
        caught = outcomes.catcher(one.name)
        survived = [] if caught else sorted(outcomes.known.get(one.name, {}))
        stored.append({"name": one.name, "line": one.line, "caught": caught, "survived": survived})
    lines = ",\n".join(json.dumps(row) for row in stored)
    write_whole(STORED, f'{{"mutants": "{digest(found)}", "outcomes": [\n{lines}\n]}}\n')
    return stored


def summary(stored: Sequence[dict[str, Any]], equivalent: dict[str, str]) -> str:
    """How many are caught, and those that survive."""
    real = [row for row in stored if row["name"] not in equivalent]
    left = [row for row in real if not row["caught"]]
    lines = [f"SURVIVED {row['name']}: {row['line']}" for row in left]
    lines.append(
        f"{len(real) - len(left)} of {len(real)} caught "
        f"({100 * (len(real) - len(left)) / len(real):.1f} %), {len(stored) - len(real)} equivalent"
    )
    return "\n".join(lines)


def main() -> None:
    os.nice(10)
    kunit.LIMIT, mutants.BOOT_LIMIT = UML_LIMIT, MACHINE_LIMIT
    source = obtain(load_base(default_base()), None)
    stock, series = read_source(source)
    found = breaks(stock, series)
    made = Plan({}, overlay(series, found))

    def kernel(run: Run) -> Kernel:
        if not run.is_test:
            return made.kernel(source, run.flavour)
        diff = BUILD / "test/generated/all.diff"
        old, new = (text.splitlines(keepends=True) for text in (series, made.overlay[HOME]))
        write_whole(diff, "".join(unified_diff(old, new, f"a/{HOME}", f"b/{HOME}")))
        return diff

    equivalent = tomllib.loads(EQUIVALENT.read_text())
    known = json.loads(STORED.read_text())
    of_these = known["outcomes"] if known["mutants"] == digest(found) else []
    outcomes = Outcomes(BUILD / f"test/generated/{digest(found)}.jsonl", of_these)
    names = [one.name for one in found if one.name not in equivalent]
    numbers = {one.name: number for number, one in enumerate(found, 1)}
    for run, functions in RUNS:
        chosen = [name for name in names if re.search(functions, name.split("-")[0])]
        try_all(chosen, numbers, run, outcomes, kernel)
        print(summary(store(found, outcomes), equivalent))


if __name__ == "__main__":
    main()
