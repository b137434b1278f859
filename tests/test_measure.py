# SPDX-License-Identifier: GPL-2.0
"""What scripts/measure reads from guests, and how it goes on where it was.

The logs in data/ are of real boots, cut down. Seen failing: with rows_of() that does not
look at lost items, at the number of rows, or at the runs; a parser of rows that skips what it
can't read; one of locks that takes places in the code for classes, or forgets that times
are in us; boots that are stored although they did not pass; stored boots that are not looked
at, or taken although the kernel is another one; and results that an interrupt leaves out.
"""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import wqboot
import wqmeasure
import wqresults
from conftest import ROOT, load_script
from wqboot import BootError, Record
from wqmeasure import parse_lock_stat, plan, rows_of, timed_scenario
from wqresults import Lock, ResultsError
from wqtopology import parse_cpulist

DATA = ROOT / "tests/data"
RUNS = (
    "mode=serial scopes=cpu,smt,cache_shard,cache,numa,system items=200",
    "mode=sleep scopes=cpu,smt,cache_shard,cache,numa,system items=4 max_active=16",
)
LOCK_RUNS = ("mode=serial scopes=cache items=3000", "mode=serial scopes=cache_shard items=3000")


def log(name: str) -> list[str]:
    return (DATA / name).read_text().splitlines()


def line(scope: str, mode: str, items: int, rate: int = 1000, **more: int) -> str:
    """A line of test_workqueue, as far as it matters here."""
    values = {"threads": 2, "items": items, "items_per_sec": rate, "queue_p50_ns": 900}
    values |= {"kworkers_peak": 9, "lost": 0, "twice": 0} | more
    words = " ".join(f"{key}={value}" for key, value in values.items())
    return f"test_workqueue: scope={scope} mode={mode} {words}"


def answer(runs: list[str], rate: int = 1000) -> list[str]:
    """What guest/jobs/bench prints for these runs."""
    lines = []
    for run in runs:
        given = dict(word.split("=") for word in run.split())
        threads = int(given.get("threads", 2))
        lines.append(f"> {run}")
        lines += [
            line(scope, given["mode"], threads * int(given["items"]), rate, threads=threads)
            for scope in wqmeasure.sorted_scopes(given["scopes"])
        ]
    return lines


class TestLogs:
    def test_good(self) -> None:
        rows = rows_of(log("bench-stock.log"), RUNS, "bench")
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
        assert rows_of(lines, RUNS, "bench") == rows_of(log("bench-stock.log"), RUNS, "bench")

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
            rows_of(lines, RUNS, "bench")

    def test_cut_line_is_never_a_row(self) -> None:
        whole = line("cache", "serial", 400, lost=0, twice=11)
        assert wqresults.parse_row(whole)
        for end in range(len(wqresults.PREFIX + "scope=c"), len(whole) - 2):
            with pytest.raises(ResultsError):
                wqresults.parse_row(whole[:end])


class TestLocks:
    def test_real(self) -> None:
        rows = rows_of(log("lockstat-stock.log"), LOCK_RUNS, "lockstat")
        assert [(row.scope, row.missing) for row in rows] == [
            ("cache", False),
            ("cache_shard", True),
        ]
        locks = rows[0].locks
        assert locks and "&pool->lock" in locks
        pool = locks["&pool->lock"]
        assert pool.acquisitions > rows[0].values["items"] and pool.contentions > 0
        assert pool.hold_max_ns < pool.hold_total_ns and pool.wait_max_ns < pool.wait_total_ns
        per_item = wqresults.value(rows[0], "lock_acquisitions")
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
        row = wqresults.Row("cache", "serial", values={"items": 4}, locks=locks)
        assert wqresults.value(row, "lock_acquisitions") == (22 + 6) / 4
        assert wqresults.value(row, "lock_hold_ns") == (400010 + 900) / 4

    def test_none_is_an_error(self) -> None:
        lines = [text for text in log("lockstat-stock.log") if "pool->lock:" not in text]
        with pytest.raises(ResultsError, match="nothing about &pool->lock"):
            rows_of(lines, LOCK_RUNS, "lockstat")

    def test_bad_number(self) -> None:
        lines = [text.replace("1", "1.2.3") for text in log("lockstat-stock.log")]
        with pytest.raises(ResultsError, match=r"not a line of (/proc/lock_stat|test_workqueue)"):
            rows_of(lines, LOCK_RUNS, "lockstat")


# --- plans and resuming ------------------------------------------------------------------


def make_kernel(path: Path, key: str, config: str, patches: int, base: str = "6.12") -> Path:
    """A directory like one of scripts/build."""
    for name, text in (
        ("arch/x86/boot/bzImage", ""),
        ("include/config/kernel.release", f"{base}.0\n"),
        ("lib/test_workqueue.ko", ""),
    ):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    made = {"key": key, "base": base, "patches": patches, "config": config}
    (path / "build.json").write_text(json.dumps(made))
    return path


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """The kernels for --kernel."""
    found = []
    for name, patches, base in (
        ("stock", 0, "6.12"),
        ("patched", 5, "6.12"),
        ("mainline", 0, "7.3"),
    ):
        for config in ("bench", "lockstat"):
            key = f"{name}-{config}"
            found.append(f"{name}={make_kernel(tmp_path / key, key, config, patches, base)}")
    return found


class TestPlan:
    def tasks(self, words: list[str], **more: object) -> list[wqmeasure.Task]:
        options = {"boots": 4, "items": 100, "sizes": [1, 4], "cpus": 2} | more
        parts = options.pop("parts", list(wqmeasure.PARTS))
        return plan(wqmeasure.find_builds(words), parts, **options)

    def test_alternates(self, words: list[str]) -> None:
        time = [task.kernel.name for task in self.tasks(words) if task.part == "time"]
        assert time[:6] == ["stock", "patched", "mainline", "patched", "mainline", "stock"]
        assert all(len(set(time[i : i + 3])) == 3 for i in range(0, len(time), 3))
        assert len(time) == 12

    def test_parts(self, words: list[str]) -> None:
        tasks = self.tasks(words)
        assert {task.config for task in tasks if task.part == "locks"} == {"lockstat"}
        assert {task.config for task in tasks if task.part != "locks"} == {"bench"}
        sizes = [task for task in tasks if task.part == "sizes"]
        assert {task.kernel.name for task in sizes} == {"patched", "mainline"}
        assert len(sizes) == 2 * 2 * 4
        assert all(f"cache_shard_size={task.size} " in task.append for task in sizes)
        assert all("kunit.enable=0" in task.append.split() for task in tasks)
        assert sum(task.part == "icount" for task in tasks) == 3 * min(4, wqmeasure.COUNTED_BOOTS)
        assert {task.part for task in self.tasks(words, parts=["time"])} == {"time"}
        assert not self.tasks([word for word in words if "lockstat" in word], parts=["time"])

    def test_no_more_vcpus_than_cores(self, words: list[str]) -> None:
        assert [timed_scenario(cpus).cpus for cpus in (2, 3, 4, 12, 72)] == [2, 2, 4, 8, 32]
        with pytest.raises(BootError, match="can't be measured on one CPU"):
            self.tasks(words, cpus=1)
        assert {t.part for t in self.tasks(words, cpus=1, parts=["icount"])} == {"icount"}

    def test_icount_is_counted(self, words: list[str], tmp_path: Path) -> None:
        task = next(task for task in self.tasks(words) if task.part == "icount")
        kernel = task.kernel.builds["bench"]
        accel = wqboot.choose_accel(kernel, task.scenario)
        command = wqboot.qemu_command(kernel, task.scenario, accel, "", tmp_path, (3, 4))
        assert accel == "tcg,thread=single"
        assert command[command.index("-icount") + 1] == "shift=0,sleep=off"
        other = timed_scenario(2)
        assert "-icount" not in wqboot.qemu_command(kernel, other, "tcg", "", tmp_path, (3, 4))

    def test_bad_kernels(self, words: list[str], tmp_path: Path) -> None:
        for bad, message in (
            ([*words, words[0]], "two kernels stock of configuration bench"),
            ([str(tmp_path)], "is not a kernel's build directory"),
            (
                [words[0], f"stock={make_kernel(tmp_path / 'x', 'x', 'lockstat', 1)}"],
                "not of the same source",
            ),
        ):
            with pytest.raises(BootError, match=message):
                wqmeasure.find_builds(bad)
        (tmp_path / "x/lib/test_workqueue.ko").unlink()
        with pytest.raises(BootError, match="no test_workqueue.ko"):
            wqmeasure.find_builds([f"stock={tmp_path / 'x'}"])
        (tmp_path / "x/build.json").unlink()
        with pytest.raises(BootError, match="no build.json"):
            wqmeasure.find_builds([f"stock={tmp_path / 'x'}"])

    def test_scenarios_fit_their_names(self) -> None:
        for path in (ROOT / "scenarios").glob("bench-*.toml"):
            scenario = wqmeasure.load_scenario(path)
            assert path.stem == f"bench-{scenario.cpus}"
            assert scenario.nodes == (parse_cpulist(f"0-{scenario.cpus - 1}"),)


@pytest.fixture(scope="module")
def measure() -> ModuleType:
    return load_script("measure")


class Guests:
    """In place of wqboot.boot(): answers as told, and notes what was booted."""

    def __init__(self) -> None:
        self.booted: list[tuple[str, str]] = []
        self.spoil: Callable[[int, Record], Record] = lambda number, record: record

    def boot(self, kernel, scenario, job, out, *, append="", commands="", wq_dump=None) -> Record:
        self.booted.append((kernel.path.name, scenario.name))
        record = Record(
            scenario=scenario.name,
            job=job,
            verdict="pass",
            reason="",
            seconds=2.0,
            accel="tcg",
            release=kernel.release,
            command=[],
            lines=answer(commands.splitlines()),
            tail=[],
            dump=None,
        )
        return self.spoil(len(self.booted), record)


@pytest.fixture
def guests(monkeypatch: pytest.MonkeyPatch, measure: ModuleType, tmp_path: Path) -> Guests:
    guests = Guests()
    monkeypatch.setattr(wqboot, "boot", guests.boot)
    monkeypatch.setattr(wqboot, "kvm_works", lambda kernel: False)
    monkeypatch.setattr(wqmeasure, "qemu_version", lambda kernel: "QEMU 1.0")
    monkeypatch.setattr(wqmeasure, "host_cpus", lambda: 2)
    monkeypatch.setattr(measure, "ROOT", tmp_path)
    return guests


class TestMeasure:
    @pytest.fixture(autouse=True)
    def _here(self, measure, guests, words, tmp_path, monkeypatch) -> None:
        self.measure, self.guests, self.out = measure, guests, tmp_path / "bench.json"
        self.words = [f"--kernel={word}" for word in words if word.endswith("-bench")]
        self.monkeypatch = monkeypatch

    def run(self, *options: str) -> tuple[int, wqresults.Results]:
        words = ["measure", *self.words, "--parts=time", "--boots=2", f"--out={self.out}", *options]
        self.monkeypatch.setattr("sys.argv", words)
        self.guests.booted.clear()
        status = self.measure.main()
        return status, wqresults.load(self.out)

    def test_all_pass(self, capsys: pytest.CaptureFixture[str]) -> None:
        status, results = self.run()
        assert status == 0 and len(self.guests.booted) == 6
        assert [boot.verdict for boot in results.boots] == ["pass"] * 6
        assert {kernel.name for kernel in results.kernels} == {"stock", "patched", "mainline"}
        assert results.machines[0].emulation == "QEMU 1.0 tcg,thread=multi, 2 vCPUs"
        assert str(self.out.parent) not in results.made[0].command
        shown = capsys.readouterr().out
        assert "[6/6] time mainline, boot 2" in shown or "[6/6] time stock, boot 2" in shown
        assert "s left" in shown

        status, again = self.run()
        assert (status, self.guests.booted, again.boots) == (0, [], results.boots)

    def test_lost_boot(self, capsys: pytest.CaptureFixture[str]) -> None:
        """It is reported, does not count, and is made again."""
        self.guests.spoil = lambda number, record: (
            replace(record, verdict="lost", reason="no verdict in time") if number == 2 else record
        )
        status, results = self.run()
        assert status == 1 and len(self.guests.booted) == 6
        assert "lost: no verdict in time" in capsys.readouterr().out
        lost = list(results.not_passed())
        assert len(lost) == 1 and lost[0].rows == [] and len(list(results.passed("time"))) == 5
        self.guests.spoil = lambda number, record: record
        status, results = self.run()
        assert (status, len(self.guests.booted)) == (0, 1)
        assert len(list(results.passed("time"))) == 6

    def test_lost_items(self) -> None:
        self.guests.spoil = lambda number, record: replace(
            record, lines=[text.replace("lost=0", f"lost={number % 2}") for text in record.lines]
        )
        status, results = self.run()
        assert status == 1
        assert [boot.verdict for boot in results.boots].count("fail") == 3
        assert all("1 items lost" in boot.reason for boot in results.not_passed())

    def test_interrupt(self) -> None:
        def interrupt(number: int, record: Record) -> Record:
            if number == 4:
                raise KeyboardInterrupt
            return record

        self.guests.spoil = interrupt
        status, results = self.run()
        assert status == 130 and len(results.boots) == 3
        assert results.notes == ["interrupted after 3 of 6 boots"]
        # At once again: what was there stays there.
        self.guests.spoil = lambda number, record: interrupt(4, record)
        status, results = self.run()
        assert status == 130 and len(results.boots) == 3
        self.guests.spoil = lambda number, record: record
        status, results = self.run()
        assert (status, len(self.guests.booted), len(results.boots)) == (0, 3, 6)
        assert results.notes == []

    def test_only_what_changed_is_measured_again(self, tmp_path: Path) -> None:
        self.run()
        make_kernel(tmp_path / "patched-bench", "another", "bench", 5)
        status, results = self.run()
        assert status == 0 and [name for name, _ in self.guests.booted] == ["patched-bench"] * 2
        assert len(results.boots) == 6
        self.run("--items=77")
        assert len(self.guests.booted) == 6
        self.run("--boots=3")
        assert len(self.guests.booted) == 3

    def test_kernel_with_one_more_configuration(self, tmp_path: Path) -> None:
        """Boots that are kept are of the kernel as it is called now."""
        self.run()
        more = make_kernel(tmp_path / "patched-lockstat", "more", "lockstat", 5)
        status, results = self.run(f"--kernel=patched={more}")
        assert (status, self.guests.booted, len(results.boots)) == (0, [], 6)
        assert {boot.kernel for boot in results.boots} == {kernel.id for kernel in results.kernels}

    def test_stored_boot_that_is_damaged(self, tmp_path: Path) -> None:
        self.run()
        for path in list((tmp_path / "build/bench/boots").glob("*.json"))[:2]:
            path.write_text(path.read_text()[:100])
        status, results = self.run()
        assert (status, len(self.guests.booted), len(results.boots)) == (0, 2, 6)

    def test_layout_that_fails_is_noted(self) -> None:
        status, results = self.run("--parts=layout,time")
        assert status == 1 and len(results.boots) == 6
        assert any(note.startswith("no layout of stock") for note in results.notes)

    def test_host_with_one_cpu(self) -> None:
        """What needs no second one is measured, and the results say what was not."""
        self.monkeypatch.setattr(wqmeasure, "host_cpus", lambda: 1)
        status, results = self.run("--parts=icount,locks,time")
        assert status == 0 and {boot.section for boot in results.boots} == {"icount"}
        assert results.notes == ["not measured on a host with one CPU: locks, time"]
        assert self.measure.main() == 0

    def test_part_without_a_kernel(self) -> None:
        status, results = self.run("--parts=locks,time")
        assert status == 0 and {boot.section for boot in results.boots} == {"time"}
        assert results.notes == ["not measured, no kernel has the configuration for it: locks"]

    def test_instructions(self) -> None:
        def steady(number: int, record: Record) -> Record:
            """4000 ns per item, and 1 ms that a run costs however many there are."""
            lines = []
            for text in record.lines:
                match = re.search(r" items=(\d+) ", text)
                if match and text.startswith("test_workqueue"):
                    items = int(match[1])
                    rate = round(items * 1e9 / (items * 4000 + 1_000_000))
                    text = re.sub(r"items_per_sec=\d+", f"items_per_sec={rate}", text)
                lines.append(text)
            return replace(record, lines=lines)

        self.guests.spoil = steady
        status, results = self.run("--parts=icount")
        assert status == 0 and len(results.boots) == 6
        found = wqresults.samples(results.passed("icount"), "cache", "serial", "instructions")
        assert found == pytest.approx([4000] * 6, abs=0.5)

    @pytest.mark.parametrize(
        "bad",
        ["--boots=0", "--items=x", "--parts=nothing", "--sizes=0", "--sizes=1,x", "--kernel="],
    )
    def test_bad_options(self, bad: str) -> None:
        try:
            status = self.run(bad)[0]
        except SystemExit as error:
            status = error.code
        except ResultsError:
            status = self.measure.main()
        assert status in (1, 2) and not self.guests.booted
