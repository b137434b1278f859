# SPDX-License-Identifier: GPL-2.0
"""What every measurement does: it makes the steps of a plan, keeps what each has given, says how
long the rest takes, and saves the results of all with the command that made them."""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from wqlab.ground.files import write_whole
from wqlab.ground.problem import Problem
from wqlab.ground.run import say, side_by_side
from wqlab.ground.text import plural
from wqlab.guests.vm import Record
from wqlab.kernels.options import output
from wqlab.results.file import from_json, save
from wqlab.results.host import made_by, qemu_line, this_host
from wqlab.results.model import (
    SCHEMA,
    Boot,
    Host,
    Kernel,
    Layout,
    Results,
    ResultsError,
    Run,
    Section,
)


@dataclass(frozen=True)
class Outcome:
    """What a step has given, as it is kept. With neither boots nor layouts there was nothing to
    do."""

    boots: list[Boot]
    seconds: float = 0.0  # that it took
    layouts: list[Layout] = field(default_factory=list)
    why: str = ""  # it failed, where no boot says that
    notes: list[str] = field(default_factory=list)

    @property
    def failed(self) -> str:
        """Why it does not count, "" if it does."""
        return self.why or next((boot.why for boot in self.boots if not boot.passed), "")

    def of(self, kernel: Kernel) -> "Outcome":
        """The same, of the kernel by its present id, which all of its builds are in."""
        boots = [replace(boot, kernel=kernel.id) for boot in self.boots]
        layouts = [replace(layout, kernel=kernel.id) for layout in self.layouts]
        return replace(self, boots=boots, layouts=layouts)


@dataclass(frozen=True, eq=False)
class Step:
    """One piece of a campaign. `make` raises Problem where the others need not be tried."""

    label: str
    kind: str  # those of the same kind take as long
    host: Host
    kernel: Kernel
    make: Callable[[], Outcome]
    key: str = ""  # a name for all that the outcome depends on, by which it is kept


class Progress:
    """How far a number of steps has come, and how long the rest may take."""

    def __init__(self, kinds: Sequence[str], at_once: int = 1) -> None:
        """`kinds` has one word for each step: those of the same kind take as long."""
        self.kinds = list(kinds)
        self.at_once = at_once
        self.seconds: dict[str, list[float]] = {}
        self.done = 0

    def saw(self, kind: str, seconds: float) -> None:
        """A step of this kind took that long, in this run or in one before."""
        self.seconds.setdefault(kind, []).append(seconds)

    def step(self, kind: str, seconds: float, counts: bool = True) -> str:
        """One step more is done. Returns "[3/12]" and, if it can be told, the time left."""
        self.done += 1
        if counts:
            self.saw(kind, seconds)
        return f"[{self.done}/{len(self.kinds)}]"

    def left(self) -> str:
        """As ", about 3 min left"; "" at the end."""
        rest = self.kinds[self.done :]
        if not rest:
            return ""
        known = [sum(self.seconds[k]) / len(self.seconds[k]) for k in rest if k in self.seconds]
        if len(known) < len(rest) / 2:
            return ", time left not known yet"
        seconds = sum(known) / len(known) * len(rest) / min(self.at_once, len(rest))
        about = f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
        return f", about {about} left"


class Campaign:
    """Makes steps, and saves what they have given in `out`."""

    def __init__(
        self,
        command: str,
        out: Path,
        notes: Iterable[str] = (),
        *,
        keep: Path | None = None,
        before: Results | None = None,
        must_begin: bool = False,
    ) -> None:
        """`command` is what was typed. Outcomes that count are kept in the folder `keep`, and steps
        that have one there are not made. Results `before` stay in the file. With `must_begin`, it
        is the end if nothing has passed when a step fails."""
        made = made_by(command)
        self.before = before or Results(SCHEMA, [], [], [], [])
        if made not in self.before.made:
            self.before = replace(self.before, made=[*self.before.made, made])
        self.out, self.keep, self.must_begin = out, keep, must_begin
        self.goes_on = keep is not None or before is not None
        self.notes = list(notes)
        self.outcomes: dict[Step, Outcome] = {}

    def run(self, steps: Sequence[Step], at_once: int = 1) -> Results:
        """Make the steps, so many at once, and return the results, in the order of the plan. What
        is done by then is saved if this raises, too."""
        for step in steps:
            if kept := self.find(step):
                self.outcomes[step] = kept.of(step.kernel)
        missing = [step for step in steps if step not in self.outcomes]
        if self.outcomes:
            say(f"{len(self.outcomes)} of {plural(len(steps), 'step')} are kept from before")
        progress = Progress([step.kind for step in missing], at_once)
        for step, outcome in self.outcomes.items():
            progress.saw(step.kind, outcome.seconds)
        try:
            for step, outcome in outcomes(missing, at_once):
                number = progress.step(step.kind, outcome.seconds, counts=not outcome.failed)
                self.add(step, outcome)
                if outcome.boots or outcome.failed:
                    how = f"{outcome.failed or 'pass'} in {outcome.seconds:.1f} s"
                    say(f"{number} {step.label}: {how}{progress.left()}")
                if not self.keep:
                    self.save(steps)
        except (KeyboardInterrupt, SystemExit):
            self.notes.append(f"interrupted after {progress.done} of {len(missing)} steps")
            raise
        finally:
            if self.outcomes:
                self.save(steps)
                done = f"{self.passed} of {plural(len(steps), 'step')}"
                say(f"{done} passed, stored in {self.out}")
                if self.passed < len(steps) and self.goes_on:
                    say("the same command goes on with the steps that are missing")
        return self.results(steps)

    @property
    def passed(self) -> int:
        """How many steps count."""
        return sum(not outcome.failed for outcome in self.outcomes.values())

    def find(self, step: Step) -> Outcome | None:
        """What is kept of a step, None if that is nothing, or of an older form."""
        if not self.keep:
            return None
        file = self.keep / f"{step.key}.json"
        try:
            return from_json(Outcome, file.read_text())
        except OSError:
            return None
        except ResultsError:
            file.unlink()
            return None

    def add(self, step: Step, outcome: Outcome) -> None:
        """A step is done. Problem if it must not fail and has."""
        begun = self.passed or any(boot.passed for boot in self.before.boots)
        if outcome.failed and self.must_begin and not begun:
            raise Problem(outcome.boots[0].reason)
        self.outcomes[step] = outcome
        if self.keep and not outcome.failed:
            write_whole(self.keep / f"{step.key}.json", json.dumps(asdict(outcome)) + "\n")

    def results(self, steps: Sequence[Step]) -> Results:
        """Of those of the steps that are done."""
        done = [self.outcomes[step] for step in steps if step in self.outcomes]
        boots = [*self.before.boots, *(boot for outcome in done for boot in outcome.boots)]
        used = {boot.machine for boot in boots}
        hosts = {host.id: host for host in [*self.before.machines, *(step.host for step in steps)]}
        kernels = {one.id: one for one in [*self.before.kernels, *(step.kernel for step in steps)]}
        notes = [*self.notes, *(note for outcome in done for note in outcome.notes)]
        return replace(
            self.before,
            machines=[host for host in hosts.values() if host.id in used],
            kernels=list(kernels.values()),
            boots=boots,
            layouts=[layout for outcome in done for layout in outcome.layouts],
            notes=list(dict.fromkeys(notes)),
        )

    def save(self, steps: Sequence[Step]) -> None:
        """In the file, which belongs to who called sudo."""
        new = [path for path in (self.out, *self.out.parents) if not path.exists()]
        save(self.results(steps), self.out)
        if "SUDO_UID" in os.environ and "SUDO_GID" in os.environ:
            for path in new:
                os.chown(path, int(os.environ["SUDO_UID"]), int(os.environ["SUDO_GID"]))


def outcomes(steps: Iterable[Step], number: int) -> Iterator[tuple[Step, Outcome]]:
    """Of steps that are made so many at once, as they end; one at a time in this thread, where signals
    come."""
    if number == 1:
        return ((step, step.make()) for step in steps)
    return side_by_side(lambda step: step.make(), steps, number)


# --- boots -------------------------------------------------------------------------------


@cache
def host(emulation: str | None) -> Host:
    """This computer, as it measures kernels that are emulated like this."""
    return this_host(emulation)


def blank(
    host: Host, kernel: Kernel, section: Section, runs: list[Run], number: int, **more: Any
) -> Boot:
    """A boot before it is made; `more` is what else of Boot is known."""
    usual: dict[str, Any] = {"flavour": None, "scenario": None, "append": "", "seconds": None}
    usual |= {"verdict": "pass", "reason": "", "runs": runs, "number": number} | more
    return Boot(machine=host.id, kernel=kernel.id, section=section, **usual)


def attempt(boot: Boot, figures: Callable[[], dict[str, Any]]) -> Boot:
    """The boot with its figures, or failed if there is a Problem with them."""
    try:
        return replace(boot, **figures())
    except Problem as problem:
        return replace(boot, verdict="fail", reason=str(problem))


def read(boot: Boot, record: Record, figures: Callable[[list[str]], dict[str, Any]]) -> Outcome:
    """What a guest has given; `figures` reads them from the lines of its job."""
    how = replace(
        boot,
        seconds=record.seconds,
        verdict=record.verdict,
        reason=record.reason,
        qemu=qemu_line(record.command),
    )
    done = attempt(how, lambda: figures(record.lines)) if how.passed else how
    return Outcome([done], record.seconds)


def timed(boot: Boot, figures: Callable[[], dict[str, Any]]) -> Outcome:
    """What was measured on this computer, and how long that took."""
    begin = time.monotonic()
    done = attempt(boot, figures)
    seconds = round(time.monotonic() - begin, 1)
    return Outcome([replace(done, seconds=seconds)], seconds)


def add_out(parser: argparse.ArgumentParser, default: Path | None, said: str) -> None:
    """--out; `said` is the default as help has it."""
    parser.add_argument("--out", type=output, default=default, metavar="FILE", help=f"({said})")
