# SPDX-License-Identifier: GPL-2.0
"""max_active of an unbound workqueue is that of the system: no more items run at once, and no less.

Seen failing: against a kernel that shares max_active out to the nodes.
"""

import pytest
from needs import OTHERS, TEST, Boot

from wqlab.guests.scenario import Scenario, find_scenario, parse_cpulist
from wqlab.guests.vm import Record
from wqlab.measure.counts.peaks import MACHINES, commands, peaks

# The others only with --tier full: a minute each.
ALWAYS = ("nodes-1", "nodes-2", "nodes-4", "nodes-8", "nodes-4-cpuless")

each_machine = pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(
            scenario,
            id="-".join(filter(None, [scenario.name, kernel.arch])),
            marks=[
                pytest.mark.needs(
                    Boot(scenario.name, "maxactive", kernel, commands=commands(scenario))
                ),
                pytest.mark.tier("test" if scenario.name in ALWAYS and not kernel.arch else "full"),
            ],
        )
        for kernel in (TEST, *OTHERS)
        for scenario in map(find_scenario, MACHINES)
    ],
)


@each_machine
def test_peaks(record: Record, scenario: Scenario) -> None:
    found = peaks(scenario, record.lines)
    wrong = [
        f"{case.labels}: {peak}, not {case.wanted}"
        for case, peak in found.items()
        if peak != case.wanted
    ]
    assert not wrong, "\n".join(wrong)


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
