#!/usr/bin/env drgn
# SPDX-License-Identifier: GPL-2.0
"""
Check whether the layout and the counts of workqueues are right

This is a drgn script. It reads a running kernel (as root) or a dump, and changes
nothing:

    drgn wq_verify.py [--json]
    drgn -c VMCORE -s VMLINUX wq_verify.py [--json]

It prints a line for each check:

  pods       every possible CPU is in exactly one pod of each affinity scope
  siblings   SMT siblings are in the same pod
  llc        no pod of cache or cache_shard has CPUs of two last-level caches, and
             all CPUs of a last-level cache are in the same pod of cache
  node       no pod of cache_shard or numa has CPUs of two NUMA nodes
  clusters   a cluster of up to cache_shard_size cores is in a single shard
  shards     each last-level cache has the right number of shards, of even sizes
  late       CPUs that were never online share no pod with CPUs that were, other than
             pods of numa and system; what the kernel recorded about the latter matches
             what it knows now
  isolated   no unbound workqueue uses isolated CPUs, unless told to
  pools      on each online CPU, each workqueue uses the pool of that CPU's pod, and
             workers may run on the CPUs of their pool
  workers    lists and counts of workers match each other and the state of each worker
  items      lists and counts of work items match each other and the state of each
             work item
  slots      no slot of max_active is lost or made up, no more work items execute than
             there are slots, and none waits while a slot is free; on kernels without
             slots, the counts of what limits each node are right
  stuck      no work item has been waiting for a second in a pool that has an idle
             worker, and none that is being woken up, or for five seconds in a pool whose
             worker is runnable and gets no CPU

The result of each check is "right"; "wrong", with what is wrong; "n/a" if this kernel
doesn't have what is checked; or "unknown", with the reason. What CPUs share is read
from the masks that the scheduler uses, and not from what workqueues made of them. Only
online CPUs have such masks.

If something is being changed, because its lock is held or because it reads differently
the second time, it is looked at again. If it never settles, the result is "moving". On
a running kernel, a fault is only reported if it is seen several times.

Exit status: 0 if everything that could be checked is right, 1 if something is wrong, 2
if something couldn't be checked and nothing is wrong. drgn itself also exits with 1 if
it can't access the kernel, but then there is no output.
"""

import argparse
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import chain

try:
    import drgn
    from drgn.helpers.linux.idr import idr_for_each
    from drgn.helpers.linux.percpu import per_cpu, per_cpu_ptr
except ImportError:
    print(
        "wq_verify.py: Python finds no drgn: install it (Debian: python3-drgn; others: pip "
        "install drgn), and run this as drgn wq_verify.py",
        file=sys.stderr,
    )
    sys.exit(2)

SEEN = 3  # times that a fault has to be seen to be believed
TRIES = 12  # times to look for that
PAUSE = 0.05  # seconds in between
SHOWN = 3  # faults in a line
STARVED = 5  # seconds that a worker may wait for its CPU
HIGHPRI_NICE = -20
CACHE_ID = 1 << 4  # of a cache's attributes, include/linux/cacheinfo.h
NO_DEBUG_INFO = (
    "install the debug info of this kernel (Debian: linux-image-RELEASE-dbg; others: set "
    "DEBUGINFOD_URLS and get vmlinux with debuginfod-find), and give it to drgn with -s VMLINUX; "
    "BTF is not enough"
)


class Unknown(Exception):
    """Something can't be checked; the message is one line on why."""


class Absent(Exception):
    """This kernel lacks something; the message is one line on what."""


class Corrupt(Exception):
    """A list is corrupt; the message is one line on how."""


def unread(error: Exception) -> str:
    """Describe a pointer that can't be followed. Raise Unknown if only the dump lacks the page,
    which isn't a fault of the kernel."""
    if "xcluded page" in str(error):
        raise Unknown(f"the dump lacks pages, which makedumpfile -d 17 keeps: {error}")
    return f"corrupt, {error}"


def cpus_in(mask: int) -> Iterator[int]:
    while mask:
        yield (mask & -mask).bit_length() - 1
        mask &= mask - 1


def cpulist(mask: int) -> str:
    """Format a mask as the kernel formats lists of CPUs."""
    spans: list[list[int]] = []
    for cpu in cpus_in(mask):
        if spans and cpu == spans[-1][1] + 1:
            spans[-1][1] = cpu
        else:
            spans.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans) or "none"


def pool_title(number: int) -> str:
    return f"pool {number}"


def parts(mask: int, of: Callable[[int], object]) -> list[int]:
    """Split a mask into masks of CPUs for which of() returns the same."""
    found: dict[object, int] = {}
    for cpu in cpus_in(mask):
        found[of(cpu)] = found.get(of(cpu), 0) | 1 << cpu
    return list(found.values())


@dataclass(frozen=True)
class Fault:
    where: str
    what: str
    cpus: int = 0  # mask
    pools: tuple[int, ...] = ()
    workqueues: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """Identifies a fault, even if the counts in its text have changed."""
        return self.where, re.sub(r"\d+", "#", self.what)

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"

    def as_json(self) -> dict[str, object]:
        return {
            "what": str(self),
            "cpus": list(cpus_in(self.cpus)),
            "pools": list(self.pools),
            "workqueues": list(self.workqueues),
        }


@dataclass
class Look:
    """The faults found in one pass of a check."""

    seen: int = 0  # things that were looked at
    unit: str = ""
    faults: list[Fault] = field(default_factory=list)
    moving: set[str] = field(default_factory=set)  # where nothing can be said

    def fault(self, where: str, what: str, cpus: int = 0) -> None:
        self.faults.append(Fault(where, what, cpus))

    def of_pool(self, pool: int, what: str, cpus: int = 0, names: Iterable[str] = ()) -> None:
        self.faults.append(Fault(pool_title(pool), what, cpus, (pool,), tuple(names)))

    def of_workqueue(self, name: str, what: str, pools: Iterable[int] = (), cpus: int = 0) -> None:
        self.faults.append(Fault(f"workqueue {name}", what, cpus, tuple(pools), (name,)))


@dataclass(frozen=True)
class Scope:
    """An affinity scope: its pods as masks, their nodes, and the pod of each CPU."""

    name: str
    pods: list[int]
    nodes: list[int]
    pod_of: dict[int, int]

    def title(self, pod: int) -> str:
        return f"{self.name} pod {pod} (CPUs {cpulist(self.pods[pod])})"


@dataclass(frozen=True)
class Topology:
    """The masks that the scheduler uses: for each CPU, the online CPUs that share each level."""

    core: dict[int, int]
    cluster: dict[int, int]
    llc: dict[int, int]


@dataclass
class Workers:
    """The workers of a pool, by address."""

    idle: dict[int, drgn.Object]
    busy: dict[int, drgn.Object]
    attached: dict[int, drgn.Object]

    @property
    def between(self) -> list[drgn.Object]:
        """Workers that are neither idle nor busy: about to start something, or just done."""
        return [
            worker
            for address, worker in self.attached.items()
            if address not in self.idle and address not in self.busy and not worker.rescue_wq
        ]


@dataclass(frozen=True)
class Item:
    """A work item on a list."""

    work: drgn.Object
    func: int
    pwq: int  # address, 0 if it says it has none
    color: int
    inactive: bool

    @property
    def address(self) -> int:
        return self.work.value_()


class Kernel:
    """The kernel as read in one pass."""

    def __init__(self, prog: drgn.Program) -> None:
        self.prog = prog

    def __getitem__(self, name: str) -> drgn.Object:
        try:
            return self.prog[name]
        except LookupError:
            raise Unknown(f"this kernel has no {name}, or drgn can't find it") from None

    def constant(self, name: str) -> int:
        return self[name].value_()

    def member(self, kind: str, *names: str) -> str:
        """Name of the first member of the structure that is among the given ones."""
        for name in names:
            if self.prog.type(f"struct {kind}").has_member(name):
                return name
        raise Unknown(f"this kernel's struct {kind} has no {' or '.join(names)}")

    # --- CPUs ---

    def mask(self, cpumask: drgn.Object) -> int:
        """A struct cpumask as an integer."""
        words = cpumask.bits.type_.length
        if "nr_cpu_ids" in self.prog:
            words = min(words, -(-self.prog["nr_cpu_ids"].value_() // 64))
        data = self.prog.read(cpumask.address_of_().value_(), words * 8)
        return int.from_bytes(data, "little")

    @cached_property
    def possible(self) -> int:
        return self.mask(self["__cpu_possible_mask"])

    @cached_property
    def online(self) -> int:
        return self.mask(self["__cpu_online_mask"])

    @cached_property
    def node_of(self) -> dict[int, int]:
        cpus = cpus_in(self.possible)
        if "numa_node" not in self.prog:  # without CONFIG_NUMA
            return dict.fromkeys(cpus, 0)
        return {cpu: per_cpu(self["numa_node"], cpu).value_() for cpu in cpus}

    @cached_property
    def topology(self) -> Topology:
        online = list(cpus_in(self.online))
        if "cpu_llc_shared_map" in self.prog:  # x86

            def masks(name: str) -> dict[int, int]:
                return {cpu: self.mask(per_cpu(self[name], cpu)[0]) for cpu in online}

            return Topology(
                masks("cpu_sibling_map"), masks("cpu_l2c_shared_map"), masks("cpu_llc_shared_map")
            )
        if "cpu_topology" in self.prog and hasattr(self["cpu_topology"][0], "llc_sibling"):
            tables = {cpu: self["cpu_topology"][cpu] for cpu in online}

            def is_known(cpu: int) -> bool:
                """As last_level_cache_is_valid() in drivers/base/cacheinfo.c."""
                info = per_cpu(self["ci_cpu_cacheinfo"], cpu)
                if not info.num_leaves or not info.info_list:
                    return False
                last = info.info_list[info.num_leaves - 1]
                return bool(last.attributes & CACHE_ID) or bool(last.fw_token)

            def llc(cpu: int) -> int:
                """As cpu_coregroup_mask() in drivers/base/arch_topology.c."""
                mask = sum(
                    1 << other for other in online if self.node_of[other] == self.node_of[cpu]
                )
                for name in ("core_sibling", "llc_sibling")[: 1 + is_known(cpu)]:
                    inner = self.mask(tables[cpu].member_(name))
                    mask = inner if inner and not inner & ~mask else mask
                cluster = self.mask(tables[cpu].cluster_sibling)
                return mask if mask & ~cluster else cluster

            return Topology(
                {cpu: self.mask(table.thread_sibling) for cpu, table in tables.items()},
                {cpu: self.mask(table.cluster_sibling) for cpu, table in tables.items()},
                {cpu: llc(cpu) for cpu in online},
            )
        raise Unknown("what its CPUs share is not known here: on x86_64 and arm64 kernels it is")

    # --- pods ---

    @cached_property
    def scopes(self) -> dict[str, Scope]:
        """The affinity scopes that have pods."""
        found = {}
        for index in range(self.constant("WQ_AFFN_DFL") + 1, self.constant("WQ_AFFN_NR_TYPES")):
            name = self["wq_affn_names"][index].string_().decode()
            pods = self["wq_pod_types"][index]
            if number := pods.nr_pods.value_():
                found[name] = Scope(
                    name,
                    [self.mask(pods.pod_cpus[pod][0]) for pod in range(number)],
                    [pods.pod_node[pod].value_() for pod in range(number)],
                    {cpu: pods.cpu_pod[cpu].value_() for cpu in cpus_in(self.possible)},
                )
        if len(found) < 2:
            raise Unknown("affinity scopes have no pods yet: this is before the end of booting")
        return found

    def scope(self, name: str) -> Scope:
        if name not in self.scopes:
            raise Absent(f"no scope {name}")
        return self.scopes[name]

    @cached_property
    def topo(self) -> drgn.Object:
        """The kernel's struct wq_topo; Absent if it doesn't have one."""
        if "wq_topo" not in self.prog:
            raise Absent("pods are laid out once, at boot")
        return self.prog["wq_topo"]

    def noted(self, level: str) -> dict[int, int]:
        """The recorded ID of each CPU on a level, -1 if the CPU was never online."""
        ids = self.topo.id[self.constant(level)]
        return {cpu: ids[cpu].value_() for cpu in cpus_in(self.possible)}

    @cached_property
    def placed(self) -> int:
        """Mask of CPUs that have been online and so count as cores."""
        try:
            noted = self.noted("WQ_TOPO_CORE")
        except Absent:
            return self.possible
        return sum(1 << cpu for cpu, number in noted.items() if number >= 0)

    # --- lists ---

    def entries(self, head: drgn.Object, kind: str, member: str) -> Iterator[drgn.Object]:
        """Entries of a list. Raise Corrupt if its pointers don't match, so it can't loop."""
        start = last = head.address_of_().value_()
        position = head.next
        while (address := position.value_()) != start:
            node = position[0].read_()
            if node.prev.value_() != last:
                raise Corrupt(f"an entry at {address:#x} doesn't point back to {last:#x}")
            yield drgn.container_of(position, kind, member)
            last, position = address, node.next
        if head.prev.value_() != last:
            raise Corrupt(f"its end isn't {last:#x}")

    def hashed(self, buckets: drgn.Object) -> Iterator[drgn.Object]:
        """The busy workers, from pool->busy_hash."""
        size = drgn.sizeof(buckets[0])
        for index, bucket in enumerate(buckets.value_()):
            before, address = buckets.address_ + index * size, bucket["first"]
            while address:
                entry = drgn.Object(self.prog, "struct hlist_node *", value=address)
                node = entry[0].read_()
                if node.pprev.value_() != before:
                    raise Corrupt(f"an entry at {address:#x} doesn't point back")
                yield drgn.container_of(entry, "struct worker", "hentry")
                before, address = entry.next.address_of_().value_(), node.next.value_()

    # --- workqueues, pools, workers and work items ---

    @cached_property
    def workqueues(self) -> list[drgn.Object]:
        return list(self.entries(self["workqueues"], "struct workqueue_struct", "list"))

    def pwqs(self, wq: drgn.Object) -> list[drgn.Object]:
        return list(self.entries(wq.pwqs, "struct pool_workqueue", "pwqs_node"))

    @cached_property
    def pools(self) -> dict[int, drgn.Object]:
        """The worker pools in use, by ID."""
        found = {
            number: drgn.Object(self.prog, "struct worker_pool *", value=entry.value_())
            for number, entry in idr_for_each(self["worker_pool_idr"].address_of_())
        }
        return {number: pool for number, pool in found.items() if pool.cpu >= 0 or pool.refcnt > 0}

    @cached_property
    def pwqs_of(self) -> dict[int, list[drgn.Object]]:
        """The pwqs of each pool, by its address."""
        found: dict[int, list[drgn.Object]] = {}
        for wq in self.workqueues:
            for pwq in self.pwqs(wq):
                found.setdefault(pwq.pool.value_(), []).append(pwq)
        return found

    @cached_property
    def nr_nodes(self) -> int:
        return self.constant("nr_node_ids") if "nr_node_ids" in self.prog else 1

    def node_index(self, pwq: drgn.Object) -> int:
        """Index of a pwq's node in node_nr_active."""
        node = pwq.pool.node.value_()
        return node if node >= 0 else self.nr_nodes

    def has_slots(self, wq: drgn.Object) -> bool:
        """Whether work items of the workqueue take slots that nodes own."""
        flags = self.constant("WQ_UNBOUND") | self.constant("__WQ_ORDERED")
        return hasattr(wq, "nr_owed") and wq.flags & flags == self.constant("WQ_UNBOUND")

    def nodes(self, wq: drgn.Object) -> dict[int, drgn.Object]:
        """The struct wq_node_nr_active of each node, and of no node, by index."""
        if not self.has_slots(wq):
            return {}
        nodes = {index: wq.node_nr_active[index].read_() for index in range(self.nr_nodes + 1)}
        return {index: node for index, node in nodes.items() if node}

    def attrs(self, wq: drgn.Object) -> drgn.Object:
        return wq.member_(self.member("workqueue_struct", "attrs", "unbound_attrs"))

    def scope_of(self, attrs: drgn.Object) -> Scope:
        """The scope in effect for these attributes."""
        affn = attrs.affn_scope.value_()
        if affn == self.constant("WQ_AFFN_DFL"):
            affn = self.constant("wq_affn_dfl")
        name = self["wq_affn_names"][affn].string_().decode()
        if name not in self.scopes:  # without memory for its pods at boot
            name = "cache" if name == "cache_shard" and "cache" in self.scopes else "system"
        return self.scopes[name]

    def finishing(self, pwqs: Iterable[drgn.Object]) -> int:
        """How many work items may have just started or ended and not be counted yet."""
        return sum(len(self.workers(pwq.pool).between) for pwq in pwqs)

    def workers(self, pool: drgn.Object) -> Workers:
        def by_address(workers: Iterable[drgn.Object]) -> dict[int, drgn.Object]:
            return {worker.value_(): worker for worker in workers}

        return Workers(
            by_address(self.entries(pool.idle_list, "struct worker", "entry")),
            by_address(self.hashed(pool.busy_hash)),
            by_address(self.entries(pool.workers, "struct worker", "node")),
        )

    def items(self, head: drgn.Object) -> Iterator[Item]:
        """The work items of a list, without the cursors of rescuers."""
        for work in self.entries(head, "struct work_struct", "entry"):
            func = work.func.value_()
            if func != self.functions["mayday_cursor_func"]:
                data = work.data.counter.value_() & (1 << 64) - 1
                pwq = data >> self.shift << self.shift if data & self.bits["PWQ"] else 0
                color = data >> self.bits["COLOR_SHIFT"] & (1 << self.bits["COLOR_BITS"]) - 1
                yield Item(work, func, pwq, color, bool(data & self.bits["INACTIVE"]))

    @cached_property
    def bits(self) -> dict[str, int]:
        names = ("PWQ", "INACTIVE", "COLOR_SHIFT", "COLOR_BITS", "PWQ_SHIFT")
        return {name: self.constant(f"WORK_STRUCT_{name}") for name in names}

    @property
    def shift(self) -> int:
        return self.bits["PWQ_SHIFT"]

    @cached_property
    def functions(self) -> dict[str, int]:
        """Addresses of functions, -1 for those that this kernel lacks."""
        return {
            name: self.prog[name].address_of_().value_() if name in self.prog else -1
            for name in ("mayday_cursor_func", "wq_barrier_func")
        }

    # --- what moves ---

    def locked(self, lock: drgn.Object) -> bool:
        try:
            return lock.raw_lock.val.counter.value_() != 0
        except AttributeError:  # one CPU, or PREEMPT_RT's spinlock_t, of which there is none here
            return False

    def owned(self, mutex: drgn.Object) -> bool:
        return bool(mutex.owner.counter if hasattr(mutex, "owner") else mutex.rtmutex.owner)

    def will_run(self, timer: drgn.Object) -> bool:
        """Whether a timer is running or pending. It doesn't count if it's overdue by a second."""
        if timer.entry.pprev:
            late = (self["jiffies_64"].value_() - timer.expires.value_()) & (1 << 64) - 1
            return late >> 63 != 0 or late < self.constant("CREATE_COOLDOWN")
        address = timer.address_of_().value_()
        return any(
            base.running_timer.value_() == address
            for cpu in cpus_in(self.online)
            for base in per_cpu(self["timer_bases"], cpu)
        )

    @property
    def changing(self) -> bool:
        """Whether CPU hotplug or a change of pods or attributes is going on."""
        if "cpu_hotplug_lock" in self.prog and self["cpu_hotplug_lock"].block.counter:
            return True
        if "wq_pool_mutex" not in self.prog:
            return False
        return self.owned(self["wq_pool_mutex"])

    def steadily(
        self,
        look: Look,
        where: str,
        objects: Sequence[drgn.Object],
        check: Callable[..., None],
        *args: object,
    ) -> None:
        """Run a check whose result only counts if these objects, pointers to structures, don't
        change meanwhile and aren't locked."""

        def read() -> list[bytes]:
            return [self.prog.read(one.value_(), one.type_.type.size) for one in objects]

        def busy() -> bool:
            return any(
                held(one.member_(name))
                for one in objects
                for name, held in (("lock", self.locked), ("mutex", self.owned))
                if one.type_.type.has_member(name)
            )

        count, before, moves = len(look.faults), read(), busy()
        if not moves:
            try:
                check(self, look, *args)
            except (Corrupt, drgn.FaultError) as error:
                look.fault(where, f"its lists are {unread(error)}")
            moves = busy() or read() != before
        if moves:
            del look.faults[count:]
            look.moving.add(where)
        else:
            look.seen += 1


def name_of(wq: drgn.Object) -> str:
    return wq.name.read_().string_().decode(errors="replace")


def title_of(task: drgn.Object) -> str:
    return f"{task.comm.string_().decode(errors='replace')} ({task.pid.value_()})"


# --- the checks -------------------------------------------------------------------------------


def check_pods(kernel: Kernel) -> Look:
    look = Look(unit="pods")
    for scope in kernel.scopes.values():
        look.seen += len(scope.pods)
        once = twice = 0
        for pod in scope.pods:
            twice |= once & pod
            once |= pod
        for cpu in cpus_in(twice):
            pods = [pod for pod, mask in enumerate(scope.pods) if mask >> cpu & 1]
            look.fault(f"CPU {cpu}", f"is in {scope.name} pods {pods}", 1 << cpu)
        if lost := kernel.possible & ~once:
            look.fault(f"CPUs {cpulist(lost)}", f"are in no {scope.name} pod", lost)
        if extra := once & ~kernel.possible:
            look.fault(f"CPUs {cpulist(extra)}", f"are in {scope.name} pods and not possible")
        for cpu, pod in scope.pod_of.items():
            if not (0 <= pod < len(scope.pods) and scope.pods[pod] >> cpu & 1):
                look.fault(f"CPU {cpu}", f"has {scope.name} pod {pod} and isn't in it", 1 << cpu)
        for pod, mask in enumerate(scope.pods):
            nodes = {kernel.node_of[cpu] for cpu in cpus_in(mask & kernel.possible)}
            if scope.name != "system" and scope.nodes[pod] not in nodes:
                look.fault(scope.title(pod), f"has node {scope.nodes[pod]}", mask)
    return look


Of = Callable[[int], object]  # what is the same for all CPUs that belong together


def crossing(kernel: Kernel, look: Look, names: Iterable[str], of: Of, what: str) -> None:
    """Report pods whose online CPUs differ in of()."""
    for scope in (kernel.scopes[name] for name in names if name in kernel.scopes):
        for pod, mask in enumerate(scope.pods):
            crossed = parts(mask & kernel.online, of)
            if len(crossed) > 1:
                spans = " and ".join(map(cpulist, crossed))
                look.fault(scope.title(pod), f"crosses the {what} of CPUs {spans}", mask)


def divided(
    kernel: Kernel, look: Look, names: Iterable[str], groups: Iterable[int], what: str
) -> None:
    """Report groups of CPUs that are in more than one pod of a scope."""
    for scope in (kernel.scopes[name] for name in names if name in kernel.scopes):
        for group in groups:
            pods = [pod for pod, mask in enumerate(scope.pods) if mask & group]
            if len(pods) > 1:
                where = f"{what} of CPUs {cpulist(group)}"
                look.fault(where, f"is in {scope.name} pods {pods}", group)


def check_siblings(kernel: Kernel) -> Look:
    core, llc, node = kernel.topology.core, kernel.topology.llc, kernel.node_of
    # what doesn't share cache or node counts as another core
    cores = parts(kernel.online, lambda cpu: (core[cpu], llc[cpu], node[cpu]))
    look = Look(len(cores), "cores")
    divided(kernel, look, ("smt", "cache", "cache_shard", "numa"), cores, "core")
    crossing(kernel, look, ["smt"], core.__getitem__, "cores")
    return look


def check_llc(kernel: Kernel) -> Look:
    llc = kernel.topology.llc.__getitem__
    caches = parts(kernel.online, llc)
    look = Look(len(caches), "last-level caches")
    crossing(kernel, look, ("smt", "cache", "cache_shard"), llc, "last-level caches")
    divided(kernel, look, ["cache"], caches, "LLC")
    return look


def check_node(kernel: Kernel) -> Look:
    node = kernel.node_of.__getitem__
    nodes = parts(kernel.online, node)
    look = Look(len(nodes), "nodes")
    crossing(kernel, look, ("cache_shard", "numa"), node, "nodes")
    divided(kernel, look, ["numa"], nodes, "node")
    return look


def cores_of(kernel: Kernel, mask: int) -> list[int]:
    """The cores of a mask of CPUs, as in the smt scope."""
    return [core for pod in kernel.scope("smt").pods if (core := pod & mask)]


def split_caches(kernel: Kernel) -> list[int]:
    """Masks of CPUs that share cache and node, and count as cores. Each is split into shards."""
    return [
        part
        for pod in kernel.scope("cache").pods
        for part in parts(pod & kernel.placed, kernel.node_of.__getitem__)
    ]


def clusters_of(kernel: Kernel, mask: int) -> list[int]:
    """The clusters of a mask of CPUs, none if this kernel ignores clusters."""
    try:
        return parts(mask, kernel.noted("WQ_TOPO_CLUSTER").__getitem__)
    except Absent:
        return []


def check_clusters(kernel: Kernel) -> Look:
    kernel.scope("cache_shard")
    if "wq_topo" not in kernel.prog:
        raise Absent("shards don't heed clusters")
    look, size = Look(unit="clusters"), kernel.constant("wq_cache_shard_size")
    for cache in split_caches(kernel):
        clusters = clusters_of(kernel, cache)
        look.seen += len(clusters)
        small = [mask for mask in clusters if len(cores_of(kernel, mask)) <= size]
        divided(kernel, look, ["cache_shard"], small, "cluster")
    return look


def number_of_shards(kernel: Kernel, cores: int, size: int) -> int:
    if "wq_topo" not in kernel.prog:
        return max(1, (cores + size // 2) // size)  # as mainline rounds
    fewer = max(1, cores // size)
    return min(fewer, fewer + 1, key=lambda number: abs(Fraction(cores, number) - size))


def check_shards(kernel: Kernel) -> Look:
    shards, size = kernel.scope("cache_shard"), kernel.constant("wq_cache_shard_size")
    look = Look(unit="shards")
    for cache in split_caches(kernel):
        where = f"LLC of CPUs {cpulist(cache)}"
        cores = len(cores_of(kernel, cache))
        inside = [mask & cache for mask in shards.pods if mask & cache]
        sizes = [len(cores_of(kernel, mask)) for mask in inside]
        look.seen += len(sizes)
        number = number_of_shards(kernel, cores, size)
        if len(sizes) != number:
            right = f"{number} would be right for {cores} cores and a size of {size}"
            look.fault(where, f"has {len(sizes)} shards, {right}", cache)
        if not sizes:
            continue
        clusters = [len(cores_of(kernel, mask)) for mask in clusters_of(kernel, cache)]
        largest = max((count for count in clusters if count <= size), default=1)
        if largest > 1:
            mean = Fraction(cores, len(sizes))
            uneven = any(abs(count - mean) > largest for count in sizes)
        else:
            uneven = max(sizes) - min(sizes) > 1
        if uneven:
            look.fault(where, f"has uneven shards of {sizes} cores", cache)
    return look


def check_late(kernel: Kernel) -> Look:
    look = Look(unit="CPUs")
    levels = {"CORE": "core", "CLUSTER": "cluster", "LLC": "llc"}
    noted = {name: kernel.noted(f"WQ_TOPO_{level}") for level, name in levels.items()}
    look.seen = len(noted["core"])
    if lost := kernel.online & ~kernel.placed:
        look.fault(f"CPUs {cpulist(lost)}", "are online and were never placed", lost)
    here = kernel.online & kernel.placed
    for name, ids in noted.items():
        masks = getattr(kernel.topology, name)
        for cpu in cpus_in(here):
            told = masks[cpu] & here
            if name == "cluster":  # a mask of one may lack the siblings
                told |= kernel.topology.core[cpu] & here
            if missed := sum(1 << c for c in cpus_in(told) if ids[c] != ids[cpu]):
                what = f"shares its {name} with CPUs {cpulist(missed)}, but isn't noted to"
                look.fault(f"CPU {cpu}", what, missed | 1 << cpu)
        for group in parts(here, ids.__getitem__):
            together = parts(group, lambda cpu, masks=masks: masks[cpu])
            # clusters that have siblings in common are one
            if len(together) > 1 and name != "cluster":
                look.fault(f"CPUs {cpulist(group)}", f"are noted to share their {name}", group)
    for scope in kernel.scopes.values():
        for pod, mask in enumerate(scope.pods if scope.name not in ("numa", "system") else []):
            late = mask & ~kernel.placed
            if late and mask & kernel.placed:
                what = f"has CPUs {cpulist(late)}, which were never online"
                look.fault(scope.title(pod), what, mask)
    return look


def check_isolated(kernel: Kernel) -> Look:
    look = Look(unit="isolated CPUs")
    isolated, unbound, requested = (
        kernel.mask(kernel[f"wq_{name}_cpumask"][0])
        for name in ("isolated", "unbound", "requested_unbound")
    )
    look.seen = isolated.bit_count()
    if unbound not in (requested, requested & ~isolated):
        what = f"is {cpulist(unbound)}, where {cpulist(requested)} was asked for"
        what += f" and {cpulist(isolated)} is isolated"
        look.fault("wq_unbound_cpumask", what, unbound ^ (requested & ~isolated))
    return look


def check_pools(kernel: Kernel) -> Look:
    look = Look(unit="workqueues")
    for wq in kernel.workqueues:
        where = f"workqueue {name_of(wq)}"
        check = check_unbound if wq.flags & kernel.constant("WQ_UNBOUND") else check_percpu
        kernel.steadily(look, where, [wq], check, wq)
    for number, pool in kernel.pools.items():
        if pool.cpu < 0:
            kernel.steadily(look, pool_title(number), [pool], check_affinity, number, pool)
            look.seen -= 1
    return look


def pwqs_by_cpu(kernel: Kernel, wq: drgn.Object) -> dict[int, drgn.Object]:
    return {cpu: per_cpu_ptr(wq.cpu_pwq, cpu)[0] for cpu in cpus_in(kernel.online)}


def check_percpu(kernel: Kernel, look: Look, wq: drgn.Object) -> None:
    nice = HIGHPRI_NICE if wq.flags & kernel.constant("WQ_HIGHPRI") else 0
    is_bh = bool(wq.flags & kernel.constant("WQ_BH"))
    for cpu, pwq in pwqs_by_cpu(kernel, wq).items():
        pool = pwq.pool
        same = pool.cpu == cpu and pool.attrs.nice == nice
        if not same or is_bh != bool(pool.flags & kernel.constant("POOL_BH")):
            number = pool.id.value_()
            what = f"its pool {number} on CPUs {cpu} isn't the CPU's own"
            look.of_workqueue(name_of(wq), what, [number], 1 << cpu)


def check_unbound(kernel: Kernel, look: Look, wq: drgn.Object) -> None:
    described: dict[int, tuple[object, ...]] = {}

    def describe(pool: drgn.Object) -> tuple[object, ...]:
        if pool.value_() not in described:
            attrs = pool.attrs
            described[pool.value_()] = (
                kernel.mask(attrs.__pod_cpumask[0]),
                kernel.mask(attrs.cpumask[0]),
                attrs.nice.value_(),
                attrs.affn_strict.value_(),
            )
        return described[pool.value_()]

    unbound = kernel.mask(kernel["wq_unbound_cpumask"][0])
    online = kernel.mask(kernel["wq_online_cpumask"][0])
    attrs = kernel.attrs(wq)
    wanted = kernel.mask(attrs.cpumask[0]) & unbound or unbound
    strict, ordered = attrs.affn_strict.value_(), bool(attrs.ordered)
    rest = (kernel.possible if strict else wanted, attrs.nice.value_(), strict)
    scope = kernel.scope_of(attrs)
    wrong: dict[tuple[int, str], int] = {}
    for cpu, pwq in pwqs_by_cpu(kernel, wq).items():
        pod = scope.pod_of[cpu]
        inside = scope.pods[pod] & wanted if pod < len(scope.pods) else 0
        here = inside if inside & online and not ordered else wanted
        have = describe(pwq.pool)
        if ordered and pwq != wq.dfl_pwq:
            what = "isn't the only one of an ordered workqueue"
        elif have[0] != here:
            what = f"is for CPUs {cpulist(have[0])}, and should be for {cpulist(here)}"
        elif have[1:] != rest:
            what = "has other attributes than the workqueue"
        else:
            continue
        key = pwq.pool.id.value_(), what
        wrong[key] = wrong.get(key, 0) | 1 << cpu
    if describe(wq.dfl_pwq.pool)[0] != wanted:
        wrong[wq.dfl_pwq.pool.id.value_(), "is the default one and has other CPUs"] = 0
    for (number, what), mask in wrong.items():
        on = f" on CPUs {cpulist(mask)}" if mask else ""
        look.of_workqueue(name_of(wq), f"its pool {number}{on} {what}", [number], mask)


def check_affinity(kernel: Kernel, look: Look, number: int, pool: drgn.Object) -> None:
    """Check where the workers of an unbound pool may run."""
    attrs = pool.attrs
    allowed = kernel.mask((attrs.__pod_cpumask if attrs.affn_strict else attrs.cpumask)[0])
    allowed &= kernel.online
    for worker in kernel.workers(pool).attached.values():
        may = kernel.mask(worker.task.cpus_mask) & kernel.online
        # without any such CPU the scheduler lets them run anywhere
        if allowed and may != allowed and not worker.rescue_wq:
            look.of_pool(
                number,
                f"its worker {worker.id.value_()} may run on CPUs {cpulist(may)}, "
                f"and should on {cpulist(allowed)}",
                may ^ allowed,
            )


PoolCheck = Callable[[Kernel, Look, int, drgn.Object], None]


def of_each_pool(check: PoolCheck, with_pwqs: bool = False) -> Callable[[Kernel], Look]:
    """Turn a check of one pool into one of all. with_pwqs: its pwqs must not change either."""

    def checks(kernel: Kernel) -> Look:
        look = Look(unit="pools")
        for number, pool in kernel.pools.items():
            pwqs = kernel.pwqs_of.get(pool.value_(), []) if with_pwqs else []
            kernel.steadily(look, pool_title(number), [pool, *pwqs], check, number, pool)
        return look

    return checks


def check_workers(kernel: Kernel, look: Look, number: int, pool: drgn.Object) -> None:
    def fault(what: str) -> None:
        look.of_pool(number, what)

    workers = kernel.workers(pool)
    idle, busy, attached = workers.idle, workers.busy, workers.attached
    idle_flag, die_flag = kernel.constant("WORKER_IDLE"), kernel.constant("WORKER_DIE")
    if pool.id != number:
        fault(f"has ID {pool.id.value_()}")
    if len(idle) != pool.nr_idle:
        fault(f"nr_idle is {pool.nr_idle.value_()}, {len(idle)} workers are on idle_list")
    own = sum(not w.rescue_wq and not w.flags & die_flag for w in attached.values())
    # a new worker is attached before it's counted
    if not own - len(workers.between) <= pool.nr_workers.value_() <= own:
        fault(f"nr_workers is {pool.nr_workers.value_()}, {own} are attached")
    picked = getattr(pool, "picked", None)
    for address, worker in (attached | idle | busy).items():
        flags, title = worker.flags.value_(), f"worker {worker.id.value_()}"
        if worker.pool != pool:
            fault(f"{title} isn't of this pool")
        if address not in attached:
            fault(f"{title} is on a list and not attached")
        if address in idle and address in busy:
            fault(f"{title} is both on idle_list and in busy_hash")
        if bool(flags & idle_flag) != (address in idle) and not flags & die_flag:
            fault(f"{title} {'has' if flags & idle_flag else 'lacks'} the idle flag")
        if address in idle and worker.current_work:
            fault(f"{title} is idle and executes a work item")
        if address in busy and not worker.current_work:
            fault(f"{title} is busy with nothing")
        if address in busy and worker.current_pwq and worker.current_pwq.pool != pool:
            fault(f"{title} executes a work item of another pool")
        if picked == worker and not flags & idle_flag:
            fault(f"{title} is picked and not idle")
    loose = pool.cpu < 0 or bool(pool.flags & kernel.constant("POOL_DISASSOCIATED"))
    if loose and not pool.flags & kernel.constant("POOL_BH") and pool.nr_running != 0:
        fault(f"nr_running is {pool.nr_running.value_()}, though nobody counts there")
    managed = bool(pool.flags & kernel.constant("POOL_MANAGER_ACTIVE"))
    if managed != bool(pool.manager):
        fault(
            "it is managed and has no manager" if managed else "it has a manager and isn't managed"
        )


def check_items(kernel: Kernel, look: Look, number: int, pool: drgn.Object) -> None:
    workers = kernel.workers(pool)
    listed = list(kernel.items(pool.worklist))
    startable = Counter(item.pwq for item in listed if not item.inactive)
    for worker in workers.attached.values():
        listed += kernel.items(worker.scheduled)
    own = {pwq.value_(): pwq for pwq in kernel.pwqs_of.get(pool.value_(), [])}
    active: Counter[int] = Counter()
    flying: Counter[tuple[int, int]] = Counter()
    for item in listed:
        active[item.pwq] += not item.inactive
        flying[item.pwq, item.color] += 1
        if item.pwq not in own:
            look.of_pool(number, f"a work item at {item.address:#x} is of no pwq of this pool")
    for worker in workers.busy.values():
        pwq = worker.current_pwq.value_()
        active[pwq] += worker.current_func.value_() != kernel.functions["wq_barrier_func"]
        flying[pwq, worker.current_color.value_()] += 1
    # one that has just finished an item may still have to say so
    slack = len(workers.between)
    for address, pwq in own.items():
        name = name_of(pwq.wq)
        for item in kernel.items(pwq.inactive_works):
            flying[address, item.color] += 1
            if not item.inactive or item.pwq != address:
                look.of_workqueue(
                    name,
                    f"a work item at {item.address:#x} waits in pool {number} and isn't inactive",
                    [number],
                )
        counts = {"nr_active": (pwq.nr_active.value_(), active[address])}
        for color, count in enumerate(pwq.nr_in_flight.value_()):
            counts[f"nr_in_flight[{color}]"] = count, flying[address, color]
        if kernel.has_slots(pwq.wq):
            counts["nr_listed"] = pwq.nr_listed.value_(), startable[address]
        for what, (counted, found) in counts.items():
            if not found <= counted <= found + slack * (what != "nr_listed"):
                text = f"{what} in pool {number} is {counted}, there are {found}"
                look.of_workqueue(name, text, [number])


# What is wrong with a workqueue, and the pwqs that it's about
SlotFaults = Iterator[tuple[str, Iterable[drgn.Object]]]


def check_slots(kernel: Kernel) -> Look:
    look = Look(unit="workqueues")
    for wq in kernel.workqueues:
        pwqs = kernel.pwqs(wq)
        objects = [wq, *pwqs, *(pwq.pool for pwq in pwqs), *kernel.nodes(wq).values()]
        kernel.steadily(look, f"workqueue {name_of(wq)}", objects, check_slots_of, wq, pwqs)
    return look


def check_slots_of(kernel: Kernel, look: Look, wq: drgn.Object, pwqs: list[drgn.Object]) -> None:
    if kernel.has_slots(wq):
        faults = owned_slots
    elif hasattr(wq, "nr_owed") or not wq.flags & kernel.constant("WQ_UNBOUND"):
        faults = pwq_slots
    else:
        faults = node_slots
    for what, of in chain(limit_of(kernel, wq), faults(kernel, wq, pwqs)):
        pools = sorted({pwq.pool.id.value_() for pwq in of})
        within = f" in pools {', '.join(map(str, pools))}" if pools else ""
        look.of_workqueue(name_of(wq), what + within, pools)


def limit_of(kernel: Kernel, wq: drgn.Object) -> SlotFaults:
    limit, saved = wq.max_active.value_(), wq.saved_max_active.value_()
    frozen = wq.flags & kernel.constant("WQ_FREEZABLE") and kernel["workqueue_freezing"]
    if limit != (0 if frozen else saved):
        yield f"max_active is {limit}, and should be {saved}", ()


def waiting(pwqs: Iterable[drgn.Object]) -> list[drgn.Object]:
    """The pwqs that have work items waiting for max_active."""
    return [
        pwq
        for pwq in pwqs
        if pwq.inactive_works.next != pwq.inactive_works.address_of_() and not pwq.plugged
    ]


def pwq_slots(kernel: Kernel, wq: drgn.Object, pwqs: list[drgn.Object]) -> SlotFaults:
    """Check a workqueue in which each pwq is limited by itself."""
    limit = wq.max_active.value_()
    if beside := [pwq for pwq in waiting(pwqs) if pwq.nr_active < limit]:
        yield f"work items wait although fewer than {limit} are active", beside


def owned_slots(kernel: Kernel, wq: drgn.Object, pwqs: list[drgn.Object]) -> SlotFaults:
    """Check what the comment above struct wq_node_nr_active says, for all nodes and for each."""
    limit, owed = wq.max_active.value_(), wq.nr_owed.counter.value_()
    slack, waits, nodes = kernel.finishing(pwqs), waiting(pwqs), kernel.nodes(wq)
    executing = sum(
        worker.current_pwq == pwq
        and worker.current_func.value_() != kernel.functions["wq_barrier_func"]
        for pwq in pwqs
        for worker in kernel.workers(pwq.pool).busy.values()
    )
    if executing > limit + owed:
        yield f"{executing} work items execute, max_active is {limit}", ()
    owned = sum(node.nr_owned.value_() for node in nodes.values())
    # whoever moves slots from one node to another has them in hand
    if not owned <= limit + owed <= owned + (limit + owed if slack else 0):
        and_owed = f" and the {owed} that are owed" if owed else ""
        yield f"nodes own {owned} slots, and not max_active, {limit}{and_owed}", ()
    counted = sum(bool(node.counted) for node in nodes.values())
    if wq.nr_waiting.counter != counted:
        yield f"nr_waiting is {wq.nr_waiting.counter.value_()}, {counted} nodes are counted", ()
    for index, node in nodes.items():
        here = [pwq for pwq in pwqs if kernel.node_index(pwq) == index]
        yield from slots_of(kernel, index, node, here, slack)
    for pwq in pwqs:
        listed, granted = pwq.nr_listed.value_(), pwq.nr_granted.value_()
        attached = kernel.workers(pwq.pool).attached.values()
        # a rescuer puts back what is too many when it leaves
        if granted > listed and not slack and not any(worker.rescue_wq for worker in attached):
            yield f"{granted} slots are granted to {listed} listed work items", [pwq]
    free = sum(node.nr_spare.value_() for node in nodes.values())
    free += sum(max(pwq.nr_free.counter.value_(), 0) for pwq in pwqs)
    if free <= 0 or slack:
        return  # or on the way to pass on a slot
    if waits and not kernel.will_run(wq.slot_timer):
        yield f"work items wait beside {free} free slots", waits
    if owed:
        yield f"{free} slots are free though {owed} are owed", ()


def slots_of(
    kernel: Kernel, index: int, node: drgn.Object, pwqs: list[drgn.Object], slack: int
) -> SlotFaults:
    """Check what that comment says about one node."""
    title = f"node {index}" if index < kernel.nr_nodes else "no node"
    free = {pwq.value_(): pwq.nr_free.counter.value_() for pwq in pwqs}
    started = sum(pwq.nr_active.value_() - pwq.nr_listed.value_() for pwq in pwqs)
    granted = sum(pwq.nr_granted.value_() for pwq in pwqs)
    held = sum(max(number, 0) for number in free.values())
    spare, owned = node.nr_spare.value_(), node.nr_owned.value_()
    # whoever passes on a slot still counts it where it was
    there = started + granted + held + spare
    if not owned - slack <= there <= owned + kernel.finishing(pwqs):
        counts = f"{started} started, {granted} granted, {held} held and {spare} spare slots"
        yield f"{counts} of {title} are not the {owned} that it owns", ()
    if spare < 0 or owned < 0:
        yield f"{title} owns {owned} slots, of which {spare} are spare", ()
    by_address = {pwq.value_(): pwq for pwq in pwqs}
    opened, pending = (
        {
            pwq.value_(): pwq
            for pwq in kernel.entries(head, "struct pool_workqueue", f"{which}_node")
        }
        for which, head in (("open", node.open_pwqs), ("pending", node.pending_pwqs))
    )
    for which, listed, right in (
        ("open", opened, {address for address, number in free.items() if number >= 0}),
        ("pending", pending, {pwq.value_() for pwq in waiting(pwqs)}),
    ):
        for address in right ^ listed.keys():
            pwq = by_address.get(address) or listed[address]
            verb = "is not" if address in right else "is"
            yield f"a pwq {verb} {which} on {title} by mistake", [pwq]
    if opened and pending:
        yield f"pwqs of {title} are open while others wait there", pending.values()
    if pending and not node.counted:
        yield f"{title} waits and is not counted", pending.values()


def node_slots(kernel: Kernel, wq: drgn.Object, pwqs: list[drgn.Object]) -> SlotFaults:
    by_node: dict[int, list[drgn.Object]] = {}
    for pwq in pwqs:
        by_node.setdefault(kernel.node_index(pwq), []).append(pwq)
    if kernel.finishing(pwqs):
        return
    for node, here in sorted(by_node.items()):
        of_node = wq.node_nr_active[node]
        if kernel.locked(of_node.lock):
            continue
        title = f"node {node}" if node < kernel.nr_nodes else "all nodes"
        active = sum(pwq.nr_active.value_() for pwq in here)
        counted, limit = of_node.nr.counter.value_(), of_node.max.value_()
        if counted != active:
            yield f"{active} work items are active on {title}, nr is {counted}", here
        waits = waiting(here)
        pending = kernel.entries(of_node.pending_pwqs, "struct pool_workqueue", "pending_node")
        listed = {pwq.value_() for pwq in pending}
        if lost := [pwq for pwq in waits if pwq.value_() not in listed]:
            yield f"work items wait on {title} and their pwq isn't pending", lost
        if waits and counted < limit:
            yield f"work items wait on {title} beside {limit - counted} free slots", waits


def starved(kernel: Kernel, workers: Workers) -> Iterator[str]:
    """Describe the workers that are runnable and haven't run for STARVED seconds."""
    for worker in workers.attached.values():
        task = worker.task
        if not task or not task.on_rq:
            continue
        cpu = task.thread_info.cpu.value_()
        rq = per_cpu(kernel["runqueues"], cpu)
        waits = rq.clock_task.value_() - task.se.exec_start.value_()
        if rq.curr != task and waits >= STARVED * 10**9:
            yield f"{title_of(task)} is runnable on CPU {cpu}, where {title_of(rq.curr)} runs"


def check_stuck(kernel: Kernel, look: Look, number: int, pool: drgn.Object) -> None:
    def woken(worker: drgn.Object) -> bool:
        task = worker.task
        return not task or task.member_(state) == 0 or task.on_rq != 0

    state = kernel.member("task_struct", "__state", "state")
    # when it was seen to make progress
    progress = kernel.member("worker_pool", "watchdog_ts", "last_progress_ts")
    second = kernel.constant("CREATE_COOLDOWN")
    items, workers = list(kernel.items(pool.worklist)), kernel.workers(pool)
    ago = (kernel["jiffies_64"].value_() - pool.member_(progress).value_()) & (1 << 64) - 1
    if not items or ago < second:
        return
    why = next(starved(kernel, workers), "") if ago >= STARVED * second else ""
    if not why:
        # one that is neither idle nor busy looks for work by itself
        if pool.nr_running or not workers.idle or workers.between:
            return
        if any(map(woken, workers.idle.values())):
            return
        why = f"{len(workers.idle)} workers are idle and none is woken up"
    names: set[str] = set()
    flushes = ""
    for item in items:
        if item.pwq:
            pwq = drgn.Object(kernel.prog, "struct pool_workqueue *", value=item.pwq)
            names.add(name_of(pwq.wq))
        if item.func == kernel.functions["wq_barrier_func"]:
            barrier = drgn.container_of(item.work, "struct wq_barrier", "work")
            flushes += f", {title_of(barrier.task)} waits in flush_work()"
    look.of_pool(
        number,
        f"{len(items)} work items of {', '.join(sorted(names))} wait for {ago // second} s, "
        f"{why}{flushes}",
        names=sorted(names),
    )


CHECKS = {
    "pods": check_pods,
    "siblings": check_siblings,
    "llc": check_llc,
    "node": check_node,
    "clusters": check_clusters,
    "shards": check_shards,
    "late": check_late,
    "isolated": check_isolated,
    "pools": check_pools,
    "workers": of_each_pool(check_workers),
    "items": of_each_pool(check_items, with_pwqs=True),
    "slots": check_slots,
    "stuck": of_each_pool(check_stuck),
}


@dataclass(frozen=True)
class Result:
    """The result of a check."""

    name: str
    status: str  # right, wrong, n/a, unknown
    text: str
    faults: tuple[Fault, ...] = ()

    def as_json(self) -> dict[str, object]:
        faults = [fault.as_json() for fault in self.faults]
        return {"check": self.name, "status": self.status, "text": self.text, "faults": faults}


def once(check: Callable[[Kernel], Look], prog: drgn.Program) -> Look:
    kernel = Kernel(prog)
    changing = kernel.changing
    try:
        look = check(kernel)
    except (Corrupt, drgn.FaultError) as error:
        look = Look()
        look.fault("kernel memory", f"a list or pointer is {unread(error)}")
    if look.faults and (changing or kernel.changing):
        look.moving |= {fault.where for fault in look.faults}
        look.faults = []
        look.seen = 0  # unknown, unless it ends
    return look


def believed(check: Callable[[Kernel], Look], prog: drgn.Program) -> Look:
    """Repeat a check. Report only faults that are seen each time and don't move."""
    look = once(check, prog)
    times = {fault.key: 1 for fault in look.faults}
    faults = {fault.key: fault for fault in look.faults}
    for _ in range(TRIES):
        open_keys = [key for key, count in times.items() if count < SEEN]
        if not open_keys and not look.moving:
            break
        time.sleep(PAUSE)
        again = once(check, prog)
        now = {fault.key: fault for fault in again.faults}
        for key in open_keys:
            if key in now:
                times[key] += 1
                faults[key] = now[key]
            elif key[0] not in again.moving:
                del times[key]
        for key in now.keys() - times.keys():
            times[key], faults[key] = 1, now[key]
        look.moving &= again.moving
        look.seen = max(look.seen, again.seen)
    look.faults = [faults[key] for key, count in times.items() if count >= SEEN]
    look.moving |= {key[0] for key, count in times.items() if count < SEEN}
    return look


def verify(prog: drgn.Program) -> Iterator[Result]:
    for name, check in CHECKS.items():
        try:
            look = believed(check, prog)
        except Absent as error:
            yield Result(name, "n/a", str(error))
            continue
        except (Unknown, AttributeError) as error:  # what older kernels' structs lack
            yield Result(name, "unknown", str(error))
            continue
        moving = f"{len(look.moving)} moving" if look.moving else ""
        if look.faults:
            shown = "; ".join(map(str, look.faults[:SHOWN]))
            more = len(look.faults) - SHOWN
            text = f"{shown}; and {more} more, see --json" if more > 0 else shown
            yield Result(name, "wrong", text, tuple(look.faults))
        elif moving and not look.seen:
            yield Result(name, "unknown", moving)
        else:
            seen = f"{look.seen} {look.unit}"
            yield Result(name, "right", f"{seen}, {moving}" if moving else seen)


def shared(kernel: Kernel) -> dict[str, list[list[int]]]:
    """For JSON: which online CPUs share what."""
    try:
        told = kernel.topology
    except Unknown:
        return {}
    levels = {"node": kernel.node_of, "llc": told.llc, "cluster": told.cluster, "core": told.core}
    return {
        name: [list(cpus_in(part)) for part in parts(kernel.online, of.__getitem__)]
        for name, of in levels.items()
    }


def status_of(results: Iterable[Result]) -> int:
    statuses = {result.status for result in results}
    return 1 if "wrong" in statuses else 2 if "unknown" in statuses else 0


def main(prog: drgn.Program | None) -> int:
    parser = argparse.ArgumentParser(
        prog="wq_verify.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print JSON, with all faults found and what CPUs share",
    )
    args = parser.parse_args()
    try:
        if not prog:
            raise Unknown("this is a script for drgn: run it as drgn wq_verify.py")
        for name in ("struct worker_pool", "struct workqueue_struct"):
            try:
                prog.type(name)
            except LookupError:
                raise Unknown(f"drgn finds no {name}: {NO_DEBUG_INFO}") from None
        try:
            assert Kernel(prog).possible
        except (AssertionError, drgn.FaultError) as error:
            raise Unknown(f"drgn {drgn.__version__} can't read this memory: {error}") from None
        results: list[Result] = []
        for result in verify(prog):
            results.append(result)
            if not args.json:
                print(f"{result.name:<9} {result.status:<8} {result.text}", flush=True)
        if args.json:
            checks = [result.as_json() for result in results]
            found = {"status": status_of(results), "checks": checks, "shared": shared(Kernel(prog))}
            print(json.dumps(found, indent=1))
        else:
            count = Counter(result.status for result in results)
            words = ("right", "wrong", "unknown", "n/a")
            print("", ", ".join(f"{count[word]} {word}" for word in words), sep="\n")
        return status_of(results)
    except (Unknown, PermissionError) as error:
        print(f"wq_verify.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(globals().get("prog")))
