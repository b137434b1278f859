# SPDX-License-Identifier: GPL-2.0
"""What a boot makes of a guest, with a stand-in for QEMU.

Seen failing: with follow() taking an unfinished last line for a whole one
(truncated), a prefix for a verdict ("verdict passed", "| verdict pass"), end of
file for a pass (death), without its deadline (silence), and without the kill at
the end of boot() and setpriv (a QEMU that stays behind), and with KUnit left on, or
off where it is the job; with no second boot (stale_code); with KVM or busybox of another
architecture, the emulated CPU under KVM, and machines booted without their dies, clusters or late
CPUs.
"""

import json
import os
import platform
import signal
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from wqlab.ground.places import ROOT
from wqlab.ground.problem import Problem, Skipped
from wqlab.guests import vm
from wqlab.guests.initramfs import cpio, initramfs
from wqlab.guests.qemu import BootOptions, qemu_command
from wqlab.guests.scenario import find_scenario
from wqlab.guests.vm import Record, boot
from wqlab.kernels.arch import find_arch
from wqlab.kernels.builddir import BuildDir, find_build

BOOT = [sys.executable, "-m", "wqlab", "boot"]

FAKE = """#!{python}
import os, sys, time
if "kvm" in sys.argv:
    sys.exit(1)
at = [arg.partition("fd=")[2] for arg in sys.argv if arg.startswith("socket,id=verdict")]
port = int(at[0])
console = open(next(arg[5:] for arg in sys.argv if arg.startswith("file:")), "w")
open({pid!r}, "w").write(str(os.getpid()))
def say(text):
    os.write(port, text.encode())
"""

QMP = """import json
qmp = int(next(arg for arg in sys.argv if "id=qmp" in arg).partition("fd=")[2])"""


@pytest.fixture
def kernel(tmp_path: Path) -> BuildDir:
    """A directory that looks like a kernel."""
    for name, text in (
        ("arch/x86/boot/bzImage", ""),
        ("include/config/kernel.release", "6.12.0\n"),
    ):
        (tmp_path / "kernel" / name).parent.mkdir(parents=True)
        (tmp_path / "kernel" / name).write_text(text)
    return find_build(tmp_path / "kernel")


@pytest.fixture
def qemu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A function that puts a QEMU with this behaviour into PATH."""

    def write(behaviour: str) -> Path:
        path, pid = tmp_path / "bin/qemu-system-x86_64", tmp_path / "pid"
        path.parent.mkdir()
        path.write_text(FAKE.format(python=sys.executable, pid=str(pid)) + behaviour)
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")
        return pid

    return write


def start(kernel: BuildDir, timeout: float = 20, **more: object) -> Record:
    single = find_scenario("single")
    options = BootOptions(timeout=timeout, accel="tcg", **more)
    return boot(kernel, single, "hello", kernel.path / "out", options)


def alive(pid: Path) -> bool:
    try:
        os.kill(int(pid.read_text()), 0)
    except ProcessLookupError:
        return False
    return True


def test_pass(kernel: BuildDir, qemu) -> None:
    qemu(r'say("| one\n| "); say("two\nverdict "); say("pass\n")')
    record = start(kernel)
    assert (record.verdict, record.reason, record.lines) == ("pass", "", ["one", "two"])
    assert record.release == "6.12.0"
    assert json.loads((kernel.path / "out/record.json").read_text())["verdict"] == "pass"


@pytest.mark.parametrize(
    ("config", "job", "quiet"),
    [
        ("CONFIG_SMP=y\nCONFIG_KUNIT=y\n", "hello", True),
        ("CONFIG_SMP=y\nCONFIG_KUNIT=y\n", "kunit", False),
        ("CONFIG_SMP=y\nCONFIG_KUNIT=m\n", "hello", False),
    ],
)
def test_suites_run_where_they_are_wanted(
    kernel: BuildDir, qemu, config: str, job: str, quiet: bool
) -> None:
    qemu(r'say("verdict pass\n")')
    (kernel.path / ".config").write_text(config)
    single, options = find_scenario("single"), BootOptions(accel="tcg")
    record = boot(kernel, single, job, kernel.path / "out", options)
    assert ("kunit.enable=0" in " ".join(record.command)) == quiet


def test_fail(kernel: BuildDir, qemu) -> None:
    qemu(r'say("| one\nverdict fail two of three\n")')
    record = start(kernel)
    assert (record.verdict, record.reason, record.lines) == ("fail", "two of three", ["one"])


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        pytest.param('say("verdict pas")', "ended without a verdict", id="truncated"),
        pytest.param('say("verdict pass")', "ended without a verdict", id="no-newline"),
        pytest.param(r'say("| one\n")', "ended without a verdict", id="none"),
        pytest.param(r'say("| verdict pass\n")', "ended without a verdict", id="from-the-job"),
        pytest.param(
            r'console.write("verdict pass\n")', "ended without a verdict", id="on-the-console"
        ),
        pytest.param(r'say("verdict passed\n")', "no verdict", id="another-word"),
        pytest.param(r'say("\0\xff\n")', "no verdict", id="garbage"),
        pytest.param(r'sys.exit("no such CPU")', "status 1: no such CPU", id="refused"),
        pytest.param("os.kill(os.getpid(), 11)", "status -11", id="killed"),
    ],
)
def test_death(kernel: BuildDir, qemu, behaviour: str, reason: str) -> None:
    qemu(behaviour)
    record = start(kernel)
    assert record.verdict == "lost"
    assert reason in record.reason


@pytest.mark.parametrize("text", ["", r"| one\n", "verdict pass"])
def test_silence(kernel: BuildDir, qemu, text: str) -> None:
    """No verdict in time: lost, the end of the console is shown, QEMU does not stay behind."""
    pid = qemu(
        r'print(*range(100), "\x1b[2Jverdict pass", sep="\n", file=console, flush=True)'
        f'\nsay("{text}"); time.sleep(60)'
    )
    begin = time.monotonic()
    record = start(kernel, timeout=1)
    assert (record.verdict, record.reason) == ("lost", "no verdict in time")
    assert record.tail == [*map(str, range(81, 100)), "verdict pass"]
    assert time.monotonic() - begin < 15
    assert not alive(pid)


def test_complaint(kernel: BuildDir, qemu) -> None:
    """The first complaint of the kernel is shown however far up the console it is."""
    complaint = "WARNING: CPU: 0 PID: 15 at kernel/rcu/tree_stall.h:1010 f+0x1/0x2"
    qemu(
        f'print("ok", {complaint!r}, *range(100), "Kernel panic - not syncing: x", sep="\\n",'
        " file=console, flush=True)"
    )
    assert start(kernel).tail == [
        complaint,
        *map(str, range(81, 100)),
        "Kernel panic - not syncing: x",
    ]


@pytest.mark.parametrize(
    ("version", "complaint", "boots"),
    [
        ("7.2.22", "[   13.0] Oops: int3: 0000 [#1] PREEMPT SMP PTI", 2),
        ("7.2.22", "int3: 0000 [#1] PREEMPT SMP NOPTI", 2),
        ("7.2.22", "Oops: general protection fault: 0000 [#1]", 1),
        ("8.1.0", "Oops: int3: 0000 [#1] PREEMPT SMP PTI", 1),
    ],
)
def test_stale_code(
    kernel: BuildDir, qemu, monkeypatch, version: str, complaint: str, boots: int
) -> None:
    """A guest that dies as only that of an old QEMU does is booted once more, and no more."""
    qemu(f'print({complaint!r}, file=console); open("boots", "a").write("1")')
    monkeypatch.setattr(vm, "qemu_version", lambda program: f"QEMU {version}")
    monkeypatch.chdir(kernel.path)
    assert start(kernel).verdict == "lost"
    assert len((kernel.path / "boots").read_text()) == boots


def test_endless(kernel: BuildDir, qemu, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guest that prints for ever has a limit, too."""
    pid = qemu(r'while True: say("| one\n"); time.sleep(0.01)')
    monkeypatch.setattr(vm, "QUIT_LIMIT", 0.1)
    assert start(kernel, timeout=1).verdict == "lost"
    assert not alive(pid)


def test_verdict_but_no_end(kernel: BuildDir, qemu, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = qemu(r'say("verdict pass\n"); time.sleep(60)')
    monkeypatch.setattr(vm, "QUIT_LIMIT", 0.1)
    assert start(kernel).verdict == "lost"
    assert not alive(pid)


def test_hold(kernel: BuildDir, qemu) -> None:
    qemu(
        r'say("ask hold\n"); '
        r'say("verdict pass\n" if os.read(port, 3) == b"go\n" else "verdict fail\n")'
    )
    assert start(kernel).verdict == "pass"


def test_qmp(kernel: BuildDir, qemu) -> None:
    """The guest's commands reach QEMU, in one conversation, whatever else QEMU says."""
    qemu(
        QMP
        + r"""
for name in "one", "two":
    say(f'ask qmp {name} {{"a": 1}}\n')
    for said in [b"qmp_capabilities", name.encode()][name == "two" :]:
        command = json.loads(os.read(qmp, 1000))
        assert command["execute"] == said.decode(), command
        os.write(qmp, b'{"event": "RESUME"}\n{"return": {}}\n{"event": "STOP"}\n')
    assert command["arguments"] == {"a": 1}
    assert os.read(port, 3) == b"go\n"
say("verdict pass\n")
"""
    )
    assert start(kernel).verdict == "pass"


@pytest.mark.tier("test")
def test_refused_qmp(kernel: BuildDir, qemu) -> None:
    qemu(
        QMP
        + r"""
say('ask qmp device_add {}\n')
os.write(qmp, b'{"return": {}}\n{"error": {"desc": "no such CPU"}}\n')
os.read(port, 3)
"""
    )
    record = start(kernel)
    assert (record.verdict, record.reason) == ("lost", "QEMU device_add: no such CPU")


def test_cpus_that_are_present(kernel: BuildDir, qemu) -> None:
    qemu(r'say("verdict pass\n")')
    assert "2,maxcpus=1,sockets=1" in " ".join(start(kernel, present=2).command)
    assert "maxcpus" not in " ".join(start(kernel).command)


def arm64(folder: Path, monkeypatch: pytest.MonkeyPatch, machine: str) -> BuildDir:
    """A kernel for arm64, a busybox and a KVM that works, on such a machine or another one."""
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(vm, "CACHE", folder)
    monkeypatch.setattr("wqlab.guests.initramfs.CACHE", folder)
    monkeypatch.setattr(os, "access", lambda *_: True)
    memo = vm.kvm_memo(find_arch("arm64"))
    memo.parent.mkdir()
    memo.write_text("pass\n")
    (folder / "busybox-arm64").write_text("of arm64")
    image = folder / "arch/arm64/boot/Image.gz"
    image.parent.mkdir(parents=True)
    image.touch()
    return find_build(folder)


def test_arm64(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = arm64(tmp_path, monkeypatch, "x86_64")
    assert b"of arm64" in initramfs(kernel, "")
    assert not vm.try_kvm(kernel)
    machine = find_scenario("clusters-2x16x4")
    command = qemu_command(kernel, machine, "tcg", "", tmp_path, (3, 4))
    assert command[0] == "qemu-system-aarch64"
    assert command[command.index("-smp") + 1] == "128,sockets=2,clusters=16,cores=4,threads=1"


def test_arm64_is_the_default_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = arm64(tmp_path, monkeypatch, "aarch64")
    monkeypatch.delenv("ARCH", raising=False)
    assert find_arch() == kernel.arch and find_arch("arm64").cross == ""
    assert find_arch("x86_64").cross == "x86_64-linux-gnu-"
    assert b"of arm64" not in initramfs(kernel, "")
    assert vm.try_kvm(kernel)
    command = qemu_command(kernel, find_scenario("single"), "kvm", "", tmp_path, (3, 4))
    assert command[command.index("-cpu") + 1] == "host"


@pytest.mark.parametrize(
    ("arch", "scenario", "present", "lacks"),
    [
        ("arm64", "llc-2x10", None, "dies"),
        ("arm64", "two-nodes-4x11", 1, "dies and no CPUs that are added later"),
        ("arm64", "nodes-24x4", None, "more than 16 nodes"),
        ("x86_64", "clusters-5x4", None, "clusters"),
    ],
)
def test_machine_that_is_not_to_be_had(
    kernel: BuildDir, arch: str, scenario: str, present: int | None, lacks: str
) -> None:
    kernel = replace(kernel, arch=find_arch(arch))
    out = kernel.path / "out"
    with pytest.raises(Skipped, match=f"{scenario}: on {arch} there are no {lacks}"):
        boot(kernel, find_scenario(scenario), "hello", out, BootOptions(present=present))
    assert not out.exists()


NATIVE = """#!{python}
import os, sys
given = dict(word.partition("=")[::2] for word in sys.argv[1:])
os.write(int(given["ssl0"].rpartition(":")[2]), b"| " + given["ncpus"].encode() + b" CPUs\\n")
"""


@pytest.mark.parametrize(
    ("behaviour", "verdict", "reason"),
    [
        ('os.write(int(given["ssl0"].rpartition(":")[2]), b"verdict pass\\n")', "pass", ""),
        ('sys.exit("no seccomp")', "lost", "User Mode Linux ended with status 1: no seccomp"),
    ],
)
def test_user_mode_linux(tmp_path: Path, behaviour: str, verdict: str, reason: str) -> None:
    """It is run by itself, says its verdict on its first serial line, and is no guest of QEMU."""
    (tmp_path / "include/config").mkdir(parents=True)
    (tmp_path / "include/config/kernel.release").write_text("7.3.0\n")
    (tmp_path / "linux").write_text(NATIVE.format(python=sys.executable) + behaviour)
    (tmp_path / "linux").chmod(0o755)
    kernel, machine = find_build(tmp_path), find_scenario("bench-2")
    assert vm.probe_emulation(kernel, machine) == "User Mode Linux, 2 CPUs"
    record = boot(kernel, machine, "hello", tmp_path / "out", BootOptions(timeout=20))
    assert (record.verdict, record.reason, record.lines) == (verdict, reason, ["2 CPUs"])
    assert "verdict=/dev/ttyS0" in record.command and "job=hello" in record.command
    with pytest.raises(Skipped, match="on um there are no more than 1 nodes"):
        boot(kernel, find_scenario("nodes-2x1"), "hello", tmp_path / "out")


def test_failed_dump(
    kernel: BuildDir, qemu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dump that QEMU refuses is no pass, and nothing is left of it."""
    qemu(
        QMP + "\n"
        r"""say("ask hold\n"); os.write(qmp, b'{"return": {}}\n{"error": {"desc": "no space"}}\n');"""
        r'os.read(port, 3); say("verdict pass\n")'
    )
    monkeypatch.setattr(vm, "QUIT_LIMIT", 0.1)
    record = start(kernel, wq_dump=tmp_path / "wq_dump.py")
    assert (record.verdict, record.reason) == ("lost", "QEMU dump-guest-memory: no space")
    assert not [*(kernel.path / "out").glob("core*")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted(kernel: BuildDir, qemu, tmp_path: Path, number: signal.Signals) -> None:
    """However `wqlab boot` ends, QEMU ends with it."""
    pid = qemu(r'say("| one\n"); time.sleep(60)')
    process = subprocess.Popen(
        [
            *BOOT,
            "--kernel",
            kernel.path,
            "--scenario",
            "single",
            "--out",
            tmp_path / "out",
        ],
        cwd=ROOT,
        env=os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")},
        stdout=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"  one\n"
    assert alive(pid)
    process.send_signal(number)
    process.communicate(timeout=20)
    assert process.returncode != 0
    deadline = time.monotonic() + 5
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(pid)


def run(*args: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*BOOT, *map(str, args)],
        check=False,
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("behaviour", "status", "last"),
    [
        (r'say("verdict pass\n")', 0, "pass in"),
        (r'say("verdict fail no\n")', 1, "fail in"),
        (r'print("Oops", file=console)', 1, "lost in"),
    ],
)
def test_exit_status(
    kernel: BuildDir, qemu, tmp_path: Path, behaviour: str, status: int, last: str
) -> None:
    qemu(behaviour)
    args = ["--kernel", kernel.path, "--scenario", "single", "--out", tmp_path / "out"]
    result = run(*args, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert result.returncode == status
    assert last in result.stdout.splitlines()[-1]
    assert ("console: Oops" in result.stdout) == (last == "lost in")


def test_errors(kernel: BuildDir, tmp_path: Path) -> None:
    """One line each, and no success."""
    for args, error in (
        (["--kernel", tmp_path, "--scenario", "single"], "is not a kernel's build directory"),
        (["--kernel", kernel.path, "--scenario", "nowhere"], "no machine 'nowhere' in scenarios/"),
        (["--kernel", kernel.path, "--scenario", "single", "--job", "x"], "no job 'x'"),
        (["--kernel", kernel.path], "required: --scenario"),
    ):
        result = run(*args)
        assert result.returncode == 2
        assert not result.stdout
        assert error in result.stderr.splitlines()[-1]


def test_kvm_needs_a_boot(
    kernel: BuildDir, qemu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """/dev/kvm alone is not enough, and the trial is made once."""
    pid = qemu("")
    monkeypatch.setattr(vm, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(
        os, "access", lambda path, mode, access=os.access: path == "/dev/kvm" or access(path, mode)
    )
    assert not vm.try_kvm(kernel)
    fake = Path(pid.parent / "bin/qemu-system-x86_64")
    fake.write_text(
        fake.read_text().replace("    sys.exit(1)", "    pass") + r'say("verdict pass\n")'
    )
    assert not vm.try_kvm(kernel)
    monkeypatch.setattr(vm, "CACHE", tmp_path / "another")
    assert vm.try_kvm(kernel)


def test_no_kernel(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="not a kernel's build directory"):
        find_build(tmp_path)


def test_initramfs(tmp_path: Path) -> None:
    """The cpio tool reads what cpio() writes."""
    archive = cpio(
        {
            "dir": (stat.S_IFDIR | 0o755, b""),
            "dir/file": (stat.S_IFREG | 0o644, b"odd"),
            "last": (stat.S_IFREG, b""),
        }
    )
    subprocess.run(
        ["busybox", "cpio", "-i"], input=archive, cwd=tmp_path, check=True, capture_output=True
    )
    assert (tmp_path / "dir/file").read_bytes() == b"odd"
    assert (tmp_path / "last").read_bytes() == b""


def test_sections_of_what_a_job_prints() -> None:
    lines = ["before", "> load a=1", "one", "two", "> unload"]
    assert vm.sections(lines) == {"load a=1": ["one", "two"], "unload": []}
    with pytest.raises(Problem, match='"> unload" twice'):
        vm.sections([*lines, "> unload"])
