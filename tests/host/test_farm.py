# SPDX-License-Identifier: GPL-2.0
"""The farm and the last line of a run, on small made-up tests.

Seen failing: with what was lost or broken off not in the count, or not in the exit status; with
the setup of a test that was broken off counted as the test; without the count of subtests; with a
file of skipped tests taken for tested; with all tiers in one; with a need made for each test; with
one made whose first step failed; with a limit for all of a test's waiting; with messages of needs
dropped; with makers that write where tests do; without end_all() at the end, and with a farm that
outlives pytest.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
CONFTEST = f"""
import sys
from pathlib import Path
sys.path[:0] = [{str(TESTS)!r}, {str(TESTS.parent)!r}]
import runner

pytest_addoption = runner.add_options

def pytest_configure(config):
    config.pluginmanager.register(runner.Runner(config))
"""
NEEDS = """
import os, time
from dataclasses import dataclass
from pathlib import Path
import pytest
from farm import ALL, Need
from wqlab.ground.problem import Problem, Skipped
from wqlab.ground.run import run

HERE = Path(__file__).parent

@dataclass(frozen=True)
class Word(Need):
    '''Leaves a file with a line for each time that it is made.'''
    word: str

    def make(self, farm):
        with (HERE / f"made-{self.word}").open("a") as file:
            file.write("once\\n")
        return self.word.upper()

@dataclass(frozen=True)
class Twice(Need):
    of: Need
    cores = ALL

    @property
    def before(self):
        return [self.of]

    def make(self, farm):
        return farm[self.of] * 2

@dataclass(frozen=True)
class Long(Need):
    tier = "full"

    def make(self, farm):
        return 2

@dataclass(frozen=True)
class Bad(Need):
    def make(self, farm):
        raise Problem("no compiler")

@dataclass(frozen=True)
class Nowhere(Need):
    def make(self, farm):
        raise Skipped("no network")

@dataclass(frozen=True)
class Sleep(Need):
    number: int = 0

    def make(self, farm):
        (HERE / "sleeps").touch()
        run(["sh", "-c", "sleep SECONDS; :"], limit=600)
"""
SECONDS = str(900_000 + os.getpid())  # that nobody else sleeps
Run = Callable[..., "Result"]


class Result:
    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err
        self.last = out.splitlines()[-1] if out else ""


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]


@pytest.fixture
def project(tmp_path: Path) -> Callable[..., Path]:
    """Writes a folder of tests, each file starting with NEEDS."""

    def write(**files: str) -> Path:
        (tmp_path / "conftest.py").write_text(CONFTEST)
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        for name, text in files.items():
            path = tmp_path / f"{name.replace('__', '/test_')}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(NEEDS.replace("SECONDS", SECONDS) + text)
        return tmp_path

    return write


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def run(*words: str) -> Result:
        done = subprocess.run(
            command(*words), cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
        )
        return Result(done.returncode, done.stdout, done.stderr)

    return run


PASSES = "def test_one(): pass\n"
SKIPS = "def test_two(): pytest.skip('no such machine')\n"


def test_last_line(project, run: Run) -> None:
    project(boot__a=PASSES + SKIPS + "def test_three(): assert 0\n")
    result = run()
    assert (result.last, result.status) == ("1 passed, 1 failed, 1 skipped", 1)
    assert re.search("^SKIPPED .*test_two: no such machine$", result.out, re.MULTILINE)
    assert run("-k", "one or two").last == "1 passed, 0 failed, 1 skipped"
    assert run("-k", "one or two", "-q", "-q").status == 0


@pytest.mark.parametrize(
    ("text", "last"),
    [
        pytest.param("import nothing_like_it\n", "0 passed, 1 failed, 0 skipped", id="collection"),
        pytest.param(
            "@pytest.fixture\ndef broken(): assert 0\ndef test_one(broken): pass\n",
            "0 passed, 1 failed, 0 skipped",
            id="setup",
        ),
        pytest.param(
            "@pytest.fixture\ndef broken():\n    yield\n    assert 0\ndef test_one(broken): pass\n",
            "0 passed, 1 failed, 0 skipped",
            id="teardown",
        ),
        pytest.param("", "0 passed, 1 failed, 0 skipped", id="nothing"),
        pytest.param(
            PASSES + "def test_two(): raise KeyboardInterrupt\n" + "def test_three(): pass\n",
            "1 passed, 1 failed, 0 skipped",
            id="interrupted",
        ),
        pytest.param(
            "@pytest.mark.parametrize('n', [1, 2, 3])\n"
            "def test_one(n, subtests):\n    with subtests.test('case'): assert n < 3\n",
            "4 passed, 2 failed, 0 skipped",
            id="subtests",
        ),
    ],
)
def test_failures_are_counted(project, run: Run, text: str, last: str) -> None:
    project(boot__a=text)
    result = run()
    assert result.last == last
    assert result.status != 0


def test_all_skipped_is_a_failure(project, run: Run) -> None:
    """Of a folder, a file, or a need; each is counted once."""
    needs = "@pytest.mark.needs(Nowhere())\ndef test_three(made): pass\n"
    project(boot__a=PASSES, boot__b=SKIPS, models__c=SKIPS, patches__d=PASSES + needs)
    result = run()
    assert (result.last, result.status) == ("2 passed, 3 failed, 3 skipped", 1)
    failed = re.findall("^FAILED (.*): not tested, all is skipped", result.out, re.MULTILINE)
    assert failed == ["boot/test_b.py", "models", "Nowhere()"]


def test_tiers(project, run: Run) -> None:
    """What is not in the tier is not made either; a test is in no earlier one than what it needs."""
    marked = "".join(
        f"@pytest.mark.tier({name!r})\n@pytest.mark.needs(Word({name!r}))\n"
        f"def test_{name}(made): pass\n"
        for name in ("quick", "test", "full")
    )
    marked += "@pytest.mark.needs(Twice(Long()))\ndef test_long(made): assert made == 4\n"
    here = project(boot__a=PASSES + marked, host__b=PASSES)
    for tier, passed in (("quick", 2), ("test", 4), ("full", 6)):
        assert run("--tier", tier).last == f"{passed} passed, 0 failed, 0 skipped"
        made = {path.name for path in here.glob("boot/made-*")}
        assert ("made-test" in made, "made-full" in made) == (tier != "quick", tier == "full")


def test_needs(project, run: Run) -> None:
    """Equal ones are made once, what comes before is made before, for what is selected."""
    here = project(
        boot__a="""
@pytest.mark.needs(Twice(Word("a")))
def test_one(made, monkeypatch): assert made == "AA"

@pytest.mark.needs(Word("a"))
@pytest.mark.parametrize("number", range(3))
def test_two(made, number): assert made == "A"

@pytest.mark.needs(Word("b"))
def test_three(made): pass
"""
    )
    result = run("-k", "one or two")
    assert (result.last, result.status) == ("4 passed, 0 failed, 0 skipped", 0)
    assert (here / "boot/made-a").read_text() == "once\n"
    assert not (here / "boot/made-b").exists()
    assert "[2/2] Twice(of=Word(word='a')) (0 s)\n" in result.err


def test_a_need_that_fails(project, run: Run) -> None:
    """So do the tests, with its message, and what waits for it is not made."""
    project(
        boot__a="""
@pytest.mark.needs(Twice(Bad()))
def test_one(made): pass

@pytest.mark.needs(Bad())
def test_two(made): pass

@pytest.mark.needs(Twice(Word("a")))
def test_three(made): pass
"""
    )
    result = run()
    assert (result.last, result.status) == ("1 passed, 2 failed, 0 skipped", 1)
    assert "Bad(): no compiler" in result.out
    assert "Twice(of=Bad()): no compiler" in result.out


@pytest.mark.tier("test")
def test_waiting_has_a_limit(project, run: Run) -> None:
    """As long as other needs get done, a test waits for its own."""
    project(
        boot__a="""
import farm

farm.LIMIT = 3.0

@dataclass(frozen=True)
class Slow(Need):
    number: int
    seconds: float
    cores = ALL

    @property
    def before(self):
        return [Slow(self.number - 1, self.seconds)] if self.number else []

    def make(self, farm):
        time.sleep(self.seconds)

@pytest.mark.needs(Slow(3, 1.5))
def test_one(made): pass

@pytest.mark.needs(Slow(0, 60))
def test_two(made): pass
"""
    )
    assert run("-k", "one").last == "1 passed, 0 failed, 0 skipped"
    result = run("-k", "two")
    assert (result.last, result.status) == ("0 passed, 1 failed, 0 skipped", 1)
    assert "for 3 s, nothing was made" in result.out


def test_no_test_disturbs_what_is_made(project, run: Run) -> None:
    """The environment and the output are those of pytest."""
    project(
        boot__a="""
@dataclass(frozen=True)
class Environment(Need):
    def make(self, farm):
        while not (HERE / "changed").exists():
            time.sleep(0.01)
        print("said")
        os.system("echo said; echo said >&2")
        return os.environ.get("CHANGED")

def test_one(monkeypatch, capfd):
    monkeypatch.setenv("CHANGED", "yes")
    (HERE / "changed").touch()
    time.sleep(0.5)
    assert capfd.readouterr() == ("", "")

@pytest.mark.needs(Environment())
def test_two(made): assert made is None
"""
    )
    result = run()
    assert result.last == "2 passed, 0 failed, 0 skipped"
    assert "said" not in result.out + result.err


def left_over() -> list[str]:
    done = subprocess.run(
        ["pgrep", "-fx", f"sleep {SECONDS}"], capture_output=True, text=True, check=False
    )
    return done.stdout.split()


SLEEPS = """
@pytest.mark.parametrize("number", [pytest.param(n, marks=pytest.mark.needs(Sleep(n)))
                                    for n in range(20)])
def test_sleep(made, number): pass
"""


def test_the_first_failure_cancels_the_rest(project, run: Run) -> None:
    here = project(boot__a=SLEEPS, host__b="def test_fails():\n    time.sleep(1)\n    assert 0\n")
    begin = time.monotonic()
    result = run("-x")
    assert (here / "boot/sleeps").exists()
    assert (result.last, result.status) == ("0 passed, 1 failed, 0 skipped", 1)
    assert time.monotonic() - begin < 20
    assert not left_over()


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 2), (signal.SIGKILL, -9)]
)
def test_signals(project, number: signal.Signals, status: int) -> None:
    """Nothing stays behind, and what was broken off has failed."""
    here = project(boot__a=SLEEPS)
    process = subprocess.Popen(
        command(), cwd=here, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    deadline = time.monotonic() + 30
    while not (here / "boot/sleeps").exists() or not left_over():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(number)
    out, _ = process.communicate(timeout=40)
    assert process.returncode == status
    if number != signal.SIGKILL:
        assert out.splitlines()[-1] == "0 passed, 1 failed, 0 skipped"
        assert "FAILED broken off, 20 tests have not ended" in out
    deadline = time.monotonic() + 15
    while left_over() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left_over()
