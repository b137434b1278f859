# SPDX-License-Identifier: GPL-2.0
"""Which kernels wqlab bench builds, which boots it makes, and what it writes.

Stand-ins build and boot. Seen failing: with options that are checked after the first build,
and one that ends at the first option it does not know; an older file that is reported on
though nothing was measured; a report of a run that was interrupted; mainline's missing source
as the end of everything; the series left in what stock is built from, or put on twice; lost
boots with status 0; boots that are stored although they did not pass; stored boots that are not
looked at, or taken although the kernel is another one; and results that an interrupt leaves out.
"""

import argparse
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from fake_kernel import make_project
from guests import Guests, make_kernel

from wqlab import cli, report
from wqlab.ground import program
from wqlab.ground.problem import Problem, Usage
from wqlab.guests import vm
from wqlab.guests.vm import Record
from wqlab.kernels import bases
from wqlab.kernels.bases import Base, load_base
from wqlab.kernels.source import Source
from wqlab.measure import bench, subjects
from wqlab.results.file import load
from wqlab.results.metrics import samples
from wqlab.results.model import Results

STOCK, PATCHED, MAINLINE = ("6.12", 0), ("6.12", None), ("7.3", 0)


@dataclass(frozen=True)
class FakeSource:
    base: Base
    ksrc: Path | None
    version: str = "6.12.0"

    def hold(self) -> AbstractContextManager[None]:
        return nullcontext()


class House:
    """Stand-ins for all that takes long, and what was asked of them."""

    def __init__(self, tmp: Path) -> None:
        self.tmp, self.out = tmp, tmp / "build/bench.json"
        self.guests = Guests()
        self.obtained: list[tuple[str, Path | None]] = []
        self.built: list[tuple[tuple[str, int | None], str]] = []
        self.reports: list[Results] = []
        self.lacking: set[str] = set()  # bases
        self.has_series = False
        self.version = "1"  # of the build of patched

    def obtain(self, base: Base, ksrc: Path | None = None) -> FakeSource:
        self.obtained.append((base.name, ksrc))
        if base.name in self.lacking:
            raise Problem(f"no linux-source-{base.name}")
        return FakeSource(base, ksrc)

    def build(
        self, source: FakeSource, flavour: str, *, patches: int | None, modules: list[str]
    ) -> Path:
        assert modules == ["test_workqueue"]
        name = source.base.name
        self.built.append(((name, patches), flavour))
        there = 5 if patches is None else patches
        key = f"{name}-{there}-{flavour}-{self.version if there else 0}"
        return make_kernel(self.tmp / key, key, flavour, there, name)

    def report(self, files: list[Path], out: Path) -> None:
        self.reports += map(load, files)

    def run(self, *words: str) -> int:
        """The exit status; an error is what the command line makes a status of."""
        parser = argparse.ArgumentParser(allow_abbrev=False)
        bench.add_options(parser)
        for asked in (self.obtained, self.built, self.guests.booted, self.reports):
            asked.clear()
        args = parser.parse_args([f"--out={self.out}", *words])
        args.typed = program.typed("wqlab bench", words)
        return bench.command(args)

    def main(self, *words: str) -> int:
        """The same from the command line."""
        return cli.main(["bench", f"--out={self.out}", *words])

    def results(self) -> Results:
        return load(self.out)

    def kernels(self) -> list[tuple[str, int | None]]:
        """What was built, each once."""
        return list(dict.fromkeys(kernel for kernel, _ in self.built))


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    house = House(tmp_path)
    for home, name, stand_in in (
        (program, "handle_signals", lambda: None),
        (program, "end_all", lambda: None),
        (subjects, "obtain", house.obtain),
        (subjects, "build", house.build),
        (subjects, "has_series", lambda source: house.has_series),
        (bench, "BUILD", tmp_path / "build"),
        (report, "write_report", house.report),
        (vm, "qemu_version", lambda arch: "QEMU 1.0"),
        (bench, "several_cpus", lambda source: source.base.name == "7.3"),
        (bench, "CORES", 2),
        (vm, "boot", house.guests.boot),
        (vm, "try_kvm", lambda kernel: False),
    ):
        monkeypatch.setattr(home, name, stand_in)
    return house


def old_file(house: House) -> str:
    """Results of an earlier run, with other figures."""
    assert house.run("--parts=icount", "--kernels=stock", "--boots=1") == 0
    return house.out.read_text()


# --- options -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        "--bogus",
        "--boots=0",
        "--boots=3 --bogus",
        "--items=x",
        "--parts=nothing",
        "--sizes=0",
        "--sizes=1,x",
        "--kernels=",
        "--kernels=patched,other",
        "--base=5.4",
        "--base",
        "--ksrc=/nonexistent",
        "--out=/",
        "--out=/etc/passwd/such",
        "7",
    ],
)
def test_bad_options_begin_nothing(house: House, bad: str) -> None:
    with pytest.raises(SystemExit) as ended:
        house.main(*bad.split())
    assert ended.value.code == 2
    assert not house.obtained and not house.built and not house.guests.booted


@pytest.mark.parametrize("bad", ["--parts=sizes --sizes=", "--parts=sizes --kernels=stock"])
def test_options_that_leave_nothing_to_do(house: House, bad: str) -> None:
    assert house.main(*bad.split()) == 2
    assert not house.obtained and not house.built


def test_every_option_counts_in_any_order(house: House) -> None:
    assert house.run("--boots=3", "--parts=time", "--kernels=patched", "--items=70") == 0
    assert house.kernels() == [PATCHED] and len(house.guests.booted) == 3
    first = house.results().boots[0]
    assert first.runs[0]["items"] == 70
    words = "--boots=3 --parts=time --kernels=patched --items=70"
    assert house.results().made[0].command == f"scripts/wqlab bench {words}"


def test_quick(house: House) -> None:
    assert house.run("--quick", "--parts=time", "--kernels=patched") == 0
    assert len(house.guests.booted) == 1 and house.results().boots[0].runs[0]["items"] == 2000
    assert house.run("--quick", "--boots=2", "--parts=time", "--kernels=patched") == 0
    assert len(house.results().boots) == 2


# --- kernels -----------------------------------------------------------------------------


def test_native_part(house: House) -> None:
    """Not by default; only of kernels whose User Mode Linux has several CPUs, and it is said."""
    house.run("--boots=1", "--kernels=mainline")
    assert {flavour for _, flavour in house.built} == {"bench", "lockstat"}
    assert house.run("--parts=native", "--boots=1") == 0
    assert house.built == [(MAINLINE, "native")] and len(house.guests.booted) == 1
    assert [note.split()[0] for note in house.results().notes] == ["stock", "patched"]
    with pytest.raises(Problem, match="nothing to measure: patched has no native part"):
        house.run("--parts=native", "--kernels=patched")
    assert house.run("--parts=native,time", "--kernels=patched,mainline", "--boots=1") == 0
    assert house.built == [(PATCHED, "bench"), (MAINLINE, "bench"), (MAINLINE, "native")]
    machines = {machine.id: machine.emulation for machine in house.results().machines}
    native = [boot for boot in house.results().boots if boot.flavour == "native"]
    assert [machines[boot.machine] for boot in native] == ["User Mode Linux, 2 CPUs"]
    assert set(machines.values()) > {"User Mode Linux, 2 CPUs"}


def test_kernels_of_the_first_patches(house: House) -> None:
    assert house.run("--parts=time", "--boots=1", "--kernels=mainline", "--patches=2,4") == 0
    assert house.kernels() == [MAINLINE, ("6.12", 2), ("6.12", 4)]
    found = house.results()
    assert [(kernel.name, kernel.patches) for kernel in found.kernels][1:] == [
        ("first-2", 2),
        ("first-4", 4),
    ]
    assert found.made[0].command.endswith(" --patches=2,4")


def test_first_patches_of_a_source_that_has_them(house: House) -> None:
    house.has_series = True
    words = (f"--ksrc={house.tmp}", "--parts=time", "--boots=1", "--patches=2")
    assert house.run(*words, "--kernels=mainline") == 0
    assert house.kernels() == [MAINLINE]
    [note] = [note for note in house.results().notes if note.startswith("first-2 ")]
    assert note.endswith("the series is in the source of --ksrc already")


def test_more_patches_than_there_are(house: House, capsys: pytest.CaptureFixture[str]) -> None:
    assert house.main("--patches=1,99") == 2
    assert "--patches 99: the series of 6.12 has " in capsys.readouterr().err
    assert not house.obtained and not house.built


def test_three_kernels(house: House) -> None:
    assert house.run("--parts=locks,time", "--boots=2") == 0
    assert house.built == [
        (kernel, flavour)
        for kernel in (STOCK, PATCHED, MAINLINE)
        for flavour in ("bench", "lockstat")
    ]
    found = house.results()
    assert [kernel.name for kernel in found.kernels] == ["stock", "patched", "mainline"]
    assert found.notes == [] and house.reports == [found]


@pytest.mark.parametrize(
    ("parts", "flavours"),
    [
        ("locks", {"lockstat"}),
        ("icount,time", {"bench"}),
        ("icount,locks --flavour=debug", {"debug", "lockstat"}),
    ],
)
def test_only_flavours_that_are_measured_are_built(
    house: House, parts: str, flavours: set[str]
) -> None:
    assert house.run(*f"--parts={parts}".split(), "--boots=1", "--kernels=stock") == 0
    assert {flavour for _, flavour in house.built} == flavours


def test_without_mainline(house: House, capsys: pytest.CaptureFixture[str]) -> None:
    """It is said, and noted in the results."""
    house.lacking.add("7.3")
    assert house.run("--parts=time", "--boots=1") == 0
    said = "its source could not be had: no linux-source-7.3"
    assert f"mainline is not measured: {said}" in capsys.readouterr().err
    assert house.kernels() == [STOCK, PATCHED]
    assert house.results().notes == [f"mainline was not measured: {said}"]
    assert house.reports


@pytest.mark.parametrize(("lacks", "words"), [("6.12", ""), ("7.3", "--kernels=mainline")])
def test_nothing_left_is_the_end(
    house: House, lacks: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    house.lacking.add(lacks)
    assert house.main(*words.split()) == 1
    errors = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert len(errors) == 1 and f"no linux-source-{lacks}" in errors[0]
    assert not house.built and not house.reports and not house.out.exists()


def test_mainline_is_the_base(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subjects, "base_names", lambda: ["6.12"])
    assert house.run("--parts=time", "--boots=1") == 0
    assert house.kernels() == [STOCK, PATCHED]
    assert house.results().notes == [
        "mainline was not measured: it is 6.12, which is measured as stock"
    ]


def test_ksrc(house: House, tmp_path: Path) -> None:
    """A source of the user's, without the series and with it; mainline is not that one."""
    assert house.run("--parts=time", "--boots=1", f"--ksrc={tmp_path}") == 0
    assert house.obtained == [("6.12", tmp_path), ("7.3", None)]
    assert house.kernels() == [STOCK, PATCHED, MAINLINE]
    assert house.out.read_text().count(str(tmp_path)) == 1  # in the command


def test_ksrc_that_has_the_series(
    house: House, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    house.has_series = True
    assert house.run("--parts=time", "--boots=1", f"--ksrc={tmp_path}") == 0
    assert house.kernels() == [("6.12", 0), MAINLINE]
    found = house.results()
    assert [kernel.name for kernel in found.kernels] == ["patched", "mainline"]
    assert "stock was not measured: the series is in the source of --ksrc already" in found.notes
    assert "stock is not measured" in capsys.readouterr().err
    with pytest.raises(Problem, match="nothing to measure"):
        house.run("--kernels=stock", f"--ksrc={tmp_path}")


def test_series_is_found_in_a_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_project(tmp_path)
    monkeypatch.setattr(bases, "PATCHES", project.patches.parent)
    source = Source(load_base("6.12"), project.base, "6.12.117")
    patches = [patch.path for patch in source.base.patches]
    assert len(patches) == 3 and not subjects.has_series(source)
    project.git(project.base, "am", "-q", *patches[:2])
    assert not subjects.has_series(source)
    project.git(project.base, "am", "-q", patches[2])
    assert subjects.has_series(source)


def test_series_that_does_not_fit_is_seen_before_a_build(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hold(self: FakeSource) -> None:
        raise Problem("patches/6.12 do not apply")

    monkeypatch.setattr(FakeSource, "hold", hold)
    with pytest.raises(Problem, match="do not apply"):
        house.run(f"--ksrc={tmp_path}")
    assert not house.built


# --- results and reports -----------------------------------------------------------------


def test_all_pass(house: House, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--parts=time", "--boots=2")
    assert house.run(*words) == 0 and len(house.guests.booted) == 6
    found = house.results()
    assert [boot.verdict for boot in found.boots] == ["pass"] * 6
    assert found.machines[0].emulation == "QEMU 1.0 tcg,thread=multi, 2 vCPUs"
    assert str(house.tmp) not in house.out.read_text()
    shown = capsys.readouterr().err
    assert "[6/6] time mainline, boot 2" in shown or "[6/6] time stock, boot 2" in shown
    assert "s left" in shown

    assert house.run(*words) == 0
    assert house.guests.booted == [] and house.results().boots == found.boots
    assert house.reports == [house.results()]


def test_provenance(house: House) -> None:
    assert house.run("--parts=time", "--boots=1", "--kernels=patched") == 0
    found = house.results()
    made = found.kernels[0].builds[0]
    assert (made.flavour, made.compiler) == ("bench", "gcc 1") and made.config_sha256
    boot = found.boots[0]
    assert boot.qemu and boot.qemu.startswith("qemu -kernel bzImage") and boot.flavour == "bench"
    assert boot.runs[0]["mode"] == "serial" and boot.append == "workqueue.cache_shard_size=1"


def test_lost_boot(house: House, capsys: pytest.CaptureFixture[str]) -> None:
    """It is reported, does not count, and is made again."""
    house.guests.spoil = lambda number, record: (
        replace(record, verdict="lost", reason="no verdict in time") if number == 2 else record
    )
    assert house.run("--parts=time", "--boots=2") == 1 and len(house.guests.booted) == 6
    assert "lost: no verdict in time" in capsys.readouterr().err
    found = house.results()
    lost = list(found.not_passed())
    assert len(lost) == 1 and lost[0].rows == [] and len(list(found.passed("time"))) == 5
    assert house.reports == [found]
    house.guests.spoil = lambda number, record: record
    assert house.run("--parts=time", "--boots=2") == 0 and len(house.guests.booted) == 1
    assert len(list(house.results().passed("time"))) == 6


def test_nothing_measured_makes_no_report(house: House) -> None:
    """And the file has no older results that could be taken for the new ones."""
    before = old_file(house)
    house.guests.spoil = lambda number, record: replace(record, verdict="lost", reason="dead")
    with pytest.raises(Problem, match="no boot has passed"):
        house.run("--parts=time", "--boots=1")
    assert not house.reports and house.out.read_text() != before
    assert not list(house.results().passed("time", "icount"))


def test_build_that_fails_makes_no_report(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(*_: object, **__: object) -> Path:
        raise Problem("the build failed")

    before = old_file(house)
    monkeypatch.setattr(subjects, "build", build)
    with pytest.raises(Problem, match="the build failed"):
        house.run("--parts=time")
    assert not house.reports and house.out.read_text() == before


def test_boots_that_cannot_be_made_make_no_report(house: House) -> None:
    def spoil(number: int, record: Record) -> Record:
        raise Problem("no busybox")

    before = old_file(house)
    house.guests.spoil = spoil
    with pytest.raises(Problem, match="no busybox"):
        house.run("--parts=time")
    assert not house.reports and house.out.read_text() == before


def test_lost_items(house: House) -> None:
    house.guests.spoil = lambda number, record: replace(
        record, lines=[text.replace("lost=0", f"lost={number % 2}") for text in record.lines]
    )
    assert house.run("--parts=time", "--boots=2") == 1
    found = house.results()
    assert [boot.verdict for boot in found.boots].count("fail") == 3
    assert all("1 items lost" in boot.reason for boot in found.not_passed())


@pytest.mark.parametrize("how", [KeyboardInterrupt, lambda: SystemExit(143)])
def test_interrupt(house: House, how: Callable[[], BaseException]) -> None:
    def interrupt(number: int, record: Record) -> Record:
        if number == 4:
            raise how()
        return record

    def interrupted() -> Results:
        with pytest.raises((KeyboardInterrupt, SystemExit)):
            house.run("--parts=time", "--boots=2")
        assert not house.reports
        return house.results()

    old_file(house)
    house.guests.spoil = interrupt
    found = interrupted()
    assert len(found.boots) == 3 and found.notes == ["interrupted after 3 of 6 steps"]
    # At once again: what was there stays there.
    house.guests.spoil = lambda number, record: interrupt(4, record)
    assert len(interrupted().boots) == 3
    house.guests.spoil = lambda number, record: record
    assert house.run("--parts=time", "--boots=2") == 0 and len(house.guests.booted) == 3
    assert len(house.results().boots) == 6 and house.results().notes == []


def test_only_what_changed_is_measured_again(house: House) -> None:
    words = ("--parts=time", "--boots=2")
    house.run(*words)
    house.version = "2"
    assert house.run(*words) == 0
    assert [name for name, _ in house.guests.booted] == ["6.12-5-bench-2"] * 2
    assert len(house.results().boots) == 6
    house.run(*words, "--items=77")
    assert len(house.guests.booted) == 6
    house.run("--parts=time", "--boots=3")
    assert len(house.guests.booted) == 3


def test_kernel_with_one_more_flavour(house: House) -> None:
    """Boots that are kept are of the kernel as it is called now."""
    house.run("--parts=time", "--boots=2")
    house.guests.spoil = lambda number, record: replace(record, verdict="lost", reason="dead")
    assert house.run("--parts=time,locks", "--boots=2") == 1
    assert len(house.guests.booted) == 6  # locks
    found = house.results()
    kept = list(found.passed("time"))
    assert len(kept) == 6
    assert {boot.kernel for boot in kept} == {kernel.id for kernel in found.kernels}


def test_stored_boot_that_is_damaged(house: House) -> None:
    house.run("--parts=time", "--boots=2")
    for path in list((house.tmp / "build/bench/boots").glob("*.json"))[:2]:
        path.write_text(path.read_text()[:100])
    assert house.run("--parts=time", "--boots=2") == 0
    assert len(house.guests.booted) == 2 and len(house.results().boots) == 6


def test_layout_that_fails_is_noted(house: House) -> None:
    assert house.run("--parts=layout,time", "--boots=2") == 1
    assert len(house.results().boots) == 6
    assert any(note.startswith("no layout of stock") for note in house.results().notes)


def test_host_with_one_cpu(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """What needs no second one is measured, and the results say what was not."""
    monkeypatch.setattr(bench, "CORES", 1)
    assert house.run("--parts=icount,locks,time") == 0
    assert {boot.section for boot in house.results().boots} == {"icount"}
    assert house.results().notes == ["not measured on a host with one CPU: locks, time"]
    assert {flavour for _, flavour in house.built} == {"bench"}
    with pytest.raises(Usage, match="a host with one CPU: time"):
        house.run("--parts=time")


def test_instructions(house: House) -> None:
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

    house.guests.spoil = steady
    assert house.run("--parts=icount", "--boots=2") == 0 and len(house.results().boots) == 6
    found = samples(house.results().passed("icount"), "cache", "serial", "instructions")
    assert found == pytest.approx([4000] * 6, abs=0.5)
