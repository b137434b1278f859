# SPDX-License-Identifier: GPL-2.0
"""The command lines of guests: QEMU's, and User Mode Linux's."""

import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from wqlab.ground.problem import Problem
from wqlab.ground.run import check
from wqlab.guests.scenario import Scenario, format_cpulist
from wqlab.guests.talk import Monitor
from wqlab.kernels.arch import Arch
from wqlab.kernels.builddir import BuildDir

UML_DIR = "uml_dir=./"  # without it and HOME it may panic, for want of ~/.uml
XAPIC = 255  # the highest number of CPUs without x2APIC, whose IDs have more than 8 bits


@dataclass(frozen=True)
class Emulator:
    """A QEMU other than the host's own, and how it is run: the same input gives the same run."""

    program: Path
    options: tuple[str, ...]


@dataclass(frozen=True)
class BootOptions:
    """What a boot is given besides a kernel, a scenario and a job."""

    append: str = ""  # boot parameters, behind the scenario's
    commands: str = ""  # the job's /input
    more: Mapping[str, bytes] = field(default_factory=dict)  # files, by their paths in the guest
    timeout: float | None = None  # seconds; None: the scenario's
    accel: str = ""  # for QEMU's -accel; "": KVM where it works
    emulator: Emulator | None = None  # None: the host's QEMU
    serial: bool = False  # the guest talks over a serial line, not over virtio
    present: int | None = None  # CPUs that are there at the start; None: all
    wq_dump: Path | None = None  # wq_dump.py, which reads the memory where the job holds
    verify: bool = False  # wq_verify.py reads it, too
    keep: bool = False  # dumps of the memory stay, as core-0 and so on
    # Called while the guest holds, with QEMU's process, its monitor and the dump
    on_hold: Callable[[int, Monitor, Path], None] | None = None
    on_line: Callable[[str], None] = lambda line: None  # called with each line of the job

    @property
    def by_serial(self) -> bool:
        """Another emulator simulates time, and virtio depends on threads of the host."""
        return self.serial or self.emulator is not None


DEFAULTS = BootOptions()


def unfit(arch: Arch, scenario: Scenario, present: int | None = None) -> str:
    """Why there is no such guest of this architecture; "" if there is."""
    lacking = [name for name, nr in scenario.smp.items() if nr > 1 and name not in arch.levels]
    if len(scenario.nodes) > arch.nodes:
        lacking.append(f"more than {arch.nodes} nodes")
    lacking += [] if scenario.l3 or arch.no_l3 else ["caches"]
    if present and not arch.hotplug:
        lacking.append("CPUs that are added later")
    return f"on {arch.name} there are no {' and no '.join(lacking)}" if lacking else ""


def qemu_version(program: str | Path) -> str:
    """As "QEMU 7.2.22"; raises Problem if it is not installed."""
    if not shutil.which(program):
        raise Problem(f"no {program}: scripts/setup installs it")
    said = check([program, "--version"], wrong="no version of QEMU", limit=30)
    version = re.search(r"version (\d[\d.]*)", said)
    return f"QEMU {version[1] if version else 'of unknown version'}"


def qemu_command(
    build: BuildDir,
    scenario: Scenario,
    accel: str,
    append: str,
    out: Path,
    ports: tuple[int, int],
    options: BootOptions = DEFAULTS,
) -> list[str]:
    """The command that boots the image with the initramfs in `out`, where its console goes.

    `append` is the kernel command line, `ports` are the file descriptors of sockets for the
    guest's verdict and for QMP.
    """
    emulator = options.emulator
    command = [str(emulator.program) if emulator else build.arch.qemu]
    command += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    command += _machine(build.arch, scenario, accel, options.present)
    command += ["-kernel", str(build.image), "-initrd", str(out / "initramfs.cpio")]
    command += ["-append", append]
    command += ["-serial", f"file:{out / 'console.log'}"]
    command += ["-chardev", f"socket,id=verdict,fd={ports[0]}"]
    if options.by_serial:
        command += ["-serial", "chardev:verdict", *(emulator.options if emulator else ())]
    else:
        command += ["-device", "virtio-serial-pci"]
        command += ["-device", "virtserialport,chardev=verdict,name=verdict"]
    command += ["-chardev", f"socket,id=qmp,fd={ports[1]}", "-mon", "chardev=qmp,mode=control"]
    command += ["-device", "vmcoreinfo"]
    return command


def _machine(arch: Arch, scenario: Scenario, accel: str, present: int | None) -> list[str]:
    """The options for CPUs, memory and nodes."""
    smp = {"maxcpus": scenario.cpus} if present else {}
    smp |= {level: scenario.smp[level] for level in arch.levels}
    levels = ",".join(f"{level}={count}" for level, count in smp.items())
    cpu = arch.kvm if accel == "kvm" else arch.cpu
    cpu += arch.many if scenario.cpus > XAPIC else ""
    cpu += "" if scenario.l3 else arch.no_l3
    words = ["-machine", arch.machine, "-cpu", cpu, "-accel", accel]
    words += ["-smp", f"{present or scenario.cpus},{levels}", "-m", f"{scenario.memory}M"]
    if scenario.icount is not None:
        words += ["-icount", f"shift={scenario.icount},sleep=off"]
    share = scenario.memory // len(scenario.memory_nodes)
    for node, cpus in enumerate(scenario.nodes):
        options = [f"node,nodeid={node}"]
        options += [f"cpus={span}" for span in format_cpulist(cpus).split(",") if span]
        if node in scenario.memory_nodes:
            words += ["-object", f"memory-backend-ram,id=ram{node},size={share}M"]
            options.append(f"memdev=ram{node}")
        words += ["-numa", ",".join(options)]
    return words


def uml_command(
    build: BuildDir, scenario: Scenario, append: str, out: Path, ports: tuple[int, int]
) -> list[str]:
    """The command that runs User Mode Linux on the scenario's CPUs, all of one node, each in a pod
    of its own below that.

    It has no monitor. It has to run in `out`, where it leaves what would otherwise go to ~/.uml.
    """
    command = [str(build.image.absolute()), f"ncpus={scenario.cpus}", f"mem={scenario.memory}M"]
    command += [f"initrd={out.absolute() / 'initramfs.cpio'}", UML_DIR, "noreboot", "seccomp=on"]
    command += ["con=null", "ssl=null", f"ssl0=fd:{ports[0]},fd:{ports[0]}"]
    return [*command, *append.split()]
