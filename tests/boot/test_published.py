# SPDX-License-Identifier: GPL-2.0
"""What others have measured, in simulated time: it comes as near as docs/measuring.md says, which has
the ratios of results/sim-published.json.

What is simulated here is stored in build/published.json. To keep it, `wqlab report --keep` writes it to
results/.

Seen failing: with the rates of cache_shard doubled in epyc-2-shards.
"""

from dataclasses import dataclass

import published
import pytest
from farm import Making, Need
from needs import Simulator
from published import gather_producers, hold_wakeups
from schemata import HOME

from wqlab.ground.places import BUILD, ROOT
from wqlab.kernels.bases import load_base
from wqlab.kernels.build import build
from wqlab.kernels.obtain import obtain
from wqlab.measure.sim import ITEMS, WARMUP, Simulation, measure
from wqlab.measure.subjects import FLAVOUR, find_subject
from wqlab.results.file import load, merge, save
from wqlab.results.model import Results, Run

TABLES = published.load_published()
COMMAND = "scripts/pytest tests/boot/test_published.py --tier full"
REPEAT = 2
MODULE = "lib/test_workqueue.h"


@dataclass(frozen=True)
class Simulated(Need):
    """What tables of the same machine, kernel, shards and producers have in common."""

    machine: str
    deferred: bool
    size: int | None
    producers: int
    tier = "full"
    guess = 900.0
    before = (Simulator(),)

    def make(self, farm: Making) -> Results:
        tables = [one for one in TABLES.values() if setup(one) == self]
        source = obtain(load_base("7.3"))
        overlay = {}
        if not self.deferred:
            with source.hold(0) as tree:
                overlay[HOME] = hold_wakeups((tree / HOME).read_text())
        if self.producers < tables[0].machine.scenario.cpus:
            overlay[MODULE] = gather_producers((ROOT / MODULE).read_text())
        path = build(source, FLAVOUR, patches=0, overlay=overlay, modules=["test_workqueue"])
        run: Run = {"mode": "serial", "threads": self.producers, "items": ITEMS, "warmup": WARMUP}
        simulation = Simulation(
            find_subject(tables[0].kernel, [path]),
            tables[0].machine,
            (run,),
            tuple(dict.fromkeys(scope for one in tables for scope in one.items_per_sec)),
            REPEAT,
            self.size,
        )
        name = f"{self.machine}-{self.deferred}-{self.size}-{self.producers}"
        return measure([simulation], COMMAND, BUILD / f"test/published/{name}.json")


def setup(table: published.Published) -> Simulated:
    """What this table takes."""
    return Simulated(table.machine.name, table.deferred, table.size, table.producers)


@dataclass(frozen=True)
class Published(Need):
    """All of them."""

    before = tuple(dict.fromkeys(map(setup, TABLES.values())))

    def make(self, farm: Making) -> Results:
        found = merge(farm[one] for one in self.before)
        save(found, BUILD / "published.json")
        return found


@pytest.mark.needs(Published())
def test_as_near_as_stored(made: Results, capsys: pytest.CaptureFixture) -> None:
    """No fewer ratios are near than were, of all and of those that no cost was chosen by."""
    with capsys.disabled():
        print("", *published.lines(made, TABLES), sep="\n")
    stored = published.scores(load(ROOT / "results/sim-published.json"), TABLES)
    found = published.scores(made, TABLES)
    assert all(now >= before for now, before in zip(found, stored, strict=True)), (found, stored)
