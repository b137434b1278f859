# SPDX-License-Identifier: GPL-2.0
"""models/wakeup.pml and flushing.pml: what they prove; each mistake is found.

--tier full adds searches of up to 1 GB.

Seen failing: with each mistake left in, with a least number of states that is too high, and
with a statement that no search reaches.
"""

import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from farm import Making, Need

from wqlab.ground.places import CACHE, ROOT
from wqlab.ground.problem import Skipped
from wqlab.ground.run import check

LIMIT = 300  # seconds
# Sizes of the model
CREATE = "IDLE=1 PRODUCERS=2"  # workers have to be created
PERCPU = "PERCPU WORKERS=4 PRODUCERS=2 ITEMS=2"
MEET = "MEET WORKERS=4 IDLE=2 PRODUCERS=3"  # items wait for each other
LOST = "executed==queued"
EARLY = "(by_execution|by_instance)"  # a flush has returned
FOR_EVER = "returned=="  # a flush has not
# Never reached: a worker's end, and a step past the first idle worker, which is what is culled
NEVER = {("Worker", "-end-"), ("Culler", "i = (i+#)")}


@dataclass(frozen=True)
class Model:
    sizes: dict[str, int]  # and how many states there are at least
    breaks: dict[str, tuple[str, str]]  # the size at which it shows, and what is violated
    larger: dict[str, int] = field(default_factory=dict)  # sizes for --tier full


MODELS = {
    "wakeup": Model(
        {
            "PRODUCERS=2": 1_000_000,
            CREATE: 1_000_000,
            PERCPU: 1_000_000,
            "STRAYS=1 PRODUCERS=1": 100_000,
            MEET: 100_000,
            f"{MEET} PERCPU": 100_000,
            f"{MEET} PERCPU UNBIND": 1_000_000,
            f"{MEET} FAILS": 100_000,
        },
        {
            "BREAK_NO_RCU": ("", "!(freed[p])"),
            "BREAK_STAYS_PICKED": ("", LOST),
            "BREAK_CULL_FIRST": ("", LOST),
            "BREAK_CULL_ALL": (CREATE, LOST),
            "BREAK_IDLE_BLINDLY": ("", LOST),
            "BREAK_STATE_UNLOCKED": ("", "||die[p])"),
            "BREAK_CREATED_NOT_PICKED": (CREATE, "||die[p])"),
            "BREAK_NO_CHAIN": (MEET, LOST),
            "BREAK_SLEEPS_SILENTLY": (f"{MEET} PERCPU", LOST),
            "BREAK_UNBINDS_SILENTLY": (f"{MEET} PERCPU UNBIND", LOST),
        },
        {"": 10_000_000, "STRAYS=1 PRODUCERS=2": 10_000_000},
    ),
    "flushing": Model(
        {
            "": 50_000,
            "FLUSHERS=2 MAX=2": 1_000_000,
            "CANCELLERS=2": 1_000_000,
            "QUEUERS=2 QUEUES=2 MAX=2": 100_000,
            "WORKERS=3 FLUSHERS=2 MAX=2": 1_000_000,
            "RESCUER FLUSHERS=2 MAX=2": 1_000_000,
            "ORDERED": 500_000,
            "ORDERED CANCELLERS=2 QUEUES=2": 1_000_000,
            "ORDERED POOLS=3": 1_000_000,
        },
        {
            "BREAK_TO_WORKLIST": ("", EARLY),
            "BREAK_NO_KICK": ("", FOR_EVER),
            "BREAK_LOOKED_EARLY": ("", FOR_EVER),
            "BREAK_WRONG_WORKER": ("", FOR_EVER),
            "BREAK_TAIL": ("RESCUER", FOR_EVER),
            "BREAK_NO_COLLISION": ("MAX=2", "busy==255"),
            "BREAK_COLLISION_ALONE": ("MAX=2", EARLY),
            "BREAK_PLUGGED_TO_WORKLIST": ("ORDERED", EARLY),
            "BREAK_DATA_TO_NEW_POOL": ("ORDERED", EARLY),
            "BREAK_FLUSH_ONCE": ("ORDERED", EARLY),
        },
        {
            "FLUSHERS=2 CANCELLERS=2 MAX=2": 10_000_000,
            "RESCUER CANCELLERS=2 MAX=2 KICKS=2": 1_000_000,
            "ORDERED FLUSHERS=2": 10_000_000,
            "ORDERED CANCELLERS=2": 10_000_000,
        },
    ),
}


def path_of(model: str) -> Path:
    return ROOT / f"models/{model}.pml"


@dataclass(frozen=True)
class Search(Need):
    """What the verifier says of a model with these definitions."""

    model: str
    words: str
    memory = 3500
    guess = 20.0

    def __str__(self) -> str:
        return f"search: {self.model} {self.words}".rstrip()

    def make(self, farm: Making) -> str:
        if not shutil.which("spin"):
            raise Skipped("no spin: install it")
        CACHE.mkdir(parents=True, exist_ok=True)
        flags = [f"-D{word}" for word in self.words.split()]
        limit = f"-DMEMLIM={self.memory}"
        with tempfile.TemporaryDirectory(prefix="models-", dir=CACHE) as folder:
            for command in (
                # -o3: statements are not merged, so that each that is not reached is reported
                ["spin", "-a", "-o3", *flags, str(path_of(self.model))],
                ["gcc", "-O2", "-w", "-DSAFETY", "-DCOLLAPSE", limit, "-o", "pan", "pan.c"],
                ["./pan", "-E", "-m1000000"],
            ):
                said = check(command, wrong=" ".join(command), limit=LIMIT, cwd=Path(folder))
        return said


@dataclass(frozen=True)
class Sound(Need):
    """All searches that must reach each statement of a model together."""

    model: str

    @property
    def before(self) -> tuple[Search, ...]:
        return tuple(Search(self.model, size) for size in MODELS[self.model].sizes)

    def make(self, farm: Making) -> list[str]:
        return [farm[search] for search in self.before]


def search(model: str, words: str, *values: str | int, tier: str = "") -> object:
    name = f"{model}-{words or 'default'}"
    marks: list[pytest.MarkDecorator] = [pytest.mark.needs(Search(model, words))]
    if tier:
        marks.append(pytest.mark.tier(tier))
    return pytest.param(*values, id=name, marks=marks)


def whole(said: str) -> str:
    """It must have seen it all."""
    assert "error: max search depth too small" not in said
    assert "Search not completed" not in said or "errors: 1" in said
    return said


@pytest.mark.parametrize(
    "least",
    [
        search(name, size, least, tier=tier)
        for name, model in MODELS.items()
        for tier, sizes in (("", model.sizes), ("full", model.larger))
        for size, least in sizes.items()
    ],
)
def test_holds(least: int, made: str) -> None:
    said = whole(made)
    assert "errors: 0" in said, said
    states = re.search(r"(\d+) states, stored", said)
    assert states and int(states[1]) > least


def unreached(said: str) -> Iterator[tuple[str, str, str]]:
    """Process, line and text of the statements never executed; numbers depend on the size."""
    process = ""
    for line in said.splitlines():
        if match := re.match(r"unreached in (?:proctype )?(\w+)", line):
            process = match[1]
        elif match := re.match(r'\t.*\.pml:(\d+), state \d+, "(.*)"', line):
            yield process, match[1], re.sub(r"\d+", "#", match[2])


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.needs(Sound(name)), id=name) for name in MODELS],
)
def test_all_statements_are_reached(name: str, made: list[str]) -> None:
    by_search = [set(unreached(said)) for said in made]
    assert any(by_search), "not parsed"
    never = set.intersection(*by_search)
    assert not {each for each in never if each[::2] not in NEVER}


@pytest.mark.parametrize("name", MODELS)
def test_every_mistake_is_listed(name: str) -> None:
    mistakes = re.findall(r"#if[n]?def (BREAK_\w+)", path_of(name).read_text())
    assert set(mistakes) == set(MODELS[name].breaks)


@pytest.mark.parametrize(
    "violated",
    [
        search(name, f"{size} {mistake}".strip(), violated)
        for name, model in MODELS.items()
        for mistake, (size, violated) in model.breaks.items()
    ],
)
def test_mistake_is_found(violated: str, made: str) -> None:
    said = whole(made)
    assert "errors: 1" in said, said
    violation = re.search(r"assertion violated (.*)", said)
    assert violation and violated in violation[1], said
