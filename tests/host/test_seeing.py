# SPDX-License-Identifier: GPL-2.0
"""wq_verify.py and wq_contention.py, as far as no kernel is needed: when a fault is believed, what
is said where nothing can be told, and the error of a share. What they find in kernels is in
tests/boot/test_verify.py and test_contention.py.

Seen failing: with a fault believed at once, with one forgotten when what it's of moves, with what
always moves taken for right, with "unknown" taken for right, with Wald's interval for Wilson's, and
with a missing drgn not caught.
"""

import subprocess
import sys
from collections.abc import Iterator

import drgn
import pytest

from wqlab.ground.places import ROOT

TOOLS = ROOT / "tools/workqueue"
sys.path.insert(0, str(TOOLS))
import wq_contention
import wq_verify
from wq_verify import Absent, Look, Unknown

INSTALL = "Debian: python3-drgn; others: pip install drgn"
SCRIPTS = pytest.mark.parametrize("script", [wq_verify, wq_contention], ids=lambda s: s.__name__)


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["script"])
    monkeypatch.setattr(wq_verify, "PAUSE", 0)


def looks(text: str) -> Iterator[Look]:
    """What one pass after the other finds, the last for ever: nothing wrong ("."), a fault with
    another count each time ("x"), or that it moves ("?")."""
    for number in range(1000):
        what = text[min(number, len(text) - 1)]
        look = Look(seen=what != "?", unit="pools")
        if what == "x":
            look.fault("pool 7", f"nr_idle is {number}")
        elif what == "?":
            look.moving.add("pool 7")
        yield look


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (".", "right"),
        ("x", "wrong"),
        ("x.", "right"),
        ("xx.", "right"),
        ("x?x?x", "wrong"),
        ("x?.", "right"),
        (".?", "right"),
        ("?.", "right"),
        ("?xxx.", "wrong"),
        ("?", "unknown"),
    ],
)
def test_belief(text: str, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = looks(text)
    monkeypatch.setattr(wq_verify, "CHECKS", {"workers": lambda kernel: next(found)})
    (result,) = wq_verify.verify(drgn.Program())
    assert result.status == status
    assert len(result.faults) == (status == "wrong")


def test_status(monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(error: Exception) -> object:
        def check(kernel: object) -> Look:
            raise error

        return check

    def status(*checks: object) -> int:
        monkeypatch.setattr(wq_verify, "CHECKS", dict(enumerate(checks)))
        return wq_verify.status_of(list(wq_verify.verify(drgn.Program())))

    right, wrong = (lambda _: Look(1, "pools")), (lambda _: next(looks("x")))
    absent, unknown = raising(Absent("no scope cache_shard")), raising(Unknown("no wq_affn_dfl"))
    assert status(right, absent) == 0
    assert status(right, unknown) == 2
    assert status(unknown, wrong, right) == 1


def test_symbol_is_absent() -> None:
    with pytest.raises(Unknown, match="^this kernel has no wq_pod_types, or drgn can't find it$"):
        assert wq_verify.Kernel(drgn.Program())["wq_pod_types"]


@SCRIPTS
def test_no_debug_info(script: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert script.main(drgn.Program()) == 2
    said = capsys.readouterr()
    assert "drgn finds no struct worker_pool: install the debug info" in said.err
    assert said.err.count("\n") == 1 and not said.out


@SCRIPTS
@pytest.mark.parametrize(
    ("options", "why"),
    [
        ([], "this is a script for drgn: run it as"),
        (["-S"], f"Python finds no drgn: install it ({INSTALL}), and run this as"),
    ],
    ids=["by Python", "not installed"],
)
def test_without_drgn(script: object, options: list[str], why: str) -> None:
    path = TOOLS / f"{script.__name__}.py"
    command = [sys.executable, *options, path]
    done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=60)
    said = f"{path.name}: {why} drgn {path.name}\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


def test_interval() -> None:
    """As in Newcombe, Statistics in Medicine 17 (1998), table I."""
    assert wq_contention.wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert wq_contention.wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)
    assert wq_contention.wilson(29, 29) == pytest.approx((0.8830, 1.0), abs=1e-4)
    assert wq_contention.wilson(0, 0) == (0, 1)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--for", "0"], "'0' is not a number above 0"),
        (["--interval", "x"], "'x' is not a number above 0"),
    ],
)
def test_bad_options(
    words: list[str], says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["wq_contention.py", *words])
    with pytest.raises(SystemExit) as ended:
        wq_contention.main(None)
    assert ended.value.code == 2 and says in capsys.readouterr().err
