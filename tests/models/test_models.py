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
        return 600 if self.large else 15

    def make(self, farm: Making) -> "Found":
        if not shutil.which("spin"):
            raise Skipped("no spin: install it")
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="models-", dir=CACHE) as folder:
            return verify(self, Path(folder))


SOUND = [
    Search("three CPUs", "-DCPUS=3"),
    Search("limits", "-DITEMS=2,0,1,1 -DLIMITS=2 -DCANCELS=1"),
    Search("one slot", "-DITEMS=4,3,1,1 -DMAX=1"),
    Search("three slots", "-DITEMS=2,1,2,2 -DMAX=3"),
    Search("no node", "-DITEMS=1,1,1,1,1 -DNO_NODE"),
    Search("release", "-DRELEASE -DCANCELS=2"),
    Search("ordered", "-DITEMS=2,0,2,0 -DMAX=1 -DORDERED -DLIMITS=2 -DCANCELS=1"),
    Search("all ends", "-DITEMS=2,0,1,1 -DLIMITS=1 -DCANCELS=1", cycles=True),
    Search("four CPUs", "-DITEMS=1,1,1,1 -DCPUS=4 -DCANCELS=1", large=True),
    Search("three CPUs, limits", "-DITEMS=1,1,1,1 -DCPUS=3 -DLIMITS=1", large=True),
    Search("many items", "-DITEMS=2,2,2,2 -DCANCELS=1", large=True),
    Search("no node, limits", "-DITEMS=1,1,1,1,1 -DNO_NODE -DLIMITS=1", large=True),
]

LIMITS = "-DITEMS=2,0,1,0 -DLIMITS=2"
ONE_SLOT = "-DITEMS=4,3,1,1 -DMAX=1"
ORDERED = "-DITEMS=2,0,2,0 -DMAX=1 -DORDERED"

# What is broken, in which search, and what is then reported. Without the monitor, it is
# what comes of a broken invariant: an item that never starts, or one too many.
STUCK = "invalid end state"
TOO_MANY = "violated (nr_active<max)"
SLOTS = "violated (((nr_active+nr_spare)+"
FORGOTTEN = "violated ((filling||"
UNFAIR = "violated (((passed[0]<3)&&"
BROKEN = [
    ("PUT_IN_TWO", "", SLOTS),
    ("PUT_IN_TWO", "-DNO_MONITOR", STUCK),
    ("PUT_IGNORES_SPREAD", "", SLOTS),
    ("COLLECT_IN_TWO", "", SLOTS),
    ("COLLECT_IN_TWO", "-DNO_MONITOR", STUCK),
    ("COLLECT_CLOSED", "-DMAX=1", SLOTS),
    ("COLLECT_CLOSED", "-DMAX=1 -DNO_MONITOR", STUCK),
    ("UNLOCK_WITHOUT_RELEASE", "", SLOTS),
    ("WAITER_DOES_NOT_COLLECT", "", FORGOTTEN),
    ("WAITER_DOES_NOT_COLLECT", "-DNO_MONITOR", STUCK),
    ("NO_HAND_OUT", "", FORGOTTEN),
    ("NO_HAND_OUT", "-DNO_MONITOR", STUCK),
    ("SPREAD_WHILE_SOME_WAIT", "", FORGOTTEN),
    ("SPREAD_WHILE_SOME_WAIT", "-DNO_MONITOR", STUCK),
    ("NO_SECOND_LOOK", "", TOO_MANY),
    ("EMPTY_PWQ_STAYS_PENDING", "-DCANCELS=1", "non-progress cycle"),
    ("RELOCK_UNDER_A", "", STUCK),
    ("NODE_STAYS_FIRST", ONE_SLOT, UNFAIR),
    ("JUMP_THE_LINE", ONE_SLOT, UNFAIR),
    ("PASS_OWN_PWQ", "", "violated (nr_inactive[p]==0)"),
    ("LOWER_WITHOUT_COLLECT", LIMITS, "violated ( !(spread)||"),
    ("LOWER_WITHOUT_COLLECT", f"{LIMITS} -DNO_MONITOR", TOO_MANY),
    ("RAISE_WITHOUT_HAND_OUT", LIMITS, FORGOTTEN),
    ("RAISE_WITHOUT_HAND_OUT", f"{LIMITS} -DNO_MONITOR", STUCK),
    ("RELEASED_PWQ_STAYS_PENDING", "-DRELEASE -DCANCELS=1", "violated  !(freed[q])"),
    ("NEW_PWQ_NOT_PLUGGED", ORDERED, "violated ((q==0)||(refcnt[0]==0))"),
    ("UNPLUG_ONE_ITEM", ORDERED, "violated (((((((pool[0]||"),
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
    """But for release(), while which nobody else can spread slots, and a pool that is NO_POOL."""
    for process in ("cpu", "limits"):
        never = [
            {statement for statement in lines[process] if "pool[4]" not in statement[1]}
            for found in made
            if process in (lines := found.unreached())
        ]
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
