# SPDX-License-Identifier: GPL-2.0
"""Options for the tests that boot a kernel, the boots they share, and the tally."""

import os
import signal
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import wqboot
from wqtopology import load_scenario

NO_KERNEL = "no kernel given: pass --kernel"
AT_ONCE = 2  # boots at a time; each keeps one core busy

outcomes: dict[str, set[str]] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kernel", type=Path, metavar="DIR", help="build directory (O=) of the kernel to boot"
    )
    parser.addoption(
        "--wq-dump", type=Path, metavar="FILE", help="wq_dump.py of that kernel's source"
    )
    parser.addoption(
        "--torture-secs", type=int, default=20, metavar="N", help="for each run of wqtorture (20)"
    )
    parser.addoption(
        "--large-models", action="store_true", help="add searches of the models that take minutes"
    )


def pytest_configure(config: pytest.Config) -> None:
    # A shell ignores SIGINT in what it runs in the background, and so would all that tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "boot(boot): the boot that the record fixture gives")
    if config.getoption("--kernel") and not config.getoption("--wq-dump"):
        raise pytest.UsageError("--kernel needs --wq-dump")


def pytest_report_header(config: pytest.Config) -> str:
    kernel = config.getoption("--kernel")
    return f"kernel: {kernel}" if kernel else f"tests/boot is skipped, {NO_KERNEL}"


def load_script(name: str) -> ModuleType:
    """A Python script of scripts/, as a module."""
    loader = SourceFileLoader(name, str(ROOT / "scripts" / name))
    spec = spec_from_loader(name, loader)
    assert spec
    module = module_from_spec(spec)
    sys.modules[name] = module
    loader.exec_module(module)
    return module


def tally(outcome: str, name: str) -> None:
    """One line per test for scripts/test to count; reports of pytest-xdist's workers get here."""
    if (path := os.environ.get("WQ_TALLY")) and "PYTEST_XDIST_WORKER" not in os.environ:
        with Path(path).open("a") as file:
            file.write(f"{outcome} {name}\n")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    seen = outcomes.setdefault(report.nodeid, set())
    seen.add(report.outcome)
    if report.when == "teardown":
        tally(next(word for word in ("failed", "skipped", "passed") if word in seen), report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        tally("failed", report.nodeid)


@dataclass(frozen=True)
class Boot:
    """A boot that tests want; equal ones happen once."""

    scenario: str
    job: str
    append: str = ""
    commands: str = ""
    timeout: float | None = None  # seconds, if not the scenario's


@pytest.fixture(scope="session")
def boots(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """Every boot that the selected tests want, started ahead of the tests."""
    path = request.config.getoption("--kernel")
    if not path:
        pytest.skip(NO_KERNEL)
    kernel = wqboot.find_kernel(path.resolve())
    wq_dump = request.config.getoption("--wq-dump").resolve()
    wqboot.kvm_works(kernel)  # its trial boot should have the machine to itself

    def run(boot: Boot) -> wqboot.Record:
        # KUnit suites at boot take time and log what they feed to parsers.
        quiet = "" if boot.job == "kunit" else "kunit.enable=0 "
        return wqboot.boot(
            kernel,
            load_scenario(ROOT / f"scenarios/{boot.scenario}.toml"),
            boot.job,
            tmp_path_factory.mktemp(f"{boot.scenario}-{boot.job}"),
            append=quiet + boot.append,
            commands=boot.commands,
            timeout=boot.timeout,
            wq_dump=wq_dump if boot.job == "pods" else None,
        )

    pool = ThreadPoolExecutor(AT_ONCE)
    futures: dict[Boot, Future[wqboot.Record]] = {}
    for item in request.session.items:
        for marker in item.iter_markers("boot"):
            if marker.args[0] not in futures:
                futures[marker.args[0]] = pool.submit(run, marker.args[0])
    yield futures
    pool.shutdown(cancel_futures=True)


@pytest.fixture
def record(
    request: pytest.FixtureRequest, boots: dict[Boot, Future[wqboot.Record]]
) -> wqboot.Record:
    """The record of the boot that the test is marked with; its job must have passed."""
    boot = request.node.get_closest_marker("boot").args[0]
    record = boots[boot].result()
    print("\n".join(record.tail or record.lines))
    if record.verdict != "pass":
        pytest.fail(
            f"{boot}: {record.verdict} in {record.seconds} s: {record.reason}", pytrace=False
        )
    return record
