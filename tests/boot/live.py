# SPDX-License-Identifier: GPL-2.0
"""A guest's memory while it runs, as drgn in the guest would see it: a dump says where things are,
and QEMU's process has what is there now."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import drgn
from drgn.helpers.linux.mm import follow_phys, phys_to_virt

from wqlab.guests.talk import Monitor
from wqlab.kernels.builddir import BuildDir

LOW, HIGH = 640 << 10, 1 << 20  # what is in between isn't memory
END_LIMIT = 60  # seconds for the last check


def running(kernel: BuildDir, core: Path, pid: int, monitor: Monitor, memory: int) -> drgn.Program:
    """The memory of a guest of so many MiB, of which each is in one piece."""

    def place(mib: int) -> int:
        said = monitor.execute("human-monitor-command", {"command-line": f"gpa2hva {mib << 20:#x}"})
        return int(said.rpartition(" is ")[2], 16)

    places = [place(mib) for mib in range(1, memory)]  # nodes have theirs apart
    places.insert(0, places[0] - HIGH)
    process = Path(f"/proc/{pid}/mem").open("rb", buffering=0)  # noqa: SIM115 # as long as drgn reads

    def read(address: int, count: int) -> bytes:
        data = b""
        while len(data) < count:
            mib, offset = divmod(address + len(data), 1 << 20)
            part = min(count - len(data), (1 << 20) - offset)
            got = os.pread(process.fileno(), part, places[mib] + offset)
            if len(got) != part:
                raise drgn.FaultError("the guest has ended", address)
            data += got
        return data

    prog = drgn.Program()
    prog.set_core_dump(core)
    prog.load_debug_info([kernel.path / "vmlinux"])
    size = (memory << 20) - HIGH
    # where the kernel has all memory, and itself: as /proc/kcore does, without page tables
    direct = phys_to_virt(prog, 0).value_()
    image = prog.symbol("_text").address
    there = follow_phys(prog["init_mm"].address_of_(), image).value_()
    for start, physical, length, is_physical in (
        (0, 0, LOW, True),
        (HIGH, HIGH, size, True),
        (direct + HIGH, HIGH, size, False),
        (image, there, prog.symbol("_end").address - image, False),
    ):
        prog.add_memory_segment(
            start,
            length,
            lambda _, count, offset, __, physical=physical: read(physical + offset, count),
            is_physical,
        )
    return prog


class Looking:
    """Looks at a guest's memory while it runs, in a thread, from when its job holds."""

    thread: threading.Thread | None = None

    @contextmanager
    def of(self, kernel: BuildDir, memory: int) -> Iterator[Callable[[int, Monitor, Path], None]]:
        """At a guest with that kernel and so many MiB; what is to be called when it holds."""

        def begin(pid: int, monitor: Monitor, core: Path) -> None:
            prog = running(kernel, core, pid, monitor, memory)
            self.thread = threading.Thread(target=self.look, args=[prog], daemon=True)
            self.thread.start()

        try:
            yield begin
        finally:
            self.end()

    def look(self, prog: drgn.Program) -> None:
        raise NotImplementedError

    def end(self) -> None:
        """Wait until it has seen enough."""
        if self.thread:
            self.thread.join(END_LIMIT)
