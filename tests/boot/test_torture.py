# SPDX-License-Identifier: GPL-2.0
"""wqtorture, left alone and disturbed from outside.

Work is taken for stuck after five seconds without progress, or after ten on a kernel that checks for
mistakes, which is many times slower. One second has been too short for a CPU that QEMU runs in turns
with others, or that is the last one online: with a dozen threads to run, the worker that has the item,
or the threads that create one, may wait for longer.

A kernel without the series passes on one node: there its limit is exact. It has no turns, so
shares are not looked at.

Seen failing: against a kernel that shares max_active out to the nodes.
"""

import re

import pytest
from needs import (
    ARM64,
    CULLING,
    DEBUG,
    FIND,
    KCSAN,
    NATIVE,
    OTHERS,
    RT,
    SLOWER,
    STOCK,
    TEST,
    Boot,
    Kernel,
    Need,
)

from wqlab.guests.scenario import find_scenario
from wqlab.guests.vm import Record

DISTURBANCES = ("sysfs", "cpumask", "hotplug", "freeze", "threads")
RUNS = {
    "nodes-1": (),
    "nodes-2x1": (),
    "nodes-4": (),
    "nodes-2x1-disturbed": DISTURBANCES,
    "nodes-4-disturbed": DISTURBANCES,
    "nodes-4-cpuless-disturbed": DISTURBANCES,
    "nodes-8-disturbed": DISTURBANCES,
    "nodes-4-60": (),
    "bench-2-disturbed": ("sysfs", "cpumask"),
}
# for a kernel that checks for mistakes there are too many CPUs, or too few nodes
FAST_ONLY = ("nodes-4-60", "nodes-1")
# User Mode Linux has one node, no CPUs that go offline, and cannot be frozen
NATIVE_ONLY = ("bench-2-disturbed",)
CULLING_FIND = Kernel("find", diff=CULLING)
# of all runs only these
FEW_RUNS = {CULLING_FIND: ("nodes-4-disturbed",), NATIVE: NATIVE_ONLY}
NAMES = {CULLING_FIND: "culling"}
# Seconds for each run, without --torture-secs
SECS = {TEST: 20, DEBUG: 10}
FULL_SECS = 60
LONG = {("nodes-8-disturbed", TEST): 600}  # in the full tier
ONLY_FULL = [FIND, CULLING_FIND, KCSAN, RT, NATIVE, *OTHERS]
# and elsewhere all but these, of each kernel
ALWAYS = {
    TEST: ("nodes-2x1", "nodes-4", "nodes-4-cpuless-disturbed"),
    DEBUG: ("nodes-4-disturbed",),
}


def runs_on(kernel: Need) -> list[str]:
    others = NATIVE_ONLY if kernel in (TEST, ARM64) else NATIVE_ONLY + FAST_ONLY
    usual = [name for name in RUNS if name not in others]
    return list(FEW_RUNS.get(kernel, usual))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "disturb" not in metafunc.fixturenames:
        return
    full = metafunc.config.getoption("--tier") == "full"
    given = metafunc.config.getoption("--torture-secs")
    runs = []
    for kernel in [*SECS, *ONLY_FULL]:
        stall_ms = 5000 if kernel in (TEST, ARM64) else 10000
        for name in runs_on(kernel):
            disturb = RUNS[name]
            machine = name.removesuffix("-disturbed")
            usual = LONG.get((name, kernel), FULL_SECS) if full else SECS.get(kernel, FULL_SECS)
            secs = given or usual
            # shares are those of CPUs that are there all the time
            fair = not disturb
            append = f"torture.secs={secs} torture.args=fair={int(fair)},stall_ms={stall_ms}"
            if disturb:
                append += f" torture.disturb={','.join(disturb)}"
            timeout = SLOWER * find_scenario(machine).timeout + 2 * secs
            marks = [pytest.mark.needs(Boot(machine, "torture", kernel, append, timeout=timeout))]
            if name not in ALWAYS.get(kernel, ()):
                marks.append(pytest.mark.tier("full"))
            # What they are counted over takes most of a minute where all is slow.
            shares = fair and (kernel == TEST or secs >= FULL_SECS)
            run_id = f"{name}-{NAMES.get(kernel, kernel.name)}"
            runs.append(pytest.param(disturb, shares, id=run_id, marks=marks))
    metafunc.parametrize(("disturb", "shares"), runs)


def test_torture(record: Record, disturb: tuple[str, ...], shares: bool) -> None:
    *_, stats, end = (line for line in record.lines if line.startswith("wqtorture:"))
    assert "End of test: SUCCESS" in end
    assert re.search(r" seed=[1-9]", end)
    number = dict(word.split("=") for word in stats.split()[1:])
    assert number["errors"] == "0"
    scenario = find_scenario(record.scenario)
    assert int(number["nodes"]) == len([cpus for cpus in scenario.nodes if cpus])
    wanted = {"items", "cancelled", "waits", "limits", "meetings", "filled", "created"}
    wanted |= {"frozen"} if "freeze" in disturb else set()
    wanted |= {"shares"} if shares else set()
    assert not {name for name in wanted if int(number[name]) < 1}
    counts = [line.split()[1:] for line in record.lines if line.startswith("disturbed ")]
    assert [word for word, count in counts if int(count) > 0] == list(disturb)


@pytest.mark.tier("full")
@pytest.mark.needs(
    Boot(
        "nodes-1",
        "torture",
        STOCK,
        "torture.secs=600 torture.args=fair=0,stall_ms=5000",
        timeout=SLOWER * find_scenario("nodes-1").timeout + 1200,
    )
)
def test_stock_is_caught(made: Record) -> None:
    """Its flushes may return while the work item executes; nothing else is seen to be wrong."""
    print("\n".join(made.lines))
    assert made.verdict == "fail", made.reason
    errors = [line for line in made.lines if "!!!" in line]
    assert errors
    assert not [line for line in errors if "is flushed, but" not in line]
