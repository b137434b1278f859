# SPDX-License-Identifier: GPL-2.0
"""What pip installs: a program that runs from anywhere, with all that it reads.

Seen failing: without scenarios/ in the package, with a folder that wqlab reads and the package
lacks, with build/ beside the data, and with another version in the program.
"""

import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

from wqlab.ground.places import ROOT

pytestmark = pytest.mark.tier("test")
RESULTS = ROOT / "results/native-7.3.json"
NO_INDEX = re.compile("No matching distribution|Could not find a version|Connection")


def said(command: list[str | Path], cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    lean = {key: text for key, text in os.environ.items() if not key.startswith(("PYTHON", "WQ_"))}
    return subprocess.run(
        command, cwd=cwd, env=lean | env, capture_output=True, text=True, timeout=180, check=False
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the package and nothing that it depends on."""
    place = tmp_path_factory.mktemp("install")
    venv.create(place / "env", with_pip=True)
    done = said([place / "env/bin/pip", "install", "--no-deps", ROOT], place)
    if done.returncode and NO_INDEX.search(done.stderr):
        pytest.skip(f"pip cannot get hatchling: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return place / "env"


def wqlab(installed: Path, cwd: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """With the Python packages that the tests have."""
    packages = [path for path in sys.path if path.endswith("-packages")]
    return said([installed / "bin/wqlab", *words], cwd, PYTHONPATH=os.pathsep.join(packages))


def test_version(installed: Path, tmp_path: Path) -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        version = tomllib.load(file)["project"]["version"]
    assert said([installed / "bin/wqlab", "--version"], tmp_path).stdout == f"wqlab {version}\n"
    assert (
        f"\nVersion: {version}\n" in said([installed / "bin/pip", "show", "wqlab"], tmp_path).stdout
    )


@pytest.mark.parametrize("words", [["--help"], ["local", "--help"], ["boot", "--help"]])
def test_help_has_the_exit_statuses(installed: Path, tmp_path: Path, words: list[str]) -> None:
    done = wqlab(installed, tmp_path, *words)
    assert (done.returncode, done.stderr) == (0, "")
    last = done.stdout.splitlines()[-1]
    assert last == ("Exit status: 0 done, 1 failed, 2 wrong usage, 77 skipped, 130 interrupted")


def test_doctor(installed: Path, tmp_path: Path) -> None:
    """It reads bases/ and packages, and runs scripts/setup."""
    done = wqlab(installed, tmp_path, "doctor")
    assert done.returncode in (0, 1) and done.stderr == ""
    assert "source of 6.12:" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("wqlab bench can")


def test_what_is_made_goes_where_the_user_is(installed: Path, tmp_path: Path) -> None:
    done = wqlab(installed, tmp_path, "report", RESULTS)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "build/report/index.html").is_file()
    assert not list(installed.glob("lib/*/site-packages/wqlab/data/build"))


def test_audit(installed: Path, tmp_path: Path) -> None:
    stored = ROOT / "results/audit/7.3.json"
    done = said(
        [installed / "bin/wqlab-audit", "--file", stored, "--out", tmp_path / "x"], tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "x.md").read_text() == stored.with_suffix(".md").read_text()


def test_all_that_is_read_is_there(installed: Path) -> None:
    paths = set((ROOT / "wqlab").rglob("*.py"))
    paths -= set((ROOT / "series").glob("*.py"))  # what it reads more it asks a clone for
    source = "\n".join(path.read_text() for path in paths)
    names = set(re.findall(r'\bROOT / f?"([^/"{]+)', source))
    assert {"bases", "guest", "scripts"} <= names
    [data] = installed.glob("lib/*/site-packages/wqlab/data")
    assert names <= set(os.listdir(data))
    assert os.access(data / "scripts/setup", os.X_OK)
