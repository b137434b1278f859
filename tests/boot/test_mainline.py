# SPDX-License-Identifier: GPL-2.0
"""What users of mainline have runs on the series as it is: its module test_workqueue, and its
wq_dump.py but for the last section, about shares of nodes, which are gone with the series.

Seen failing: with the series' own module and script.
"""

import re
from dataclasses import dataclass

import pytest
from farm import ALL, Making, Need
from needs import SOURCE

from wqlab.ground.places import BUILD
from wqlab.ground.problem import Skipped
from wqlab.guests import vm
from wqlab.guests.dump import parse_dump
from wqlab.guests.qemu import BootOptions
from wqlab.guests.scenario import find_scenario, format_pods
from wqlab.kernels.build import build
from wqlab.kernels.builddir import find_build

MODULE, DUMP = "lib/test_workqueue.c", "tools/workqueue/wq_dump.py"
OUT = BUILD / "test/mainline"
MACHINE = "smt-26x2"
SCOPES = ["cpu", "smt", "cache_shard", "cache", "numa", "system"]


@dataclass(frozen=True)
class Mainline(Need):
    """The series with the base's own module, booted twice: to run that, and to be looked at by the
    base's own wq_dump.py, which says what follows the record."""

    cores = ALL
    guess = 200.0
    before = (SOURCE,)

    def make(self, farm: Making) -> tuple[vm.Record, vm.Record, str]:
        source = farm[SOURCE]
        if not (source.repo / MODULE).is_file():
            raise Skipped(f"this base has no {MODULE} of its own")
        overlay = {MODULE: (source.repo / MODULE).read_text()}
        kernel = find_build(build(source, "bench", overlay=overlay))
        ran = vm.boot(
            kernel,
            find_scenario("bench-2"),
            "module",
            OUT / "module",
            BootOptions(commands="run wq_items=500 nr_threads=2\n"),
        )
        looked = vm.boot(
            kernel,
            find_scenario(MACHINE),
            "pods",
            OUT / "pods",
            BootOptions(wq_dump=source.repo / DUMP),
        )
        return ran, looked, (OUT / "pods/wq_dump.log").read_text()


pytestmark = [pytest.mark.tier("full"), pytest.mark.needs(Mainline())]


def test_module_measures_each_scope(made: tuple[vm.Record, vm.Record, str]) -> None:
    """It never stays loaded: its result is always an error."""
    record = made[0]
    assert record.verdict == "pass", record.reason
    assert record.lines[1] == "result Resource temporarily unavailable"
    rows = re.findall(r"test_workqueue:   (\w+) +([1-9]\d*) items/sec\t", "\n".join(record.lines))
    # seen twice, as the insmod of busybox loads what has failed once more
    assert [scope for scope, _ in rows] == SCOPES * 2


def test_wq_dump_shows_pods(made: tuple[vm.Record, vm.Record, str]) -> None:
    _, record, log = made
    dump, machine = parse_dump(log), find_scenario(MACHINE)
    assert dump.default == machine.default
    assert set(dump.pods) == set(SCOPES)
    for scope, pods in dump.pods.items():
        assert format_pods(pods) == format_pods(machine.pods[scope])
    assert "has no member 'min_active'" in record.reason
    assert re.search(r"\n\[ +workqueue +min +max +NODE 0 +dfl \]\n\nevents_unbound +$", log)
