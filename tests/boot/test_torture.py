# SPDX-License-Identifier: GPL-2.0
"""wqtorture, left alone and disturbed from outside.

Each runs for --torture-secs. Work is taken for stuck after a second without progress, or
after ten on a kernel that looks for mistakes, which is many times slower.

Seen failing: against a kernel that shares max_active out to the nodes.
"""

import pytest
from conftest import ROOT, Boot
from wqboot import Record
from wqtopology import load_scenario

DISTURBANCES = ("sysfs", "cpumask", "hotplug", "freeze")
RUNS = {
    "nodes-2x1": (),
    "nodes-4": (),
    "nodes-2x1-disturbed": DISTURBANCES,
    "nodes-4-disturbed": DISTURBANCES,
    "nodes-4-cpuless-disturbed": DISTURBANCES,
}
SLOW = ("CONFIG_PROVE_LOCKING=y", "CONFIG_KASAN=y", "CONFIG_KCSAN=y")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    path, secs = (metafunc.config.getoption(name) for name in ("--kernel", "--torture-secs"))
    config = (path / ".config").read_text() if path else ""
    stall_ms = 10000 if any(symbol in config for symbol in SLOW) else 1000
    runs = []
    for name, disturb in RUNS.items():
        machine = name.removesuffix("-disturbed")
        # shares are those of nodes that have all of their CPUs all the time
        append = f"torture.secs={secs} torture.args=fair={int(not disturb)},stall_ms={stall_ms}"
        if disturb:
            append += f" torture.disturb={','.join(disturb)}"
        timeout = 2 * load_scenario(ROOT / f"scenarios/{machine}.toml").timeout + 2 * secs
        boot = Boot(machine, "torture", append=append, timeout=timeout)
        runs.append(pytest.param(disturb, id=name, marks=pytest.mark.boot(boot)))
    metafunc.parametrize("disturb", runs)


def test_torture(record: Record, disturb: tuple[str, ...]) -> None:
    *_, stats, end = (line for line in record.lines if line.startswith("wqtorture:"))
    assert "End of test: SUCCESS" in end
    number = dict(word.split("=") for word in stats.split()[1:])
    assert number["errors"] == "0"
    scenario = load_scenario(ROOT / f"scenarios/{record.scenario}.toml")
    assert int(number["nodes"]) == len([cpus for cpus in scenario.nodes if cpus])
    wanted = {"items", "cancelled", "limits", "meetings", "created"}
    wanted |= {"frozen"} if "freeze" in disturb else set()
    wanted |= set() if disturb else {"shares"}
    assert not {name for name in wanted if int(number[name]) < 1}
    counts = [line.split()[1:] for line in record.lines if line.startswith("disturbed ")]
    assert [word for word, count in counts if int(count) > 0] == list(disturb)
