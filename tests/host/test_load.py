# SPDX-License-Identifier: GPL-2.0
"""wqlab load with a made-up load in place of those of loads/, and their declarations.

Seen failing: with a load that is killed when it has not ended at once, or that outlives wqlab; with
--force, --quick and what is missing ignored; with anybody, too many devices, and any name of one let
through; with a run that failed at once stored; with the lowest figure shown as the highest; with a
trace of no size; with a run under perf that counts no cycles.
"""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from wqlab.ground.places import ROOT
from wqlab.guests.scenario import find_scenario
from wqlab.measure.load import FOLDER, LOADS
from wqlab.results.file import load
from wqlab.results.metrics import FIGURES
from wqlab.results.model import Results

MAIN = f"""
import functools, sys
from pathlib import Path
sys.path.insert(0, {str(ROOT)!r})
from wqlab import cli
from wqlab.measure import load
from wqlab.measure.host import LiveHost
root, uid, *arguments = sys.argv[1:]
load.FOLDER = Path(root)
load.LOADS.clear()
load.LOADS.update(load.read_loads())
load.command = functools.partial(load.command, host=LiveHost(uid=int(uid)))
sys.exit(cli.main(["load", *arguments]))
"""
SCALES = """
[disk]
about = "a made-up disk"
programs = ["true"]
machines = ["bench-2"]
devices = 2
full = { SECS = 60, JOBS = 4 }
quick = { SECS = 1 }
guest = { MEMORY = 100 }

[net]
about = "a made-up network"
programs = ["true"]
machines = ["bench-2"]
devices = 0
full = { SECS = 60 }
quick = {}
guest = { MEMORY = 100 }
"""
# Says what it was given. What it has set up is the file `up`, which it takes a while to remove.
DISK = """#!/bin/sh
up=${0%/*}/up
trap 'sleep 2; rm $up' EXIT
trap 'exit 143' TERM
echo >$up
echo "$* $SECS $JOBS force=$FORCE" >>${0%/*}/calls
echo "> many"
echo "figures write_mib=1.5 kworkers=$(wc -l <${0%/*}/calls)"
echo "> few"
echo "figures write_mib=2.5 peak=4 limit=4"
echo "missing scope cache_shard: this kernel does not have it"
if [ -e ${0%/*}/wrong ]; then
    echo "disk: error: $(cat ${0%/*}/wrong)" >&2
    exit 1
fi
[ ! -e ${0%/*}/slow ] || { echo >${0%/*}/waiting; sleep 60 & wait $!; }
"""


@dataclass(frozen=True)
class Place:
    root: Path

    @property
    def out(self) -> Path:
        return self.root / "out.json"

    def put(self, name: str, text: str = "\n") -> None:
        (self.root / name).write_text(text)

    def calls(self) -> list[str]:
        path = self.root / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def command(self, *words: str, uid: int = 0) -> list[str]:
        options = ["--no-perf", f"--out={self.out}"]
        return [sys.executable, "-c", MAIN, str(self.root), str(uid), *words, *options]

    def run(self, *words: str, uid: int = 0) -> subprocess.CompletedProcess[str]:
        command = self.command(*words, uid=uid)
        return subprocess.run(command, text=True, capture_output=True, timeout=60, check=False)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.put("scales.toml", SCALES)
    place.put("disk", DISK)
    (tmp_path / "disk").chmod(0o755)
    return place


def test_declarations() -> None:
    """Each load is a file with a head that says how it is run, and has what a run takes."""
    scripts = {path.name for path in FOLDER.iterdir() if not path.suffix}
    assert scripts == set(LOADS)
    for one in LOADS.values():
        text = one.script.read_text()
        assert f"scripts/wqlab load {one.name}" in text
        assert one.script.stat().st_mode & 0o100
        assert set(one.quick) <= set(one.full)
        for machine in one.machines:
            find_scenario(machine)
        for key in ("SECS", "EVERY", "TRACE_SECS", "TRACE_KB"):
            assert int(str(one.full[key])) > 0


@pytest.mark.parametrize(
    ("words", "uid", "status", "said"),
    [
        (["disc"], 0, 2, "invalid choice: 'disc'"),
        (["disk"], 0, 2, "disk takes 2 devices with --devices, which are overwritten, not 0"),
        (["disk", "--devices", "/dev/a"], 0, 2, "not 1"),
        (["net", "--devices", "/dev/a"], 0, 2, "net takes no devices"),
        (["disk", "--devices", "/dev/a,b"], 0, 2, "'b' is not a device in /dev"),
        (["disk", "--devices", "/dev/a,/dev/b"], 1000, 1, "only root can set up a load: try sudo"),
        (["disk", "--devices", "/dev/a,/dev/b", "--runs", "0"], 0, 2, "'0' is not a number"),
    ],
)
def test_bad_usage(place: Place, words: list[str], uid: int, status: int, said: str) -> None:
    done = place.run(*words, uid=uid)
    assert done.returncode == status
    assert said in done.stderr.splitlines()[-1]
    assert not place.calls()


def results(place: Place) -> Results:
    return load(place.out)


DEVICES = ("disk", "--devices", "/dev/a,/dev/b")


def test_results(place: Place) -> None:
    done = place.run(*DEVICES, "--runs", "3", "--quick")
    assert done.returncode == 0, done.stderr
    assert place.calls() == ["/dev/a /dev/b 1 4 force="] * 3
    found = results(place)
    assert [boot.number for boot in found.boots] == [1, 2, 3]
    assert all(boot.runs == [{"load": "disk", "SECS": 1, "JOBS": 4}] for boot in found.boots)
    assert found.notes == ["disk, scope cache_shard: this kernel does not have it"]
    assert "not measured: disk, scope cache_shard" in done.stdout
    kworkers = FIGURES["kworkers"].label
    row = next(line for line in done.stdout.splitlines() if kworkers in line)
    assert row.split()[-4:] == ["3", "1", "2", "3"]
    report = subprocess.run(
        [sys.executable, "-m", "wqlab", "report", place.out, "--out", place.root / "page"],
        cwd=ROOT,
        text=True,
        capture_output=True,
        timeout=60,
        check=True,
    ).stdout
    assert "disk, few" in report and "2.5" in report


def test_no_run_under_perf_where_it_counts_no_cycles(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.put("perf", "#!/bin/sh\necho '  <not supported>   cycles'\n")
    (place.root / "perf").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place.root}:{os.environ['PATH']}")
    command = place.command(*DEVICES, "--runs", "1")
    command.remove("--no-perf")
    done = subprocess.run(command, text=True, capture_output=True, timeout=60, check=True)
    assert len(place.calls()) == 1
    assert "waited for: perf counts no cycles here (<not supported> cycles)" in done.stdout


def test_force_is_handed_on(place: Place) -> None:
    assert place.run(*DEVICES, "--runs", "1", "--force").returncode == 0
    assert place.calls() == ["/dev/a /dev/b 60 4 force=1"]


@pytest.mark.tier("test")
def test_a_load_that_fails_at_once_ends_it(place: Place) -> None:
    place.put("wrong", "/dev/a holds something (ext4): --force overwrites it")
    done = place.run(*DEVICES)
    assert done.returncode == 1
    last = "wqlab load: error: /dev/a holds something (ext4): --force overwrites it"
    assert done.stderr.splitlines()[-1] == last
    assert len(place.calls()) == 1 and not place.out.exists()


@pytest.mark.tier("test")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_takes_back_what_was_set_up(place: Place, number: int) -> None:
    place.put("slow")
    command = place.command(*DEVICES)
    with subprocess.Popen(command, text=True, stderr=subprocess.PIPE) as program:
        for _ in range(600):
            if (place.root / "waiting").exists():
                break
            time.sleep(0.05)
        program.send_signal(number)
        _, err = program.communicate(timeout=30)
    assert program.returncode == 128 + number
    assert not (place.root / "up").exists()
    assert "taking back what was set up" in err and "Traceback" not in err


@pytest.mark.tier("test")
def test_killed_it_takes_back_what_was_set_up(place: Place) -> None:
    place.put("slow")
    with subprocess.Popen(place.command(*DEVICES), stderr=subprocess.DEVNULL) as program:
        for _ in range(600):
            if (place.root / "waiting").exists():
                break
            time.sleep(0.05)
        program.kill()
    for _ in range(200):
        if not (place.root / "up").exists():
            return
        time.sleep(0.05)
    pytest.fail("what was set up is still there")
