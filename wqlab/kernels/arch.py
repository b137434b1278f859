# SPDX-License-Identifier: GPL-2.0
"""What differs between architectures: one declaration each."""

import os
import platform
from dataclasses import dataclass
from pathlib import Path

from wqlab.ground.problem import Usage


@dataclass(frozen=True)
class Arch:
    """An architecture that kernels are built for and booted on."""

    name: str  # ARCH= of ours, and a file of configs/arch
    uname: str  # what uname -m says there
    kbuild: str  # ARCH= of the kernel's make
    tools: str  # what the names of compiler and binutils begin with on a host of another one
    target: str  # of the kernel's make: what QEMU boots
    image: str  # the same in the kernel's build directory
    qemu: str
    machine: str
    cpu: str  # with this model the guest sees threads, LLCs and nodes as the scenario has them
    kvm: str  # the same where KVM runs it
    many: str  # to be added for more CPUs than qemu.XAPIC
    levels: tuple[str, ...]  # of -smp, that the guest sees
    nodes: int  # that its kernels know, 2^CONFIG_NODES_SHIFT
    hotplug: bool  # QEMU can add CPUs to a machine that runs
    append: str  # boot parameters: the console, and what emulation needs
    debian: str  # flavour of Debian's own kernel
    no_l3: str = ""  # to be added for CPUs without an L3; "" where there are no caches

    @property
    def foreign(self) -> bool:
        """Whether the host has another architecture."""
        return platform.machine() != self.uname

    @property
    def dpkg(self) -> str:
        """As Debian's packages name it: amd64, arm64."""
        return self.debian.rpartition("-")[2]

    @property
    def cross(self) -> str:
        """CROSS_COMPILE= of the kernel's make."""
        return self.tools if self.foreign else ""


ARCHES = (
    Arch(
        name="x86_64",
        uname="x86_64",
        kbuild="x86_64",
        tools="x86_64-linux-gnu-",
        target="bzImage",
        image="arch/x86/boot/bzImage",
        qemu="qemu-system-x86_64",
        machine="q35",
        cpu="Nehalem",
        kvm="Nehalem",
        many=",+x2apic",
        levels=("sockets", "dies", "cores", "threads"),
        nodes=64,
        hotplug=True,
        # A host that is busy delays the emulated timer, which the kernel takes for broken.
        append="console=ttyS0 no_timer_check",
        debian="cloud-amd64",
        no_l3=",l3-cache=off",
    ),
    Arch(
        name="arm64",
        uname="aarch64",
        kbuild="arm64",
        tools="aarch64-linux-gnu-",
        target="Image.gz",
        image="arch/arm64/boot/Image.gz",
        qemu="qemu-system-aarch64",
        # The device tree has threads, clusters and nodes, but no caches: Linux takes each socket
        # for one LLC, or each node, where that is smaller.
        machine="virt,gic-version=max",
        cpu="neoverse-n1",
        kvm="host",
        many="",
        levels=("sockets", "clusters", "cores", "threads"),
        nodes=16,
        hotplug=False,
        append="console=ttyAMA0",
        debian="cloud-arm64",
    ),
)

# User Mode Linux is a program of the host: QEMU has nothing to do with it.
UML = Arch(
    *("um", "x86_64", "um", "", "linux", "linux"),
    **dict.fromkeys(("qemu", "machine", "cpu", "kvm", "many", "append", "debian"), ""),
    levels=("sockets", "dies", "cores"),
    nodes=1,
    hotplug=False,
)


def find_arch(name: str = "") -> Arch:
    """The architecture of this name, or else of $ARCH, or else of the host; Usage if unknown."""
    name = name or os.environ.get("ARCH") or platform.machine()
    for arch in ARCHES:
        if name in (arch.name, arch.uname):
            return arch
    known = ", ".join(arch.name for arch in ARCHES)
    raise Usage(f"ARCH={name}: the architectures are: {known}")


def arch_of(kernel: Path) -> Arch | None:
    """The architecture of a kernel's build directory; None if it is no such directory."""
    return next((arch for arch in (*ARCHES, UML) if (kernel / arch.image).is_file()), None)
