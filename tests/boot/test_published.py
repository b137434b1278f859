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

from wqlab.ground.places import BUILD, ROOT
from wqlab.kernels.bases import default_base, load_base
from wqlab.kernels.obtain import obtain
from wqlab.measure.sim import ITEMS, WARMUP, Simulation, measure
from wqlab.measure.subjects import build_subject
from wqlab.results.file import load, merge, save
from wqlab.results.model import Results, Run

TABLES = published.load_published()
COMMAND = "scripts/pytest tests/boot/test_published.py --tier full"
REPEAT = 2


@dataclass(frozen=True)
class Simulated(Need):
    """The boot of a table. Its kernel is of the default base, as tables count the patches of that
    series."""

    table: str
    tier = "full"
    guess = 900.0
    before = (Simulator(),)

    def make(self, farm: Making) -> Results:
        one = TABLES[self.table]
        kernel = build_subject("patched", obtain(load_base(default_base())), one.patches)
        run: Run = {"mode": "serial", "threads": one.producers, "items": ITEMS, "warmup": WARMUP}
        scopes = tuple(one.items_per_sec)
        simulation = Simulation(kernel, one.machine, (run,), scopes, REPEAT, one.size)
        return measure([simulation], COMMAND, BUILD / f"test/published/{self.table}.json")


@dataclass(frozen=True)
class Published(Need):
    """All of them."""

    before = tuple(map(Simulated, TABLES))

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
