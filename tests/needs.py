# SPDX-License-Identifier: GPL-2.0
"""The kernels and boots that tests need."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import debian
import pytest
from farm import ALL, Making, Need
from overlay import diff_overlay

from wqlab.ground.files import write_whole
from wqlab.ground.places import BUILD, ROOT
from wqlab.ground.problem import Problem, Skipped
from wqlab.ground.run import CORES
from wqlab.guests import vm
from wqlab.guests.kunit import Uml, build_uml
from wqlab.guests.qemu import BootOptions, unfit
from wqlab.guests.scenario import find_scenario
from wqlab.kernels.arch import Arch, find_arch
from wqlab.kernels.bases import default_base, load_base
from wqlab.kernels.build import build
from wqlab.kernels.builddir import BuildDir, find_build
from wqlab.kernels.obtain import obtain
from wqlab.kernels.source import Source
from wqlab.measure.subjects import several_cpus

CULLING = ROOT / "tests/mutants/culling.diff"
# For the end of wq_dump.py: where in memory the pods of each scope are.
PLACES = """
for pt in prog["wq_pod_types"]:
    print("placed at", *(hex(array.value_()) for array in (pt.cpu_pod, pt.pod_cpus, pt.pod_node)))
"""
SLOWER = 4  # times: a kernel that checks for mistakes
# Flavours that `make test` has the time to compile: minutes each
COLD = ("test", "debug", "native")


@dataclass(frozen=True)
class Obtained(Need):
    """The source of --base or --ksrc."""

    guess = 2.0

    def make(self, farm: Making) -> Source:
        return obtain(farm.options.base, farm.options.ksrc)


SOURCE = Obtained()


@dataclass(frozen=True)
class Kernel(Need):
    """A kernel of a flavour, with the first patches of the series (None: all)."""

    flavour: str
    patches: int | None = None
    diff: Path | None = None  # put on top
    modules: tuple[str, ...] = ()  # built out of tree
    arch: str = ""  # "": that of $ARCH or this machine
    alone: bool = False  # its patches are also to be proven by themselves
    cores = ALL
    guess = 200.0
    before = (SOURCE,)

    @property
    def name(self) -> str:
        """In the names of tests."""
        return "-".join(filter(None, [self.flavour, self.arch]))

    @property
    def tier(self) -> str:
        whole = (self.patches is None or self.alone) and not self.arch
        return "test" if whole and self.flavour in COLD else "full"

    def __str__(self) -> str:
        patches = "" if self.patches is None else f", {self.patches} patches"
        arch = f" for {self.arch}" if self.arch else ""
        return f"kernel: {self.flavour}{arch}{patches}{f', {self.diff.name}' if self.diff else ''}"

    def make(self, farm: Making) -> BuildDir:
        source = farm[SOURCE]
        if self.flavour == "native" and not several_cpus(source):
            raise Skipped("User Mode Linux of this base has one CPU")
        broken = self.patches is None and farm.options.broken
        overlay = diff_overlay(source, self.patches, *filter(None, [broken, self.diff])) or None
        where = {"arch": find_arch(self.arch), "modules": self.modules}
        done = build(source, self.flavour, patches=self.patches, overlay=overlay, **where)
        return find_build(done)


@dataclass(frozen=True)
class UmlSeries(Need):
    """User Mode Linux with the whole series. Others with the same workqueue.h, as mutants, come
    after it: they find in ccache what it has compiled."""

    cores = ALL
    guess = 200.0
    before = (SOURCE,)

    def make(self, farm: Making) -> Uml:
        with farm.place("uml") as place:
            return build_uml(farm[SOURCE], place=place)


@dataclass(frozen=True)
class Simulator(Need):
    """QEMU with simulated time, and its plugin."""

    plugin: str = "wqtime"
    tier = "full"
    cores = ALL
    guess = 600.0

    def make(self, farm: Making) -> tuple[Path, Path]:
        from wqlab.measure.sim.emulator import emulator

        return emulator(self.plugin)


@dataclass(frozen=True)
class DebianKernel(Need):
    """Debian's own kernel, with test_workqueue built for it: of the base that is the default, as
    Debian has no kernels of the others, or none that the machine's compiler can build for."""

    modules: tuple[str, ...] = ()  # of its own, and what they depend on
    guess = 60.0

    def __str__(self) -> str:
        return f"kernel: Debian's own{' with modules' * bool(self.modules)}"

    def make(self, farm: Making) -> BuildDir:
        return find_build(debian.prepare(load_base(default_base()), self.modules))


GUEST_MODULES = ("wqbh", "wqflush", "wqhog", "wqmany", "wqreclaim")
TEST = Kernel("test", modules=GUEST_MODULES)  # what is measured, with KUnit
STOCK = Kernel("test", patches=0, modules=(*GUEST_MODULES, "wqtorture"))
DEBUG = Kernel("debug")  # finds mistakes that otherwise have no effect
FIND = Kernel("find")  # finds more of them, at a cost that --tier full has time for
KCSAN = Kernel("kcsan")
RT = Kernel("rt")
# User Mode Linux on several CPUs, which is not emulated
NATIVE = Kernel("native", modules=("test_workqueue",))
# The weaker memory order, with --tier full; nothing more where it is the default.
ARM64 = replace(TEST, arch="arm64")
OTHERS = () if find_arch().name == ARM64.arch else (ARM64,)


@dataclass(frozen=True)
class Accelerator(Need):
    """The trial boot under KVM, which should have the machine to itself."""

    kernel: Need
    cores = ALL
    guess = 5.0

    @property
    def before(self) -> tuple[Need, ...]:
        return (self.kernel,)

    def make(self, farm: Making) -> bool:
        return vm.try_kvm(farm[self.kernel])


@dataclass(frozen=True)
class Boot(Need):
    """A boot and the job in it."""

    scenario: str
    job: str
    kernel: Need = TEST
    append: str = ""
    commands: str = ""
    timeout: float | None = None  # seconds, if not the scenario's, or some times that
    present: int | None = None  # CPUs that are there at the start, if not all
    serial: bool = False  # talks over a serial line
    guess = 15.0

    def __str__(self) -> str:
        digest = self.commands and hashlib.sha256(self.commands.encode()).hexdigest()[:8]
        present = f"{self.present} CPUs" if self.present else ""
        words = [self.append, digest, present]
        return " ".join(
            filter(None, [f"boot: {self.job} on {self.scenario} ({self.kernel})", *words])
        )

    @property
    def arch(self) -> Arch:
        return find_arch(self.kernel.arch if isinstance(self.kernel, Kernel) else "")

    @property
    def unfit(self) -> str:
        """Why QEMU has no such machine; "" if it has."""
        return unfit(self.arch, find_scenario(self.scenario), self.present)

    @property
    def mark(self) -> pytest.MarkDecorator:
        """Of a test that needs it: to be skipped where there is no such machine."""
        if self.unfit:
            return pytest.mark.skip(reason=f"{self.scenario}: {self.unfit}")
        return pytest.mark.needs(self)

    @property
    def cores(self) -> int:
        cpus, memo = find_scenario(self.scenario).cpus, vm.kvm_memo(self.arch)
        kvm = memo.is_file() and memo.read_text() == "pass\n"
        # As vm.choose_accel(): more CPUs than cores are emulated by one thread, as a CPU that spins
        # waits long for one that is not running.
        return min(cpus, CORES) if kvm or cpus <= CORES else 1

    @property
    def before(self) -> tuple[Need, ...]:
        return self.kernel, Accelerator(self.kernel)

    @property
    def out(self) -> Path:
        name = hashlib.sha256(str(self).encode()).hexdigest()[:8]
        return BUILD / f"test/boots/{self.scenario}-{self.job}-{name}"

    def make(self, farm: Making, **more: Any) -> Any:
        """`more` is for BootOptions."""
        kernel, scenario, script = farm[self.kernel], find_scenario(self.scenario), None
        if (kernel.path / "vmlinux").is_file():
            script = self.out / "wq_dump.py"
            write_whole(script, (kernel.path / script.name).read_text() + PLACES)
        slower = 1 if self.kernel in (TEST, ARM64, DebianKernel()) else SLOWER
        options = BootOptions(
            append=f"{self.append} {farm.options.append}".strip(),
            commands=self.commands,
            timeout=self.timeout or slower * scenario.timeout,
            wq_dump=script,
            present=self.present,
            serial=self.serial,
            verify=True,
            **more,
        )
        return vm.boot(kernel, scenario, self.job, self.out, options)


@dataclass(frozen=True)
class Core(Boot):
    """A boot, of which the memory stays as it was when the job held: its kernel and that dump."""

    def __str__(self) -> str:
        return f"{super().__str__()}, to keep its memory"

    def make(self, farm: Making, **more: Any) -> tuple[BuildDir, Any]:
        record = super().make(farm, keep=True, **more)
        if record.verdict != "pass":
            raise Problem(f"{self}: {record.verdict}, {record.reason}")
        return farm[self.kernel], self.out / "core-0"
