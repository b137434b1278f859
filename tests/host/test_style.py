# SPDX-License-Identifier: GPL-2.0
"""The scripts are clean for shellcheck, ruff and mypy, all tests can be collected, and nothing
that is generated is committed.

Seen failing: with an unquoted variable, a shellcheck that cannot be run or reads a file that is
not there, an unused import, a wrong type, an import of a name that is not there, and a committed
object file.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from wqlab.ground.places import ROOT


def tracked() -> list[Path]:
    command = [
        "git",
        "-C",
        str(ROOT),
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
    return [ROOT / name for name in output.split("\0") if name and (ROOT / name).is_file()]


def by_shebang(*programs: str) -> list[str]:
    """Scripts whose first line names one of the programs, and files named like them."""
    found = []
    for path in tracked():
        with open(path, "rb") as file:
            first = file.readline()
        if path.suffix == f".{programs[0]}" or (
            first.startswith(b"#!") and first.split()[-1].decode().split("/")[-1] in programs
        ):
            found.append(str(path))
    return found


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=120, cwd=ROOT
    )


def clean(*command: str | Path) -> None:
    result = run(*command)
    assert result.returncode == 0, result.stdout + result.stderr


def test_shellcheck() -> None:
    scripts = by_shebang("sh", "bash")
    assert len(scripts) > 10
    clean("shellcheck", "-x", *scripts)


def test_a_check_that_says_nothing_has_not_passed(tmp_path: Path) -> None:
    """As shellcheck on stdout, if it cannot read the file."""
    with pytest.raises(AssertionError):
        clean("shellcheck", tmp_path / "nowhere.sh")


def test_mypy() -> None:
    clean(sys.executable, "-m", "mypy")


@pytest.mark.parametrize("command", [["check"], ["format", "--check", "--diff"]])
def test_ruff(command: list[str]) -> None:
    scripts = by_shebang("py", "python3")
    clean(sys.executable, "-m", "ruff", *command, *scripts)


def test_all_tests_collect() -> None:
    clean(sys.executable, "-m", "pytest", "-q", "--collect-only", "--tier", "full")


def test_nothing_binary_is_tracked() -> None:
    binary = [str(path) for path in tracked() if b"\0" in path.read_bytes()[:8192]]
    assert not binary
