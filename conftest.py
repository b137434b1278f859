# SPDX-License-Identifier: GPL-2.0
"""Options and fixtures of the tests in tests/ and audit/tests; tests/runner.py runs them."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# what tests import from each other, whatever pytest was told about where modules are
ROOT = Path(__file__).resolve().parent
TESTS = ROOT / "tests"
sys.path[:0] = [str(ROOT), str(TESTS), *sorted(map(str, TESTS.glob("[a-z]*/")))]

import runner
import slices

from wqlab.ground import places
from wqlab.ground.problem import Problem
from wqlab.guests import kunit
from wqlab.guests.vm import Record
from wqlab.kernels.bases import default_base, load_base
from wqlab.kernels.options import checked, existing, positive


def pytest_addoption(parser: pytest.Parser) -> None:
    runner.add_options(parser)
    parser.addoption(
        "--base", type=checked(load_base), default=default_base(), metavar="BASE", help="a kernel"
    )
    parser.addoption(
        "--ksrc", type=existing, metavar="KSRC", help="a kernel source in place of the base's"
    )
    parser.addoption(
        "--mutants", type=existing, metavar="PATH", help="diffs, for tests/mutants (its series/)"
    )
    parser.addoption(
        "--broken", type=existing, metavar="DIFF", help="put on top of the series in all kernels"
    )
    parser.addoption(
        "--append", default="", metavar="WORDS", help="for the command line of kernels"
    )
    parser.addoption("--torture-secs", type=positive, metavar="N", help="for each run of wqtorture")
    parser.addoption("--counts", type=Path, metavar="FILE", help="to write the last line to")


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """What `make test` and `make test-full` run is more than one run of pytest."""
    if config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return None
    try:
        return slices.instead(config.invocation_params.args)
    except Problem as error:
        raise pytest.UsageError(str(error)) from None


def pytest_configure(config: pytest.Config) -> None:
    if isinstance(config.option.base, str):  # pytest does not convert defaults
        config.option.base = load_base(config.option.base)
    if config.option.broken:  # beside what the same tests make of the series
        places.BUILD = ROOT / "build/broken"
    config.pluginmanager.register(runner.Runner(config))


@pytest.fixture
def record(made: Record) -> Record:
    """The record of the boot that the test needs; its job must have passed."""
    print("\n".join(made.tail or made.lines))
    if made.verdict != "pass":
        pytest.fail(f"{made.verdict} in {made.seconds} s: {made.reason}", pytrace=False)
    return made


@pytest.fixture
def each_case(subtests: pytest.Subtests) -> Callable[[kunit.Report], None]:
    """Makes each case of KUnit count as a test, and nothing lost pass."""

    def check(report: kunit.Report) -> None:
        for case in report.cases:
            with subtests.test(f"{case.suite}: {case.name}"):
                if case.outcome == "skipped":
                    pytest.skip("KUnit skipped it")
                assert case.outcome == "passed"
        assert not report.lost, report.lost

    return check
