# SPDX-License-Identifier: GPL-2.0
"""wqlab counts on what guests say.

Seen failing: with a count of the first load for all, with a missing count taken for 0, with
instructions of machines whose time is not that; with a parser of peaks that takes the first
result of a boot for every case; with other wakeups left out or taken for the workqueue's; with
results that are stored when all is done only; with a boot that failed and status 0; and with
calls before the one at boot counted as hotplug.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from made_traces import REST, UNDER, trace, wakeup

from wqlab.ground import program
from wqlab.ground.problem import Problem, Usage
from wqlab.guests import vm
from wqlab.guests.qemu import BootOptions
from wqlab.guests.scenario import Scenario, find_scenario
from wqlab.kernels.arch import ARCHES
from wqlab.measure import counts
from wqlab.measure.counts import calls, costs, hotplug, irqsoff, peaks, reclaim, wakeups
from wqlab.measure.counts.peaks import cases
from wqlab.measure.sim.simulate import Symbols
from wqlab.results.file import load
from wqlab.results.metrics import counted, wakeups_per_item
from wqlab.results.model import Results, ResultsError
from wqlab.results.module import parse_words

ROW = (
    "test_workqueue: scope={scope} mode={mode} threads={threads} items={items} items_per_sec=5 "
    "max_active={max_active} running_peak={peak} lost={lost} twice=0"
)
NODES = find_scenario("nodes-4-cpuless")


def said_of_costs(commands: str, counted: bool = True, lost: int = 0) -> list[str]:
    """The Nth load took N switches per item."""
    lines = []
    for number, words in enumerate(commands.splitlines(), start=1):
        run = parse_words(words)
        items = 2 * run["items"]
        about = {"scope": run["scopes"][0], "mode": run["mode"], "items": items, "lost": lost}
        lines += [f"> {words}", ROW.format(threads=2, max_active=1, peak=0, **about)]
        lines += [f"switches {number * items}"] if counted else []
    return lines


def said_of_peaks(scenario: Scenario, **changes: int) -> list[str]:
    """What a kernel says that keeps the promise, but for the changes."""
    lines = []
    for case in cases(scenario):
        about = {"scope": case.scope, "mode": "sleep", "threads": len(case.cpus)}
        about |= {"items": case.items, "max_active": case.max_active, "peak": case.wanted}
        row = ROW.format(**about | {"lost": 0} | changes)
        lines += [f"> {case.command}", "result ok", f"kernel {row}"]
    return lines


def said_of_wakeups() -> list[str]:
    other = wakeup(1, "swake_up_one", "rcu_gp_fqs")
    lines = []
    for load_ in wakeups.runs():
        lines += [f"> {load_}", *trace(*UNDER, *other, *REST, *REST)]
    return lines


def said_of_hotplug(resizes: bool = True) -> list[str]:
    """The Nth call after boot took N instructions. CPUs that come online at boot are not late."""
    scenario = find_scenario("hotplug-512")
    lines = [f"> {line}" for line in hotplug.commands(scenario).splitlines()]
    lines += [] if resizes else [f"no {hotplug.SIZE}"]
    names = [hotplug.BOOT, *[hotplug.ONLINE] * 4, *[hotplug.RESIZE] * resizes]
    counted = [(hotplug.ONLINE, 99), *((name, i) for i, name in enumerate(names))]
    return lines + [
        json.dumps({"function": name, "cpu": 1, "instructions": count}) for name, count in counted
    ]


# --- what is read of one boot ------------------------------------------------------------


def test_costs() -> None:
    scenario = find_scenario("bench-2")
    found = costs.counts(scenario, said_of_costs(costs.commands(scenario)))
    assert [(count.labels, count.figures) for count in found] == [
        ({"load": load_}, {"switches_per_item": number})
        for number, load_ in enumerate(costs.LOADS, start=1)
    ]
    assert found[0].run == {"mode": "serial", "scopes": ["cache"], "items": 20000, "warmup": 0}


def test_instructions_where_they_are_the_time() -> None:
    scenario = find_scenario("icount-nodes-4")
    found = costs.counts(scenario, said_of_costs(costs.commands(scenario)))
    assert [count.labels["load"] for count in found] == list(costs.LIMITS)
    assert {count.figures["instructions_per_item"] for count in found} == {2e8}


@pytest.mark.parametrize(
    ("said", "error"), [({"counted": False}, "no count of context switches"), ({"lost": 1}, "lost")]
)
def test_costs_that_are_not_complete(said: dict, error: str) -> None:
    scenario = find_scenario("bench-2")
    with pytest.raises(ResultsError, match=error):
        costs.counts(scenario, said_of_costs(costs.commands(scenario), **said))


def test_every_cell_is_asked_for_once() -> None:
    asked = peaks.commands(NODES).splitlines()
    assert asked == [case.command for case in cases(NODES)]
    assert len(set(asked)) == len(asked)
    labels = [tuple(case.labels.values()) for case in cases(NODES)]
    assert len(set(labels)) == len(labels)


def test_issuers() -> None:
    """A node without CPUs issues nothing."""
    found = {case.issuers: sorted(case.cpus) for case in cases(NODES)}
    assert found == {"all CPUs": [0, 1, 2, 3, 4, 5], "one node": [0, 1], "last node": [4, 5]}
    assert all(case.wanted <= case.items for case in cases(NODES))
    assert {case.wanted for case in cases(NODES)} == {1, 3, 4, 8, 16, 48, 64, 512}


def test_peaks() -> None:
    found = peaks.peaks(NODES, said_of_peaks(NODES))
    assert found == {case: case.wanted for case in cases(NODES)}
    count = peaks.counts(NODES, said_of_peaks(NODES))[-1]
    assert count.labels == {
        "max_active": 512,
        "items": 640,
        "issuers": "last node",
        "scope": "system",
    }
    assert count.figures == {"wanted": 512, "peak": 512}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"lost": 1}, "1 items lost"),
        ({"items": 1}, "1 items ran, not all"),
        ({"max_active": 9}, "another max_active"),
    ],
)
def test_peaks_that_are_not_complete(changes: dict[str, int], error: str) -> None:
    with pytest.raises(ResultsError, match=error):
        peaks.counts(NODES, said_of_peaks(NODES, **changes))
    with pytest.raises(ResultsError, match="0 results, not 1"):
        peaks.counts(NODES, said_of_peaks(NODES)[:-1])


def test_wakeups() -> None:
    """Those that are not the workqueue's are counted, but not per item."""
    found = wakeups.counts(find_scenario("bench-2"), said_of_wakeups())
    assert list(wakeups.runs()) == ["serial", "burst", "limited", "chain", "fanout", "sleep"]
    assert [(count.labels, count.figures) for count in found[:3]] == [
        ({"load": "serial"}, {"items": 2}),
        ({"load": "serial", "reason": "item queued"}, {"wakeups": 1, "locked": 1}),
        ({"load": "serial", "reason": "other"}, {"wakeups": 1, "locked": 0}),
    ]
    assert found[0].run == {"mode": "serial", "items": 300, "warmup": 0, "scopes": ["cache"]}


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (["skipped no lockdep in this kernel"], "was not traced: skipped no lockdep"),
        (said_of_wakeups()[:-1], "the trace of sleep: "),
        ([], "it has printed nothing"),
    ],
)
def test_wakeups_that_are_not_complete(lines: list[str], error: str) -> None:
    with pytest.raises(Problem, match=error):
        wakeups.counts(find_scenario("bench-2"), lines)


def test_hotplug() -> None:
    scenario = find_scenario("hotplug-512")
    for resizes in (True, False):
        found = hotplug.counts(scenario, said_of_hotplug(resizes))
        said = [str(count.labels["load"]).split(",")[0] for count in found]
        late = ["boot", "sibling online", "another sibling online", "another node online"]
        assert said == [*late, "the same again", *["resize"] * resizes]
        assert [count.figures["instructions_per_call"] for count in found] == [*range(len(said))]


@pytest.mark.parametrize(
    ("lines", "error"),
    [([], "no call of workqueue_init_topology"), (said_of_hotplug()[:-1], "other calls")],
)
def test_hotplug_that_is_not_complete(lines: list[str], error: str) -> None:
    with pytest.raises(Problem, match=error):
        hotplug.counts(find_scenario("hotplug-512"), lines)


def said_of_irqsoff() -> list[str]:
    """Step after step, each with interrupts off for longer."""
    return [
        f"irqsoff {step} {us} cancel_work cancel_work" for us, step in enumerate(irqsoff.STEPS, 5)
    ]


def test_irqsoff() -> None:
    found = irqsoff.counts(NODES, ["irqsoff: not that", *said_of_irqsoff()])
    said = {str(count.labels["load"]).split()[0]: count.figures["irqs_off_us"] for count in found}
    # the longer one of two
    assert said == {"queue": 8, "cancel": 6, "end": 11, "raise": 9, "lower": 10}


@pytest.mark.parametrize("lines", [[], said_of_irqsoff()[:-1], said_of_irqsoff()[1:]])
def test_irqsoff_that_is_not_complete(lines: list[str]) -> None:
    with pytest.raises(Problem, match="steps are missing"):
        irqsoff.counts(NODES, lines)


def test_reclaim() -> None:
    (found,) = reclaim.counts(NODES, ["reclaim: not that", "reclaim 7516 10.01"])
    assert found.figures == {"rescued_per_sec": 750.8}


@pytest.mark.parametrize("lines", [[], ["reclaim 1 10.00"] * 2])
def test_reclaim_that_is_not_complete(lines: list[str]) -> None:
    with pytest.raises(Problem, match="not one"):
        reclaim.counts(NODES, lines)


def test_what_the_plugin_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of the functions, those that the kernel has. What it writes is behind what the job prints."""
    found = {hotplug.BOOT: 0x100, hotplug.ONLINE: 0x200, calls.FREED: 0x300}
    symbols = Symbols([(at, at + 16, name) for name, at in found.items()])
    monkeypatch.setattr(Symbols, "of", lambda kernel: symbols)
    monkeypatch.setattr(
        import_module("wqlab.measure.sim.emulator"),
        "emulator",
        lambda name: (Path("qemu"), Path(f"{name}.so")),
    )

    def boot(kernel, scenario, job, out, options) -> vm.Record:
        (plugin,) = (word for word in options.emulator.options if "wqcount.so" in word)
        given = dict(word.split("=") for word in plugin.split(",")[1:])
        assert given["forget"] == "300"
        told = Path(given["symbols"]).read_text()
        assert told == f"{hotplug.BOOT} 100 110\n{hotplug.ONLINE} 200 210\n"
        Path(given["out"]).write_text('{"function":"f","cpu":2,"instructions":3}\n')
        return vm.Record(scenario.name, job, "pass", "", 1, "tcg", "6", [], ["> x"], [], None)

    monkeypatch.setattr(vm, "boot", boot)
    its, scenario = hotplug.HOTPLUG, find_scenario("hotplug-512")
    record = calls.boot(None, scenario, its.job, tmp_path, BootOptions(), functions=its.functions)
    assert record.lines[0] == "> x"
    assert calls.calls(record.lines) == [calls.Call("f", 2, 3)]


# --- the command -------------------------------------------------------------------------


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., int]:
    """wqlab counts with the kernels stock and patched."""
    words = []
    for name in ("stock", "patched"):
        path = tmp_path / name
        (path / "lib").mkdir(parents=True)
        image = path / ARCHES[0].image
        image.parent.mkdir(parents=True)
        image.touch()
        (path / "lib/test_workqueue.ko").touch()
        about = {"key": name, "base": "6.12", "version": "6.12.1", "patches": 0, "flavour": "bench"}
        about |= {"arch": "x86_64", "compiler": "gcc 12", "config_sha256": "00ff"}
        (path / "build.json").write_text(json.dumps(about))
        words.append(f"--kernel={name}={path}")
    monkeypatch.setattr(vm, "probe_emulation", lambda kernel, scenario, program: "QEMU 1.0")

    def command(*more: str) -> int:
        parser = argparse.ArgumentParser()
        counts.add_options(parser)
        args = parser.parse_args([*more, *words, f"--out={tmp_path / 'out.json'}"])
        args.typed = program.typed("wqlab counts", more)
        return counts.command(args)

    return command


@pytest.fixture
def guests(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Guests that do what they should, but for the changes to the one that is named; the list is
    of the boots that were begun."""

    def install(spoilt: str = "", **changes: object) -> list[str]:
        begun: list[str] = []

        def boot(kernel, scenario, job, out, options) -> vm.Record:
            begun.append(out.name)
            said = {"bench": said_of_costs, "maxactive": said_of_peaks, "wakeups": said_of_wakeups}
            given = {"bench": [options.commands], "maxactive": [scenario], "wakeups": []}[job]
            command = ["/usr/bin/qemu", "-kernel", f"{kernel.path}/bzImage"]
            lines = said[job](*given)
            record = vm.Record(
                scenario.name, job, "pass", "", 1.5, "tcg", "6.12", command, lines, [], None
            )
            if out.name == spoilt:
                changes.pop("meanwhile", bool)()
                return replace(record, **changes)
            return record

        monkeypatch.setattr(vm, "boot", boot)
        return begun

    return install


def stored(tmp_path: Path) -> Results:
    return load(tmp_path / "out.json")


def test_command(call, guests, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    begun = guests()
    assert call("costs", "--boots=2") == 0
    assert begun == [
        f"{name}-bench-2-{number}" for number in (1, 2) for name in ("stock", "patched")
    ]
    found = stored(tmp_path)
    assert [boot.number for boot in found.boots] == [1, 1, 2, 2]
    patched = found.kernels[1]
    assert (patched.name, patched.builds[0].compiler) == ("patched", "gcc 12")
    boots = [boot for boot in found.boots if boot.kernel == patched.id]
    for number, load_ in enumerate(costs.LOADS, start=1):
        assert counted(boots, {"load": load_}, "switches_per_item") == [number, number]
    assert boots[0].qemu == "qemu -kernel bzImage" and boots[0].seconds == 1.5
    assert str(tmp_path) not in (tmp_path / "out.json").read_text()
    said = capsys.readouterr()
    assert "context switches" in said.out and "stock" in said.out
    assert "[4/4] patched on bench-2: pass" in said.err


def test_machines(call, guests, tmp_path: Path) -> None:
    begun = guests()
    assert call("peaks", "--scenario=nodes-1", "--scenario=nodes-2") == 0
    assert sorted(begun) == sorted(
        f"{name}-{machine}-1" for machine in ("nodes-1", "nodes-2") for name in ("stock", "patched")
    )
    assert {boot.scenario for boot in stored(tmp_path).boots} == {"nodes-1", "nodes-2"}
    guests()
    assert call("wakeups") == 0
    assert {wakeups_per_item(boot, "serial") for boot in stored(tmp_path).boots} == {0.5}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"verdict": "lost", "reason": "no verdict in time"}, "lost: no verdict in time"),
        ({"lines": []}, "fail: not one row for each scope"),
    ],
)
def test_boot_that_does_not_count(call, guests, tmp_path: Path, changes, why: str, capsys) -> None:
    """It is in the file and on stderr, no table is printed, and the others are made."""
    guests("stock-bench-2-1", **changes)
    with pytest.raises(Problem, match="1 of 4 boots did not pass"):
        call("costs", "--boots=2")
    said = capsys.readouterr()
    assert why in said.err and not said.out
    found = stored(tmp_path)
    assert [boot.why[: len(why)] for boot in found.not_passed()] == [why]
    assert len(list(found.passed("costs"))) == 3


def test_interrupted(call, guests, tmp_path: Path, capsys) -> None:
    """What is done stays, and no other boot is begun."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    begun = guests("stock-bench-2-2", meanwhile=interrupt)
    with pytest.raises(KeyboardInterrupt):
        call("costs", "--boots=5")
    assert begun == ["stock-bench-2-1", "patched-bench-2-1", "stock-bench-2-2"]
    assert [boot.number for boot in stored(tmp_path).boots] == [1, 1]
    assert "2 of 10 steps passed, stored in" in capsys.readouterr().err


def test_wrong_usage(call, guests, tmp_path: Path, capsys) -> None:
    """Nothing is booted, nothing written."""
    begun = guests()
    for words, message in (
        (["cost"], "invalid choice: 'cost'"),
        (["costs", "--boots=0"], "'0' is not a number above 0"),
        (["costs", "--scenario=moon"], "no machine 'moon'"),
        (["costs", f"--kernel=x={tmp_path}"], "is not a kernel's build directory"),
        (["costs", "--kernel=x"], "is not of the form NAME=DIR"),
    ):
        with pytest.raises(SystemExit) as error:
            call(*words)
        assert error.value.code == 2 and message in capsys.readouterr().err
    with pytest.raises(Usage, match="two kernels are called stock"):
        call("costs", f"--kernel=stock={tmp_path / 'patched'}")
    (tmp_path / "patched/lib/test_workqueue.ko").unlink()
    with pytest.raises(Usage, match="patched has no test_workqueue.ko"):
        call("costs")
    assert not begun and not (tmp_path / "out.json").exists()
