# SPDX-License-Identifier: GPL-2.0
"""Run the KUnit suites of the base with its series on User Mode Linux.

With ARCH=arm64, the kernel's own kunit.py runs them in QEMU. Where the first patches of the series
have no suite yet, KUnit's example runs. Prints each case with its outcome, and how many there were;
the log of the kernel is in build/kunit.log.
"""

import argparse
import json
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from wqlab.ground.files import lock, write_whole
from wqlab.ground.places import BUILD, CACHE
from wqlab.ground.problem import FAILED, OK, Problem, Skipped
from wqlab.ground.run import CORES, run
from wqlab.guests.qemu import UML_DIR
from wqlab.kernels import options
from wqlab.kernels.arch import UML, Arch, find_arch
from wqlab.kernels.build import add_patches, build, check_patches
from wqlab.kernels.flavours import CONFIGS
from wqlab.kernels.obtain import obtain
from wqlab.kernels.source import Source, kbuild_env

SUITES = "*workqueue*"
EXAMPLE = "example.example_simple_test"  # the others show what failing and skipping is
LIMIT = 120.0  # seconds for a run of the suites
SLOWER = 5  # times, in QEMU
CPUS = 4  # in QEMU
BUILD_LIMIT = 3600.0  # seconds for kunit.py to build a kernel and run it in QEMU
OUTCOMES = {"PASS": "passed", "FAIL": "failed", "ERROR": "failed", "SKIP": "skipped"}


@dataclass(frozen=True)
class Case:
    """One case, and how it ended."""

    suite: str
    name: str
    outcome: str  # passed, failed or skipped

    def __str__(self) -> str:
        return f"{self.outcome:<8}{self.suite}: {self.name}"


@dataclass(frozen=True)
class Report:
    """What the suites in a kernel's log came to."""

    cases: tuple[Case, ...]
    lost: str = ""  # why the results are not whole; "" where they are

    @property
    def passed(self) -> bool:
        """Whether no case failed and none was lost."""
        return not self.lost and all(case.outcome != "failed" for case in self.cases)

    def __str__(self) -> str:
        counts = {outcome: 0 for outcome in ("passed", "failed", "skipped")}
        for case in self.cases:
            counts[case.outcome] += 1
        lines = [*map(str, self.cases), *([f"failed  lost: {self.lost}"] if self.lost else [])]
        counts["failed"] += bool(self.lost)
        return "\n".join([*lines, ", ".join(f"{n} {outcome}" for outcome, n in counts.items())])


@dataclass(frozen=True)
class Uml:
    """A build of User Mode Linux, and whether it has the suites."""

    kernel: Path  # its build directory
    source: Source
    has_suite: bool

    @property
    def suites(self) -> str:
        """The filter for KUnit: the project's suites, or KUnit's own where those are not built in."""
        return SUITES if self.has_suite else EXAMPLE


def build_uml(
    source: Source,
    *,
    patches: int | None = None,
    overlay: Mapping[str, str] | None = None,
    place: str = "uml",
    jobs: int = 0,
) -> Uml:
    """Build User Mode Linux; the arguments are those of build()."""
    kernel = build(source, "uml", patches=patches, overlay=overlay, place=place, jobs=jobs)
    config = (kernel / ".config").read_text()
    return Uml(kernel, source, "CONFIG_WORKQUEUE_KUNIT_TEST=y" in config.splitlines())


def run_uml(uml: Uml, *, filter: str = "", append: str = "", log: Path | None = None) -> Report:
    """Run the suites, or the cases that the pattern `filter` ("SUITE.CASE") matches.

    Several may run at the same time. `append` is more boot parameters, `log` a file for what the
    kernel says. However the kernel ends, the report says what has passed, and what was lost.
    """
    with tempfile.TemporaryDirectory() as folder:
        # User Mode Linux drops what a pipe has no room for. If it dies early, it empties its folder.
        text, home = Path(folder) / "log", Path(folder) / "home"
        home.mkdir()
        done = run(
            [
                *(uml.kernel / UML.image, "mem=1G", UML_DIR, "console=tty", "kunit_shutdown=halt"),
                *("kunit.enable=1", f"kunit.filter_glob={filter or uml.suites}", *append.split()),
            ],
            limit=LIMIT,
            log=text,
            cwd=home,
            deaf=True,  # one that hangs or has panicked ignores TERM
        )
        said = text.read_text(errors="replace")
    if log:
        write_whole(log, said)
    report = parse(uml.source.repo, said)
    if done.status and not report.lost:
        return Report(report.cases, f"User Mode Linux ended with status {done.status}")
    return report


def run_kunit_py(
    source: Source,
    arch: Arch,
    *,
    patches: int | None = None,
    log: Path | None = None,
) -> Report:
    """Have the kernel's kunit.py build a kernel, and run the suites on it in QEMU.

    Raises Skipped without a compiler or QEMU for the architecture.
    """
    for program in (f"{arch.cross}gcc", arch.qemu):
        if not shutil.which(program):
            raise Skipped(f"no {program}: scripts/setup test installs it where it can")
    place = source.place("kunit")
    with lock(str(place.relative_to(CACHE))), source.hold(patches) as tree:
        folder = place / arch.name
        folder.mkdir(parents=True, exist_ok=True)
        raw = folder / "kunit.log"
        raw.unlink(missing_ok=True)
        done = run(
            [
                *(tree / "tools/testing/kunit/kunit.py", "run", "--raw_output=all"),
                *(f"--arch={arch.kbuild}", f"--cross_compile={arch.cross}"),
                *(f"--build_dir={folder}", f"--kunitconfig={CONFIGS / 'kunit'}"),
                *("--kconfig_add=CONFIG_DEBUG_FS=y", f"--qemu_args=-smp {CPUS}"),
                *(f"--make_options=CC=ccache {arch.cross}gcc", f"--timeout={LIMIT * SLOWER:.0f}"),
                *(f"--jobs={CORES}", SUITES),
            ],
            limit=BUILD_LIMIT,
            label=f"kunit.py for {arch.name}, log in {raw}",
            log=raw,
            env=kbuild_env() | {"PYTHONDONTWRITEBYTECODE": "1"},
        )
        said = raw.read_text(errors="replace")
    if log:
        write_whole(log, said)
    report = parse(source.repo, said)
    if done.status and not report.lost and report.passed:
        return Report(report.cases, f"kunit.py ended with status {done.status}")
    return report


# --- KTAP -----------------------------------------------------------------------------------


def parse(tree: Path, log: str) -> Report:
    """What became of the KUnit suites in a log, by kunit.py of the kernel's source `tree`.

    A case or a suite that a plan counts and the log lacks is lost.
    """
    # Each suite's results in debugfs are a document of their own.
    documents = re.split(r"^(?=KTAP version)", log.replace("\r", ""), flags=re.MULTILINE)
    documents = [text for text in documents if "KTAP version" in text]
    cases: list[Case] = []
    errors: list[str] = []
    for text in documents:
        found, said = read_ktap(tree, text)
        for suite in found["sub_groups"]:
            parts = [Case(suite["name"], part["name"], outcome(part)) for part in members(suite)]
            cases += [case for case in parts if case.name]  # one without a name is lost
        errors += re.findall(r"\[ERROR\] Test: (.*)", said)
        errors += [f"{part['name']} has no cases" for part in found["test_cases"] if part["name"]]
    if not cases:
        errors.append("no case has reported")
    return Report(tuple(cases), "; ".join(dict.fromkeys(errors)))


def read_ktap(tree: Path, text: str) -> tuple[dict, str]:
    """The results of one KTAP document, and what kunit.py says of them; raises Problem."""
    with tempfile.TemporaryDirectory() as folder:
        log, result = Path(folder) / "log", Path(folder) / "json"
        log.write_text(text)
        done = run(
            [tree / "tools/testing/kunit/kunit.py", "parse", f"--json={result}", log],
            limit=60,
            cwd=Path(folder),
        )
        if not result.is_file():
            raise Problem(f"kunit.py cannot parse a log: {done.output.strip()[-300:]}")
        return json.loads(result.read_text()), done.output


def members(group: dict) -> list[dict]:
    """The cases and groups right below a group of KTAP."""
    return [*group["test_cases"], *group["sub_groups"]]


def outcome(part: dict) -> str:
    """The outcome of a case; of one with parameters, that of all its runs."""
    if "status" in part:
        return OUTCOMES[part["status"]]
    outcomes = {outcome(each) for each in members(part)}
    return next((it for it in ("failed", "passed") if it in outcomes), "skipped")


# --- the command ----------------------------------------------------------------------------


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_base(parser)
    add_patches(parser)


def command(args: argparse.Namespace) -> int:
    check_patches(args.base, args.patches)
    arch, log = find_arch(), BUILD / "kunit.log"
    source = obtain(args.base, args.ksrc)
    if arch.name != "x86_64":
        report = run_kunit_py(source, arch, patches=args.patches, log=log)
    else:
        report = run_uml(build_uml(source, patches=args.patches), log=log)
    print(report)
    return OK if report.passed else FAILED
