# SPDX-License-Identifier: GPL-2.0
"""The memory of a guest with other contents here and there, for tests of what reads it."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from wqlab.ground.places import ROOT
from wqlab.kernels.builddir import BuildDir

drgn = pytest.importorskip("drgn")
sys.path.insert(0, str(ROOT / "tools/workqueue"))
import wq_contention
import wq_verify
from drgn.helpers.linux.percpu import per_cpu_ptr

__all__ = ["Memory", "wq_contention", "wq_verify"]


class Memory:
    """A dump, and what is different from it in the memory that drgn reads."""

    def __init__(self, kernel: BuildDir, core: Path) -> None:
        self.prog = drgn.Program()
        self.prog.set_core_dump(core)
        self.prog.load_debug_info([kernel.path / "vmlinux"])
        self.kernel = wq_verify.Kernel(self.prog)
        self.free = 0xFFFF_C900_FF00_0000  # addresses that nothing is at

    def write(self, address: int, data: bytes) -> None:
        self.prog.add_memory_segment(
            address, len(data), lambda _, count, offset, __: data[offset : offset + count]
        )

    def poke(self, place: drgn.Object, value: int) -> None:
        size = drgn.sizeof(place)
        self.write(place.address_, (value % (1 << 8 * size)).to_bytes(size, "little"))

    def add(self, place: drgn.Object, more: int) -> None:
        self.poke(place, place.value_() + more)

    def mask(self, place: drgn.Object, change: Callable[[int], int]) -> None:
        value = change(self.kernel.mask(place))
        size = drgn.sizeof(place.bits[0]) * max(1, -(-value.bit_length() // 64))
        self.write(place.bits.address_, value.to_bytes(size, "little"))

    def move(self, scope: str, pod: int, *cpus: int) -> None:
        """Into another pod of that scope."""
        index = list(self.kernel.scopes).index(scope) + 1 + self.kernel.constant("WQ_AFFN_DFL")
        pods = self.prog["wq_pod_types"][index]
        change = sum(1 << cpu for cpu in cpus)
        for number in {pods.cpu_pod[cpu].value_() for cpu in cpus}:
            self.mask(pods.pod_cpus[number][0], lambda mask: mask & ~change)
        self.mask(pods.pod_cpus[pod][0], lambda mask: mask | change)
        for cpu in cpus:
            self.poke(pods.cpu_pod[cpu], pod)

    def workqueue(self, name: str = "writeback") -> drgn.Object:
        return next(wq for wq in self.kernel.workqueues if wq_verify.name_of(wq) == name)

    def pwq(self, cpu: int = 0) -> drgn.Object:
        return per_cpu_ptr(self.workqueue().cpu_pwq, cpu)[0]

    def worker(self, cpu: int = 0) -> drgn.Object:
        """An idle one."""
        pool = self.pwq(cpu).pool
        return next(self.kernel.entries(pool.idle_list, "struct worker", "entry"))

    def node(self, cpu: int = 0) -> drgn.Object:
        """Which owns the slots of that CPU's pool, or has its limit."""
        return self.workqueue().node_nr_active[self.kernel.node_index(self.pwq(cpu))]

    def take(self, slots: int, cpu: int = 0) -> None:
        """Have that CPU's node own so many more, of which it's to be said who has them. They were
        spare on another."""
        none = self.workqueue().node_nr_active[self.kernel.nr_nodes]
        self.add(none.nr_owned, -slots)
        self.add(none.nr_spare, -slots)
        self.add(self.node(cpu).nr_owned, slots)

    def open(self, slots: int, cpu: int = 0) -> None:
        """Have that CPU's pwq hold so many free slots."""
        pwq = self.pwq(cpu)
        self.take(slots, cpu)
        if pwq.nr_free.counter.value_() < 0:
            self.link(pwq.open_node, self.node(cpu).open_pwqs)
            self.poke(pwq.nr_free.counter, 0)
        self.add(pwq.nr_free.counter, slots)

    def close_all(self) -> None:
        """Have all free slots of the workqueue spare on no node."""
        none = self.workqueue().node_nr_active[self.kernel.nr_nodes]
        for node in self.kernel.nodes(self.workqueue()).values():
            if node != none:
                for place in (none.nr_owned, none.nr_spare):
                    self.add(place, node.nr_owned.value_())
                self.poke(node.nr_owned, 0)
                self.poke(node.nr_spare, 0)
        for pwq in self.kernel.pwqs(self.workqueue()):
            if pwq.nr_free.counter.value_() >= 0:
                self.unlink(pwq.open_node)
                self.poke(pwq.nr_free.counter, -1)

    def new(self, kind: str) -> drgn.Object:
        """A zeroed structure."""
        self.free += 0x1000
        self.write(self.free, bytes(self.prog.type(f"struct {kind}").size))
        return drgn.Object(self.prog, f"struct {kind} *", value=self.free)

    def link(self, node: drgn.Object, head: drgn.Object) -> None:
        last = head.prev
        self.poke(node.prev, last.value_())
        self.poke(node.next, head.address_)
        self.poke(last.next, node.address_)
        self.poke(head.prev, node.address_)

    def unlink(self, node: drgn.Object) -> None:
        before, after = node.prev, node.next
        self.poke(before.next, after.value_())
        self.poke(after.prev, before.value_())
        self.poke(node.next, node.address_)
        self.poke(node.prev, node.address_)

    def queue(self, head: drgn.Object, inactive: bool, kind: str = "work_struct") -> drgn.Object:
        """A work item of the pwq, which knows of it."""
        pwq, new = self.pwq(), self.new(kind)
        work = new if kind == "work_struct" else new.work
        self.link(work.entry, head)
        names = ("PENDING", "PWQ", *(["INACTIVE"] if inactive else []))
        flags = sum(self.kernel.constant(f"WORK_STRUCT_{name}") for name in names)
        self.poke(work.data.counter, pwq.value_() | flags)
        self.add(pwq.nr_in_flight[0], 1)
        return new

    def wait(self) -> None:
        """Have a work item wait for max_active as it should."""
        wq, pwq, node = self.workqueue(), self.pwq(), self.node()
        if self.kernel.has_slots(wq):
            self.close_all()
            self.poke(node.counted, 1)
            self.add(wq.nr_waiting.counter, 1)
        self.queue(pwq.inactive_works, inactive=True)
        self.link(pwq.pending_node, node.pending_pwqs)

    def age(self, secs: int = 2) -> None:
        """Nothing was done in the pool for so long."""
        jiffies = self.prog["jiffies_64"].value_() - secs * self.kernel.constant("CREATE_COOLDOWN")
        name = self.kernel.member("worker_pool", "watchdog_ts", "last_progress_ts")
        self.poke(getattr(self.pwq().pool, name), jiffies)
