#!/usr/bin/env drgn
# SPDX-License-Identifier: GPL-2.0
"""
Show which locks of workqueues are held and waited for the most

This is a drgn script. It samples the locks of a running kernel (as root), and changes
nothing:

    drgn wq_contention.py [--for SECONDS] [--interval SECONDS] [--top N] [--json]
    drgn wq_contention.py --bpf [--for SECONDS] [--top N] [--json]

It prints a line for each pool->lock that was held at least once, the one that was
waited for the most first. It also shows the lock of each node of an unbound workqueue,
under which slots of max_active are passed on:

  LOCK        pool N, or the workqueue and its node; node -1 is for pools of no node
  HELD        share of the samples in which it was held, in percent
  WAITED      share in which somebody waited for it, with the interval that the real
              share is in with a probability of 95 % (Wilson's)
  QUEUE       how many waited on average when somebody did
  IDLE, BUSY  workers of the pool
  ITEMS       work items on its worklist
  WORKQUEUES  the workqueues that use it, those whose work items were seen there first

On a terminal, the lines are updated each second, otherwise they are printed at the
end. Without --for, sampling goes on until Ctrl-C. A dump gives a single sample.

A sample is the lock word (qspinlock: the locked byte, the pending bit and the tail of
the queue), so it doesn't tell what a lock is held for. The locks are read one after the
other. Each sample is taken to be independent of the previous one, so if a lock is held
for longer than the interval between samples, the error is larger than shown. The last
line shows how much time the sampling itself took. Reading a lock also takes its cache
line away from whoever is about to take the lock.

With --bpf, each wait is counted, however short. In place of HELD to QUEUE, there are

  WAITS   how many waits there were
  WAITED  how long they took in total, in percent of the time: 250 means two and a half
          CPUs that did nothing but wait
  MEAN    how long one took on average, in microseconds
  SHARE   percentage of the time that CPUs waited for any spinlock

This needs bpftrace, root, and a kernel with BPF and the tracepoints contention_begin and
contention_end (5.19 and later). If only one CPU waits for a lock (the pending bit), there
is no event, unless spinlocks are paravirtualised. Two BPF programs run for each wait. The
last line shows how many waits there were. The figures cover whole seconds.

Exit status: 0 if done, 2 if nothing could be measured, with the reason.
"""

import argparse
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from math import sqrt

try:
    import drgn
    from drgn.helpers.linux.cpumask import for_each_possible_cpu
    from drgn.helpers.linux.idr import idr_for_each
    from drgn.helpers.linux.list import list_for_each, list_for_each_entry
    from drgn.helpers.linux.percpu import per_cpu
except ImportError:
    print(
        "wq_contention.py: Python finds no drgn: install it (Debian: python3-drgn; others: pip "
        "install drgn), and run this as drgn wq_contention.py",
        file=sys.stderr,
    )
    sys.exit(2)

Z = 1.96  # of the normal distribution, for 95 %
# A lock's word, see include/asm-generic/qspinlock_types.h
LOCKED = 0xFF
PENDING = 0xFF00
UNUSED = 0xFEFC  # bits that are never set; the locked byte is 3 where a vCPU that waits may halt
TAIL_SHIFT = 16
IDX_BITS = 2  # of the tail, the rest is the CPU plus one
MANY_CPUS = 16 * 1024  # from which it is divided in another way
MOST_ITEMS = 10000  # to count
SHOWN = 4  # workqueues in a line
REFRESH = 1.0  # seconds
MAX_KEYS = 8192  # of a map: locks, all that are waited for
BPF_LIMIT = 60.0  # seconds without a word of bpftrace, which compiles first
BPF = """
tracepoint:lock:contention_begin /(args->flags & 33) == 1/ // LCB_F_SPIN, no LCB_F_MUTEX
{
	@began[cpu, args->lock_addr] = nsecs;
}

tracepoint:lock:contention_end /@began[cpu, args->lock_addr]/
{
	@waits[args->lock_addr] = stats(nsecs - @began[cpu, args->lock_addr]);
	delete(@began[cpu, args->lock_addr]);
}

interval:s:1
{
	print(@waits);
	printf("%llu", nsecs);
}
"""
NO_DEBUG_INFO = (
    "install the debug info of this kernel (Debian: linux-image-RELEASE-dbg; others: set "
    "DEBUGINFOD_URLS and get vmlinux with debuginfod-find), and give it to drgn with -s VMLINUX; "
    "BTF is not enough"
)


class Unknown(Exception):
    """Nothing can be measured; the message is one line on why."""


def wilson(hits: int, samples: int) -> tuple[float, float]:
    """95 % interval of the real share, given hits out of samples (Wilson's)."""
    if not samples:
        return 0.0, 1.0
    share = hits / samples
    middle = share + Z * Z / (2 * samples)
    spread = Z * sqrt(share * (1 - share) / samples + (Z / (2 * samples)) ** 2)
    scale = 1 + Z * Z / samples
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


@dataclass
class Lock:
    """A lock, and in how many samples it was held and waited for."""

    name: str
    address: int
    pool: drgn.Object | None = None
    samples: int = 0
    held: int = 0
    waited: int = 0
    queued: int = 0  # sum of those who waited
    waits: int = 0
    wait_ns: int = 0  # in all


@dataclass
class Pool:
    """What is shown of a pool besides its lock."""

    idle: int = 0
    busy: int = 0
    items: int = 0
    workqueues: list[str] = field(default_factory=list)


class Locks:
    """All locks of interest, by address."""

    header: str  # of what cells() gives

    def __init__(self, prog: drgn.Program) -> None:
        self.prog = prog
        self.locks: dict[int, Lock] = {}
        self.pwqs: dict[int, list[str]] = {}  # workqueues of each pool, by its address
        for name in ("struct worker_pool", "struct workqueue_struct"):
            try:
                prog.type(name)
            except LookupError:
                raise Unknown(f"drgn finds no {name}: {NO_DEBUG_INFO}") from None
        try:
            prog.type("struct qspinlock")
        except LookupError:
            raise Unknown("this kernel has no qspinlocks: use lock statistics") from None
        if "virt_spin_lock_key" in prog and prog["virt_spin_lock_key"].key.enabled.counter > 0:
            raise Unknown("spinlocks of this guest don't tell who waits: use lock statistics")
        self.find()

    def find(self) -> None:
        """The locks that exist now. Keeps the counts of those that existed before."""
        found: dict[int, Lock] = {}
        pwqs: dict[int, list[str]] = {}
        nr_nodes = self.prog["nr_node_ids"].value_() if "nr_node_ids" in self.prog else 1

        def add(name: str, lock: drgn.Object, pool: drgn.Object | None = None) -> None:
            address = lock.raw_lock.val.address_of_().value_()
            known = self.locks.get(address)
            found[address] = known if known and known.name == name else Lock(name, address, pool)

        for number, entry in idr_for_each(self.prog["worker_pool_idr"].address_of_()):
            pool = drgn.Object(self.prog, "struct worker_pool *", value=entry.value_())
            add(f"pool {number}", pool.lock, pool)
        for wq in list_for_each_entry(
            "struct workqueue_struct", self.prog["workqueues"].address_of_(), "list"
        ):
            name = wq.name.string_().decode(errors="replace")
            nodes = set()
            for pwq in list_for_each_entry(
                "struct pool_workqueue", wq.pwqs.address_of_(), "pwqs_node"
            ):
                names = pwqs.setdefault(pwq.pool.value_(), [])
                if name not in names:
                    names.append(name)
                nodes.add(pwq.pool.node.value_())
            if wq.flags & self.prog["WQ_UNBOUND"]:
                for node in nodes:
                    index = node if node >= 0 else nr_nodes
                    if of_node := wq.node_nr_active[index]:  # ordered ones may have none
                        add(f"{name} node {node}", of_node.lock)
        self.locks, self.pwqs = found, pwqs

    def refresh(self) -> None:
        """Find them anew, unless some go meanwhile."""
        with suppress(drgn.FaultError):
            self.find()

    def pool_of(self, lock: Lock) -> Pool:
        """The current state of a lock's pool, empty if the pool is gone."""
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
        used = [lock for lock in self.locks.values() if lock.held or lock.waited or lock.waits]
        return sorted(used, key=lambda lock: (-lock.waited, -lock.held, -lock.wait_ns, lock.name))[
            :top
        ]

    def cells(self, lock: Lock) -> str:
        raise NotImplementedError

    def fields(self, lock: Lock) -> dict[str, object]:
        """Like cells(), but for JSON."""
        raise NotImplementedError

    def table(self, top: int) -> Iterator[str]:
        yield f"{'LOCK':<24} {self.header} {'IDLE':>5} {'BUSY':>5} {'ITEMS':>6}  WORKQUEUES"
        for lock in self.hottest(top):
            pool = self.pool_of(lock)
            names = ", ".join(pool.workqueues[:SHOWN]) + ", ..." * (len(pool.workqueues) > SHOWN)
            counts = [pool.idle, pool.busy, pool.items] if lock.pool else ["-"] * 3
            yield (
                f"{lock.name:<24} {self.cells(lock)} {counts[0]:>5} {counts[1]:>5} "
                f"{counts[2]:>6}  {names}"
            )

    def as_json(self, lock: Lock) -> dict[str, object]:
        pool = self.pool_of(lock)
        return {
            "lock": lock.name,
            **self.fields(lock),
            "idle": pool.idle,
            "busy": pool.busy,
            "items": pool.items,
            "workqueues": pool.workqueues,
        }


class Sampler(Locks):
    """Samples lock words."""

    header = f"{'HELD':>6} {'WAITED':>6} {'95 %':>13} {'QUEUE':>6}"

    def __init__(self, prog: drgn.Program) -> None:
        super().__init__(prog)
        self.rounds = 0
        self.spent = 0.0  # seconds of CPU time
        self.longest = 0.0  # seconds for a round
        if prog["nr_cpu_ids"].value_() >= MANY_CPUS:
            raise Unknown(f"the words of locks are known here for less than {MANY_CPUS} CPUs")
        self.cpus = set(for_each_possible_cpu(prog))
        # with paravirtualised spinlocks, it's the first one of the queue that sets the pending bit
        self.pv = "pv_lock_hash" in prog and bool(prog["pv_lock_hash"])
        # what each CPU waits with, as deep as waiting may be interrupted
        self.nodes: dict[int, list[drgn.Object]] = {}
        if "qnodes" in prog:
            for cpu in self.cpus:
                self.nodes[cpu] = [node.mcs for node in per_cpu(prog["qnodes"], cpu)]

    def is_word(self, word: int) -> bool:
        """Whether this can be a lock word. A lock that was freed meanwhile may read as anything."""
        cpu = (word >> TAIL_SHIFT + IDX_BITS) - 1
        return not word & UNUSED and (cpu in self.cpus or not word >> TAIL_SHIFT)

    def waiting(self, word: int) -> int:
        """How many wait for a lock with this word. Each node of the queue points to the next one,
        and the tail names the last one."""
        pending, tail = bool(word & PENDING), word >> TAIL_SHIFT
        if not tail:
            return int(pending)
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
        return int(pending and not self.pv) + max(len(queue), 1)

    def round(self) -> None:
        """Read each lock once."""
        began, cpu = time.monotonic(), time.process_time()
        for lock in self.locks.values():
            try:
                word = int.from_bytes(self.prog.read(lock.address, 4), "little")
                if not self.is_word(word):
                    continue
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

    def overhead(self, elapsed: float) -> str:
        rate = self.rounds / elapsed if elapsed else 0.0
        return (
            f"{self.rounds} samples of {len(self.locks)} locks in {elapsed:.1f} s ({rate:.0f}/s), "
            f"which took {100 * self.spent / (elapsed or 1):.1f} % of a CPU; the longest round was "
            f"{1000 * self.longest:.2f} ms"
        )

    def cells(self, lock: Lock) -> str:
        low, high = wilson(lock.waited, lock.samples)
        queue = f"{lock.queued / lock.waited:.1f}" if lock.waited else "-"
        return (
            f"{100 * lock.held / lock.samples:>6.2f} {100 * lock.waited / lock.samples:>6.2f} "
            f"{100 * low:>6.2f}-{100 * high:<6.2f} {queue:>6}"
        )

    def fields(self, lock: Lock) -> dict[str, object]:
        return {
            "samples": lock.samples,
            "held": lock.held,
            "waited": lock.waited,
            "waited_interval": wilson(lock.waited, lock.samples),
            "queue": lock.queued / lock.waited if lock.waited else 0,
        }


class Tracer(Locks):
    """Gets the waits for all spinlocks that BPF has counted."""

    header = f"{'WAITS':>9} {'WAITED':>7} {'MEAN':>8} {'SHARE':>6}"

    def __init__(self, prog: drgn.Program) -> None:
        super().__init__(prog)
        self.counted: dict[int, tuple[int, int]] = {}  # waits and their ns, by address
        self.first_ns = self.last_ns = 0  # of what time that is
        self.waits = self.wait_ns = 0  # of all locks, since the first

    def take(self, counted: dict[int, tuple[int, int]], now: int) -> None:
        """Take over the counts up to that time."""
        self.refresh()
        for address, (waits, wait_ns) in counted.items():
            before = self.counted.get(address, (0, 0))
            for where in (self, self.locks.get(address)):
                if where and self.first_ns:
                    where.waits += waits - before[0]
                    where.wait_ns += wait_ns - before[1]
        self.counted = counted
        self.first_ns, self.last_ns = self.first_ns or now, now

    @property
    def elapsed(self) -> float:
        """Time covered, in seconds."""
        return (self.last_ns - self.first_ns) / 1e9

    def overhead(self) -> str:
        many = len(self.counted) >= MAX_KEYS
        return (
            f"{self.waits} waits for {len(self.counted)} spinlocks in {self.elapsed:.1f} s"
            + ", and for more that were not counted" * many
        )

    def cells(self, lock: Lock) -> str:
        return (
            f"{lock.waits:>9} {lock.wait_ns / 1e7 / (self.elapsed or 1):>7.2f} "
            f"{lock.wait_ns / 1e3 / lock.waits:>8.1f} {100 * lock.wait_ns / (self.wait_ns or 1):>6.2f}"
        )

    def fields(self, lock: Lock) -> dict[str, object]:
        return {"waits": lock.waits, "wait_ns": lock.wait_ns}


def show(locks: Locks, top: int, overhead: str) -> None:
    """Replace the table on the terminal."""
    print("\x1b[H\x1b[J" + "\n".join([*locks.table(top), "", overhead]), flush=True)


def watch(sampler: Sampler, live: bool, seconds: float | None, interval: float, top: int) -> float:
    """Sample, showing the table on a terminal. Return the seconds that it took."""
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
                sampler.refresh()
                if sys.stdout.isatty():
                    show(sampler, top, sampler.overhead(now - began))
            left = interval if seconds is None else began + seconds - now
            time.sleep(max(0.0, min(began_round + interval - now, left)))
    except KeyboardInterrupt:
        pass
    elapsed = time.monotonic() - began
    if live:
        sampler.refresh()  # what was in place of a lock that has gone isn't shown
    return elapsed


def lines_of(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """The output of a process, line by line."""
    pipe, rest = process.stdout, b""
    while select.select([pipe], [], [], BPF_LIMIT)[0]:
        text = os.read(pipe.fileno(), 1 << 16)
        if not text:
            return
        *lines, rest = (rest + text).split(b"\n")
        yield from lines
    raise Unknown(f"bpftrace has said nothing for {BPF_LIMIT:.0f} s")


def trace(tracer: Tracer, seconds: float | None, top: int) -> None:
    """Have BPF count waits, showing the table on a terminal."""
    keys = dict.fromkeys(("BPFTRACE_MAP_KEYS_MAX", "BPFTRACE_MAX_MAP_KEYS"), str(MAX_KEYS))
    with tempfile.TemporaryFile("w+") as errors:
        try:
            process = subprocess.Popen(
                ["bpftrace", "-q", "-f", "json", "-e", BPF],
                env=os.environ | keys,  # old and new versions
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        except FileNotFoundError:
            raise Unknown("there is no bpftrace: install it, or do without --bpf") from None
        try:
            counted: dict[int, tuple[int, int]] = {}
            for line in lines_of(process):
                said = json.loads(line) if line else {}
                if said.get("type") == "stats":
                    waits = said["data"]["@waits"]
                    counted = {int(a, 0): (w["count"], w["total"]) for a, w in waits.items()}
                elif said.get("type") == "printf":
                    tracer.take(counted, int(said["data"]))
                    if seconds is not None and tracer.elapsed >= seconds:
                        return
                    if sys.stdout.isatty():
                        show(tracer, top, tracer.overhead())
            process.wait(BPF_LIMIT)
            errors.seek(0)
            lines = [line for line in errors.read().splitlines() if "RLIMIT" not in line]
            raise Unknown(f"bpftrace has ended: {(lines or ['it said nothing'])[-1]}")
        except KeyboardInterrupt:
            pass
        finally:
            process.stdout.close()  # it would print all once more
            process.send_signal(signal.SIGINT)
            try:
                process.wait(BPF_LIMIT)
            except (subprocess.TimeoutExpired, KeyboardInterrupt):
                process.kill()


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
        "--for", dest="seconds", type=positive, metavar="SECONDS", help="stop after that time"
    )
    parser.add_argument(
        "--interval",
        type=positive,
        default=0.01,
        metavar="SECONDS",
        help="time between samples (0.01)",
    )
    parser.add_argument("--bpf", action="store_true", help="count each wait, with bpftrace")
    parser.add_argument("--top", type=int, default=20, metavar="N", help="locks to show (20)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    args = parser.parse_args()
    if args.top < 1:
        parser.error(f"--top {args.top} is not a number above 0")
    try:
        if not prog:
            raise Unknown("this is a script for drgn: run it as drgn wq_contention.py")
        live = bool(prog.flags & drgn.ProgramFlags.IS_LIVE)
        locks: Locks
        if args.bpf:
            if not live:
                raise Unknown("a dump tells of no waits: do without --bpf")
            locks = tracer = Tracer(prog)
            trace(tracer, args.seconds, args.top)
            overhead = tracer.overhead()
        else:
            locks = sampler = Sampler(prog)
            overhead = sampler.overhead(watch(sampler, live, args.seconds, args.interval, args.top))
    except (Unknown, PermissionError) as error:
        print(f"wq_contention.py: {error}", file=sys.stderr)
        return 2
    except (LookupError, AttributeError, drgn.FaultError) as error:
        print(f"wq_contention.py: drgn can't read this kernel: {error}", file=sys.stderr)
        return 2
    if args.json:
        told = [locks.as_json(lock) for lock in locks.hottest(args.top)]
        print(json.dumps({"overhead": overhead, "locks": told}, indent=1))
    else:
        print(*locks.table(args.top), "", overhead, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(globals().get("prog")))
