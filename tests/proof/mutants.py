# SPDX-License-Identifier: GPL-2.0
"""Break the kernel on purpose, once for each diff of a folder, and say what notices.

The first line of a diff may name what must notice:

  Caught by: CASE                         a KUnit case, on User Mode Linux
  Caught by: CASE on SCENARIO             the same in QEMU, on one of scenarios/; those named
                                          lockdep_... on a kernel with lockdep
  Caught by: wqtorture on SCENARIO: TEXT  wqtorture, with an error that matches TEXT
  Caught by: tests/FILE.py::TEST          a test of pytest, maybe with parameters, whose kernels
                                          have the diff and are built for it: --broken

All other mutants run every KUnit case on User Mode Linux. Diffs that change nothing but bodies of
functions share one kernel of each kind, any other is built by itself. tests/mutants runs them.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from schemata import Mutant, schemata

from wqlab.ground.places import ROOT
from wqlab.ground.problem import Problem, Usage
from wqlab.ground.run import run as run_program
from wqlab.guests import kunit, vm
from wqlab.guests.qemu import BootOptions
from wqlab.guests.scenario import find_scenario
from wqlab.kernels.build import build
from wqlab.kernels.builddir import BuildDir, find_build
from wqlab.kernels.source import Source

CAUGHT_BY = re.compile(
    r"(?P<case>(?:audit/)?tests/[\w/]+\.py::\w+(?:\[.+\])?)"
    r"|(?P<kunit>\w+)(?: on (?P<machine>[\w-]+))?(?:: (?P<text>.+))?"
)
ORIGINAL = Mutant("original", {})
TORTURE, DISTURBED = "wqtorture", "wqtorture_disturbed"
TORTURE_ARGS = {
    TORTURE: "torture.secs=30 torture.args=stall_ms=5000",
    DISTURBED: "torture.secs=30 torture.args=fair=0,stall_ms=10000 "
    "torture.disturb=sysfs,cpumask,hotplug,freeze,threads",
}
BOOT_LIMIT = 300.0  # seconds for a boot on a machine
TEST_LIMIT = 3600.0  # seconds for a test of pytest, with the kernels that it needs

Kernel = kunit.Uml | BuildDir | Path  # a diff, for tests of pytest, that gives it all mutants


@dataclass(frozen=True)
class Run:
    """A boot of a mutant that may catch it."""

    case: str = ""  # of KUnit, or TORTURE, or a test of pytest; "" is every case
    machine: str = ""  # of scenarios/; "" is User Mode Linux
    text: str = ""  # of an error of wqtorture, a regular expression

    def __str__(self) -> str:
        where = f" on {self.machine}" if self.machine else ""
        return (self.case or "KUnit") + where + (f": {self.text}" if self.text else "")

    @property
    def flavour(self) -> str:
        """Of the kernel that it boots; "" is that of User Mode Linux."""
        if not self.machine:
            return ""
        # torture that is to find anything also gets what finds mistakes without effect
        finds_all = self.case in TORTURE_ARGS and not self.text
        return "debug" if self.is_lockdep or finds_all else "test"

    @property
    def is_test(self) -> bool:
        return "tests/" in self.case

    @property
    def is_lockdep(self) -> bool:
        return self.case.startswith("lockdep_")

    @property
    def cases(self) -> str:
        """Those of KUnit that run; lockdep's is about what all others did."""
        return f"*workqueue*.{self.case}" if self.case and not self.is_lockdep else "*workqueue*"


@dataclass(frozen=True)
class Found:
    """What a run has shown."""

    run: Run
    failed: tuple[str, ...] = ()  # cases, or errors of wqtorture
    lost: str = ""  # how the kernel came to its end before it was done

    @property
    def catcher(self) -> str:
        """What has caught the mutant; "" if nothing has."""
        where = f" on {self.run.machine}" if self.run.machine else ""
        if self.failed:
            return ", ".join(self.failed) + where
        return f"the kernel did not survive{where}: {self.lost}" if self.lost else ""

    @property
    def as_named(self) -> bool:
        """Whether it was caught by what the run says."""
        if self.run.text:
            return any(re.search(self.run.text, error) for error in self.failed)
        if self.run.is_test:
            return any(name.startswith(self.run.case) for name in self.failed)
        return self.run.case in self.failed


def named_run(diff: Path) -> Run | None:
    """What the first line of a diff names, if it does."""
    with diff.open() as lines:
        first = lines.readline().rstrip("\n")
    if not first.startswith("Caught by"):
        return None
    match = CAUGHT_BY.fullmatch(first.removeprefix("Caught by: "))
    words = match.groupdict(default="") if match else {}
    run = Run(words["case"] or words["kunit"], words["machine"], words["text"]) if match else Run()
    if not match or (run.case == TORTURE) != bool(run.text) or (run.text and not run.machine):
        raise Problem(
            f'{diff}: "{first}" is none of "Caught by: CASE", "Caught by: CASE on MACHINE", '
            f'"Caught by: {TORTURE} on MACHINE: TEXT" and "Caught by: tests/FILE.py::TEST"'
        )
    try:
        re.compile(run.text)
        if run.machine:
            find_scenario(run.machine)
    except (Usage, re.error) as error:
        raise Problem(f"{diff}: {error}") from None
    return run


def find_diffs(path: Path) -> dict[str, Path]:
    """The diffs of a folder by their names, or the one that `path` is; Usage if there are none."""
    found = [path] if path.is_file() else sorted(path.glob("*.diff"))
    if not found:
        raise Usage(f"{path} has no *.diff")
    return {diff.stem: diff for diff in found}


def run_uml(uml: kunit.Uml, number: int, run: Run, out: Path) -> Found:
    """A broken kernel may warn and hang before the case that runs alone has reported."""
    log = out / "log"
    report = kunit.run_uml(uml, filter=run.cases, append=f"wq_mutant={number}", log=log)
    failed = tuple(case.name for case in report.cases if case.outcome == "failed")
    alone = run.case and not run.is_lockdep
    if alone and report.lost and re.search("^WARNING: ", log.read_text(), re.MULTILINE):
        failed = (run.case,)
    return Found(run, failed, report.lost)


def run_machine(kernel: BuildDir, number: int, run: Run, out: Path) -> Found:
    append = f"wq_mutant={number}"
    if args := TORTURE_ARGS.get(run.case):
        job, failure = "torture", r"wqtorture: !!! (.*)"
        append += f" {args}"
    else:
        job, failure = "kunit", r" +not ok \d+ (\w+).*"
        append += f" kunit.filter_glob={run.cases}"
    machine = find_scenario(run.machine)
    record = vm.boot(kernel, machine, job, out, BootOptions(append=append, timeout=BOOT_LIMIT))
    matches = (re.fullmatch(failure, line) for line in record.lines)
    failed = tuple(dict.fromkeys(match[1] for match in matches if match))
    lost = record.reason if record.verdict == "lost" or not failed else ""
    return Found(run, failed, lost)


@dataclass(frozen=True)
class Plan:
    """The mutants, and what their kernels are built from."""

    mutants: Mapping[str, Mutant]
    overlay: Mapping[str, str]  # with all that share kernels

    def kernel(
        self, source: Source, flavour: str, own: Mutant | None = None, place: str = "uml"
    ) -> Kernel:
        """Build a flavour, "" being User Mode Linux, that mutants share, or for one of its own."""
        overlay = own.files if own else self.overlay
        if not flavour:
            return kunit.build_uml(source, overlay=overlay, place=place)
        kernel = find_build(build(source, flavour, overlay=overlay))
        vm.try_kvm(kernel)  # its trial boot should have the machine to itself
        return kernel


def plan(source: Source, diffs: Sequence[Path]) -> Plan:
    with source.hold() as tree:
        mutants, overlay = schemata(diffs, lambda path: (tree / path).read_text())
    return Plan({mutant.name: mutant for mutant in mutants}, overlay)


def look(kernel: Kernel, mutant: Mutant, run: Run, out: Path) -> Found:
    """Boot a kernel that has this mutant."""
    if isinstance(kernel, kunit.Uml):
        return run_uml(kernel, mutant.number, run, out / mutant.name)
    if isinstance(kernel, Path):
        words = [f"--broken={kernel}", f"--append=wq_mutant={mutant.number}", "--maxfail=1"]
        failed, lost = fails([*run.case.split(), *words], ROOT)
        # not of a kernel that could not be built
        return Found(run, failed, "; ".join(re.findall(r"Failed: ((?:lost|fail) in [^;]*)", lost)))
    return run_machine(kernel, mutant.number, run, out / mutant.name)


def look_by_test(diff: Path, test: Run, words: Sequence[str]) -> Found:
    """Run the test of pytest on kernels that have the diff; `words` are more of its options."""
    return Found(test, *fails([test.case, "--tier=full", f"--broken={diff}", *words], ROOT))


def fails(
    words: Sequence[str], where: Path, limit: float = TEST_LIMIT
) -> tuple[tuple[str, ...], str]:
    """Run pytest with these words in that tree: the tests that fail, and what kept any from being
    run. One that could not be run has caught nothing."""
    command = [sys.executable, "-m", "pytest", *words, "-q", "-rfE"]
    done = run_program(command, limit=limit, cwd=where, env={**os.environ, "COLUMNS": "1000"})
    failed = tuple(re.findall(r"^FAILED ((?:audit/)?tests/\S+)", done.output, re.MULTILINE))
    lost = re.findall(r"^ERROR (?:audit/)?tests/.*", done.output, re.MULTILINE)
    lost += re.findall(r"^\d+ passed, .*", done.output, re.MULTILINE) if not failed else []
    return failed, "; ".join(lost) if done.status else ""


def check_original(found: Found) -> None:
    """What wq_mutant=0 has shown must be nothing."""
    if found.catcher:
        raise Problem(f"wq_mutant=0, which breaks nothing, fails: {found.catcher}")


def verdict(named: Run | None, runs: Sequence[Found]) -> tuple[bool, str]:
    """Whether a mutant was caught as it should be, and by what."""
    caught = "; ".join(found.catcher for found in runs if found.catcher)
    if named and not any(found.run == named and found.as_named for found in runs):
        return False, f"NOT CAUGHT by {named}, which it names{f', but by {caught}' * bool(caught)}"
    return bool(caught), f"caught by {caught}" if caught else "SURVIVED"
