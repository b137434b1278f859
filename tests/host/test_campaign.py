# SPDX-License-Identifier: GPL-2.0
"""What every measurement does: progress, what is kept, the order of results and their command.

Seen failing: steps side by side taken for one after the other; the last one halved, too; a
time said when most of what is left was never done; words of a command joined by spaces; results
in the order in which steps end; failed steps kept, and what is kept not looked at; and steps that
go on after an interrupt.
"""

import shlex
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from wqlab import cli
from wqlab.ground import program
from wqlab.ground.places import ROOT
from wqlab.ground.problem import Problem
from wqlab.measure.campaign import Campaign, Outcome, Progress, Step, blank, host
from wqlab.results.file import load
from wqlab.results.model import Kernel

HOST = host("QEMU 1.0")
KERNEL = Kernel("id", "stock", "6.12.0", "6.12", 0)


def test_time_left() -> None:
    progress = Progress(["boot"] * 4, at_once=2)
    assert progress.left() == ", time left not known yet"
    assert progress.step("boot", 20) == "[1/4]"
    assert progress.left() == ", about 30 s left"
    progress.step("boot", 20)
    progress.step("boot", 20)
    assert progress.left() == ", about 20 s left"
    progress.step("boot", 20)
    assert progress.left() == ""


def test_time_left_of_what_was_never_done() -> None:
    progress = Progress(["build", "boot", "boot", "boot"])
    progress.step("build", 300)
    assert progress.left() == ", time left not known yet"
    progress.step("boot", 60)
    assert progress.left() == ", about 2 min left"


def test_step_that_did_not_count() -> None:
    progress = Progress(["boot"] * 3)
    progress.step("boot", 1, counts=False)
    assert progress.left() == ", time left not known yet"


# --- steps -------------------------------------------------------------------------------


class Made:
    """Steps that note that they were made, and do what they are told to meanwhile."""

    def __init__(self, tmp: Path) -> None:
        self.out, self.keep, self.made = tmp / "out.json", tmp / "kept", list[int]()
        self.meanwhile: dict[int, Callable[[], str]] = {}

    def make(self, number: int) -> Outcome:
        self.made.append(number)
        reason = self.meanwhile.get(number, str)()
        verdict = "fail" if reason else "pass"
        boot = blank(HOST, KERNEL, "costs", [], number, verdict=verdict, reason=reason)
        return Outcome([boot], 1.0)

    def run(self, at_once: int = 1, **more: object) -> Campaign:
        self.made.clear()
        campaign = Campaign("wqlab", self.out, **more)
        steps = [
            Step(f"step {n}", "boot", HOST, KERNEL, lambda n=n: self.make(n), key=f"step-{n}")
            for n in range(1, 5)
        ]
        campaign.run(steps, at_once)
        return campaign

    def numbers(self) -> list[int]:
        return [boot.number for boot in load(self.out).boots]


@pytest.fixture
def its(tmp_path: Path) -> Made:
    return Made(tmp_path)


def test_results_are_in_the_order_of_the_plan(its: Made) -> None:
    later = threading.Event()
    its.meanwhile = {1: lambda: str(not later.wait(10) or ""), 4: lambda: str(later.set() or "")}
    assert its.run(at_once=2).passed == 4
    assert its.numbers() == [1, 2, 3, 4]


def test_what_failed_is_made_again(its: Made) -> None:
    its.meanwhile = {2: lambda: "lost items"}
    assert its.run(keep=its.keep).passed == 3
    assert [boot.number for boot in load(its.out).not_passed()] == [2]
    its.meanwhile = {}
    assert its.run(keep=its.keep).passed == 4 and its.made == [2]
    assert its.numbers() == [1, 2, 3, 4] and not list(load(its.out).not_passed())


def test_a_step_that_must_not_fail(its: Made) -> None:
    """The first one; once a step has passed, the rest is made."""
    its.meanwhile = {1: lambda: "no such device"}
    with pytest.raises(Problem, match="^no such device$"):
        its.run(must_begin=True)
    assert its.made == [1] and not its.out.exists()
    its.meanwhile = {2: lambda: "no such device"}
    assert its.run(must_begin=True).passed == 3 and its.numbers() == [1, 2, 3, 4]


@pytest.mark.parametrize("at_once", [1, 2])
def test_interrupted(its: Made, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    """What is done is saved, programs that still run are ended, and no other step is begun."""
    ended = threading.Event()
    monkeypatch.setattr("wqlab.ground.run.end_all", ended.set)

    def interrupt() -> str:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and not (its.out.exists() and len(its.numbers()) == 2):
            time.sleep(0.01)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        return str(not ended.wait(10) or "")

    its.meanwhile = {3: interrupt, 4: lambda: str(not ended.wait(10) or "")}
    with pytest.raises(KeyboardInterrupt):
        its.run(at_once)
    assert its.made[:3] == [1, 2, 3] and its.numbers()[:2] == [1, 2]
    assert ended.is_set() == (at_once > 1) and (at_once > 1 or its.made == [1, 2, 3])
    assert load(its.out).notes[0].startswith("interrupted after ")


# --- the command -------------------------------------------------------------------------


def test_command_can_be_pasted() -> None:
    """It is one of scripts/, and each word is what it was, but for where the repository is."""
    words = ["--words", "max_active=1 window=16", "--ksrc=it's here", "--sizes", ""]
    typed = shlex.split(program.typed("wqlab sim", [*words, f"--out={ROOT}/build/x.json"]))
    assert typed == ["scripts/wqlab", "sim", *words, "--out=build/x.json"]
    assert (ROOT / typed[0]).is_file() and (ROOT / program.typed("audit", [])).is_file()


def test_command_comes_to_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all the words of the command line."""
    seen = []
    monkeypatch.setattr("wqlab.doctor.command", lambda args: seen.append(args.typed) or 0)
    monkeypatch.setattr(program, "handle_signals", lambda: None)
    monkeypatch.setattr(program, "end_all", lambda: None)
    assert cli.main(["doctor"]) == 0 and seen == ["scripts/wqlab doctor"]
