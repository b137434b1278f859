# SPDX-License-Identifier: GPL-2.0
"""The test_workqueue module: its modes, its parameters, and how its runs are ended.

Seen failing, each against a module that was broken on purpose: producers that queue an item
less, a maximum that is always 0, runs that ignore their words or change the parameters of the
module, results without a bound, a second run that is accepted (TestRows); a parser that takes
any number and the beginning of a name (test_bad_value); items and producers that go on when a
run is stopped, producers that no one stops (test_end), a workqueue that is not destroyed
(test_end, test_cycles). With lockdep: a lock that is held when a run is started and taken
when "run" is read (test_bad_value). test_cancel: on a kernel without the series' first patch.
"""

import csv
import re
from statistics import median

import pytest
from needs import DEBUG, FIND, OTHERS, TEST, Boot, Kernel

from wqlab.scenario import find_scenario
from wqlab.vm import Record, sections

MACHINE = find_scenario("bench-2")
CPUS = MACHINE.cpus
SCOPES = ["cpu", "smt", "cache_shard", "cache", "numa", "system"]
MODES = {
    "serial": "items=200",
    "burst": "items=500 window=16",
    "fanout": "items=500",
    "sleep": "items=40 window=16 sleep_us=2000 max_active=4",
    "chain": "items=200",
}
LATENCIES = ["p50", "p90", "p95", "p99", "p999", "max"]
SECOND = 1.0  # within which a run must have ended
# The same where the machine is emulated: for the middle one of three ways to end, and for each.
# Now and then a busy host holds one up. What does not end goes on for hours.
EMULATED, HELD_UP = 5.0, 30.0
DEBUG_TIMEOUT = 900  # of a boot, also with lockdep and KASAN
# One takes half a second on the slow kernels.
CYCLES = {TEST: 200, DEBUG: 20, FIND: 20} | dict.fromkeys(OTHERS, 200)
KERNELS = list(CYCLES)
# What takes long to end: a queue full of items that sleep or spin, one at a time.
ENDLESS = {
    "serial": "items=100000000",
    "burst": "mode=burst items=100000000 window=1024 work_ns=100000000 max_active=1",
    "fanout": "mode=fanout items=100000000 window=1024 work_ns=1000000 max_active=8",
    "sleep": "mode=sleep items=100000000 window=1024 sleep_us=250000 max_active=1",
    "chain": "mode=chain items=100000000",
    "warmup": "items=1 warmup=100000000",
}

FOUND = ("burst",)  # on the kernel with lockdep; in the tier full, all

BAD = {
    "scopes=": "a comma-separated list of",
    "scopes=cachefoo": "cpu, smt, cache_shard, cache, numa, system, default",
    "scopes=cpu,,smt": "a comma-separated list of",
    "mode=burs": "one of serial, burst, fanout, sleep, chain, cancel",
    "mode=": "one of serial",
    "threads=-1": f"in 0 to {CPUS}",
    "threads=99": f"in 0 to {CPUS}",
    "cpus=0 threads=2": "in 0 to 1, the number of CPUs for producers",
    "cpus=x": f"from 0 to {CPUS - 1}",
    "cpus=0-99": f"from 0 to {CPUS - 1}",
    "items=0": "in 1 to 100000000",
    "items=100000001": "in 1 to 100000000",
    "items=1k": "in 1 to 100000000",
    "window=-1": "in 0 to 131072",
    "window=131073": "in 0 to 131072",
    "mode=burst window=65537": "in 0 to 65536, for 2 producers",
    "work_ns=100000001": "in 0 to 100000000",
    "sleep_us=0": "in 1 to 250000",
    "sleep_us=250001": "in 1 to 250000",
    "max_active=99999": "in 0 to ",
    "strict=2": "in 0 to 1",
    "spread=-1": "in 0 to 1",
    "warmup=-1": "in 0 to 100000000",
    "repeat=0": "in 1 to 1000",
    "repeat=1001": "in 1 to 1000",
}
ONLY_IN_RUN = {"nothing=1": "a parameter of this module", "items": "of the form name=value"}


def one(lines: list[str], word: str) -> str:
    """What the only line that starts with this word says."""
    found = [line.partition(" ")[2] for line in lines if line.partition(" ")[0] == word]
    assert len(found) == 1, f"{len(found)} lines with {word}: {lines}"
    return found[0]


def rows(lines: list[str]) -> list[dict[str, str]]:
    """The runs that were logged."""
    start = "kernel test_workqueue: scope="
    found = [line.removeprefix("kernel test_workqueue: ") for line in lines if start in line]
    return [dict(word.split("=") for word in line.split()) for line in found]


@pytest.fixture
def record(record: Record, kernel: Kernel) -> Record:
    return record


def on(kernel: Kernel, *commands: str, tier: str = "test") -> list[pytest.MarkDecorator]:
    """The boot of one kernel."""
    given = "\n".join([*commands, ""])
    return [
        pytest.mark.needs(
            Boot(MACHINE.name, "module", kernel, commands=given, timeout=DEBUG_TIMEOUT)
        ),
        pytest.mark.tier("full" if kernel in (FIND, *OTHERS) else tier),
    ]


def boot(*commands: str) -> pytest.MarkDecorator:
    """A boot of each kernel."""
    kernels = [
        pytest.param(kernel, id=kernel.name, marks=on(kernel, *commands)) for kernel in KERNELS
    ]
    return pytest.mark.parametrize("kernel", kernels)


def run(mode: str) -> str:
    return f"run mode={mode} {MODES[mode]}"


LOAD = "load wq_items=50 nr_threads=0 scopes=cache,cpu"  # mainline's names
SETTINGS = [
    "run scopes=numa items=7",
    "run repeat=3 items=10",
    "run cpus=1 items=10 strict=1",
    "run threads=1 items=10 warmup=10 work_ns=1000",
    "run mode=fanout spread=0 items=100",
    "run scopes=default",
]
CANCEL = "run mode=cancel scopes=cpu,cache items=20"
RUNS = boot(
    "load items=50",
    "unload",
    LOAD,
    *(f"{run(mode)} scopes={','.join(SCOPES)}" for mode in MODES),
    *SETTINGS,
    CANCEL,
    "results",
    "start items=100000000",
    "write items=1",
    "kill",
    "run items=1 scopes=cache repeat=600",
    "results latest",
)


class TestRows:
    pytestmark = RUNS

    def test_load(self, record: Record) -> None:
        lines = sections(record.lines)["load items=50"]
        assert one(lines, "result") == "ok"
        assert [row["scope"] for row in rows(lines)] == SCOPES
        assert all(row["mode"] == "serial" for row in rows(lines))
        assert one(sections(record.lines)["unload"], "result") == "ok"

    @pytest.mark.parametrize("mode", MODES)
    def test_mode(self, record: Record, mode: str) -> None:
        lines = sections(record.lines)[f"{run(mode)} scopes={','.join(SCOPES)}"]
        assert (one(lines, "result"), one(lines, "state")) == ("ok", "idle 0")
        assert [row["scope"] for row in rows(lines)] == SCOPES
        given = dict(word.split("=") for word in MODES[mode].split())
        for row in rows(lines):
            assert row["mode"] == mode
            number = {key: int(row[key]) for key in row if key not in ("scope", "mode")}
            threads = 1 if mode == "fanout" else CPUS
            assert number["threads"] == threads
            assert number["items"] == threads * int(given["items"])
            assert number["lost"] == number["twice"] == 0
            assert number["items_per_sec"] > 0
            for kind in ("queue", "start"):
                values = [number[f"{kind}_{name}_ns"] for name in LATENCIES]
                assert values == sorted(values)
                assert values[0] > 0
            assert 0 < number["kworkers_before"] <= number["kworkers_peak"]
            assert 0 < number["kworkers_after"] <= number["kworkers_peak"]
            assert 1 <= number["pools"] <= CPUS
            assert number["clock_ns"] > 0
            if mode == "sleep":
                assert number["max_active"] == 4
                assert 1 <= number["running_peak"] <= CPUS * 16
            else:
                assert number["running_peak"] == 0

    def test_pools(self, record: Record) -> None:
        """With a producer on each CPU, a scope has as many pools as pods."""
        lines = sections(record.lines)[f"{run('burst')} scopes={','.join(SCOPES)}"]
        pools = {row["scope"]: int(row["pools"]) for row in rows(lines)}
        pods = [CPUS, CPUS, CPUS, 1, 1, 1]
        assert pools == dict(zip(SCOPES, pods, strict=True))

    @pytest.mark.parametrize("command", SETTINGS)
    def test_overrides(self, record: Record, command: str) -> None:
        """What is not given is as it was when the module was loaded."""
        lines = sections(record.lines)[command]
        assert (one(lines, "result"), one(lines, "state")) == ("ok", "idle 0")
        given = dict(word.split("=") for word in command.split()[1:])
        expected = {"items": "50", "scopes": "cpu,cache", "repeat": "1"} | given
        cpus = 1 if "cpus" in given or given.get("mode") == "fanout" else CPUS
        threads = int(given.get("threads", cpus))
        found = rows(lines)
        scopes = expected["scopes"].split(",")
        numbers = [str(nr) for nr in range(1, int(expected["repeat"]) + 1)]
        assert [(row["repeat"], row["scope"]) for row in found] == [
            (number, scope) for number in numbers for scope in scopes
        ]
        for row in found:
            assert row["mode"] == given.get("mode", "serial")
            assert row["threads"] == str(threads)
            assert row["items"] == str(threads * int(expected["items"]))
            for key in ("strict", "warmup", "work_ns", "spread"):
                assert row[key] == given.get(key, "0")

    def test_cancel(self, record: Record) -> None:
        """A flush ends when the item is cancelled that it waits for."""
        lines = sections(record.lines)[CANCEL]
        assert (one(lines, "result"), one(lines, "state")) == ("ok", "idle 0")
        assert [row["scope"] for row in rows(lines)] == ["cpu", "cache"]
        for row in rows(lines):
            assert (row["items"], row["lost"], row["max_active"]) == ("20", "0", "1")

    def test_results_are_csv(self, record: Record) -> None:
        lines = sections(record.lines)["results"]
        table = list(csv.DictReader(line.removeprefix("csv ") for line in lines))
        logged = [row for lines in sections(record.lines).values() for row in rows(lines)]
        # those of the first load are gone with the module
        assert table == logged[len(SCOPES) : len(SCOPES) + len(table)]
        assert len(table) == 2 + len(MODES) * len(SCOPES) + 1 + 2 * 3 + 2 * 3 + 1 + 2

    def test_one_run_at_a_time(self, record: Record) -> None:
        answer = sections(record.lines)
        assert one(answer["start items=100000000"], "state") == "running"
        assert one(answer["write items=1"], "result") == "Device or resource busy"
        assert one(answer["kill"], "state").startswith("idle -")
        again = answer["run items=1 scopes=cache repeat=600"]
        assert one(again, "state") == "idle 0"

    def test_results_are_bounded(self, record: Record) -> None:
        *_, last = sections(record.lines).values()
        table = [line.removeprefix("csv ").split(",") for line in last]
        number = table[0].index("repeat")
        assert [line[number] for line in table[1:]] == [str(nr) for nr in range(89, 601)]


@boot(
    *(f"load {words}" for words in BAD),
    "load items=1 scopes=cache",
    *(f"write {words}" for words in BAD | ONLY_IN_RUN),
    "results",
    "unload",
)
@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        *((f"load {words}", allowed) for words, allowed in BAD.items()),
        *((f"write {words}", allowed) for words, allowed in (BAD | ONLY_IN_RUN).items()),
    ],
)
def test_bad_value(record: Record, command: str, allowed: str) -> None:
    lines = sections(record.lines)[command]
    word = command.split()[-1]
    # busybox's insmod tries twice, in two ways
    said = {line for line in lines if line.startswith("kernel ") and "taints" not in line}
    assert len(said) == 1
    assert re.match(rf"kernel test_workqueue: {re.escape(word)} is not .*{allowed}", said.pop())
    assert one(lines, "result").lower() in ("invalid argument", "invalid parameters")
    assert not [line for line in lines if line.startswith("left")]
    assert one(sections(record.lines)["unload"], "result") == "ok"
    assert len(sections(record.lines)["results"]) == 2


def end(words: str) -> list[str]:
    """Each way to end a run."""
    return [
        f"kill-load {words}",
        "load items=10 scopes=cache",
        f"start {words}",
        "kill",
        "run items=1",
        f"start scopes=cpu {words}",
        "unload",
    ]


@pytest.mark.parametrize(
    ("words", "kernel"),
    [
        pytest.param(
            words,
            kernel,
            id=f"{name}-{kernel.name}",
            marks=on(
                kernel,
                *end(words),
                tier="test" if kernel == TEST or name in FOUND else "full",
            ),
        )
        for name, words in ENDLESS.items()
        for kernel in KERNELS
    ],
)
def test_end(record: Record, words: str) -> None:
    killed, loaded, started, stopped, again, second, unloaded = sections(record.lines).values()
    assert one(killed, "result") == ""
    assert one(loaded, "result") == "ok"
    assert one(started, "state") == one(second, "state") == "running"
    assert one(stopped, "state").startswith("idle -")
    assert one(again, "state") == "idle 0"
    assert one(unloaded, "result") == "ok"
    assert not rows(killed + stopped + unloaded)
    took = [float(one(lines, "took")) for lines in (killed, stopped, unloaded)]
    if record.accel == "kvm":
        assert max(took) <= SECOND
    assert median(took) <= EMULATED
    assert max(took) <= HELD_UP
    for lines in (killed, stopped, unloaded):
        assert not [line for line in lines if line.startswith("left")]


@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(
            kernel,
            id=kernel.name,
            marks=on(kernel, f"cycles {number} items=2 scopes=cache", "load items=1 scopes=cache"),
        )
        for kernel, number in CYCLES.items()
    ],
)
def test_cycles(record: Record, kernel: Kernel) -> None:
    cycles, loaded = sections(record.lines).values()
    assert one(cycles, "result") == str(CYCLES[kernel])
    assert len(rows(cycles)) == CYCLES[kernel]
    assert not [line for line in cycles if line.startswith("left")]
    assert one(loaded, "result") == "ok"
