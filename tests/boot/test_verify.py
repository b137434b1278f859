# SPDX-License-Identifier: GPL-2.0
"""wq_verify.py: nothing is wrong on any machine, but where a kernel really is; and each of many
faults is found. The faults are put in the memory that drgn reads, over a dump of a machine.

Seen failing: faults of caches, nodes and shards on a machine without any (llc-4x3x2); what is right
with locked pools taken as they are, with woken workers not looked for, and with waiting at the
limit taken for wrong; what is being changed, where it was said to be right; an LLC without shards,
whose largest shard was asked for; slots with a pending timer not looked for, with one that is late
taken for one in time, and with slots that are owed or granted, or listed work items, left out. By
hand: work items waited beside free slots, in each of 15 dumps and 20 s of a running guest, with a
node that finds too few slots not looked for by the timer.
"""

import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import drgn
import pytest
from drgn.helpers.linux.percpu import per_cpu, per_cpu_ptr
from farm import Making
from live import Looking
from memory import Memory, wq_verify
from needs import TEST, Boot, Core, Kernel
from test_late import CASES as LATE
from test_late import Case as Late
from test_pods import each_machine
from test_torture import STOCK

from wqlab.ground.places import ROOT
from wqlab.guests import vm
from wqlab.guests.scenario import Scenario, find_scenario
from wqlab.kernels.builddir import BuildDir

STOCK_LOADED = Kernel("test", patches=0, modules=("test_workqueue",))


def wrong(verified: list[dict]) -> list[str]:
    """What is wrong or unknown."""
    assert verified, "wq_verify.py has not run"
    return [
        f"{check['check']}: {check['text']}"
        for one in verified
        for check in one["checks"]
        if check["status"] in ("wrong", "unknown")
    ]


@each_machine
def test_nothing_is_wrong(record: vm.Record, scenario: Scenario) -> None:
    assert not wrong(record.verified)
    assert [one["status"] for one in record.verified] == [0] * len(record.dumps)


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name, marks=case.boot().mark) for case in LATE]
)
def test_late_cpus_are_right(record: vm.Record, case: Late) -> None:
    assert not wrong(record.verified)


@pytest.mark.needs(Boot("nodes-4", "pods", kernel=STOCK))
def test_stock_is_right_with_all_cpus(record: vm.Record) -> None:
    assert not wrong(record.verified)


@pytest.mark.needs(next(case.boot(STOCK) for case in LATE if case.name == "caches"))
def test_stock_is_wrong_with_late_cpus(record: vm.Record) -> None:
    """Its pods stay as they were at boot, when it took CPUs without domain for one cache's."""
    assert any(line.startswith("llc: cache pod ") for line in wrong(record.verified))


@pytest.mark.needs(next(case.boot(STOCK) for case in LATE if case.name == "caches"))
def test_documented(record: vm.Record) -> None:
    """What docs/seeing.md shows is what it prints."""
    checks = record.verified[-1]["checks"]
    count = Counter(check["status"] for check in checks)
    said = [f"{check['check']} {check['status']} {check['text']}" for check in checks]
    said.append(", ".join(f"{count[word]} {word}" for word in ("right", "wrong", "unknown", "n/a")))
    seeing = (ROOT / "docs/seeing.md").read_text()
    [shown] = re.findall(r"four CPUs online since:\n\n((?: {4}.*\n)+)", seeing)
    for piece in " ".join(shown.split()).split(" ... "):
        assert piece in " ".join(said)


@pytest.mark.needs(Boot("nodes-2x1", "starve"))
def test_worker_without_cpu_is_named(record: vm.Record) -> None:
    """Broken on purpose: with the thread on its CPU for less than five seconds."""
    (line,) = wrong(record.verified)
    assert re.search(
        r"stuck: pool \d+: .* wait for \d+ s, kworker/1:.* is runnable on CPU 1, where hog/1 ", line
    )


class Checks(Looking):
    """What wq_verify.py says of a guest, again and again."""

    def __init__(self, secs: float) -> None:
        self.secs = secs
        self.statuses: Counter[int] = Counter()
        self.wrong: list[str] = []

    def look(self, prog: drgn.Program) -> None:
        end = time.monotonic() + self.secs
        while time.monotonic() < end:
            results = list(wq_verify.verify(prog))
            self.statuses[wq_verify.status_of(results)] += 1
            self.wrong += [
                f"{result.name} {result.status} {result.text}"
                for result in results
                if result.status in ("wrong", "unknown")
            ]


@dataclass(frozen=True)
class Watched(Boot):
    """A boot, and what wq_verify.py says again and again while it goes on after its job held: how
    many checks ended with each status, and what was wrong or unknown."""

    secs: float = 60.0

    def __str__(self) -> str:
        return f"{super().__str__()}, watched for {self.secs:.0f} s"

    @property
    def guess(self) -> float:
        return self.secs + 30

    def make(self, farm: Making, **_: Any) -> tuple[vm.Record, Counter[int], list[str]]:
        checks = Checks(self.secs)
        with checks.of(farm[self.kernel], find_scenario(self.scenario).memory) as begin:
            record = super().make(farm, on_hold=begin)
        return record, checks.statuses, checks.wrong


WATCH = {"series": 900, "nodes": 300, "stock": 60}  # seconds
CHECKS = {"series": 1000, "nodes": 100, "stock": 10}  # that there must be


@pytest.mark.tier("full")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=pytest.mark.needs(
                Watched(
                    "nodes-4" if name == "nodes" else "nodes-1",
                    "live",
                    kernel=kernel,
                    append=f"live.secs={WATCH[name] + 20} workqueue.cache_shard_size=1",
                    timeout=WATCH[name] * 2 + 120,
                    secs=WATCH[name],
                )
            ),
        )
        for name, kernel in (("series", TEST), ("nodes", TEST), ("stock", STOCK_LOADED))
    ],
)
def test_no_false_alarm(made: tuple[vm.Record, Counter[int], list[str]], name: str) -> None:
    """While work items are queued as fast as can be, and CPUs come and go. Then stock lets strict
    workers out of their pod, which is no false alarm."""
    record, statuses, alarms = made
    print(statuses, *record.lines, *alarms, sep="\n")
    assert record.verdict == "pass", record.reason
    if name == "stock":
        alarms = [alarm for alarm in alarms if " may run on CPUs " not in alarm]
        del statuses[1]
    assert not alarms and statuses.keys() == {0}
    assert statuses[0] >= CHECKS[name], "this machine is too slow for so many checks"


Break = Callable[[Memory], None]


@dataclass(frozen=True)
class Case:
    """What is done to the memory, the check that finds it, and words of what it says."""

    name: str
    do: Break
    check: str
    says: str


def in_two_pods(memory: Memory) -> None:
    pods = memory.prog["wq_pod_types"][memory.kernel.constant("WQ_AFFN_NUMA")]
    memory.mask(pods.pod_cpus[1][0], lambda mask: mask | 1)


def in_no_pod(memory: Memory) -> None:
    pods = memory.prog["wq_pod_types"][memory.kernel.constant("WQ_AFFN_NUMA")]
    memory.mask(pods.pod_cpus[0][0], lambda mask: mask & ~1)


def no_shards(memory: Memory) -> None:
    pods = memory.prog["wq_pod_types"][memory.kernel.constant("WQ_AFFN_CACHE_SHARD")]
    for pod in range(2):
        memory.mask(pods.pod_cpus[pod][0], lambda mask: 0)


def wrong_pool(memory: Memory) -> None:
    memory.poke(per_cpu_ptr(memory.workqueue().cpu_pwq, 30)[0], memory.pwq(0).value_())


def pool_of_isolated(memory: Memory) -> None:
    memory.mask(memory.pwq(0).pool.attrs.__pod_cpumask[0], lambda mask: mask | 1 << 4)


def isolated_taken(memory: Memory) -> None:
    memory.mask(memory.prog["wq_unbound_cpumask"][0], lambda mask: mask | 1 << 4)


def noted_apart(memory: Memory) -> None:
    ids = memory.kernel.topo.id[memory.kernel.constant("WQ_TOPO_LLC")]
    memory.poke(ids[1], 24)


def never_placed(memory: Memory) -> None:
    for level in ("CORE", "CLUSTER", "LLC"):
        memory.poke(memory.kernel.topo.id[memory.kernel.constant(f"WQ_TOPO_{level}")][0], -1)


def cluster_split(memory: Memory) -> None:
    ids = memory.kernel.topo.id[memory.kernel.constant("WQ_TOPO_CLUSTER")]
    for cpu in range(10, 14):  # the last core of a shard and the first of the next
        memory.poke(ids[cpu], 10)


def idle_corrupt(memory: Memory) -> None:
    memory.poke(memory.worker().entry.prev, memory.worker().value_())


def idle_lost(memory: Memory) -> None:
    memory.unlink(memory.worker().entry)


def not_flagged(memory: Memory) -> None:
    flags = memory.worker().flags
    memory.poke(flags, flags.value_() & ~memory.kernel.constant("WORKER_IDLE"))


def picked_busy(memory: Memory) -> None:
    not_flagged(memory)
    memory.poke(memory.worker().pool.picked, memory.worker().value_())


def unconfined(memory: Memory) -> None:
    memory.mask(memory.worker(0).task.cpus_mask, lambda mask: mask | 1 << 4)


def closed_but_open(memory: Memory) -> None:
    """A pwq is in the list of those that hold slots, with none to hold."""
    memory.close_all()
    memory.link(memory.pwq().open_node, memory.node().open_pwqs)


def open_elsewhere(memory: Memory) -> None:
    """A pwq is in the list of another node."""
    memory.close_all()
    memory.open(1)
    memory.unlink(memory.pwq().open_node)
    memory.link(memory.pwq().open_node, memory.node(30).open_pwqs)


def open_while_waiting(memory: Memory) -> None:
    memory.wait()
    memory.open(1, cpu=1)


def uncounted(memory: Memory) -> None:
    """A node waits, which others don't know."""
    memory.wait()
    memory.poke(memory.node().counted, 0)
    memory.add(memory.workqueue().nr_waiting.counter, -1)


def slot_moves_alone(memory: Memory) -> None:
    """A node owns a slot that another one still counts."""
    none = memory.workqueue().node_nr_active[memory.kernel.nr_nodes]
    memory.add(none.nr_owned, -1)
    memory.add(memory.node().nr_owned, 1)


def slot_lost(memory: Memory) -> None:
    """Which its node doesn't own anymore."""
    memory.add(memory.node().nr_owned, -1)
    memory.add(memory.node().nr_spare, -1)


def granted_for_nothing(memory: Memory) -> None:
    """To work items that aren't there."""
    memory.take(1)
    memory.add(memory.pwq().nr_granted, 1)


def free_while_owed(memory: Memory) -> None:
    wq = memory.workqueue()
    for place in (wq.max_active, wq.saved_max_active):
        memory.add(place, -1)
    memory.add(wq.nr_owed.counter, 1)


def execute(memory: Memory, cpu: int = 0) -> None:
    """A worker executes a work item, which has a slot."""
    worker, pwq = memory.worker(cpu), memory.pwq(cpu)
    pool, work = pwq.pool, memory.new("work_struct")
    memory.unlink(worker.entry)
    memory.add(pool.nr_idle, -1)
    flags = worker.flags
    memory.poke(flags, flags.value_() & ~memory.kernel.constant("WORKER_IDLE"))
    memory.poke(worker.current_work, work.value_())
    memory.poke(worker.current_pwq, pwq.value_())
    head, entry = pool.busy_hash[0].first, worker.hentry
    assert not head
    memory.poke(entry.next, 0)
    memory.poke(entry.pprev, head.address_)
    memory.poke(head, entry.address_)
    memory.poke(worker.current_color, 0)
    memory.add(pwq.nr_in_flight[0], 1)
    memory.add(pwq.nr_active, 1)
    memory.take(1, cpu)


def one_too_many(memory: Memory) -> None:
    """Two work items execute with max_active 1, both with a slot."""
    wq = memory.workqueue()
    for cpu in (0, 30):
        execute(memory, cpu)
    for place in (wq.max_active, wq.saved_max_active):
        memory.poke(place, 1)


def late_timer(memory: Memory) -> None:
    """It should have passed on slots two seconds ago."""
    waits_for_timer(memory, -2 * memory.kernel.constant("CREATE_COOLDOWN"))


def waits_for_timer(memory: Memory, jiffies: int = 1) -> None:
    """A work item waits, slots are free and the timer is going to pass them on."""
    timer = memory.workqueue().slot_timer
    memory.wait()
    memory.poke(timer.entry.pprev, memory.new("hlist_head").value_())
    memory.poke(timer.expires, memory.prog["jiffies_64"].value_() + jiffies)


def waits_unlisted(memory: Memory) -> None:
    memory.queue(memory.pwq().inactive_works, inactive=True)


def stuck_item(memory: Memory) -> None:
    memory.queue(memory.pwq().pool.worklist, inactive=False)
    memory.add(memory.pwq().nr_active, 1)
    memory.add(memory.pwq().nr_listed, 1)
    memory.age()


def stuck_barrier(memory: Memory) -> None:
    barrier = memory.queue(memory.pwq().pool.worklist, inactive=True, kind="wq_barrier")
    memory.poke(barrier.work.func, memory.kernel.functions["wq_barrier_func"])
    memory.poke(barrier.task, memory.prog["init_task"].address_)
    memory.age()


def starving(memory: Memory, secs: int = 6) -> None:
    """A work item waits for a worker whose CPU has run something else for so long."""
    woken(memory)
    memory.age(secs)
    task = memory.worker().task
    queue = per_cpu(memory.prog["runqueues"], task.thread_info.cpu.value_())
    memory.poke(queue.clock_task, task.se.exec_start.value_() + secs * 10**9)
    memory.poke(queue.curr, memory.prog["init_task"].address_)


def add_to(find: Callable[[Memory], drgn.Object]) -> Break:
    return lambda memory: memory.add(find(memory), 1)


FAULTS = (
    Case(
        "sibling split",
        lambda m: m.move("cache_shard", 1, 1),
        "siblings",
        "core of CPUs 0-1: is in cache_shard pods [0, 1]",
    ),
    Case(
        "core with two",
        lambda m: m.move("smt", 0, 2, 3),
        "siblings",
        "crosses the cores of CPUs 0-1 and 2-3",
    ),
    Case(
        "LLC crossed", lambda m: m.move("cache_shard", 0, 24, 25), "llc", "crosses the last-level"
    ),
    Case("LLC divided", lambda m: m.move("cache", 1, 0, 1), "llc", "is in cache pods"),
    Case(
        "node crossed",
        lambda m: m.move("numa", 1, 0, 1),
        "node",
        "crosses the nodes of CPUs 0-1 and 24-47",
    ),
    Case("CPU in two pods", in_two_pods, "pods", "CPU 0: is in numa pods [0, 1]"),
    Case("CPU in no pod", in_no_pod, "pods", "CPUs 0: are in no numa pod"),
    Case("shard uneven", lambda m: m.move("cache_shard", 1, 0, 1, 6, 7), "shards", "[4, 8] cores"),
    Case(
        "shards too few",
        lambda m: m.poke(m.prog["wq_cache_shard_size"], 4),
        "shards",
        "has 2 shards, 3 would be right for 12 cores and a size of 4",
    ),
    Case("no shards", no_shards, "shards", "has 0 shards, 2 would be right"),
    Case("cluster split", cluster_split, "clusters", "CPUs 10-13: is in cache_shard pods [0, 1]"),
    Case("noted apart", noted_apart, "late", "shares its llc with CPUs 0,2-23, but isn't noted"),
    Case("never placed", never_placed, "late", "CPUs 0: are online and were never placed"),
    Case("isolated CPU taken", isolated_taken, "isolated", "2-5 is isolated"),
    Case("isolated CPU in a pool", pool_of_isolated, "pools", "is for CPUs 0-1,4,6-11"),
    Case("wrong pool", wrong_pool, "pools", "on CPUs 30 is for CPUs 0-1,6-11"),
    Case("worker not confined", unconfined, "pools", "may run on CPUs"),
    Case("idle list corrupt", idle_corrupt, "workers", "lists are corrupt"),
    Case("idle worker lost", idle_lost, "workers", "has the idle flag"),
    Case("idle flag lost", not_flagged, "workers", "lacks the idle flag"),
    Case("picked and busy", picked_busy, "workers", "is picked and not idle"),
    Case("nr_idle", add_to(lambda m: m.pwq().pool.nr_idle), "workers", "nr_idle is"),
    Case("nr_workers", add_to(lambda m: m.pwq().pool.nr_workers), "workers", "nr_workers is"),
    Case("nr_active", add_to(lambda m: m.pwq().nr_active), "items", "writeback: nr_active in pool"),
    Case("nr_in_flight", add_to(lambda m: m.pwq().nr_in_flight[3]), "items", "nr_in_flight[3] in"),
    Case("nr_listed", add_to(lambda m: m.pwq().nr_listed), "items", "nr_listed in pool"),
    Case("nr_spare", add_to(lambda m: m.node().nr_spare), "slots", "slots of node 0 are not the"),
    Case("slot moves alone", slot_moves_alone, "slots", "slots of no node are not the"),
    Case("nr_owned", slot_lost, "slots", "slots, and not max_active, "),
    Case("slot lost", slot_lost, "slots", "are spare"),
    Case(
        "nr_owed", add_to(lambda m: m.workqueue().nr_owed.counter), "slots", "the 1 that are owed"
    ),
    Case("free while owed", free_while_owed, "slots", "slots are free though 1 are owed"),
    Case("one too many", one_too_many, "slots", "2 work items execute, max_active is 1"),
    Case("granted for nothing", granted_for_nothing, "slots", "1 slots are granted to 0 listed"),
    Case(
        "nr_waiting",
        add_to(lambda m: m.workqueue().nr_waiting.counter),
        "slots",
        "nr_waiting is 1, 0 nodes are counted",
    ),
    Case("waits uncounted", uncounted, "slots", "node 0 waits and is not counted"),
    Case("open on another node", open_elsewhere, "slots", "is open on node 1 by mistake"),
    Case("open while others wait", open_while_waiting, "slots", "of node 0 are open while others"),
    Case("timer is late", late_timer, "slots", "free slots in pools"),
    Case("max_active", add_to(lambda m: m.workqueue().saved_max_active), "slots", "should be"),
    Case("closed, open", closed_but_open, "slots", "is open on node 0 by mistake"),
    Case("waits unlisted", waits_unlisted, "slots", "is not pending on node 0 by mistake"),
    Case("waits beside a free slot", Memory.wait, "slots", "free slots in pools"),
    Case("item is stuck", stuck_item, "stuck", "1 work items of writeback wait for 2 s"),
    Case("barrier is stuck", stuck_barrier, "stuck", "swapper/0 (0) waits in flush_work()"),
    Case("worker gets no CPU", starving, "stuck", "for 6 s, kworker/"),
    Case("CPU is taken", starving, "stuck", "where swapper/0 (0) runs"),
)
STOCK_FAULTS = (
    Case(
        "nr",
        add_to(lambda m: m.node().nr.counter),
        "slots",
        "0 work items are active on node 0, nr is 1",
    ),
    Case("waits unlisted", waits_unlisted, "slots", "their pwq isn't pending"),
    Case("waits beside a free slot", Memory.wait, "slots", "wait on node 0 beside"),
    Case("barrier is stuck", stuck_barrier, "stuck", "swapper/0 (0) waits in flush_work()"),
    Case("worker gets no CPU", starving, "stuck", "for 6 s, kworker/"),
)
SERIES_CORE = Core(
    "two-nodes-2x12x2", "pods", append="isolcpus=domain,2-5 workqueue.cache_shard_size=8"
)
STOCK_CORE = Core("nodes-4", "pods", kernel=STOCK)


@pytest.fixture
def memory(made: tuple[BuildDir, Path], monkeypatch: pytest.MonkeyPatch) -> Memory:
    monkeypatch.setattr(wq_verify, "PAUSE", 0)
    monkeypatch.setattr(sys, "argv", ["wq_verify.py"])
    return Memory(*made)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{name} {case.name}", marks=pytest.mark.needs(core))
        for name, core, cases in (
            ("series", SERIES_CORE, FAULTS),
            ("stock", STOCK_CORE, STOCK_FAULTS),
        )
        for case in cases
    ],
)
def test_fault_is_found(memory: Memory, case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    case.do(memory)
    assert wq_verify.main(memory.prog) == 1
    said = capsys.readouterr().out
    print(said)
    (line,) = [line for line in said.splitlines() if line.startswith(f"{case.check} ")]
    assert line.split()[1] == "wrong" and case.says in line


def locked(memory: Memory) -> None:
    memory.add(memory.pwq().pool.nr_idle, 1)
    memory.poke(memory.pwq().pool.lock.raw_lock.val.counter, 1)


def woken(memory: Memory) -> None:
    stuck_item(memory)
    memory.poke(memory.worker().task.on_rq, 1)


def waits_at_limit(memory: Memory) -> None:
    """As many have been started as may be, in another pool."""
    memory.wait()
    memory.take(memory.workqueue().max_active.value_(), 30)
    memory.poke(memory.pwq(30).nr_active, memory.workqueue().max_active.value_())


def lowered(memory: Memory) -> None:
    """max_active to less than what executes, of which another slot is granted to a work item."""
    wq = memory.workqueue()
    memory.close_all()
    for cpu in (0, 30):
        execute(memory, cpu)
    memory.queue(memory.pwq().pool.worklist, inactive=False)
    for place in (memory.pwq().nr_active, memory.pwq().nr_listed, memory.pwq().nr_granted):
        memory.add(place, 1)
    memory.take(1)
    none = wq.node_nr_active[memory.kernel.nr_nodes]
    memory.poke(none.nr_owned, 0)
    memory.poke(none.nr_spare, 0)
    for place in (wq.max_active, wq.saved_max_active):
        memory.poke(place, 1)
    memory.poke(wq.nr_owed.counter, 2)


@pytest.mark.needs(SERIES_CORE)
@pytest.mark.parametrize(
    ("do", "check"),
    [
        pytest.param(lambda memory: None, None, id="nothing"),
        pytest.param(locked, "workers", id="pool is locked"),
        pytest.param(woken, "stuck", id="worker is woken up"),
        pytest.param(lambda memory: starving(memory, 4), "stuck", id="worker waits for its CPU"),
        pytest.param(waits_at_limit, "slots", id="waits at the limit"),
        pytest.param(waits_for_timer, "slots", id="waits for the timer"),
        pytest.param(lowered, "slots", id="limit is lowered"),
        pytest.param(lowered, "items", id="items of a lowered limit"),
        pytest.param(execute, "items", id="executes"),
        pytest.param(lambda memory: memory.open(3), "slots", id="pwq holds slots"),
    ],
)
def test_what_is_right_is_not_wrong(memory: Memory, do: Break, check: str | None) -> None:
    do(memory)
    results = {result.name: result for result in wq_verify.verify(memory.prog)}
    if check:
        assert results[check].status == "right", results[check].text
        assert "1 moving" in results[check].text or do is not locked
    else:
        assert {result.status for result in results.values()} == {"right"}


@pytest.mark.needs(SERIES_CORE)
def test_changing_is_unknown(memory: Memory) -> None:
    """A dump of a kernel in which pods are being changed."""
    memory.move("cache_shard", 1, 1)
    memory.poke(memory.prog["wq_pool_mutex"].owner.counter, memory.prog["init_task"].address_)
    results = {result.name: result for result in wq_verify.verify(memory.prog)}
    assert results["siblings"].status == "unknown"
    assert results["node"].status == "right"


@pytest.mark.needs(SERIES_CORE)
def test_memory_that_cannot_be_read(memory: Memory, capsys: pytest.CaptureFixture[str]) -> None:
    """As with a drgn that can't follow the page tables of a dump."""

    def read(address: int, *_: object) -> bytes:
        raise drgn.FaultError("page table may be missing", address)

    possible = memory.prog["__cpu_possible_mask"]
    memory.prog.add_memory_segment(possible.address_, drgn.sizeof(possible), read)
    assert wq_verify.main(memory.prog) == 2
    said = capsys.readouterr()
    assert "can't read this memory: page table may be missing" in said.err
    assert said.err.count("\n") == 1 and not said.out
