# SPDX-License-Identifier: GPL-2.0
"""A guest's memory while it runs, as drgn in the guest would see it: a dump says where things are,
and QEMU's process has what is there now."""

import os
import random
import re
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import drgn
from drgn.helpers.linux.mm import follow_phys, phys_to_virt

from wqlab.ground.places import ROOT
from wqlab.guests.talk import Lost, Monitor
from wqlab.kernels.builddir import BuildDir

sys.path.insert(0, str(ROOT / "tools/workqueue"))
import wq_contention
import wq_verify

LOW, HIGH = 640 << 10, 1 << 20  # what is in between isn't memory
END_LIMIT = 60  # seconds for the last check


def running(kernel: BuildDir, core: Path, pid: int, monitor: Monitor, memory: int) -> drgn.Program:
    """The memory of a guest of so many MiB, of which each is in one piece."""

    def place(mib: int) -> int:
        said = monitor.execute("human-monitor-command", {"command-line": f"gpa2hva {mib << 20:#x}"})
        found = re.search(r" is (0x[0-9a-f]+)", said)
        if not found:
            raise Lost(f"QEMU gpa2hva: {said}")
        return int(found[1], 16)

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


class Live:
    """Checks a guest again and again, from when its job holds."""

    def __init__(self, kernel: BuildDir, memory: int, secs: float) -> None:
        self.kernel, self.memory, self.secs = kernel, memory, secs
        self.statuses: Counter[int] = Counter()
        self.wrong: list[str] = []
        self.thread: threading.Thread | None = None

    def begin(self, pid: int, monitor: Monitor, core: Path) -> None:
        prog = running(self.kernel, core, pid, monitor, self.memory)
        self.thread = threading.Thread(target=self.check, args=[prog], daemon=True)
        self.thread.start()

    def check(self, prog: drgn.Program) -> None:
        end = time.monotonic() + self.secs
        while time.monotonic() < end:
            results = list(wq_verify.verify(prog))
            self.statuses[wq_verify.status_of(results)] += 1
            self.wrong += [
                f"{result.name} {result.status} {result.text}"
                for result in results
                if result.status in ("wrong", "unknown")
            ]

    def end(self) -> None:
        if self.thread:
            self.thread.join(END_LIMIT)


class Sampling:
    """Reads the locks of a guest's workqueues between two lines of its job."""

    def __init__(self, kernel: BuildDir, memory: int) -> None:
        self.kernel, self.memory = kernel, memory
        self.started, self.ended = threading.Event(), threading.Event()
        self.rounds, self.seconds = 0, 0.0
        self.classes: dict[str, Counter[str]] = {}
        self.thread: threading.Thread | None = None

    def begin(self, pid: int, monitor: Monitor, core: Path) -> None:
        prog = running(self.kernel, core, pid, monitor, self.memory)
        self.thread = threading.Thread(target=self.sample, args=[prog], daemon=True)
        self.thread.start()

    def said(self, line: str) -> None:
        if line == "begin":
            self.started.set()
        elif line == "end":
            self.ended.set()
            if self.thread:
                self.thread.join(END_LIMIT)

    def sample(self, prog: drgn.Program) -> None:
        sampler = wq_contention.Sampler(prog)
        if not self.started.wait(END_LIMIT):
            return
        began = found = time.monotonic()
        locks: dict[int, wq_contention.Lock] = {}
        while not self.ended.wait(random.uniform(0, 0.002)):
            if (now := time.monotonic()) - found > 0.2:
                found = now
                sampler.find()
            sampler.round()
            locks |= {id(lock): lock for lock in sampler.locks.values()}
        self.rounds, self.seconds = sampler.rounds, time.monotonic() - began
        for lock in locks.values():
            counts = self.classes.setdefault("pool->lock" if lock.pool else "nna->lock", Counter())
            counts["held"] += lock.held
            counts["queued"] += lock.queued
