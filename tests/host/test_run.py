# SPDX-License-Identifier: GPL-2.0
"""Programs end with what runs them, whatever they do about it.

Seen failing: with TERM alone at the death of what runs a program; with KILL only for a program
that has not ended by itself, and none for what it leaves behind; with no limit for reading what
it has said.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from wqlab.ground import run as running
from wqlab.ground.places import ROOT
from wqlab.ground.run import TIMED_OUT, run

# Deaf to TERM, as User Mode Linux is once it has panicked
DEAF = """\
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def note(name):
    with open(name + ".part", "w") as file:
        file.write(str(os.getpid()))
    os.rename(name + ".part", name)
"""
CHILD = """\
if not os.fork():
    note("child")
    time.sleep(600)
while not os.path.exists("child"):
    time.sleep(0.01)
"""


def program(folder: Path, text: str) -> list[str | Path]:
    path = folder / "program.py"
    path.write_text(DEAF + text)
    return [sys.executable, path]


def gone(pid: Path) -> bool:
    """Whether that process ends within some seconds."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        # One that has ended may wait for its parent to ask.
        stat = Path(f"/proc/{pid.read_text()}/stat")
        if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.05)
    os.kill(int(pid.read_text()), signal.SIGKILL)
    return False


def test_a_deaf_one_ends_when_this_is_killed(tmp_path: Path) -> None:
    command = program(tmp_path, 'note("itself"); time.sleep(600)\n')
    code = f"from wqlab.ground.run import run; run({[*map(str, command)]}, limit=600, deaf=True)"
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    deadline = time.monotonic() + 20
    while not (tmp_path / "itself").exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.kill()
    process.wait()
    assert gone(tmp_path / "itself")


@pytest.mark.parametrize(
    "end", [pytest.param("time.sleep(600)", id="limit"), pytest.param("", id="by-itself")]
)
def test_what_a_deaf_one_has_started_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(running, "END_LIMIT", 0.2)
    log = tmp_path / "log"
    done = run(program(tmp_path, CHILD + end), limit=2, log=log, cwd=tmp_path, deaf=True)
    assert done.status == (TIMED_OUT if end else 0)
    assert gone(tmp_path / "child")


def test_a_child_that_outlives_term_is_killed(tmp_path: Path) -> None:
    """It ignores TERM, the program does not."""
    heard = CHILD + "signal.signal(signal.SIGTERM, signal.SIG_DFL); time.sleep(600)\n"
    assert run(program(tmp_path, heard), limit=1, cwd=tmp_path).status == TIMED_OUT
    assert gone(tmp_path / "child")


def test_the_limit_holds_where_a_child_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a session of its own it keeps the pipe open."""
    monkeypatch.setattr(running, "END_LIMIT", 0.2)
    left = CHILD.replace("time.sleep(600)", "os.setsid(); time.sleep(600)")
    said = left + 'print("said", flush=True); time.sleep(600)\n'
    begin = time.monotonic()
    try:
        assert run(program(tmp_path, said), limit=1, cwd=tmp_path).output == "said\n"
        assert time.monotonic() - begin < 5
    finally:
        os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)
