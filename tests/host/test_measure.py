# SPDX-License-Identifier: GPL-2.0
"""What wqlab bench reads from guests, and which boots it makes.

The logs in data/ are of real boots, cut down. Seen failing: with rows_of() that does not
look at lost items, at the number of rows, or at the runs; a parser of rows that skips what it
can't read; one of locks that takes places in the code for classes, or forgets that times
are in us.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from guests import line, make_kernel

from wqlab.ground.places import ROOT
from wqlab.ground.problem import Problem
from wqlab.guests import vm
from wqlab.guests.qemu import qemu_command
from wqlab.guests.scenario import parse_cpulist
from wqlab.measure import tasks
from wqlab.measure.subjects import Subject, find_subject
from wqlab.measure.tasks import (
    parse_lock_stat,
    plan,
    rows_of_boot,
    timed_nodes,
    timed_scenario,
)
from wqlab.results.metrics import value
from wqlab.results.model import Lock, ResultsError, Row, Run
from wqlab.results.module import PREFIX, parse_row

DATA = ROOT / "tests/data"
SCOPES = ["cpu", "smt", "cache_shard", "cache", "numa", "system"]
RUNS: list[Run] = [
    {"mode": "serial", "scopes": SCOPES, "items": 200},
    {"mode": "sleep", "scopes": SCOPES, "items": 4, "max_active": 16},
]
LOCK_RUNS: list[Run] = [
    {"mode": "serial", "scopes": ["cache"], "items": 3000},
    {"mode": "serial", "scopes": ["cache_shard"], "items": 3000},
]


def log(name: str) -> list[str]:
    return (DATA / name).read_text().splitlines()


class TestLogs:
    def test_good(self) -> None:
        rows = rows_of_boot(log("bench-stock.log"), RUNS, "bench")
        assert [row.scope for row in rows if row.missing] == ["cache_shard"] * 2
        good = [row for row in rows if not row.missing]
        assert len(good) == 10 and {row.mode for row in good} == {"serial", "sleep"}
        assert all(row.values["items"] in (400, 8) and row.locks is None for row in good)
        assert all(0 < row.values["items_per_sec"] < 10**7 for row in good)

    def test_noise(self) -> None:
        """What the kernel says between is not about results."""
        lines = log("bench-stock.log")
        for at in (0, 3, 9):
            lines.insert(at, "test_workqueue: loading out-of-tree module taints kernel.")
            lines.insert(at, "clocksource: scope=cache mode=serial")
        assert rows_of_boot(lines, RUNS, "bench") == rows_of_boot(
            log("bench-stock.log"), RUNS, "bench"
        )

    @pytest.mark.parametrize(
        ("spoil", "message"),
        [
            pytest.param(lambda lines: [], "0 of 2 runs", id="nothing"),
            pytest.param(lambda lines: lines[:7], "1 of 2 runs", id="one-run"),
            pytest.param(lambda lines: lines[:-1], "not one row for each scope", id="row-missing"),
            pytest.param(
                lambda lines: [*lines[:-1], lines[-1][:-20]], "system", id="cut-off-in-a-word"
            ),
            pytest.param(lambda lines: [*lines[:-1], lines[-1][:90]], "without", id="cut-off"),
            pytest.param(lambda lines: [*lines, lines[-1]], "not one row", id="twice"),
            pytest.param(
                lambda lines: [re.sub(r"lost=0", "lost=2", line) for line in lines],
                "scope cpu, mode serial: 2 items lost",
                id="lost-items",
            ),
            pytest.param(
                lambda lines: [re.sub(r"twice=0", "twice=1", line) for line in lines],
                "1 items twice",
                id="ran-twice",
            ),
            pytest.param(
                lambda lines: [re.sub(r" items=400", " items=399", line) for line in lines],
                "399 items ran, not all",
                id="too-few",
            ),
            pytest.param(
                lambda lines: [line.replace("mode=sleep th", "mode=chain th") for line in lines],
                "not the mode",
                id="another-mode",
            ),
            pytest.param(
                lambda lines: [
                    re.sub(r"(scope=\w+) mode.*", r"\1 missing", line) for line in lines
                ],
                "none of the scopes",
                id="all-missing",
            ),
        ],
    )
    def test_bad(self, spoil: Callable[[list[str]], list[str]], message: str) -> None:
        lines = spoil(log("bench-stock.log"))
        with pytest.raises(ResultsError, match=message):
            rows_of_boot(lines, RUNS, "bench")

    def test_cut_line_is_never_a_row(self) -> None:
        whole = line("cache", "serial", 400, lost=0, twice=11)
        assert parse_row(whole)
        for end in range(len(PREFIX + "scope=c"), len(whole) - 2):
            with pytest.raises(ResultsError):
                parse_row(whole[:end])


class TestLocks:
    def test_real(self) -> None:
        rows = rows_of_boot(log("lockstat-stock.log"), LOCK_RUNS, "lockstat")
        assert [(row.scope, row.missing) for row in rows] == [
            ("cache", False),
            ("cache_shard", True),
        ]
        locks = rows[0].locks
        assert locks and "&pool->lock" in locks
        pool = locks["&pool->lock"]
        assert pool.acquisitions > rows[0].values["items"] and pool.contentions > 0
        assert pool.hold_max_ns < pool.hold_total_ns and pool.wait_max_ns < pool.wait_total_ns
        per_item = value(rows[0], "lock_acquisitions")
        assert per_item and 1 < per_item < 20

    def test_numbers(self) -> None:
        header = "class name con-bounces contentions waittime-min waittime-max waittime-total "
        header += "waittime-avg acq-bounces acquisitions holdtime-min holdtime-max holdtime-total "
        lines = [
            header + "holdtime-avg",
            "      &pool->lock:  11  12  0.10  1.25  20.50  1.70  21  22  0.05  2.30  400.01  3.30",
            "      -----------",
            "      &pool->lock   12   [<000000001>] __queue_work+0x1/0x2",
            "    &pool->lock/1:   1   2   0.1    0.2    0.3   0.4   5   6   0.7    0.8    0.9   1.0",
        ]
        locks = parse_lock_stat(lines)
        assert locks["&pool->lock"] == Lock(22, 12, 400010, 2300, 20500, 1250, 21, 11)
        assert list(locks) == ["&pool->lock", "&pool->lock/1"]
        row = Row("cache", "serial", values={"items": 4}, locks=locks)
        assert value(row, "lock_acquisitions") == (22 + 6) / 4
        assert value(row, "lock_hold_ns") == (400010 + 900) / 4

    def test_none_is_an_error(self) -> None:
        lines = [text for text in log("lockstat-stock.log") if "pool->lock:" not in text]
        with pytest.raises(ResultsError, match="nothing about &pool->lock"):
            rows_of_boot(lines, LOCK_RUNS, "lockstat")

    def test_bad_number(self) -> None:
        lines = [text.replace("1", "1.2.3") for text in log("lockstat-stock.log")]
        with pytest.raises(ResultsError, match=r"not a line of (/proc/lock_stat|test_workqueue)"):
            rows_of_boot(lines, LOCK_RUNS, "lockstat")


# --- plans -------------------------------------------------------------------------------


@pytest.fixture
def kernels(tmp_path: Path) -> list[Subject]:
    return [
        find_subject(
            name,
            [
                make_kernel(tmp_path / f"{name}-{flavour}", f"{name}-{flavour}", flavour, *source)
                for flavour in ("bench", "lockstat")
            ],
        )
        for name, *source in (("stock", 0, "6.12"), ("patched", 5, "6.12"), ("mainline", 0, "7.3"))
    ]


class TestPlan:
    def trials(self, kernels: list[Subject], **more: object) -> list[tasks.Trial]:
        options = {"boots": 4, "items": 100, "sizes": [1, 4], "cpus": 2} | more
        parts = options.pop("parts", list(tasks.PARTS))
        return list(plan(kernels, parts, **options))

    def test_alternates(self, kernels: list[Subject]) -> None:
        time = [trial.kernel.name for trial in self.trials(kernels) if trial.part == "time"]
        assert time[:6] == ["stock", "patched", "mainline", "patched", "mainline", "stock"]
        assert all(len(set(time[i : i + 3])) == 3 for i in range(0, len(time), 3))
        assert len(time) == 12

    def test_parts(self, kernels: list[Subject]) -> None:
        trials = self.trials(kernels)
        assert {trial.flavour for trial in trials if trial.part == "locks"} == {"lockstat"}
        assert {trial.flavour for trial in trials if trial.part != "locks"} == {"bench"}
        sizes = [trial for trial in trials if trial.part == "sizes"]
        assert {trial.kernel.name for trial in sizes} == {"patched", "mainline"}
        assert len(sizes) == 2 * 2 * 4
        assert all(trial.append == f"workqueue.cache_shard_size={trial.size}" for trial in sizes)
        assert sum(trial.part == "icount" for trial in trials) == 3 * min(4, tasks.COUNTED_BOOTS)
        assert {trial.part for trial in self.trials(kernels, parts=["time"])} == {"time"}

    def test_native_where_a_kernel_has_it(self, kernels: list[Subject], tmp_path: Path) -> None:
        """In each boot one second for each of its runs, in scopes that it has pods for."""
        assert "native" not in {trial.part for trial in self.trials(kernels)}
        path = make_kernel(tmp_path / "native", "native", "native", 0, "7.3")
        native = find_subject("mainline", [path])
        trials = self.trials([*kernels[:2], native], parts=["native"])
        assert {trial.kernel.name for trial in trials} == {"mainline"} and len(trials) == 4
        assert all(run["secs"] == 1 and "items" not in run for run in trials[0].runs)
        assert all(run["scopes"] == ["cpu", "system"] for run in trials[0].runs)

    def test_no_more_vcpus_than_cores(self, kernels: list[Subject]) -> None:
        assert [timed_scenario(cpus).cpus for cpus in (2, 3, 4, 12, 72)] == [2, 2, 4, 8, 32]
        nodes = {
            cpus: [(one.cpus, len(one.nodes)) for one in timed_nodes(cpus)]
            for cpus in (2, 15, 16, 72)
        }
        assert nodes[2] == nodes[15] == [(2, 2)]
        assert nodes[16] == [(16, 2), (16, 4), (16, 8)]
        assert nodes[72] == [(16, 2), (64, 4), (16, 8)]
        with pytest.raises(Problem, match="cannot be measured on one CPU"):
            self.trials(kernels, cpus=1)
        assert {t.part for t in self.trials(kernels, cpus=1, parts=["icount"])} == {"icount"}

    def test_icount_is_counted(self, kernels: list[Subject], tmp_path: Path) -> None:
        trial = next(trial for trial in self.trials(kernels) if trial.part == "icount")
        kernel = trial.kernel.builds["bench"]
        accel = vm.choose_accel(kernel, trial.scenario)
        command = qemu_command(kernel, trial.scenario, accel, "", tmp_path, (3, 4))
        assert accel == "tcg,thread=single"
        assert command[command.index("-icount") + 1] == "shift=0,sleep=off"
        other = timed_scenario(2)
        assert "-icount" not in qemu_command(kernel, other, "tcg", "", tmp_path, (3, 4))

    def test_kernels_are_described(self, kernels: list[Subject]) -> None:
        """With the key of each flavour, and an id that depends on both."""
        patched = kernels[1]
        assert (patched.name, patched.described.base, patched.described.patches) == (
            "patched", "6.12", 5,
        )  # fmt: skip
        assert [patched.key(name) for name in ("bench", "lockstat")] == [
            "patched-bench", "patched-lockstat",
        ]  # fmt: skip
        alone = find_subject("patched", [patched.builds["bench"].path])
        assert list(alone.builds) == ["bench"]
        assert alone.described.id != patched.described.id

    def test_scenarios_fit_their_names(self) -> None:
        for path in (ROOT / "scenarios").glob("bench-*.toml"):
            scenario = tasks.load_scenario(path)
            assert path.stem == f"bench-{scenario.cpus}"
            assert scenario.nodes == (parse_cpulist(f"0-{scenario.cpus - 1}"),)
