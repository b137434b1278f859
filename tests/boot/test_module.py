# SPDX-License-Identifier: GPL-2.0
"""The test_workqueue module: its modes, its parameters, and how its runs are ended.

Seen failing, each against a module that was broken on purpose: latencies from when an item was
queued, workers that are not noted, no warm-up, items that are
queued at once in place of at their rate, a number of seconds that is ignored, a workqueue that is
not destroyed, threads that queue an item less, no CPU time, threads and items that go on when a
run is stopped (test_end), a wait that a signal of the freezer ends, threads that all queue on the
first workqueue, a second workqueue that is left, or that doesn't get the scope.
"""

import re
from statistics import median

import pytest
from needs import DEBUG, FIND, OTHERS, TEST, Boot, Kernel

from wqlab.guests.scenario import find_scenario
from wqlab.guests.vm import Record, sections

MACHINE = find_scenario("bench-2")
CPUS = MACHINE.cpus
SCOPES = ["cpu", "smt", "cache_shard", "cache", "numa", "system"]
MODES = {
    "serial": "wq_items=200",
    "burst": "wq_items=500 window=16",
    "fanout": "wq_items=500",
    "sleep": "wq_items=40 window=16 sleep_us=2000 max_active=4",
    "chain": "wq_items=200",
    "rate": "wq_items=100 rate=2000",
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
    "serial": "wq_items=100000000",
    "burst": "mode=burst wq_items=100000000 window=1024 work_ns=100000000 max_active=1",
    "fanout": "mode=fanout wq_items=100000000 window=1024 work_ns=1000000 max_active=8",
    "sleep": "mode=sleep wq_items=100000000 window=1024 sleep_us=250000 max_active=1",
    "chain": "mode=chain wq_items=100000000",
    "rate": "mode=rate rate=1 wq_items=1000",
    "secs": "mode=burst secs=3600",
    "warmup": "wq_items=1 warmup=100000000",
}

FOUND = ("burst",)  # on the kernel with lockdep; in the tier full, all

# What would be right, None where the kernel refuses the value as it is not of the type.
BAD = {
    "scopes=": "one of cpu, smt,",
    "scopes=cachefoo": "one of cpu, smt, cache_shard, cache, numa, system, default",
    "scopes=cpu,burst": "one of cpu, smt,",
    "mode=burs": "one of serial, burst, fanout, sleep, chain, rate",
    "mode=": "one of serial",
    "nr_threads=-1": None,
    "cpus=x": f"from 0 to {CPUS - 1}",
    "cpus=0-99": f"from 0 to {CPUS - 1}",
    "wq_items=0": "in 1 to 100000000",
    "wq_items=100000001": "in 1 to 100000000",
    "wq_items=1k": None,
    "secs=3601": "in 0 to 3600",
    "window=-1": None,
    "window=131073": "in 0 to 131072",
    "mode=burst window=65537": "in 0 to 65536, for 2 threads",
    "rate=0": "in 1 to 1000000",
    "rate=1000001": "in 1 to 1000000",
    "work_ns=100000001": "in 0 to 100000000",
    "sleep_us=0": "in 1 to 250000",
    "sleep_us=250001": "in 1 to 250000",
    "max_active=99999": "in 0 to ",
    "spread=-1": None,
    "warmup=-2": "in -1 to 100000000",
    "warmup=100000001": "in -1 to 100000000",
    "nr_wqs=-1": None,
    "nr_wqs=0": f"in 1 to {CPUS}, for {CPUS} threads",
    "nr_wqs=3": f"in 1 to {CPUS}, for {CPUS} threads",
    "mode=fanout nr_wqs=2": "in 1 to 1, for 1 threads",
}


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
    return f"run mode={mode} {MODES[mode]} scopes={','.join(SCOPES)}"


LOAD = "run wq_items=50 nr_threads=99"  # mainline's names, and as many as there are
SETTINGS = [
    "run scopes=numa wq_items=7",
    "run scopes=cpu,cache,system nr_wqs=2 wq_items=10",
    "run scopes=cpu cpus=1 wq_items=10",
    "run scopes=cpu nr_threads=1 wq_items=10 warmup=10 work_ns=1000",
    "run scopes=cache mode=fanout spread=0 wq_items=100",
    "run scopes=default wq_items=10",
]
SECONDS = "run mode=burst scopes=cpu secs=1"
RATE = "run mode=rate scopes=cpu nr_threads=1 secs=2 rate=50"
BLOCKED = "run mode=rate scopes=cpu nr_threads=1 wq_items=40 rate=1000 window=1 max_active=1"
BLOCKED += " work_ns=4000000 warmup=0"
# One item of each workqueue runs at a time, and all of them together in the pool of one.
WQS = [
    "run mode=sleep scopes=cache,cpu wq_items=20 window=4 max_active=1 warmup=0",
    "run mode=sleep scopes=cache,cpu wq_items=20 window=4 max_active=1 warmup=0 nr_wqs=2",
]
WINDOW = "run mode=burst scopes=cache wq_items=20 max_active=6 nr_wqs=2"
FREEZE = "freeze scopes=cpu wq_items=1000 mode=rate rate=500 warmup=0"
RUNS = boot(LOAD, *map(run, MODES), *SETTINGS, SECONDS, RATE, BLOCKED, *WQS, WINDOW, FREEZE)


def numbers(row: dict[str, str]) -> dict[str, int]:
    return {key: int(row[key]) for key in row if key not in ("scope", "mode")}


class TestRows:
    pytestmark = RUNS

    def test_load(self, record: Record) -> None:
        lines = sections(record.lines)[LOAD]
        assert one(lines, "result") == "ok"
        assert [row["scope"] for row in rows(lines)] == SCOPES
        for row in rows(lines):
            assert row["mode"] == "serial" and row["threads"] == str(CPUS)
            assert (row["items"], row["warmup"]) == (str(50 * CPUS), "5")

    @pytest.mark.parametrize("mode", MODES)
    def test_mode(self, record: Record, mode: str) -> None:
        lines = sections(record.lines)[run(mode)]
        assert one(lines, "result") == "ok"
        assert [row["scope"] for row in rows(lines)] == SCOPES
        given = dict(word.split("=") for word in MODES[mode].split())
        for row in rows(lines):
            assert row["mode"] == mode
            number = numbers(row)
            threads = 1 if mode == "fanout" else CPUS
            assert number["threads"] == threads
            assert number["items"] == threads * int(given["wq_items"])
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
            assert number["switches"] > threads and number["cpu_us"] > 0
            if mode == "sleep":
                assert number["max_active"] == 4
                assert 1 <= number["running_peak"] <= CPUS * 16
            else:
                assert number["running_peak"] == 0
            if mode in ("sleep", "serial"):  # in which somebody sleeps for each item
                assert number["switches"] >= number["items"]

    def test_pools(self, record: Record) -> None:
        """With a thread on each CPU, a scope has as many pools as pods."""
        lines = sections(record.lines)[run("burst")]
        pools = {row["scope"]: int(row["pools"]) for row in rows(lines)}
        pods = [CPUS, CPUS, CPUS, 1, 1, 1]
        assert pools == dict(zip(SCOPES, pods, strict=True))

    @pytest.mark.parametrize("command", SETTINGS)
    def test_settings(self, record: Record, command: str) -> None:
        lines = sections(record.lines)[command]
        assert one(lines, "result") == "ok"
        given = dict(word.split("=") for word in command.split()[1:])
        cpus = 1 if "cpus" in given or given.get("mode") == "fanout" else CPUS
        threads = int(given.get("nr_threads", cpus))
        found = rows(lines)
        assert [row["scope"] for row in found] == given["scopes"].split(",")
        for row in found:
            assert row["mode"] == given.get("mode", "serial")
            assert row["threads"] == str(threads)
            assert row["items"] == str(threads * int(given["wq_items"]))
            assert row["warmup"] == given.get("warmup", str(int(given["wq_items"]) // 10))
            assert row["wqs"] == given.get("nr_wqs", "1")
            for key in ("work_ns", "spread"):
                assert row[key] == given.get(key, "0")

    def test_seconds(self, record: Record) -> None:
        """All that was done in the time counts, and nothing of what was done after it."""
        [row] = rows(sections(record.lines)[SECONDS])
        number = numbers(row)
        assert number["secs"] == 1 and number["lost"] == 0
        in_flight = number["threads"] * number["window"]
        assert number["items"] - in_flight <= number["items_per_sec"] <= number["items"]

    def test_rate(self, record: Record) -> None:
        """One item at a time when it is due, whatever the machine could do. By default, that of a
        tenth of the time isn't measured, not of a tenth of 50000 items."""
        [row] = rows(sections(record.lines)[RATE])
        number = numbers(row)
        assert (number["rate"], number["lost"], number["warmup"]) == (50, 0, -1)
        assert 100 <= number["items"] <= 101
        assert number["items_per_sec"] <= 50

    def test_rate_counts_what_is_late(self, record: Record) -> None:
        """Items that are due each millisecond and take four: the last one is 120 ms late, of which
        one that had measured from when it was queued would know nothing."""
        [row] = rows(sections(record.lines)[BLOCKED])
        number = numbers(row)
        assert number["items"] == 40
        assert number["start_max_ns"] >= 39 * 3_000_000
        assert number["start_p50_ns"] >= 19 * 3_000_000

    def test_several_workqueues(self, record: Record) -> None:
        """Each has a limit of its own, and the scope that was asked for."""
        for nr_wqs, command in enumerate(WQS, 1):
            lines = sections(record.lines)[command]
            assert one(lines, "result") == "ok"
            for row in rows(lines):
                number = numbers(row)
                assert (number["wqs"], number["max_active"]) == (nr_wqs, 1)
                assert number["items"] == 20 * CPUS and number["lost"] == 0
                assert number["running_peak"] == nr_wqs
            assert [row["pools"] for row in rows(lines)] == ["1", str(CPUS)]

    def test_window_is_that_of_each_workqueue(self, record: Record) -> None:
        """By default as many items as can be active, of the one thread that each has."""
        [row] = rows(sections(record.lines)[WINDOW])
        assert row["window"] == "6"

    def test_freezing_does_not_end_it(self, record: Record) -> None:
        lines = sections(record.lines)[FREEZE]
        assert (one(lines, "froze"), one(lines, "result")) == ("ok", "ok")
        [row] = rows(lines)
        assert numbers(row)["items"] == 1000 * CPUS

    def test_nothing_is_left(self, record: Record) -> None:
        assert not [line for line in record.lines if line.startswith("left")]


@boot(*(f"run {words}" for words in BAD))
@pytest.mark.parametrize(("words", "allowed"), BAD.items())
def test_bad_value(record: Record, words: str, allowed: str | None) -> None:
    lines = sections(record.lines)[f"run {words}"]
    name, _, value = words.split()[-1].partition("=")
    word = f"{name}={value.rpartition(',')[2]}"  # that of a list
    # busybox's insmod tries twice, in two ways
    said = {line for line in lines if line.startswith("kernel ") and "taints" not in line}
    assert len(said) == 1
    if allowed is None:
        want = rf"kernel test_workqueue: .{re.escape(value)}' invalid for parameter .{name}'"
    else:
        want = rf"kernel test_workqueue: {re.escape(word)} is not .*{allowed}"
    assert re.match(want, said.pop())
    assert one(lines, "result").lower() in ("invalid argument", "invalid parameters")
    assert not [line for line in lines if line.startswith("left")]


@pytest.mark.parametrize(
    ("words", "kernel"),
    [
        pytest.param(
            words,
            kernel,
            id=f"{name}-{kernel.name}",
            marks=on(
                kernel,
                f"kill {words}",
                f"kill scopes=cpu {words}",
                f"kill scopes=cache {words}",
                "run wq_items=1",
                tier="test" if kernel == TEST or name in FOUND else "full",
            ),
        )
        for name, words in ENDLESS.items()
        for kernel in KERNELS
    ],
)
def test_end(record: Record, words: str) -> None:
    *killed, again = sections(record.lines).values()
    for lines in killed:
        assert one(lines, "result") == ""
        assert not rows(lines)
    assert one(again, "result") == "ok"
    took = [float(one(lines, "took")) for lines in killed]
    if record.accel == "kvm":
        assert max(took) <= SECOND
    assert median(took) <= EMULATED
    assert max(took) <= HELD_UP
    assert not [line for line in record.lines if line.startswith("left")]


@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(
            kernel,
            id=kernel.name,
            marks=on(kernel, f"cycles {number} wq_items=2 scopes=cache", "run wq_items=1"),
        )
        for kernel, number in CYCLES.items()
    ],
)
def test_cycles(record: Record, kernel: Kernel) -> None:
    cycles, again = sections(record.lines).values()
    assert one(cycles, "result") == str(CYCLES[kernel])
    assert len(rows(cycles)) == CYCLES[kernel]
    assert not [line for line in cycles if line.startswith("left")]
    assert one(again, "result") == "ok"
