# SPDX-License-Identifier: GPL-2.0
"""Spin proves the models in models/, and finds each mistake that they can be given.

--tier full adds searches that take minutes and up to 8 GB each.

Seen failing: with an invariant that is wrong, with a mistake left in the model's sound
part, with a statement that no search reaches, with a search cut short by its memory
limit, and with a mistake taken out of the model.
"""

import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from farm import Making, Need

from wqlab.places import CACHE, ROOT
from wqlab.problem import Problem, Skipped
from wqlab.run import TIMED_OUT, run

MODEL = ROOT / "models/max_active.pml"
DEPTH = 20_000  # no run of the model has as many steps


@dataclass(frozen=True)
class Found:
    """What a search gave: its report, and the run to the error as Spin replays it."""

    report: str
    replay: str

    def number(self, pattern: str) -> int:
        match = re.search(pattern, self.report)
        assert match, f"no {pattern!r} in: {self.report}"
        return int(match[1])

    def unreached(self) -> dict[str, set[tuple[int, str]]]:
        """Line and text of the statements never executed, by process."""
        lines: dict[str, set[tuple[int, str]]] = {}
        for line in self.report.splitlines():
            if match := re.match(r"unreached in (?:proctype )?(\w+)", line):
                never = lines.setdefault(match[1], set())
            elif match := re.match(r'\t.*\.pml:(\d+), state \d+, "(.*)"', line):
                never.add((int(match[1]), match[2]))
        return lines


@dataclass(frozen=True)
class Search(Need):
    """An exhaustive search for a state, or with `cycles` for a run, that must not be."""

    name: str
    defines: str = ""
    cycles: bool = False
    large: bool = False

    def __str__(self) -> str:
        return f"search: {self.name} {self.defines}".rstrip()

    @property
    def memory(self) -> int:
        return 8000 if self.large else 1900

    @property
    def guess(self) -> float:
        return 600 if self.large else 6

    def make(self, farm: Making) -> "Found":
        if not shutil.which("spin"):
            raise Skipped("no spin: install it")
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="models-", dir=CACHE) as folder:
            return verify(self, Path(folder))


SOUND = [
    Search("three CPUs", "-DCPUS=3 -DITEMS=2,1,1,1 -DCANCELS=1"),
    Search("one slot", "-DMAX=1 -DITEMS=4,3,1,1"),
    Search("three slots", "-DMAX=3 -DITEMS=2,2,2,1"),
    Search("four slots", "-DMAX=4 -DITEMS=3,2,2,0"),
    Search("longer turns", "-DMAX=1 -DITEMS=4,2,1,0 -DBATCH=2 -DCANCELS=1"),
    Search("longer turns, three slots", "-DMAX=3 -DITEMS=6,2,1,0"),
    Search("flushes", "-DITEMS=2,2,1,0 -DCANCELS=2 -DFLUSHES=2"),
    Search("limits", "-DLIMITS=2 -DCANCELS=1"),
    Search("limits, another pool", "-DLIMITS=2 -DDFL=3"),
    Search("limits, three CPUs", "-DCPUS=3 -DLIMITS=2"),
    Search("limits, three slots", "-DMAX=3 -DITEMS=2,0,2,0 -DLIMITS=2 -DCANCELS=1"),
    Search("three limits", "-DITEMS=3,0,1,0 -DLIMITS=3"),
    Search("shared pool", "-DITEMS=2,2,1,0 -DSHARED -DCANCELS=1 -DFLUSHES=1"),
    Search("shared pool, limits", "-DSHARED -DLIMITS=1 -DCANCELS=1"),
    Search("release", "-DITEMS=2,1,1,1 -DRELEASE -DCANCELS=1"),
    Search("release, limits", "-DRELEASE -DLIMITS=1"),
    Search("ordered", "-DITEMS=3,0,3,0 -DMAX=1 -DORDERED -DLIMITS=2 -DCANCELS=1 -DFLUSHES=1"),
    Search("all ends", "-DITEMS=2,2,1,1", cycles=True),
    Search("all ends, limits", "-DLIMITS=1 -DCANCELS=1", cycles=True),
    Search("four CPUs", "-DCPUS=4 -DITEMS=2,2,1,1 -DCANCELS=1", large=True),
    Search("limits, many items", "-DITEMS=2,1,1,1 -DLIMITS=2", large=True),
    Search("longer turns, many items", "-DITEMS=3,2,2,1 -DBATCH=2", large=True),
    Search("many items", "-DITEMS=2,2,2,2 -DCANCELS=1", large=True),
]

CANCELS = "-DCANCELS=1"
LIMITS = "-DLIMITS=2 -DITEMS=2,0,1,0"
ORDERED = "-DITEMS=2,0,2,0 -DMAX=1 -DORDERED"

# What is broken, in which search, and what is then reported. Without the monitor, it is
# what comes of a broken invariant: an item that never starts, or one too many.
STUCK = "invalid end state"
CYCLE = "non-progress cycle"
TOO_MANY = "violated (nr_used<limit)"
SLOTS = "violated ((((nr_used+nr_passed)+nr_spare)+"
FORGOTTEN = "violated ((q_len(pending_pwqs)==0)||"
NEGATIVE = "violated ((nr_spare>=0)||"
WAITS = "violated ((((pool[0]||(pending[0]=="
DRAINED = "violated (((((pool[0]||(refcnt[0]=="
UNFAIR = "violated ((((passes[0]<4)&&"
UNKIND = "violated ((((keeps[0]<="
FREED = "violated  !(freed[q])"
REORDERED = "violated ((q==0)||(refcnt[0]==0))"
BROKEN = [
    ("PUT_IN_TWO", "", FORGOTTEN),
    ("PUT_IN_TWO", "-DNO_MONITOR", STUCK),
    ("STEAL_IN_TWO", "", SLOTS),
    ("STEAL_IN_TWO", "-DNO_MONITOR", STUCK),
    ("DO_NOT_STEAL", "", FORGOTTEN),
    ("DO_NOT_STEAL", "-DNO_MONITOR", STUCK),
    ("SLOT_IS_LOST", "", SLOTS),
    ("OPEN_OVERWRITES", "-DMAX=3", SLOTS),
    ("OPEN_WHILE_SOME_WAIT", "", FORGOTTEN),
    ("OPEN_WHILE_SOME_WAIT", "-DNO_MONITOR", STUCK),
    ("NO_GRANT", "", FORGOTTEN),
    ("NO_GRANT", "-DNO_MONITOR", STUCK),
    ("REFUSED_SLOT_IS_LOST", CANCELS, SLOTS),
    ("REFUSED_SLOT_IS_LOST", f"{CANCELS} -DMAX=1 -DNO_MONITOR", STUCK),
    ("LOCK_TWO_POOLS", "", STUCK),
    ("DEC_FIRST", "", DRAINED),
    ("EMPTY_STAYS_PENDING", CANCELS, WAITS),
    ("EMPTY_STAYS_PENDING", f"{CANCELS} -DNO_MONITOR", CYCLE),
    ("EMPTY_STAYS_PENDING", f"{CANCELS} -DRELEASE -DNO_MONITOR", FREED),
    ("NO_KICK", "", STUCK),
    ("CANCEL_DOES_NOT_KICK", "-DITEMS=1,0,1,0 -DMAX=1 -DCANCELS=1 -DFLUSHES=1", STUCK),
    ("CANCEL_DOES_NOT_KICK", CANCELS, STUCK),
    ("STAYS_FIRST", "-DITEMS=5,0,1,0 -DMAX=1", UNFAIR),
    ("KEEP_FOR_EVER", "-DITEMS=24,0,1,0 -DMAX=1", UNKIND),
    ("JUMP_THE_LINE", LIMITS, FORGOTTEN),
    ("JUMP_THE_LINE", f"{LIMITS} -DNO_MONITOR", STUCK),
    ("ACCEPT_WHEN_LOWERED", LIMITS, TOO_MANY),
    ("KEEP_WHEN_LOWERED", "-DLIMITS=2 -DITEMS=3,0,1,0 -DMAX=1", TOO_MANY),
    ("LOWER_WITHOUT_CLOSING", LIMITS, NEGATIVE),
    ("LOWER_WITHOUT_CLOSING", f"{LIMITS} -DNO_MONITOR", TOO_MANY),
    ("RAISE_WITHOUT_HAND_OUT", LIMITS, FORGOTTEN),
    ("RAISE_WITHOUT_HAND_OUT", f"{LIMITS} -DNO_MONITOR", STUCK),
    ("HAND_OUT_DOES_NOT_KICK", LIMITS, STUCK),
    ("RELEASE_KEEPS_SLOTS", "-DRELEASE", SLOTS),
    ("RELEASE_KEEPS_SLOTS", "-DRELEASE -DNO_MONITOR", STUCK),
    ("NEW_PWQ_NOT_PLUGGED", ORDERED, REORDERED),
    ("UNPLUG_ONE_ITEM", ORDERED, WAITS),
    ("UNPLUG_ONE_ITEM", f"{ORDERED} -DNO_MONITOR", STUCK),
    ("UNPLUG_DOES_NOT_KICK", ORDERED, STUCK),
]


def verify(search: Search, place: Path) -> Found:
    def output(*command: str, limit: int = 60, must: bool = True) -> str:
        done = run(command, limit=limit, cwd=place)
        if done.status == TIMED_OUT or (must and done.status):
            raise Problem(f"{' '.join(command)}: status {done.status}: {done.output}")
        return done.output

    shutil.copy(MODEL, place)
    # -o3: statements are not merged, so that each that is not reached is reported
    said = output("spin", "-a", "-o3", *search.defines.split(), MODEL.name)
    if "rror" in said:
        raise Problem(said)
    kind = "-DNP" if search.cycles else "-DSAFETY"
    memory = f"-DMEMLIM={search.memory}"
    speed = "-O2" if search.large else "-O0" if "BREAK" in search.defines else "-O1"
    output("gcc", speed, "-w", kind, "-DCOLLAPSE", memory, "-o", "pan", "pan.c")
    options = [f"-m{DEPTH}", *(["-l"] if search.cycles else [])]
    limit = 3600 if search.large else 300
    report = output("./pan", *options, limit=limit, must=False)
    trail = place / f"{MODEL.name}.trail"
    replay = ""
    if trail.exists():
        replay = output("spin", *search.defines.split(), "-k", trail.name, "-p", MODEL.name)
    return Found(report, replay)


@dataclass(frozen=True)
class Sound(Need):
    """All searches that must reach each statement together."""

    before = tuple(search for search in SOUND if not search.large and not search.cycles)

    def make(self, farm: Making) -> list[Found]:
        return [farm[search] for search in self.before]


@pytest.mark.parametrize(
    "search",
    [
        pytest.param(
            search,
            id=search.name,
            marks=[
                pytest.mark.needs(search),
                pytest.mark.tier("full" if search.large else "test"),
            ],
        )
        for search in SOUND
    ],
)
def test_holds(search: Search, made: Found) -> None:
    assert made.number(r"errors: (\d+)") == 0, made.report + made.replay[-6000:]
    assert "Search not completed" not in made.report, made.report
    assert "max search depth too small" not in made.report, made.report
    assert made.number(r"depth reached (\d+)") < DEPTH
    assert made.number(r"(\d+) states, stored") > 10_000


@pytest.mark.needs(Sound())
def test_all_statements_are_reached(made: list[Found]) -> None:
    """But for release(), which has a single slot."""
    for process in ("cpu", "limits"):
        never = [lines[process] for found in made if process in (lines := found.unreached())]
        assert len(never) > 1
        assert not set.intersection(*never), process


@pytest.mark.parametrize(
    "expected",
    [
        pytest.param(
            expected,
            id=f"{mistake}-{defines}",
            marks=pytest.mark.needs(
                Search(mistake, f"-DBREAK_{mistake} {defines}", "cycle" in expected)
            ),
        )
        for mistake, defines, expected in BROKEN
    ],
)
def test_mistake_is_found(expected: str, made: Found) -> None:
    assert made.number(r"errors: (\d+)") == 1, made.report
    assert expected in made.report


def test_each_mistake_is_tried() -> None:
    named = set(re.findall(r"BREAK_(\w+)", MODEL.read_text()))
    assert named == {mistake for mistake, _, _ in BROKEN}
