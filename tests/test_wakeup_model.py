# SPDX-License-Identifier: GPL-2.0
"""models/wakeup.pml: what it proves, and that each mistake in it is found."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

MODEL = Path(__file__).resolve().parent.parent / "models/wakeup.pml"
LIMIT = 300  # seconds
# Sizes of the model
CREATE = "IDLE=1 PRODUCERS=2"  # workers have to be created
PERCPU = "PERCPU WORKERS=4 PRODUCERS=2 ITEMS=2"
# The mistakes, the sizes at which they show, and what is violated
LOST = "executed==queued"
BREAKS = {
    "BREAK_NO_RCU": ("", "!(freed[p])"),
    "BREAK_STAYS_PICKED": ("", LOST),
    "BREAK_CULL_FIRST": ("", LOST),
    "BREAK_CULL_ALL": (CREATE, LOST),
    "BREAK_IDLE_BLINDLY": ("", LOST),
    "BREAK_STATE_UNLOCKED": ("", "||die[p]"),
    "BREAK_CREATED_NOT_PICKED": (CREATE, "||die[p]"),
}

pytestmark = pytest.mark.skipif(not shutil.which("spin"), reason="no spin: install spin")


def verify(path: Path, *words: str) -> str:
    """What the verifier says of the model with these definitions; it must have seen it all."""
    flags = [f"-D{word}" for word in " ".join(words).split()]
    for command in (
        ["spin", "-a", *flags, str(MODEL)],
        ["gcc", "-O2", "-w", "-DSAFETY", "-DCOLLAPSE", "-DMEMLIM=3000", "-o", "pan", "pan.c"],
        ["./pan", "-E", "-m1000000"],
    ):
        result = subprocess.run(
            command, cwd=path, capture_output=True, text=True, timeout=LIMIT, check=False
        )
        assert not result.returncode, result.stdout + result.stderr
    assert "error: max search depth too small" not in result.stdout
    assert "Search not completed" not in result.stdout or "errors: 1" in result.stdout
    return result.stdout


@pytest.mark.parametrize("size", ["", CREATE, PERCPU])
def test_holds(tmp_path: Path, size: str) -> None:
    said = verify(tmp_path, size)
    assert "errors: 0" in said, said
    assert int(re.search(r"(\d+) states, stored", said)[1]) > 1_000_000


def test_every_mistake_is_listed() -> None:
    assert set(re.findall(r"#if[n]?def (BREAK_\w+)", MODEL.read_text())) == set(BREAKS)


@pytest.mark.parametrize("mistake", BREAKS)
def test_mistake_is_found(tmp_path: Path, mistake: str) -> None:
    size, violated = BREAKS[mistake]
    said = verify(tmp_path, size, mistake)
    assert "errors: 1" in said, said
    assert violated in re.search(r"assertion violated (.*)", said)[1], said
