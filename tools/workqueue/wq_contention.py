#!/usr/bin/env drgn
# SPDX-License-Identifier: GPL-2.0
"""
Show which locks of workqueues are held and waited for the most

This is a drgn script. It reads the locks of a running kernel (as root) again and
again, and changes nothing:

    drgn wq_contention.py [--for SECONDS] [--interval SECONDS] [--top N] [--json]

A line for each pool->lock, the one with the most waiting first, and for each lock
that limits an unbound workqueue (active_lock, or the lock of a node before that):

  LOCK        pool N, or the workqueue and node whose limit it's for
  HELD        share of the samples in which it was held, in percent
  WAITED      in which somebody waited for it, with the interval that the real
              share is in with a probability of 95 % (Wilson's)
  QUEUE       how many waited on average when somebody did
  IDLE, BUSY  workers of the pool
  ITEMS       work items on its worklist
  WORKQUEUES  that use it, of which work items were seen there first

The lines are the locks that were held at least once. On a terminal they are shown
anew each second, elsewhere at the end. Without --for it goes on until Ctrl-C. A
dump is a single sample.

A sample is the lock's word (qspinlock: the locked byte, the pending bit and the tail
of the queue), so it tells nothing of what a lock is held for. The locks are read one
after the other, and each is taken to be independent of the last time: a lock that is
held for longer than the interval has too narrow an interval of error. The last line
says what the sampling itself took. Reading a lock also takes its cache line away from
whoever is about to take it.

Exit status: 0 done, 2 there is nothing to say, with the reason.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import sqrt

import drgn
from drgn.helpers.linux.cpumask import for_each_possible_cpu
from drgn.helpers.linux.idr import idr_for_each
from drgn.helpers.linux.list import list_for_each, list_for_each_entry
from drgn.helpers.linux.percpu import per_cpu

Z = 1.96  # of the normal distribution, for 95 %
# A lock's word, see include/asm-generic/qspinlock_types.h
LOCKED = 0xFF
PENDING = 0xFF00
TAIL_SHIFT = 16
IDX_BITS = 2  # of the tail, the rest is the CPU plus one
MANY_CPUS = 16 * 1024  # from which it is divided in another way
MOST_ITEMS = 10000  # to count
SHOWN = 4  # workqueues in a line
REFRESH = 1.0  # seconds
NO_DEBUG_INFO = (
    "install the debug info of this kernel (Debian: linux-image-RELEASE-dbg; others: set "
    "DEBUGINFOD_URLS and get vmlinux with debuginfod-find), and give it to drgn with -s VMLINUX"
)


class Unknown(Exception):
    """One line on why nothing can be said."""


def wilson(hits: int, samples: int) -> tuple[float, float]:
    """The interval of a share of which so many samples were hits."""
    if not samples:
        return 0.0, 1.0
    share = hits / samples
    middle = share + Z * Z / (2 * samples)
    spread = Z * sqrt(share * (1 - share) / samples + (Z / (2 * samples)) ** 2)
    scale = 1 + Z * Z / samples
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


@dataclass
class Lock:
    """A lock, and how it was found in how many samples."""

    name: str
    address: int
    pool: drgn.Object | None = None
    samples: int = 0
    held: int = 0
    waited: int = 0
    queued: int = 0  # sum of those who waited


@dataclass
class Pool:
    """What is known of a pool beside its lock."""

    idle: int = 0
    busy: int = 0
    items: int = 0
    workqueues: list[str] = field(default_factory=list)


class Sampler:
    """Reads locks."""

    def __init__(self, prog: drgn.Program) -> None:
        self.prog = prog
        self.locks: dict[int, Lock] = {}
        self.pwqs: dict[int, list[str]] = {}  # workqueues of each pool, by its address
        self.rounds = 0
        self.spent = 0.0  # seconds of CPU time
        self.longest = 0.0  # seconds for a round
        for name in ("struct worker_pool", "struct workqueue_struct"):
            try:
                prog.type(name)
            except LookupError:
                raise Unknown(f"drgn finds no {name}: {NO_DEBUG_INFO}") from None
        try:
            prog.type("struct qspinlock")
        except LookupError:
            raise Unknown("this kernel has no qspinlocks: use lock statistics") from None
        if prog["nr_cpu_ids"].value_() >= MANY_CPUS:
            raise Unknown(f"the words of locks are known here for less than {MANY_CPUS} CPUs")
        # what each CPU waits with, as deep as waiting may be interrupted
        self.nodes: dict[int, list[drgn.Object]] = {}
        if "qnodes" in prog:
            for cpu in for_each_possible_cpu(prog):
                self.nodes[cpu] = [node.mcs for node in per_cpu(prog["qnodes"], cpu)]
        self.find()

    def find(self) -> None:
        """The locks that there are now, with what is known of those that there were."""
        exact = self.prog.type("struct workqueue_struct").has_member("active_lock")
        found: dict[int, Lock] = {}

        def add(name: str, lock: drgn.Object, pool: drgn.Object | None = None) -> None:
            address = lock.raw_lock.val.address_of_().value_()
            known = self.locks.get(address)
            found[address] = known if known and known.name == name else Lock(name, address, pool)

        for number, entry in idr_for_each(self.prog["worker_pool_idr"].address_of_()):
            pool = drgn.Object(self.prog, "struct worker_pool *", value=entry.value_())
            add(f"pool {number}", pool.lock, pool)
        self.pwqs = {}
        for wq in list_for_each_entry(
            "struct workqueue_struct", self.prog["workqueues"].address_of_(), "list"
        ):
            name = wq.name.string_().decode(errors="replace")
            nodes = set()
            for pwq in list_for_each_entry(
                "struct pool_workqueue", wq.pwqs.address_of_(), "pwqs_node"
            ):
                names = self.pwqs.setdefault(pwq.pool.value_(), [])
                if name not in names:
                    names.append(name)
                nodes.add(pwq.pool.node.value_())
            if wq.flags & self.prog["WQ_UNBOUND"]:
                if exact:
                    add(f"{name} active_lock", wq.active_lock)
                    continue
                for node in nodes:
                    index = node if node >= 0 else self.prog["nr_node_ids"].value_()
                    add(f"{name} node {node}", wq.node_nr_active[index].lock)
        self.locks = found

    def waiting(self, word: int) -> int:
        """How many wait for a lock with this word. Each node points to the one behind it, and the
        tail says which is the last."""
        count = int(bool(word & PENDING))
        tail = word >> TAIL_SHIFT
        if not tail:
            return count
        before = {}
        for nodes in self.nodes.values():
            for node in nodes[: nodes[0].count.value_()]:  # others have been of use before
                before[node.next.value_()] = node.address_
        cpu, index = (tail >> IDX_BITS) - 1, tail & (1 << IDX_BITS) - 1
        queue: set[int] = set()
        last = self.nodes[cpu][index].address_ if cpu in self.nodes else 0
        while last and last not in queue:
            queue.add(last)
            last = before.get(last, 0)
        return count + max(len(queue), 1)

    def round(self) -> None:
        """Read each lock once."""
        began, cpu = time.monotonic(), time.process_time()
        for lock in self.locks.values():
            try:
                word = int.from_bytes(self.prog.read(lock.address, 4), "little")
                waiting = self.waiting(word) if word & ~LOCKED else 0
            except drgn.FaultError:  # freed meanwhile
                continue
            lock.samples += 1
            lock.held += bool(word & LOCKED)
            lock.waited += bool(waiting)
            lock.queued += waiting
        self.rounds += 1
        self.spent += time.process_time() - cpu
        self.longest = max(self.longest, time.monotonic() - began)

    def pool_of(self, lock: Lock) -> Pool:
        """Of now; what has gone has nothing."""
        if not lock.pool:
            return Pool()
        try:
            first, count = {}, 0
            for node in list_for_each(lock.pool.worklist.address_of_()):
                work = drgn.container_of(node, "struct work_struct", "entry")
                data = work.data.counter.value_() & (1 << 64) - 1
                if data & self.prog["WORK_STRUCT_PWQ"].value_() and count < 100:
                    shift = self.prog["WORK_STRUCT_PWQ_SHIFT"].value_()
                    pwq = drgn.Object(
                        self.prog, "struct pool_workqueue *", value=data >> shift << shift
                    )
                    first[pwq.wq.name.string_().decode(errors="replace")] = None
                count += 1
                if count == MOST_ITEMS:
                    break
            names = dict.fromkeys([*first, *self.pwqs.get(lock.pool.value_(), [])])
            idle = lock.pool.nr_idle.value_()
            return Pool(idle, lock.pool.nr_workers.value_() - idle, count, list(names))
        except drgn.FaultError:
            return Pool()

    def hottest(self, top: int) -> list[Lock]:
        used = [lock for lock in self.locks.values() if lock.held or lock.waited]
        return sorted(used, key=lambda lock: (-lock.waited, -lock.held, lock.name))[:top]

    def overhead(self, elapsed: float) -> str:
        rate = self.rounds / elapsed if elapsed else 0.0
        return (
            f"{self.rounds} samples of {len(self.locks)} locks in {elapsed:.1f} s ({rate:.0f}/s), "
            f"which took {100 * self.spent / (elapsed or 1):.1f} % of a CPU; the longest round was "
            f"{1000 * self.longest:.2f} ms"
        )


def as_json(sampler: Sampler, lock: Lock) -> dict[str, object]:
    pool = sampler.pool_of(lock)
    return {
        "lock": lock.name,
        "samples": lock.samples,
        "held": lock.held,
        "waited": lock.waited,
        "waited_interval": wilson(lock.waited, lock.samples),
        "queue": lock.queued / lock.waited if lock.waited else 0,
        "idle": pool.idle,
        "busy": pool.busy,
        "items": pool.items,
        "workqueues": pool.workqueues,
    }


def table(sampler: Sampler, top: int) -> Iterator[str]:
    yield (
        f"{'LOCK':<24} {'HELD':>6} {'WAITED':>6} {'95 %':>13} {'QUEUE':>6} {'IDLE':>5} "
        f"{'BUSY':>5} {'ITEMS':>6}  WORKQUEUES"
    )
    for lock in sampler.hottest(top):
        pool = sampler.pool_of(lock)
        low, high = wilson(lock.waited, lock.samples)
        queue = f"{lock.queued / lock.waited:.1f}" if lock.waited else "-"
        names = ", ".join(pool.workqueues[:SHOWN]) + ", ..." * (len(pool.workqueues) > SHOWN)
        counts = [pool.idle, pool.busy, pool.items] if lock.pool else ["-"] * 3
        yield (
            f"{lock.name:<24} {100 * lock.held / lock.samples:>6.2f} "
            f"{100 * lock.waited / lock.samples:>6.2f} {100 * low:>6.2f}-{100 * high:<6.2f} "
            f"{queue:>6} {counts[0]:>5} {counts[1]:>5} {counts[2]:>6}  {names}"
        )


def watch(sampler: Sampler, live: bool, seconds: float | None, interval: float, top: int) -> float:
    """Sample, and show it on a terminal; the seconds that it took."""
    began = shown = time.monotonic()
    try:
        while True:
            began_round = time.monotonic()
            sampler.round()
            now = time.monotonic()
            if not live or (seconds is not None and now - began >= seconds):
                break
            if now - shown >= REFRESH:
                shown = now
                sampler.find()
                if sys.stdout.isatty():
                    lines = [*table(sampler, top), "", sampler.overhead(now - began)]
                    print("\x1b[H\x1b[J" + "\n".join(lines), flush=True)
            time.sleep(max(0.0, began_round + interval - now))
    except KeyboardInterrupt:
        pass
    elapsed = time.monotonic() - began
    if live:
        sampler.find()  # what was in place of a lock that has gone isn't shown
    return elapsed


def positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def main(prog: drgn.Program | None) -> int:
    parser = argparse.ArgumentParser(
        prog="wq_contention.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--for", dest="seconds", type=positive, metavar="SECONDS", help="how long (until Ctrl-C)"
    )
    parser.add_argument(
        "--interval", type=positive, default=0.01, metavar="SECONDS", help="between samples (0.01)"
    )
    parser.add_argument("--top", type=int, default=20, metavar="N", help="locks to show (20)")
    parser.add_argument("--json", action="store_true", help="the end as JSON")
    args = parser.parse_args()
    try:
        if not prog:
            raise Unknown("this is a script for drgn: run it as drgn wq_contention.py")
        sampler = Sampler(prog)
        live = bool(prog.flags & drgn.ProgramFlags.IS_LIVE)
        elapsed = watch(sampler, live, args.seconds, args.interval, args.top)
    except (Unknown, PermissionError) as error:
        print(f"wq_contention.py: {error}", file=sys.stderr)
        return 2
    except (LookupError, drgn.FaultError) as error:
        print(f"wq_contention.py: drgn can't read this kernel: {error}", file=sys.stderr)
        return 2
    overhead = sampler.overhead(elapsed)
    if args.json:
        locks = [as_json(sampler, lock) for lock in sampler.hottest(args.top)]
        print(json.dumps({"overhead": overhead, "locks": locks}, indent=1))
    else:
        print(*table(sampler, args.top), "", overhead, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(globals().get("prog")))
