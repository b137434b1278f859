# SPDX-License-Identifier: GPL-2.0
"""What a change of the topology costs, in instructions, on a machine with 512 CPUs. Stock's
figures are those of results/hotplug.json, which --tier full counts again.

Seen failing: against stock itself; against a kernel that looks at CPUs which were never online when
a late one comes; against a kernel that lays out pods anew for a CPU
that it knows, takes all CPUs for changed by that, and gives workqueues new pwqs twice when it
resizes.
"""

from dataclasses import dataclass

import pytest
from farm import Making, Need
from needs import STOCK, TEST, Kernel, Simulator

from wqlab.ground.places import BUILD, ROOT
from wqlab.guests.qemu import BootOptions
from wqlab.guests.scenario import find_scenario
from wqlab.measure.counts import calls
from wqlab.measure.counts.hotplug import AGAIN, HOTPLUG, commands, counts
from wqlab.results.file import load
from wqlab.results.model import Count

MACHINE = find_scenario("hotplug-512")
# Of stock's instructions, with a tenth for what another compiler or configuration makes of them: it
# takes 0.17, 0.36, 0.055, 0.018 and 0.0101. The first sibling that comes online tells that cores have two
# threads, and halves the shards.
SHARES = {
    "boot": 0.18,
    "sibling online, first time, 300 workqueues": 0.40,
    "another sibling online, first time, 300 workqueues": 0.061,
    "another node online, first time, 300 workqueues": 0.020,
    AGAIN: 0.0113,
}
EACH = 2500  # instructions for a CPU of a workqueue that is resized

Figures = dict[str, float]  # instructions, by what has changed


@dataclass(frozen=True)
class Counted(Need):
    """What one boot of a kernel counts."""

    kernel: Kernel
    guess = 120.0

    def __str__(self) -> str:
        return f"hotplug counted of {self.kernel}"

    @property
    def before(self) -> tuple[Need, ...]:
        return self.kernel, Simulator("wqcount")

    @property
    def memory(self) -> int:
        return MACHINE.memory + 1000

    def make(self, farm: Making) -> Figures:
        patches = "all" if self.kernel.patches is None else self.kernel.patches
        record = calls.boot(
            farm[self.kernel],
            MACHINE,
            HOTPLUG.job,
            BUILD / f"test/hotplug-{patches}",
            BootOptions(commands=commands(MACHINE)),
            functions=HOTPLUG.functions,
        )
        assert record.verdict == "pass", f"{record.verdict}: {record.reason}"
        return figures(counts(MACHINE, record.lines))


def figures(found: list[Count]) -> Figures:
    return {str(count.labels["load"]): count.figures["instructions_per_call"] for count in found}


def stored() -> Figures:
    """Of stock."""
    kept = load(ROOT / "results/hotplug.json")
    [boot] = [boot for boot in kept.passed("hotplug") if kept.kernel(boot.kernel).name == "stock"]
    return figures(boot.counts)


@pytest.mark.needs(Counted(TEST))
def test_less_than_stock(made: Figures) -> None:
    """At boot stock compares all pairs of CPUs. When a CPU comes online it looks at all of those that
    were not online at boot. Pods are not laid out for one that was online before."""
    shares = {load: round(made[load] / limit, 4) for load, limit in stored().items()}
    print(made, shares, sep="\n")
    assert shares.keys() == SHARES.keys()
    assert not {load for load, share in shares.items() if share > SHARES[load]}


@pytest.mark.needs(Counted(TEST))
def test_resize(made: Figures) -> None:
    """In proportion to workqueues and CPUs."""
    [load] = made.keys() - stored().keys()
    assert EACH / 2 * 1000 * MACHINE.cpus < made[load] <= EACH * 1000 * MACHINE.cpus


@pytest.mark.needs(Counted(STOCK))
def test_stock_is_what_is_stored(made: Figures) -> None:
    assert made == pytest.approx(stored(), rel=0.1)
