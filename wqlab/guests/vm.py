# SPDX-License-Identifier: GPL-2.0
"""Boot a kernel in QEMU, or as User Mode Linux, run one job of guest/jobs in it, and say how it
ended."""

import hashlib
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from wqlab.ground.places import CACHE
from wqlab.ground.problem import Problem, Skipped
from wqlab.ground.run import CORES, say, started
from wqlab.ground.text import plural
from wqlab.guests.dump import Dump, read_core, verify_core
from wqlab.guests.initramfs import initramfs
from wqlab.guests.qemu import DEFAULTS, BootOptions, qemu_command, qemu_version, uml_command, unfit
from wqlab.guests.scenario import Scenario, TopologyError, find_scenario, format_cpulist
from wqlab.guests.talk import Lost, Monitor, connected, follow
from wqlab.kernels.arch import UML, Arch
from wqlab.kernels.builddir import BuildDir
from wqlab.results.model import Verdict

CONSOLE_TAIL = 20  # lines of the console to show when a guest is lost
COMPLAINT = re.compile(  # of the kernel
    r"(\[ *[\d.]+\] )?((WARNING|BUG|KASAN|Oops|Kernel panic)\b.*:|INFO: )"
)
# Of a kernel that patches its code. Before 8.1 QEMU's CPUs may, once in some hundred boots, execute
# what was there before (mended by its deba78709a, "accel/tcg: Always lock pages before translation").
STALE_CODE = re.compile(r"\bOops: int3: |\bint3: 0000 ")
QUIT_LIMIT = 5  # seconds for QEMU to end by itself
KVM_LIMIT = 20  # seconds for the trial boot under KVM


@dataclass(frozen=True)
class Record:
    """How one boot went; record.json holds the same."""

    scenario: str
    job: str
    verdict: Verdict
    reason: str
    seconds: float
    accel: str
    release: str
    command: list[str]
    lines: list[str]  # what the job printed
    tail: list[str]  # the end of the console when the guest is lost
    dumps: list[Dump]  # what wq_dump.py showed each time that the job held
    verified: list[dict[str, Any]] = field(default_factory=list)  # and wq_verify.py --json

    @property
    def dump(self) -> Dump | None:
        """The last one."""
        return self.dumps[-1] if self.dumps else None


def console_tail(out: Path) -> list[str]:
    """The last lines of the console, without anything that could upset a terminal, and before
    them the kernel's first complaint, where that is further up."""
    console = out / "console.log"
    text = console.read_text(errors="replace") if console.is_file() else ""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|[^\x20-\x7e\n\t]", "", text)
    lines = text.splitlines()
    complaint = [line for line in lines[:-CONSOLE_TAIL] if COMPLAINT.match(line)][:1]
    return complaint + lines[-CONSOLE_TAIL:]


def sections(lines: list[str]) -> dict[str, list[str]]:
    """What a job has printed after each "> NAME" line; raises Problem if a name comes twice."""
    found: dict[str, list[str]] = {}
    for line in lines:
        if line.startswith("> "):
            if line[2:] in found:
                raise Problem(f'the job has printed "{line}" twice')
            answer = found[line[2:]] = []
        elif found:
            answer.append(line)
    return found


def kvm_memo(arch: Arch) -> Path:
    """The file that says whether a boot under KVM has worked, one for each host kernel and CPU."""
    cpuinfo = Path("/proc/cpuinfo").read_text().split("\n\n")[0]
    model = re.findall(r"^(?:vendor_id|model name|stepping|flags)\s*:.*", cpuinfo, re.MULTILINE)
    host = "\n".join([platform.release(), platform.version(), arch.qemu, *model])
    return CACHE / "kvm" / hashlib.sha256(host.encode()).hexdigest()[:16]


def try_kvm(build: BuildDir) -> bool:
    """Whether a kernel boots under KVM. The first call boots one to find out, and keeps the answer
    for the host's kernel and CPU."""
    if build.arch is UML or build.arch.foreign or not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    memo = kvm_memo(build.arch)
    if not memo.is_file():
        trial = memo.parent / f"trial-{os.getpid()}"
        options = BootOptions(accel="kvm", timeout=KVM_LIMIT)
        record = boot(build, find_scenario("single"), "hello", trial, options)
        shutil.rmtree(trial)
        memo.write_text(record.verdict + "\n")
    return memo.read_text() == "pass\n"


def choose_accel(build: BuildDir, scenario: Scenario) -> str:
    """What to give QEMU's -accel: KVM where try_kvm() says so, else TCG, with a thread for each
    CPU if the host has a core for each."""
    if build.arch is UML:
        return "not emulated"
    if scenario.icount is not None:  # which only TCG can count, and only in one thread
        return "tcg,thread=single"
    if try_kvm(build):
        return "kvm"
    return f"tcg,thread={'multi' if scenario.cpus <= CORES else 'single'}"


def probe_emulation(build: BuildDir, scenario: Scenario, program: Path | None = None) -> str:
    """How a kernel is run on a scenario, as "QEMU 7.2.22 tcg,thread=multi, 2 vCPUs".

    Where KVM was not tried yet, that boots the kernel. `program` is another QEMU than the host's.
    """
    if build.arch is UML:
        return f"User Mode Linux, {plural(scenario.cpus, 'CPU')}"
    shift = "" if scenario.icount is None else f", icount shift={scenario.icount}"
    accel = choose_accel(build, scenario)
    return f"{qemu_version(program or build.arch.qemu)} {accel}{shift}, {plural(scenario.cpus, 'vCPU')}"


def ended(qemu: subprocess.Popen[bytes], limit: float) -> bool:
    """Whether QEMU has ended by itself, or does so within `limit` seconds."""
    try:
        qemu.wait(limit)
    except subprocess.TimeoutExpired:
        return False
    return True


class Guest:
    """One guest, while it runs: what its job has printed, and the dumps of its memory."""

    def __init__(self, build: BuildDir, out: Path, options: BootOptions, deadline: float) -> None:
        self.build, self.out, self.options, self.deadline = build, out, options, deadline
        self.native = build.arch is UML
        self.lines: list[str] = []
        self.cores: list[Path] = []
        self.dumps: list[Dump] = []
        self.verified: list[dict[str, Any]] = []
        self.port, self.port_end = connected()
        monitor_port, self.monitor_end = socket.socketpair()
        self.monitor_port = monitor_port
        self.monitor = Monitor(monitor_port, deadline)

    @property
    def fds(self) -> tuple[int, int]:
        """Of the guest's ends: for its verdict, and for QEMU's monitor."""
        return self.port_end.fileno(), self.monitor_end.fileno()

    @property
    def log(self) -> Path:
        """Where QEMU, or User Mode Linux with its console, writes to."""
        return self.out / ("console.log" if self.native else "qemu.log")

    def run(self, command: list[str]) -> tuple[Verdict, str, float]:
        """Run the command to the guest's end, and read the dumps of a guest that has passed.

        The guest never outlives this call. Returns the verdict, its reason and the seconds to it.
        """
        try:
            verdict, reason, seconds = self._run(command)
            if verdict == "pass":
                try:
                    self._read_cores()
                except TopologyError as error:
                    verdict, reason = "fail", str(error)
            return verdict, reason, seconds
        finally:
            for core in self.cores if not self.options.keep else []:
                core.unlink(missing_ok=True)

    def _run(self, command: list[str]) -> tuple[Verdict, str, float]:
        start = time.monotonic()
        with self.log.open("wb") as log, self.port, self.monitor_port, ExitStack() as stack:
            with self.port_end, self.monitor_end:
                process = stack.enter_context(
                    started(
                        command,
                        deaf=True,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        pass_fds=self.fds,
                        cwd=self.out if self.native else None,
                    )
                )
            try:
                verdict, reason = follow(
                    self.port, self.deadline, lambda ask: self._answer(ask, process.pid), self._said
                )
                seconds = time.monotonic() - start
                if not ended(process, QUIT_LIMIT):
                    return "lost", f"verdict {verdict}, but the guest did not end", seconds
                return verdict, reason, seconds
            except Lost as error:
                seconds = time.monotonic() - start
                return "lost", self._why(process) or str(error), seconds

    def _said(self, line: str) -> None:
        self.lines.append(line)
        self.options.on_line(line)

    def _answer(self, ask: str, pid: int) -> None:
        """Do what the job asks for, and tell it to go on."""
        word, _, rest = ask.partition(" ")
        if word == "hold" and self.options.wq_dump:
            self.cores.append(self.out / f"core-{len(self.cores)}")
            self.monitor.dump_memory(self.cores[-1])
            if self.options.on_hold:
                self.options.on_hold(pid, self.monitor, self.cores[-1])
        elif word == "qmp":
            name, _, arguments = rest.partition(" ")
            self.monitor.execute(name, json.loads(arguments or "{}"))
        self.port.sendall(b"go\n")

    def _why(self, process: subprocess.Popen[bytes]) -> str:
        """What QEMU or User Mode Linux has failed of; "" if it has not."""
        limit = QUIT_LIMIT if time.monotonic() < self.deadline else 0
        if not ended(process, limit) or not process.returncode:
            return ""
        said = self.log.read_text(errors="replace").strip().splitlines()
        program = "User Mode Linux" if self.native else "QEMU"
        return f"{program} ended with status {process.returncode}: {' '.join(said[-1:])}"

    def _read_cores(self) -> None:
        """Have wq_dump.py, and wq_verify.py if it is asked for, read each dump."""
        for core in self.cores:
            assert self.options.wq_dump  # without it there is no dump
            self.dumps.append(read_core(self.build, core, self.options.wq_dump, self.out))
        for core in self.cores if self.options.verify else []:
            self.verified.append(verify_core(self.build, core, self.out))


def died_of_emulator(record: Record) -> bool:
    """Whether a guest was lost to STALE_CODE, in a QEMU that has that bug."""
    if record.verdict != "lost" or not any(map(STALE_CODE.search, record.tail)):
        return False
    version = re.findall(r"\d+", qemu_version(record.command[0]))
    return record.accel.startswith("tcg") and [*map(int, version)] < [8, 1]


def boot_parameters(build: BuildDir, scenario: Scenario, job: str, options: BootOptions) -> str:
    """The kernel command line."""
    words = [build.arch.append, "panic=-1", "panic_on_warn=1", "oops=panic", f"job={job}"]
    if build.has_kunit and job != "kunit":  # suites at boot take time, and log what they provoke
        words.append("kunit.enable=0")
    if build.arch is UML:
        words.append("verdict=/dev/ttyS0")
    elif options.by_serial:
        words.append("verdict=/dev/ttyS1")
    words += [part for part in (scenario.append, options.append) if part]
    return " ".join(words)


def prepare(build: BuildDir, out: Path, options: BootOptions) -> None:
    """Make the folder for a boot, with its initramfs and without what an earlier boot has left."""
    out.mkdir(parents=True, exist_ok=True)
    qemu = build.arch.qemu
    if not options.emulator and qemu and not shutil.which(qemu):
        raise Problem(f"no {qemu}: install qemu-system")
    for name in ("record.json", "console.log", "qemu.log", "wq_dump.log"):
        (out / name).unlink(missing_ok=True)
    (out / "initramfs.cpio").write_bytes(initramfs(build, options.commands, options.more))


def _boot(build: BuildDir, scenario: Scenario, job: str, out: Path, options: BootOptions) -> Record:
    if reason := unfit(build.arch, scenario, options.present):
        raise Skipped(f"{scenario.name}: {reason}")
    accel = options.accel or choose_accel(build, scenario)
    out = out.resolve()
    prepare(build, out, options)
    append = boot_parameters(build, scenario, job, options)
    timeout = scenario.timeout if options.timeout is None else options.timeout
    guest = Guest(build, out, options, time.monotonic() + timeout)
    if build.arch is UML:
        command = uml_command(build, scenario, append, out, guest.fds)
    else:
        command = qemu_command(build, scenario, accel, append, out, guest.fds, options)
    verdict, reason, seconds = guest.run(command)
    record = Record(
        scenario=scenario.name,
        job=job,
        verdict=verdict,
        reason=reason,
        seconds=round(seconds, 1),
        accel=accel,
        release=build.release,
        command=command,
        lines=guest.lines,
        tail=console_tail(out) if verdict == "lost" else [],
        dumps=guest.dumps,
        verified=guest.verified,
    )
    text = json.dumps(asdict(record), default=format_cpulist, indent=1)
    (out / "record.json").write_text(text + "\n")
    return record


def boot(
    build: BuildDir, scenario: Scenario, job: str, out: Path, options: BootOptions = DEFAULTS
) -> Record:
    """Boot a kernel on a scenario, and run a job of guest/jobs.

    Logs, and the record as record.json, are in `out`. Whatever becomes of the guest is in the
    record; raises Skipped where there is no such guest, and Problem where QEMU or busybox lacks.
    """
    record = _boot(build, scenario, job, out, options)
    if died_of_emulator(record):
        say(f"{record.scenario}: QEMU executed code that was patched, booting once more")
        record = _boot(build, scenario, job, out, options)
    return record
