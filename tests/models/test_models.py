# SPDX-License-Identifier: GPL-2.0
"""Spin proves models/max_active.pml, and finds each mistake that it can be given.

--tier full adds searches that take minutes and up to 8 GB each, and larger random ones, which are
not whole.

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

from wqlab.ground.places import CACHE, ROOT
from wqlab.ground.problem import Problem, Skipped
from wqlab.ground.run import TIMED_OUT, run

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
    walk: int = 0  # not whole, but in a random order: this one

    def __str__(self) -> str:
        return f"search: {self.name} {self.defines}".rstrip()

    @property
    def memory(self) -> int:
        return 8000 if self.large else 1900

    @property
    def guess(self) -> float:
        return 600 if self.large else 60 if self.walk else 6

    def make(self, farm: Making) -> "Found":
        if not shutil.which("spin"):
            raise Skipped("no spin: install it")
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="models-", dir=CACHE) as folder:
            return verify(self, Path(folder))


SOUND = [
    Search("cancels", "-DITEMS=2,0,1,0 -DCANCELS=1"),
    Search("one slot", "-DITEMS=1,2,1,0 -DMAX=1"),
    Search("three pwqs of a node", "-DITEMS=2,1,0,1 -DMAX=1 -DLAST=0"),
    Search("three slots", "-DITEMS=2,0,2,0 -DMAX=3"),
    Search("longer turns", "-DITEMS=3,0,1,0 -DMAX=1 -DBATCH=2 -DCANCELS=1"),
    Search("three CPUs", "-DITEMS=1,0,1,0 -DCPUS=3"),
    Search("three nodes", "-DITEMS=1,0,1,1 -DNODES=3 -DLAST=2"),
    Search("three nodes, limits", "-DITEMS=1,0,1,1 -DNODES=3 -DLAST=2 -DMAX=1 -DLIMITS=1"),
    Search("no node", "-DITEMS=1,0,1,1 -DLAST=2"),
    Search("no node, limits", "-DITEMS=1,0,0,2 -DLAST=2 -DLIMITS=1"),
    Search("deferred", "-DITEMS=2,0,1,0 -DDEFERS=1 -DCANCELS=1"),
    Search("rescuer", "-DITEMS=2,0,1,0 -DDEFERS=1 -DRESCUER"),
    Search("rescuer, three slots", "-DITEMS=3,0,0,0 -DMAX=3 -DDEFERS=2 -DRESCUER"),
    Search("flushes", "-DITEMS=2,0,1,0 -DCANCELS=1 -DFLUSHES=1"),
    Search("items that wait for others", "-DITEMS=1,1,1,0 -DDEPENDS"),
    Search("limits", "-DITEMS=1,0,1,0 -DLIMITS=2 -DCANCELS=1"),
    Search("limits, another pool", "-DITEMS=1,0,1,0 -DLIMITS=2 -DDFL=3"),
    Search("limits, three slots", "-DITEMS=2,0,1,0 -DMAX=3 -DLIMITS=1"),
    Search("three limits", "-DITEMS=1,0,1,0 -DLIMITS=3"),
    Search("shared pool", "-DITEMS=2,1,1,0 -DSHARED"),
    Search("release", "-DITEMS=1,1,1,0 -DRELEASE"),
    Search("many open pwqs", "-DITEMS=1,1,1,0 -DMANY"),
    Search("many open pwqs, limits", "-DITEMS=1,1,0,0 -DMAX=1 -DMANY -DLIMITS=1 -DCANCELS=1"),
    Search("all ends", "-DITEMS=2,0,1,0", cycles=True),
    Search("all ends, limits", "-DITEMS=1,0,1,0 -DLIMITS=2", cycles=True),
    Search("all ends, three slots", "-DITEMS=2,0,2,0 -DMAX=3", cycles=True, large=True),
    Search("many items", "-DITEMS=2,1,1,0 -DCANCELS=1", large=True),
    Search("many items, three slots", "-DITEMS=3,0,2,0 -DMAX=3", large=True),
    Search("many items, limits", "-DITEMS=1,1,1,0 -DLIMITS=2", large=True),
    Search("many items, three CPUs", "-DITEMS=2,0,1,0 -DCPUS=3", large=True),
    Search("three pwqs of a node, three CPUs", "-DITEMS=1,1,0,1 -DLAST=0 -DCPUS=3", large=True),
    Search("limits, cancels", "-DITEMS=2,0,1,0 -DLIMITS=2 -DCANCELS=1", large=True),
]

# All at once
WALK = (
    "-DNODES=3 -DLAST=2 -DCPUS=3 -DITEMS=2,1,1,1 -DMAX=3 "
    "-DLIMITS=2 -DCANCELS=1 -DDEFERS=1 -DFLUSHES=1"
)
WALKS = [Search(f"walk {number}", WALK, walk=number) for number in (1, 2, 3)]

CANCELS = "-DCANCELS=1"
LIMITS = "-DITEMS=1,0,1,0 -DLIMITS=2"
SHARED = "-DSHARED -DITEMS=2,1,0,0 -DMAX=1"
TURNS = "-DITEMS=2,0,2,0 -DMAX=3"

# What is broken, in which search, and what is then reported. Without the monitor, it is
# what comes of a broken invariant: an item that never starts, or one too many.
STUCK = "invalid end state"
CYCLE = "non-progress cycle"
TOO_MANY = "violated (nr_used<limit)"
SLOTS = "violated ((((((nr_used+nr_passed)+"
FORGOTTEN = "violated (((((((nr_passed>0)||(nr_searching>0))||"
CLOSED = "((nr_free[0]<0)||"
WAITS = "violated ((((pool[0]||(pending[0]=="
SPENT = "||(nr_granted[0]<=nr_listed[0]))"
COUNTED = "violated ((((node[0]|| !((q_len("
UNFAIR = "violated ((((passes[0]<("
UNKIND = "violated ((((keeps[0]<="
FREED = "violated  !(freed[p])"
BROKEN = [
    ("PUT_IN_TWO", "", SLOTS),
    ("PUT_IN_TWO", "-DNO_MONITOR", STUCK),
    ("CLOSE_IN_TWO", "", SLOTS),
    ("CLOSE_IN_TWO", "-DNO_MONITOR", STUCK),
    ("OPEN_OVERWRITES", "-DMAX=3", SLOTS),
    ("OPEN_WHILE_SOME_WAIT", "-DITEMS=1,1,0,0", CLOSED),
    ("JUMP_THE_LINE", "", CLOSED),
    ("NO_ARM_WHEN_TAKEN", TURNS, FORGOTTEN),
    ("NO_ARM_WHEN_TAKEN", "-DNO_MONITOR -DITEMS=1,1,2,0 -DMAX=3 -DDEPENDS", STUCK),
    ("NO_ARM_WHEN_LEFT", "", FORGOTTEN),
    ("NO_ARM_AFTER_SEARCH", "", FORGOTTEN),
    ("ALL_UNCOUNTED", "", COUNTED),
    ("TIMER_ENDS_LATE", "", FORGOTTEN),
    ("TIMER_DOES_NOT_CLOSE", "", FORGOTTEN),
    ("MOVE_ANYWAY", TURNS, CYCLE),
    ("TURN_DOES_NOT_BEGIN", "", CYCLE),
    ("STAYS_FIRST", "-DITEMS=5,1,0,0 -DMAX=1", UNFAIR),
    ("KEEP_FOR_EVER", "-DITEMS=24,1,0,0 -DMAX=1", UNKIND),
    ("LOCK_TWO_POOLS", "", STUCK),
    ("PASS_DOES_NOT_KICK", "", STUCK),
    ("START_DOES_NOT_KICK", "-DSHARED -DDEPENDS -DITEMS=1,1,0,0", STUCK),
    ("CANCEL_DOES_NOT_KICK", f"{CANCELS} -DFLUSHES=1 -DITEMS=1,0,1,0 -DMAX=1", STUCK),
    ("EMPTY_STAYS_PENDING", f"{CANCELS} -DITEMS=1,0,1,0 -DMAX=1", WAITS),
    ("EMPTY_STAYS_PENDING", f"{CANCELS} -DNO_MONITOR", CYCLE),
    ("SURPLUS_IS_KEPT", CANCELS, SPENT),
    ("SURPLUS_IS_KEPT", "-DDEFERS=1 -DITEMS=3,0,0,0", SPENT),
    ("RESCUER_KEEPS_SURPLUS", "-DITEMS=3,0,0,0 -DMAX=3 -DDEFERS=1 -DRESCUER", SPENT),
    ("GRANTED_ARE_PARKED", SHARED, SPENT),
    ("POOL_IS_NOT_HELD", "-DRELEASE -DITEMS=0,1,1,0", FREED),
    ("RELEASE_KEEPS_SLOTS", "-DRELEASE -DITEMS=1,1,0,0", SLOTS),
    ("LOWER_WITHOUT_CLOSING", "-DITEMS=2,0,1,0 -DLIMITS=2", TOO_MANY),
    ("KEEP_WHEN_LOWERED", "-DITEMS=2,0,1,0 -DMAX=1 -DLIMITS=2", TOO_MANY),
    ("GRANTED_STAY", LIMITS, TOO_MANY),
    ("ACCEPT_WHEN_OWED", LIMITS, TOO_MANY),
    ("FOUND_IS_NOT_PAID", LIMITS, TOO_MANY),
    ("PAID_IS_LAST", f"{LIMITS} -DMAX=3", FORGOTTEN),
    ("RAISE_WITHOUT_PASSING", LIMITS, FORGOTTEN),
    ("REST_STAYS_OPEN", "-DITEMS=1,1,0,0 -DMANY", CLOSED),
    ("TIMER_GIVES_UP", "-DITEMS=1,1,1,0 -DMANY", FORGOTTEN),
    ("LOWER_GIVES_UP", "-DITEMS=2,0,1,0 -DMANY -DLIMITS=2", TOO_MANY),
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
    # a walk marks states in 4 MB, and ends when that is full
    way = ["-DBITSTATE", "-DP_RAND", "-DT_RAND"] if search.walk else ["-DCOLLAPSE"]
    output("gcc", speed, "-w", kind, *way, memory, "-o", "pan", "pan.c")
    options = [f"-m{DEPTH}", *(["-l"] if search.cycles else [])]
    options += ["-w25", f"-RS{search.walk}"] if search.walk else []
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
                pytest.mark.tier("full" if search.large or search.walk else "test"),
            ],
        )
        for search in SOUND + WALKS
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
    never = [lines["cpu"] for found in made if "cpu" in (lines := found.unreached())]
    assert len(never) > 1
    assert not set.intersection(*never)


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
