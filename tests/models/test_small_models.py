# SPDX-License-Identifier: GPL-2.0
"""models/wakeup.pml and executing.pml: what they prove, and that each mistake in them is found.

Seen failing: with each mistake left in, and with a least number of states that is too high.
"""

import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from farm import Making, Need

from wqlab.places import CACHE, ROOT
from wqlab.problem import Skipped
from wqlab.run import check

LIMIT = 300  # seconds
# Sizes of the model
CREATE = "IDLE=1 PRODUCERS=2"  # workers have to be created
PERCPU = "PERCPU WORKERS=4 PRODUCERS=2 ITEMS=2"
MEET = "MEET WORKERS=4 IDLE=2 PRODUCERS=3"  # items wait for each other
LOST = "executed==queued"
TWICE = "done==started"


@dataclass(frozen=True)
class Model:
    sizes: dict[str, int]  # and how many states there are at least
    breaks: dict[str, tuple[str, str]]  # the size at which it shows, and what is violated


MODELS = {
    "wakeup": Model(
        {
            "": 10_000_000,
            CREATE: 1_000_000,
            PERCPU: 1_000_000,
            "STRAYS=1 PRODUCERS=2": 1_000_000,
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
    ),
    "executing": Model(
        {"": 1_000_000, "QUEUERS=2 ROUNDS=3": 100_000},
        {
            "BREAK_NO_COLLISION": ("", TWICE),
            "BREAK_ADDED_LATE": ("", TWICE),
            "BREAK_REMOVED_UNLOCKED": ("", TWICE),
            "BREAK_NO_BARRIER": ("", TWICE),
            "BREAK_LOOKED_EARLY": ("", TWICE),
            "BREAK_NEVER_LOOKED": ("", TWICE),
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
    memory = 3000
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
                ["spin", "-a", *flags, str(path_of(self.model))],
                ["gcc", "-O2", "-w", "-DSAFETY", "-DCOLLAPSE", limit, "-o", "pan", "pan.c"],
                ["./pan", "-E", "-m1000000"],
            ):
                said = check(command, wrong=" ".join(command), limit=LIMIT, cwd=Path(folder))
        return said


def search(model: str, words: str, *values: str | int) -> object:
    name = f"{model}-{words or 'default'}"
    return pytest.param(*values, id=name, marks=pytest.mark.needs(Search(model, words)))


def whole(said: str) -> str:
    """It must have seen it all."""
    assert "error: max search depth too small" not in said
    assert "Search not completed" not in said or "errors: 1" in said
    return said


@pytest.mark.parametrize(
    "least",
    [
        search(name, size, least)
        for name, model in MODELS.items()
        for size, least in model.sizes.items()
    ],
)
def test_holds(least: int, made: str) -> None:
    said = whole(made)
    assert "errors: 0" in said, said
    states = re.search(r"(\d+) states, stored", said)
    assert states and int(states[1]) > least


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
