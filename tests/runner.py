# SPDX-License-Identifier: GPL-2.0
"""What this project adds to pytest: tiers, the farm, and the last line of a run.

The last line on stdout is "N passed, N failed, N skipped". It counts tests, and each subtest
(a case of KUnit is one). What breaks off is a failure, and so is a folder, a file or a need all
of whose tests were skipped: it has not been tested.
"""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
from farm import Farm, Need, with_before

from wqlab.ground import places

TIERS = ("quick", "test", "full")
QUICK = ("host", "tests")  # folders, of tests and audit, whose tests are quick unless marked


def add_options(parser: pytest.Parser) -> None:
    parser.addoption(
        "--tier",
        choices=TIERS,
        default="test",
        help="quick: before each commit; test; full: also what takes long (test)",
    )


def terminated(number: int, _: FrameType | None) -> None:
    pytest.exit(f"ended by {signal.Signals(number).name}", returncode=128 + number)


def needs_of(item: pytest.Item) -> list[Need]:
    return [need for marker in item.iter_markers("needs") for need in marker.args]


class Runner:
    """A plugin for pytest."""

    def __init__(self, config: pytest.Config) -> None:
        # A shell ignores SIGINT in what it runs in the background, and so would all of this.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, terminated)
        config.addinivalue_line("markers", "needs(need): what is made ahead; `made` is its result")
        config.addinivalue_line("markers", "tier(name): quick, test or full")
        self.config = config
        self.terminal = os.dup(2)  # while tests run, 2 is where their output is caught
        self.farm = Farm([])
        self.outcomes: dict[str, set[str]] = {}
        self.subtests: Counter[str] = Counter()
        self.lost: list[str] = []  # failures that are none of a test
        self.needs: dict[str, list[Need]] = {}
        self.ended = False

    # Which tests, and what they need

    def tier(self, item: pytest.Item) -> int:
        marker = item.get_closest_marker("tier")
        named = marker.args[0] if marker else "quick" if item.path.parent.name in QUICK else "test"
        needed = [need.tier for need in with_before(needs_of(item))]
        return max(map(TIERS.index, [named, *needed]))

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        last = TIERS.index(self.config.getoption("--tier"))
        if rest := [item for item in items if self.tier(item) > last]:
            self.config.hook.pytest_deselected(items=rest)
        # What needs nothing runs while the rest is made.
        chosen = [item for item in items if item not in set(rest)]
        items[:] = sorted(chosen, key=lambda item: bool(needs_of(item)))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        if session.config.option.collectonly or session.testsfailed:
            return
        self.needs = {item.nodeid: needs_of(item) for item in session.items}
        self.farm = Farm(
            [need for needs in self.needs.values() for need in needs],
            options=self.config.option,
            log=places.BUILD / "test/farm.log",
            terminal=self.terminal,
        )

    @pytest.fixture
    def made(self, request: pytest.FixtureRequest) -> object:
        """What the test's need came to; if it was not to be had, the test does not run."""
        (need,) = needs_of(request.node)
        made = self.farm.take(need)
        if made.wrong:
            pytest.fail(f"{need}: {made.wrong}", pytrace=False)
        if made.skipped:
            pytest.skip(made.skipped)
        return made.result

    # What came of it

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if isinstance(report, pytest.SubtestReport):
            self.subtests[report.outcome] += 1
        elif report.when == "call" or report.outcome != "passed":
            self.outcomes.setdefault(report.nodeid, set()).add(report.outcome)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.lost.append(f"{report.nodeid or 'collection'}: its tests could not be collected")

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        if not isinstance(excinfo.value, pytest.Session.Interrupted):  # by what was not collected
            left = len(self.needs) - len(self.outcomes)
            self.lost.append(f"broken off, {left} tests have not ended")

    def outcome(self, nodeid: str) -> str:
        return next(
            word for word in ("failed", "skipped", "passed") if word in self.outcomes[nodeid]
        )

    def untested(self) -> Iterator[str]:
        """The folders, files and needs all of whose tests were skipped, the widest of them."""
        groups: dict[str, set[str]] = {}
        foreign = bool(os.environ.get("ARCH"))  # another architecture doesn't have every machine
        for nodeid in self.outcomes:
            file = nodeid.split("::")[0]
            needs = [] if foreign else map(str, self.needs.get(nodeid, []))
            for name in [*map(str, reversed(Path(file).parents)), file, *needs]:
                groups.setdefault(name, set()).add(nodeid)
        seen: set[str] = set()
        for name, nodeids in groups.items():
            if all(self.outcome(nodeid) == "skipped" for nodeid in nodeids) and nodeids - seen:
                seen |= nodeids
                yield f"{name}: not tested, all is skipped ({len(nodeids)})"

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        self.farm.close()
        self.ended = True
        if session.config.option.collectonly:
            return
        self.lost += self.untested()
        if not self.outcomes and not self.lost:
            self.lost.append("nothing was tested")
        failed = "failed" in map(self.outcome, self.outcomes)
        if exitstatus and not failed and not self.lost:
            self.lost.append(f"pytest ended with status {int(exitstatus)}")
        if self.lost and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.config.option.collectonly:
            return
        for report in terminalreporter.stats.get("skipped", []):
            if isinstance(report.longrepr, tuple):
                terminalreporter.write_line(
                    f"SKIPPED {report.nodeid}: {report.longrepr[2].removeprefix('Skipped: ')}"
                )

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        self.farm.close()
        os.close(self.terminal)
        if not self.ended or self.config.option.collectonly:
            return
        counts = Counter(map(self.outcome, self.outcomes)) + self.subtests
        for line in self.lost:
            print(f"FAILED {line}")
        if cases := sum(self.subtests.values()):
            print(f"Of them, {cases} are cases of KUnit.")
        failed = counts["failed"] + len(self.lost)
        line = f"{counts['passed']} passed, {failed} failed, {counts['skipped']} skipped"
        print(line, flush=True)
        if to := self.config.getoption("counts", None):
            to.write_text(line)
