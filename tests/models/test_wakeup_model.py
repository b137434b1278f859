# SPDX-License-Identifier: GPL-2.0
"""models/wakeup.pml: what it proves, and that each mistake in it is found."""

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

MODEL = ROOT / "models/wakeup.pml"
LIMIT = 300  # seconds
# Sizes of the model
CREATE = "IDLE=1 PRODUCERS=2"  # workers have to be created
PERCPU = "PERCPU WORKERS=4 PRODUCERS=2 ITEMS=2"
MEET = "MEET WORKERS=4 IDLE=2 PRODUCERS=3"  # items wait for each other
SIZES = {  # and how many states there are at least
    "": 10_000_000,
    CREATE: 1_000_000,
    PERCPU: 1_000_000,
    "STRAYS=1 PRODUCERS=2": 1_000_000,
    MEET: 100_000,
    f"{MEET} PERCPU": 100_000,
    f"{MEET} PERCPU UNBIND": 1_000_000,
    f"{MEET} FAILS": 100_000,
}
# The mistakes, the sizes at which they show, and what is violated
LOST = "executed==queued"
BREAKS = {
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
}


@dataclass(frozen=True)
class Search(Need):
    """What the verifier says of the model with these definitions."""

    words: str
    memory = 3000
    guess = 20.0

    def __str__(self) -> str:
        return f"search: wakeup {self.words}".rstrip()

    def make(self, farm: Making) -> str:
        if not shutil.which("spin"):
            raise Skipped("no spin: install it")
        CACHE.mkdir(parents=True, exist_ok=True)
        flags = [f"-D{word}" for word in self.words.split()]
        limit = f"-DMEMLIM={self.memory}"
        with tempfile.TemporaryDirectory(prefix="models-", dir=CACHE) as folder:
            for command in (
                ["spin", "-a", *flags, str(MODEL)],
                ["gcc", "-O2", "-w", "-DSAFETY", "-DCOLLAPSE", limit, "-o", "pan", "pan.c"],
                ["./pan", "-E", "-m1000000"],
            ):
                said = check(command, wrong=" ".join(command), limit=LIMIT, cwd=Path(folder))
        return said


def search(name: str, *values: str | int, words: str) -> object:
    return pytest.param(*values, id=name, marks=pytest.mark.needs(Search(words)))


def whole(said: str) -> str:
    """It must have seen it all."""
    assert "error: max search depth too small" not in said
    assert "Search not completed" not in said or "errors: 1" in said
    return said


@pytest.mark.parametrize(
    "least", [search(size or "default", least, words=size) for size, least in SIZES.items()]
)
def test_holds(least: int, made: str) -> None:
    said = whole(made)
    assert "errors: 0" in said, said
    states = re.search(r"(\d+) states, stored", said)
    assert states and int(states[1]) > least


def test_every_mistake_is_listed() -> None:
    assert set(re.findall(r"#if[n]?def (BREAK_\w+)", MODEL.read_text())) == set(BREAKS)


@pytest.mark.parametrize(
    "violated",
    [
        search(mistake, violated, words=f"{size} {mistake}".strip())
        for mistake, (size, violated) in BREAKS.items()
    ],
)
def test_mistake_is_found(violated: str, made: str) -> None:
    said = whole(made)
    assert "errors: 1" in said, said
    violation = re.search(r"assertion violated (.*)", said)
    assert violation and violated in violation[1], said
