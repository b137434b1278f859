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
    were not online at boot."""
    limits = {load: limit / (3 if load == "boot" else 8) for load, limit in stored().items()}
    print(made, limits, sep="\n")
    assert not [load for load, limit in limits.items() if made[load] > limit]


@pytest.mark.needs(Counted(TEST))
def test_known_cpu(made: Figures) -> None:
    """Pods are not laid out for one that was online before."""
    assert made[AGAIN] <= stored()[AGAIN] / 80


@pytest.mark.needs(Counted(TEST))
def test_resize(made: Figures) -> None:
    """In proportion to workqueues and CPUs."""
    [load] = made.keys() - stored().keys()
    assert made[load] <= EACH * 1000 * MACHINE.cpus


@pytest.mark.needs(Counted(STOCK))
def test_stock_is_what_is_stored(made: Figures) -> None:
    assert made == pytest.approx(stored(), rel=0.1)
