# SPDX-License-Identifier: GPL-2.0
"""Boot a kernel in QEMU, or as User Mode Linux, run one job of guest/jobs in it, and say how it
ended."""

import argparse
import functools
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ParamSpec

from wqlab.ground.files import lock, remove
from wqlab.ground.places import CACHE, ROOT, VENV
from wqlab.ground.problem import Problem, Skipped
from wqlab.ground.run import TIMED_OUT, Done, check, run, say, started
from wqlab.ground.text import plural
from wqlab.guests.scenario import (
    Dump,
    Scenario,
    TopologyError,
    find_scenario,
    format_cpulist,
    parse_dump,
)
from wqlab.kernels import apt
from wqlab.kernels.arch import ARCHES, UML, Arch, arch_of
from wqlab.results import Verdict

P = ParamSpec("P")
CONSOLE_TAIL = 20  # lines of the console to show when a guest is lost
UML_DIR = "uml_dir=./"  # without it and HOME it may panic, for want of ~/.uml
COMPLAINT = re.compile(  # of the kernel
    r"(\[ *[\d.]+\] )?((WARNING|BUG|KASAN|Oops|Kernel panic)\b.*:|INFO: )"
)
# Of a kernel that patches its code. Before 8.1 QEMU's CPUs may, once in some hundred boots, execute
# what was there before (mended by its deba78709a, "accel/tcg: Always lock pages before translation").
STALE_CODE = re.compile(r"\bOops: int3: |\bint3: 0000 ")
QUIT_LIMIT = 5  # seconds for QEMU to end by itself
DUMP_LIMIT = 120  # seconds for drgn to read the memory
TREE = "lib/modules"  # what is there is for modprobe
XAPIC = 255  # CPUs that interrupts find without more ado
KVM_LIMIT = 20  # seconds for the trial boot under KVM
WQ_VERIFY = ROOT / "tools/workqueue/wq_verify.py"


@dataclass(frozen=True)
class Emulator:
    """A QEMU that is not the machine's own, and how it is run; the same input gives the same run.
    The verdict comes over a serial line, as virtio depends on threads of the host."""

    program: Path
    options: tuple[str, ...]


class Lost(Exception):
    """The guest did not say how it ended."""


@dataclass(frozen=True)
class Kernel:
    """A kernel's build directory (O=)."""

    path: Path
    arch: Arch
    release: str
    modules: tuple[Path, ...]

    @property
    def has_kunit(self) -> bool:
        config = self.path / ".config"
        return config.is_file() and "\nCONFIG_KUNIT=y\n" in config.read_text()

    @property
    def image(self) -> Path:
        return self.path / self.arch.image


def find_kernel(path: Path) -> Kernel:
    arch = arch_of(path)
    if not arch:
        images = " or ".join(arch.image for arch in ARCHES)
        raise Problem(f"{path} is not a kernel's build directory: it has no {images}")
    release = path / "include/config/kernel.release"
    return Kernel(
        path=path,
        arch=arch,
        release=release.read_text().strip() if release.is_file() else "unknown",
        modules=tuple(sorted(set(path.rglob("*.ko")) - set((path / TREE).rglob("*.ko")))),
    )


def named_kernel(text: str) -> tuple[str, Kernel]:
    """The value NAME=DIR of an option."""
    name, equals, path = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=DIR")
    try:
        return name, find_kernel(Path(path))
    except Problem as error:
        raise argparse.ArgumentTypeError(str(error)) from None


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


def cpio(files: dict[str, tuple[int, bytes]]) -> bytes:
    """An initramfs (newc) of {path: (mode, content)}."""
    out = bytearray()
    for inode, (name, (mode, data)) in enumerate([*files.items(), ("TRAILER!!!", (0, b""))], 1):
        fields = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
        out += b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"
        out += bytes(-len(out) % 4) + data
        out += bytes(-len(out) % 4)
    return bytes(out)


def find_busybox(arch: Arch) -> Path:
    """One that is linked statically; of another machine's architecture from Debian, once."""
    if not arch.foreign:
        path = shutil.which("busybox")
        if not path:
            raise Problem("no busybox: install busybox-static")
        return Path(path)
    place = CACHE / f"busybox-{arch.name}"
    with lock(place.name):
        if not place.is_file():
            if not shutil.which("apt-get"):
                raise Problem(
                    f"no busybox for {arch.name}: this machine has no apt to get it with, "
                    f"put one that is linked statically at {place}"
                )
            its_apt = apt.private(architecture=arch.dpkg)
            packages = its_apt.download("busybox-static", "")
            with tempfile.TemporaryDirectory(prefix=f".{place.name}.", dir=CACHE) as folder:
                apt.unpack(packages, Path(folder), "busybox-static")
                remove(packages[0].parent)
                [found] = [path for path in Path(folder).glob("**/bin/busybox")]
                found.rename(place)
    return place


def libraries(program: Path, env: Mapping[str, str] | None = None) -> list[Path]:
    """What the dynamic loader takes for a program of this machine, and that loader."""
    said = check(["ldd", program], wrong=f"the libraries of {program.name} are not known", env=env)
    if missing := re.search(r"(\S+) => not found", said):
        raise Problem(f"{program.name} needs {missing[1]}, which is not installed")
    return [Path(path) for path in re.findall(r"(/\S+) \(0x", said)]


def initramfs(kernel: Kernel, commands: str, more: Mapping[str, bytes] | None = None) -> bytes:
    """Busybox, guest/, the kernel's modules, the job's input, and more files by their paths
    there."""
    directory, program, plain = stat.S_IFDIR | 0o755, stat.S_IFREG | 0o755, stat.S_IFREG | 0o644
    files: dict[str, tuple[int, bytes]] = {
        name: (directory, b"") for name in ("bin", "dev", "proc", "sys", "jobs", "modules")
    }
    files["bin/busybox"] = (program, find_busybox(kernel.arch).read_bytes())
    files["bin/sh"] = (stat.S_IFLNK | 0o777, b"busybox")
    for path in sorted((ROOT / "guest").rglob("*")):
        if path.is_file():
            mode = program if os.access(path, os.X_OK) else plain
            files[str(path.relative_to(ROOT / "guest"))] = (mode, path.read_bytes())
    for module in kernel.modules:
        files[f"modules/{module.name}"] = (plain, module.read_bytes())
    if commands:
        files["input"] = (plain, commands.encode())
    tree = [path for path in (kernel.path / TREE).rglob("*") if path.is_file()]
    found = {str(path.relative_to(kernel.path)): path.read_bytes() for path in tree}
    for name, content in (found | dict(more or {})).items():
        path = Path(name.lstrip("/"))
        for parent in reversed(path.parents[:-1]):
            files.setdefault(str(parent), (directory, b""))
        files[str(path)] = (program, content)
    return cpio(files)


def qemu_command(
    kernel: Kernel,
    scenario: Scenario,
    accel: str,
    append: str,
    out: Path,
    ports: tuple[int, int],
    emulator: Emulator | None = None,
    present: int | None = None,
    serial: bool = False,
) -> list[str]:
    arch = kernel.arch
    smp = {level: scenario.smp[level] for level in arch.levels}
    if present:
        smp = {"maxcpus": scenario.cpus} | smp
    levels = ",".join(f"{level}={count}" for level, count in smp.items())
    command = [
        str(emulator.program) if emulator else arch.qemu,
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-no-reboot",
    ]
    cpu = arch.kvm if accel == "kvm" else arch.cpu
    cpu += arch.many if scenario.cpus > XAPIC else ""
    command += ["-machine", arch.machine, "-cpu", cpu, "-accel", accel]
    command += ["-smp", f"{present or scenario.cpus},{levels}", "-m", f"{scenario.memory}M"]
    if scenario.icount is not None:
        command += ["-icount", f"shift={scenario.icount},sleep=off"]
    share = scenario.memory // len(scenario.memory_nodes)
    for node, cpus in enumerate(scenario.nodes):
        options = [f"node,nodeid={node}"]
        options += [f"cpus={span}" for span in format_cpulist(cpus).split(",") if span]
        if node in scenario.memory_nodes:
            command += ["-object", f"memory-backend-ram,id=ram{node},size={share}M"]
            options.append(f"memdev=ram{node}")
        command += ["-numa", ",".join(options)]
    command += ["-kernel", str(kernel.image), "-initrd", str(out / "initramfs.cpio")]
    command += ["-append", append]
    command += ["-serial", f"file:{out / 'console.log'}"]
    command += ["-chardev", f"socket,id=verdict,fd={ports[0]}"]
    if emulator or serial:
        command += ["-serial", "chardev:verdict", *(emulator.options if emulator else ())]
    else:
        command += ["-device", "virtio-serial-pci"]
        command += ["-device", "virtserialport,chardev=verdict,name=verdict"]
    command += ["-chardev", f"socket,id=qmp,fd={ports[1]}", "-mon", "chardev=qmp,mode=control"]
    command += ["-device", "vmcoreinfo"]
    return command


def uml_command(
    kernel: Kernel, scenario: Scenario, append: str, out: Path, ports: tuple[int, int]
) -> list[str]:
    """User Mode Linux on so many CPUs, all of one node, each in a pod of its own below that. It
    has no monitor, and is to be run in `out`: what it would leave in ~/.uml is there."""
    command = [str(kernel.image.absolute()), f"ncpus={scenario.cpus}", f"mem={scenario.memory}M"]
    command += [f"initrd={out.absolute() / 'initramfs.cpio'}", UML_DIR, "noreboot", "seccomp=on"]
    command += ["con=null", "ssl=null", f"ssl0=fd:{ports[0]},fd:{ports[0]}"]
    return [*command, *append.split()]


def connected() -> tuple[socket.socket, socket.socket]:
    """Two ends, between which any number of single bytes fits; of a Unix socket, 278 do. QEMU's
    serial lines then never have to wait until what they have sent is read."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        end = socket.create_connection(server.getsockname())
        return server.accept()[0], end


def read_lines(port: socket.socket, deadline: float) -> Iterator[str]:
    """Whole lines from a port, until the other end closes it; Lost when time is up."""
    buffer = b""
    while True:
        port.settimeout(max(deadline - time.monotonic(), 0.001))
        try:
            chunk = port.recv(65536)
        except TimeoutError:
            raise Lost("no verdict in time") from None
        except ConnectionError:
            return
        if not chunk:
            return
        *lines, buffer = (buffer + chunk).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace").rstrip("\r")


class Monitor:
    """QEMU's, over QMP."""

    def __init__(self, port: socket.socket, deadline: float) -> None:
        self.port = port
        self.said = map(json.loads, read_lines(port, deadline))
        self.ready = False

    def execute(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        if not self.ready:
            self.ready = True
            self.execute("qmp_capabilities")
        self.port.sendall(json.dumps({"execute": name, "arguments": arguments or {}}).encode())
        answer = next((said for said in self.said if said.keys() & {"return", "error"}), None)
        if not answer or "error" in answer:
            raise Lost(f"QEMU {name}: {answer['error'].get('desc') if answer else 'no answer'}")
        return answer["return"]

    def dump_memory(self, core: Path, paging: bool = False) -> None:
        self.execute("dump-guest-memory", {"paging": paging, "protocol": f"file:{core}"})


def follow(
    port: socket.socket,
    deadline: float,
    on_ask: Callable[[str], None],
    on_line: Callable[[str], None],
) -> tuple[Verdict, str]:
    """Listen to the guest until its verdict: ("pass", "") or ("fail", reason), or else Lost."""
    for line in read_lines(port, deadline):
        if line.startswith("| "):
            on_line(line[2:])
        elif line.startswith("ask "):
            on_ask(line.removeprefix("ask "))
        elif line == "verdict pass":
            return "pass", ""
        elif line.startswith("verdict fail "):
            return "fail", line.removeprefix("verdict fail ")
        else:
            raise Lost(f"the guest said {line!r}, which is no verdict")
    raise Lost("the guest ended without a verdict")


def console_tail(out: Path) -> list[str]:
    """The last lines of the console, free of anything that could upset a terminal. What the
    kernel has first complained of comes with them where it is further up."""
    console = out / "console.log"
    text = console.read_text(errors="replace") if console.is_file() else ""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|[^\x20-\x7e\n\t]", "", text)
    lines = text.splitlines()
    complaint = [line for line in lines[:-CONSOLE_TAIL] if COMPLAINT.match(line)][:1]
    return complaint + lines[-CONSOLE_TAIL:]


def ended(qemu: subprocess.Popen[bytes], limit: float) -> bool:
    """Whether QEMU has ended by itself, or does so soon."""
    try:
        qemu.wait(limit)
    except subprocess.TimeoutExpired:
        return False
    return True


def run_drgn(kernel: Kernel, core: Path, script: Path, out: Path, *words: str) -> Done:
    """Run a script on a memory dump; its output stays in a .log of its name."""
    path = os.pathsep.join(
        [str(Path(sys.executable).parent), str(VENV / "bin"), os.environ.get("PATH", "")]
    )
    drgn = shutil.which("drgn", path=path)
    if not drgn:
        raise Problem("no drgn, which reads the kernel's memory: scripts/setup installs it")
    command: list[str | Path] = [drgn, "-c", core, "-s", kernel.path / "vmlinux", script, *words]
    done = run(
        ["sh", "-c", 'exec "$@" 2>"$0"', out / "drgn.log", *command],
        limit=DUMP_LIMIT,
        env=os.environ | {"DEBUGINFOD_URLS": ""},
    )
    (out / f"{script.stem}.log").write_text(done.output)
    if done.status == TIMED_OUT:
        raise TopologyError(f"drgn took more than {DUMP_LIMIT} s")
    return done


def drgn_failed(script: Path, out: Path) -> TopologyError:
    said = (out / "drgn.log").read_text(errors="replace").strip().splitlines()
    last = (said or ["no message"])[-1]
    return TopologyError(f"drgn {script.name}: {last}")


def read_core(kernel: Kernel, core: Path, wq_dump: Path, out: Path) -> Dump:
    """Run wq_dump.py on a memory dump."""
    done = run_drgn(kernel, core, wq_dump, out)
    if done.status:
        raise drgn_failed(wq_dump, out)
    return parse_dump(done.output)


def verify_core(kernel: Kernel, core: Path, out: Path) -> dict[str, Any]:
    """What wq_verify.py says of a memory dump."""
    done = run_drgn(kernel, core, WQ_VERIFY, out, "--json")
    try:
        return json.loads(done.output)
    except ValueError:
        raise drgn_failed(WQ_VERIFY, out) from None


def kvm_memo(arch: Arch) -> Path:
    """Where it is kept whether a boot under KVM has worked; one for each host kernel and CPU."""
    cpuinfo = Path("/proc/cpuinfo").read_text().split("\n\n")[0]
    model = re.findall(r"^(?:vendor_id|model name|stepping|flags)\s*:.*", cpuinfo, re.MULTILINE)
    host = "\n".join([platform.release(), platform.version(), arch.qemu, *model])
    return CACHE / "kvm" / hashlib.sha256(host.encode()).hexdigest()[:16]


def kvm_works(kernel: Kernel) -> bool:
    """Whether a boot under KVM was seen to work, which is tried once."""
    if kernel.arch is UML or kernel.arch.foreign or not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    memo = kvm_memo(kernel.arch)
    if not memo.is_file():
        trial = memo.parent / f"trial-{os.getpid()}"
        single = find_scenario("single")
        record = boot(kernel, single, "hello", trial, accel="kvm", timeout=KVM_LIMIT)
        shutil.rmtree(trial)
        memo.write_text(record.verdict + "\n")
    return memo.read_text() == "pass\n"


def sections(lines: list[str]) -> dict[str, list[str]]:
    """What a job has printed after each "> NAME" line; no name comes twice."""
    found: dict[str, list[str]] = {}
    for line in lines:
        if line.startswith("> "):
            if line[2:] in found:
                raise Problem(f'the job has printed "{line}" twice')
            answer = found[line[2:]] = []
        elif found:
            answer.append(line)
    return found


def unfit(arch: Arch, scenario: Scenario, present: int | None = None) -> str:
    """Why there is no such machine of this architecture; "" if there is."""
    lacking = [level for level, count in scenario.smp.items() if count > 1]
    lacking = [level for level in lacking if level not in arch.levels]
    if len(scenario.nodes) > arch.nodes:
        lacking.append(f"more than {arch.nodes} nodes")
    if present and not arch.hotplug:
        lacking.append("CPUs that are added later")
    return f"on {arch.name} there are no {' and no '.join(lacking)}" if lacking else ""


def choose_accel(kernel: Kernel, scenario: Scenario) -> str:
    if kernel.arch is UML:
        return "not emulated"
    if scenario.icount is not None:  # which only TCG can count, and only in one thread
        return "tcg,thread=single"
    if kvm_works(kernel):
        return "kvm"
    cores = len(os.sched_getaffinity(0))
    return f"tcg,thread={'multi' if scenario.cpus <= cores else 'single'}"


def qemu_version(program: str | Path) -> str:
    """As "QEMU 7.2.22"."""
    if not shutil.which(program):
        raise Problem(f"no {program}: scripts/setup installs it")
    said = check([program, "--version"], wrong="no version of QEMU", limit=30)
    version = re.search(r"version (\d[\d.]*)", said)
    return f"QEMU {version[1] if version else 'of unknown version'}"


def emulation(kernel: Kernel, scenario: Scenario, program: Path | None = None) -> str:
    """As "QEMU 7.2.22 tcg,thread=multi, 2 vCPUs", of another QEMU than the machine's own if that
    is given."""
    if kernel.arch is UML:
        return f"User Mode Linux, {plural(scenario.cpus, 'CPU')}"
    shift = "" if scenario.icount is None else f", icount shift={scenario.icount}"
    accel = choose_accel(kernel, scenario)
    return f"{qemu_version(program or kernel.arch.qemu)} {accel}{shift}, {plural(scenario.cpus, 'vCPU')}"


def died_of_emulator(record: Record) -> bool:
    """Whether what the guest died of is STALE_CODE, in a QEMU that may bring it about."""
    if record.verdict != "lost" or not any(map(STALE_CODE.search, record.tail)):
        return False
    version = re.findall(r"\d+", qemu_version(record.command[0]))
    return record.accel.startswith("tcg") and [*map(int, version)] < [8, 1]


def once_more(boots: Callable[P, Record]) -> Callable[P, Record]:
    """As `boots`, which is called a second time where the guest died of the emulator."""

    @functools.wraps(boots)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Record:
        record = boots(*args, **kwargs)
        if died_of_emulator(record):
            say(f"{record.scenario}: QEMU executed code that was patched, booting once more")
            record = boots(*args, **kwargs)
        return record

    return wrapper


@once_more
def boot(
    kernel: Kernel,
    scenario: Scenario,
    job: str,
    out: Path,
    *,
    append: str = "",
    commands: str = "",
    more: Mapping[str, bytes] | None = None,
    timeout: float | None = None,
    wq_dump: Path | None = None,
    accel: str | None = None,
    emulator: Emulator | None = None,
    serial: bool = False,
    present: int | None = None,
    verify: bool = False,
    keep: bool = False,
    on_hold: Callable[[int, Monitor, Path], None] | None = None,
    on_line: Callable[[str], None] = lambda line: None,
) -> Record:
    """Boot, run the job, write record.json. The guest never outlives this call. Of the CPUs only
    the first `present` are there at the start. It talks over a virtio port, or with `serial` and with
    another emulator over a serial line. The guest has `more` files, by their paths there.
    Where the job holds, its memory is read by wq_dump
    and, to `verify`, by wq_verify.py; with `keep` the dumps of it stay, as core-0 and so on. Who
    looks at the memory while the guest goes on is called `on_hold`, with QEMU's process."""
    if reason := unfit(kernel.arch, scenario, present):
        raise Skipped(f"{scenario.name}: {reason}")
    accel = accel or choose_accel(kernel, scenario)
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    if not emulator and kernel.arch.qemu and not shutil.which(kernel.arch.qemu):
        raise Problem(f"no {kernel.arch.qemu}: install qemu-system")
    for name in ("record.json", "console.log", "qemu.log", "wq_dump.log"):
        (out / name).unlink(missing_ok=True)
    (out / "initramfs.cpio").write_bytes(initramfs(kernel, commands, more))
    cores: list[Path] = []
    lines: list[str] = []
    dumps: list[Dump] = []
    verified: list[dict[str, Any]] = []

    def said(line: str) -> None:
        lines.append(line)
        on_line(line)

    verdict_port, verdict_end = connected()
    qmp_port, qmp_end = socket.socketpair()
    ends = (verdict_end.fileno(), qmp_end.fileno())
    boot_args = [kernel.arch.append, "panic=-1", "panic_on_warn=1", f"job={job}"]
    if kernel.has_kunit and job != "kunit":  # suites at boot take time, and log what they provoke
        boot_args.append("kunit.enable=0")
    if kernel.arch is UML:
        boot_args.append("verdict=/dev/ttyS0")
    elif emulator or serial:
        boot_args.append("verdict=/dev/ttyS1")
    boot_args += [part for part in (scenario.append, append) if part]
    given = " ".join(boot_args)
    if kernel.arch is UML:
        program, own_log, where = "User Mode Linux", out / "console.log", out
        command = uml_command(kernel, scenario, given, out, ends)
    else:
        program, own_log, where = "QEMU", out / "qemu.log", None
        command = qemu_command(kernel, scenario, accel, given, out, ends, emulator, present, serial)
    start = time.monotonic()
    deadline = start + (scenario.timeout if timeout is None else timeout)

    monitor = Monitor(qmp_port, deadline)

    def asked(line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "hold" and wq_dump:
            cores.append(out / f"core-{len(cores)}")
            monitor.dump_memory(cores[-1])
            if on_hold:
                on_hold(qemu.pid, monitor, cores[-1])
        elif word == "qmp":
            name, _, arguments = rest.partition(" ")
            monitor.execute(name, json.loads(arguments or "{}"))
        verdict_port.sendall(b"go\n")

    try:
        with own_log.open("wb") as log, verdict_port, qmp_port, ExitStack() as stack:
            with verdict_end, qmp_end:
                qemu = stack.enter_context(
                    started(command, stdout=log, stderr=subprocess.STDOUT, pass_fds=ends, cwd=where)
                )
            try:
                verdict, reason = follow(verdict_port, deadline, asked, said)
                seconds = time.monotonic() - start
                if not ended(qemu, QUIT_LIMIT):
                    verdict, reason = "lost", f"verdict {verdict}, but the guest did not end"
            except Lost as error:
                verdict, reason, seconds = "lost", str(error), time.monotonic() - start
                limit = QUIT_LIMIT if time.monotonic() < deadline else 0
                if ended(qemu, limit) and qemu.returncode:
                    log_lines = own_log.read_text(errors="replace").strip().splitlines()
                    reason = (
                        f"{program} ended with status {qemu.returncode}: {' '.join(log_lines[-1:])}"
                    )
            finally:
                if qemu.poll() is None:
                    os.killpg(qemu.pid, signal.SIGKILL)  # quicker than the end of started()
        if verdict == "pass" and wq_dump:
            try:
                dumps = [read_core(kernel, core, wq_dump, out) for core in cores]
                verified = [verify_core(kernel, core, out) for core in cores if verify]
            except TopologyError as error:
                verdict, reason = "fail", str(error)
    finally:
        for core in cores if not keep else []:
            core.unlink(missing_ok=True)
    record = Record(
        scenario=scenario.name,
        job=job,
        verdict=verdict,
        reason=reason,
        seconds=round(seconds, 1),
        accel=accel,
        release=kernel.release,
        command=command,
        lines=lines,
        tail=console_tail(out) if verdict == "lost" else [],
        dumps=dumps,
        verified=verified,
    )
    text = json.dumps(asdict(record), default=format_cpulist, indent=1)
    (out / "record.json").write_text(text + "\n")
    return record
