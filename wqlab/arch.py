# SPDX-License-Identifier: GPL-2.0
"""What differs between architectures: one declaration each."""

import os
import platform
from dataclasses import dataclass
from pathlib import Path

from wqlab.problem import Usage


@dataclass(frozen=True)
class Arch:
    """An architecture that kernels are built for and booted on."""

    name: str  # as uname -m says, and a folder or file of configs/arch
    kbuild: str  # ARCH= of the kernel's make
    target: str  # of the kernel's make: what QEMU boots
    image: str  # the same in the kernel's build directory
    qemu: str
    machine: str
    cpu: str  # a model under which the guest sees threads, LLCs and nodes as the scenario has them
    many: str  # what more than 255 CPUs need, behind that
    append: str  # boot parameters: the console, and what emulation needs
    debian: str  # flavour of Debian's own kernel


ARCHES = (
    Arch(
        name="x86_64",
        kbuild="x86_64",
        target="bzImage",
        image="arch/x86/boot/bzImage",
        qemu="qemu-system-x86_64",
        machine="q35",
        cpu="Nehalem",
        many=",+x2apic",
        # A host that is busy delays the emulated timer, which the kernel takes for broken.
        append="console=ttyS0 no_timer_check",
        debian="cloud-amd64",
    ),
)


def find_arch(name: str = "") -> Arch:
    """The architecture of this name, or else of $ARCH, or else of this machine."""
    name = name or os.environ.get("ARCH") or platform.machine()
    for arch in ARCHES:
        if arch.name == name:
            return arch
    known = ", ".join(arch.name for arch in ARCHES)
    raise Usage(f"ARCH={name}: the architectures are: {known}")


def arch_of(kernel: Path) -> Arch | None:
    """The architecture of a kernel's build directory; None if it is no such directory."""
    return next((arch for arch in ARCHES if (kernel / arch.image).is_file()), None)
