# SPDX-License-Identifier: GPL-2.0
"""max_active of an unbound workqueue is that of the system: no more items run at once, and no less.

Seen failing: against a kernel that shares max_active out to the nodes.
"""

import pytest
from conftest import ROOT, Boot
from wqboot import Record
from wqpeaks import MACHINES, commands, peaks, table
from wqtopology import Scenario, load_scenario, parse_cpulist

each_machine = pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(
            scenario,
            id=scenario.name,
            marks=pytest.mark.boot(Boot(scenario.name, "maxactive", commands=commands(scenario))),
        )
        for scenario in (load_scenario(ROOT / f"scenarios/{name}.toml") for name in MACHINES)
    ],
)


@each_machine
def test_peaks(record: Record, scenario: Scenario) -> None:
    found = peaks(scenario, record.lines)
    wrong = {cell: peak for cell, peak in found.items() if peak != cell.wanted}
    shown = table({cell: [peak] for cell, peak in found.items()})
    assert not wrong, "\n".join(["peaks, * is not what is wanted", *shown])


@each_machine
def test_nodes(record: Record, scenario: Scenario) -> None:
    """The guest has the nodes of the scenario, also those without CPUs and without memory."""
    lines = [line.split() for line in record.lines if line.startswith("node ")]
    found = {
        int(number): (frozenset() if cpus == "memory" else parse_cpulist(cpus), int(rest[-1]) > 0)
        for _, number, _, cpus, *rest in lines
    }
    assert found == {
        node: (cpus, node not in scenario.memoryless) for node, cpus in enumerate(scenario.nodes)
    }
