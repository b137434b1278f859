# SPDX-License-Identifier: GPL-2.0
"""wq_verify.py's checks on a kernel that is made up: what is right is not wrong, and each of many
faults is found. In the memory of real kernels, tests/boot/test_verify.py has them.

Seen failing: with the mutants verify-*.diff of tests/mutants/scripts.
"""

import json
import sys
from collections.abc import Callable
from types import SimpleNamespace

import drgn
import pytest

from wqlab.ground.places import ROOT

sys.path.insert(0, str(ROOT / "tools/workqueue"))
import wq_verify
from wq_verify import Look, Scope, Topology, Workers


class Number(int):
    """Of a kernel, as drgn has it."""

    def value_(self) -> int:
        return int(self)


class Thing(SimpleNamespace):
    """A structure, and the pointer to it."""

    def __init__(self, **members: object) -> None:
        numbers = {name: Number(one) for name, one in members.items() if isinstance(one, int)}
        super().__init__(**members | numbers)

    def value_(self) -> int:
        return id(self)

    def member_(self, name: str) -> object:
        return getattr(self, name)

    def address_of_(self) -> "Thing":
        return self

    def __eq__(self, other: object) -> bool:
        return self is other


def span(first: int, last: int) -> int:
    """A mask of CPUs."""
    return (1 << last + 1) - (1 << first)


def spans(mask: int, size: int) -> list[int]:
    """A mask in parts of so many CPUs."""
    return [part for at in range(0, 18, size) if (part := span(at, at + size - 1) & mask)]


def of_cpus(parts: list[int]) -> dict[int, int]:
    """The part that each CPU is in."""
    return {cpu: part for part in parts for cpu in wq_verify.cpus_in(part)}


ONLINE, LATE = span(0, 15), [1 << 16, 1 << 17]
SIZES = {"cpu": 1, "smt": 2, "cache_shard": 4, "cache": 8, "numa": 8, "system": 18}


class MadeUp(wq_verify.Kernel):
    """CPUs 0-15: two to a core, two cores to a cluster, four to a last-level cache and to a node;
    16 and 17, of the second node, were never online."""

    def __init__(self) -> None:
        super().__init__({"wq_topo": True})
        self.possible, self.online = span(0, 17), ONLINE
        self.node_of = {cpu: int(cpu >= 8) for cpu in range(18)}
        self.topology = Topology(*(of_cpus(spans(ONLINE, size)) for size in (2, 4, 8)))
        self.ids = {
            level: {cpu: cpu // size * size if cpu < 16 else -1 for cpu in range(18)}
            for level, size in (("CORE", 2), ("CLUSTER", 4), ("LLC", 8))
        }
        self.values = {"wq_cache_shard_size": Number(2), "jiffies_64": Number(10_000)}
        self.values |= {"CREATE_COOLDOWN": Number(1000), "workqueue_freezing": Number(0)}
        self.values |= {
            "WQ_FREEZABLE": Number(4),
            "WORKER_IDLE": Number(4),
            "WORKER_DIE": Number(2),
        }
        self.values |= {"POOL_BH": Number(1), "POOL_DISASSOCIATED": Number(4)}
        self.values |= {"POOL_MANAGER_ACTIVE": Number(1), "WQ_UNBOUND": Number(2)}
        self.masks("wq_unbound_cpumask", span(0, 3) | span(6, 15))
        self.masks("wq_requested_unbound_cpumask", span(0, 15))
        self.masks("wq_isolated_cpumask", span(4, 5))
        self.functions = {"wq_barrier_func": 7, "mayday_cursor_func": -1}
        self.nr_nodes = 2
        self.scopes = {}
        for name, size in SIZES.items():
            late = [] if name in ("numa", "system") else LATE
            pods = [*spans(ONLINE if late else self.possible, size), *late]
            if name == "numa":
                pods = [span(0, 7), span(8, 17)]
            self.lay(name, pods)

    def __getitem__(self, name: str) -> object:
        return self.values[name]

    def mask(self, cpumask: int) -> int:
        return cpumask

    def masks(self, name: str, mask: int) -> None:
        self.values[name] = (mask,)

    def noted(self, level: str) -> dict[int, int]:
        return self.ids[level.removeprefix("WQ_TOPO_")]

    def lay(self, name: str, pods: list[int]) -> None:
        nodes = [self.node_of[next(wq_verify.cpus_in(pod))] for pod in pods]
        pod_of = {cpu: pod for pod, mask in enumerate(pods) for cpu in wq_verify.cpus_in(mask)}
        self.scopes[name] = Scope(name, pods, nodes, pod_of)

    def move(self, name: str, pod: int, mask: int) -> None:
        """CPUs into another pod of a scope."""
        pods = [before & ~mask for before in self.scopes[name].pods]
        pods[pod] |= mask
        self.lay(name, [one for one in pods if one])


LAYOUT = ("pods", "siblings", "llc", "node", "clusters", "shards", "late", "isolated")


def faults(look: Look) -> list[str]:
    return [str(fault) for fault in look.faults]


def test_layout_is_right() -> None:
    kernel = MadeUp()
    looks = {name: wq_verify.CHECKS[name](kernel) for name in LAYOUT}
    assert not [fault for look in looks.values() for fault in faults(look)]
    seen = {"siblings": 8, "llc": 2, "node": 2, "shards": 4, "clusters": 4, "late": 18}
    assert {name: looks[name].seen for name in seen} == seen
    assert looks["isolated"].seen == 2


def in_two_pods(kernel: MadeUp) -> None:
    kernel.scopes["smt"].pods[1] |= 1


def in_no_pod(kernel: MadeUp) -> None:
    kernel.scopes["smt"].pods[0] &= ~1


def not_possible(kernel: MadeUp) -> None:
    kernel.scopes["cache"].pods[1] |= 1 << 30


def other_pod(kernel: MadeUp) -> None:
    kernel.scopes["cache"].pod_of[3] = 1


def other_node(kernel: MadeUp) -> None:
    kernel.scopes["cache"].nodes[1] = 0


def one_shard(kernel: MadeUp) -> None:
    kernel.lay("cache_shard", [span(0, 7), *spans(span(8, 15), 4), *LATE])


def uneven(kernel: MadeUp) -> None:
    kernel.ids["CLUSTER"] = {cpu: cpu // 2 * 2 if cpu < 16 else -1 for cpu in range(18)}
    kernel.move("cache_shard", 0, span(4, 5))


def noted_apart(kernel: MadeUp) -> None:
    kernel.ids["LLC"][3] = 3


def noted_together(kernel: MadeUp) -> None:
    for cpu in range(8, 16):
        kernel.ids["LLC"][cpu] = 0


def never_placed(kernel: MadeUp) -> None:
    kernel.ids["CORE"][3] = -1


@pytest.mark.parametrize(
    ("check", "do", "says"),
    [
        ("pods", in_two_pods, "CPU 0: is in smt pods [0, 1]"),
        ("pods", in_no_pod, "CPUs 0: are in no smt pod"),
        ("pods", not_possible, "CPUs 30: are in cache pods and not possible"),
        ("pods", other_pod, "CPU 3: has cache pod 1 and isn't in it"),
        ("pods", other_node, "cache pod 1 (CPUs 8-15): has node 0"),
        ("siblings", lambda k: k.move("cache_shard", 1, 2), "core of CPUs 0-1: is in cache_shard"),
        ("siblings", lambda k: k.move("smt", 0, 12), "crosses the cores of CPUs 0-1 and 2-3"),
        ("llc", lambda k: k.move("cache_shard", 0, span(8, 9)), "crosses the last-level caches"),
        ("llc", lambda k: k.move("cache", 1, 3), "LLC of CPUs 0-7: is in cache pods [0, 1]"),
        ("node", lambda k: k.move("numa", 1, 3), "node of CPUs 0-7: is in numa pods [0, 1]"),
        ("node", lambda k: k.move("cache_shard", 0, 1 << 8), "crosses the nodes of CPUs 0-3 and 8"),
        ("clusters", lambda k: k.move("cache_shard", 0, span(4, 5)), "cluster of CPUs 4-7: is in"),
        ("shards", one_shard, "has 1 shards, 2 would be right for 4 cores and a size of 2"),
        ("shards", uneven, "has uneven shards of [3, 1] cores"),
        ("late", noted_apart, "CPU 3: shares its llc with CPUs 0-2,4-7, but isn't noted to"),
        ("late", noted_together, "CPUs 0-15: are noted to share their llc"),
        ("late", never_placed, "CPUs 3: are online and were never placed"),
        ("late", lambda k: k.move("cache", 1, 1 << 16), "has CPUs 16, which were never online"),
        (
            "isolated",
            lambda k: k.masks("wq_unbound_cpumask", span(0, 4) | span(6, 15)),
            "is 0-4,6-15, where 0-15 was asked for and 4-5 is isolated",
        ),
    ],
)
def test_fault_of_layout(check: str, do: Callable[[MadeUp], None], says: str) -> None:
    kernel = MadeUp()
    do(kernel)
    found = faults(wq_verify.CHECKS[check](kernel))
    assert any(says in fault for fault in found), found


# --- slots ------------------------------------------------------------------------------------


class Slots(MadeUp):
    """A workqueue of max_active 4 whose node owns all slots, one of which a work item has."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = Thing(id=5)
        self.pwq = self.add(nr_active=1, nr_free=Thing(counter=-1))
        self.node = Thing(nr_owned=4, nr_spare=3, counted=0, open_pwqs=[], pending_pwqs=[])
        count = Thing(counter=0)
        self.wq = Thing(flags=2, max_active=4, saved_max_active=4, nr_owed=count, nr_waiting=count)
        self.wq.slot_timer = None
        self.executing = 1
        self.passed_on = False

    def add(self, **members: object) -> Thing:
        """A pwq."""
        none = {"nr_active": 0, "nr_listed": 0, "nr_granted": 0, "plugged": 0}
        pwq = Thing(pool=self.pool, inactive_works=Thing(), **none | members)
        pwq.inactive_works.next = pwq.inactive_works
        return pwq

    def wait(self) -> None:
        """Have a work item wait as it should, with all slots spare."""
        self.pwq.inactive_works.next = Thing()
        self.node.pending_pwqs = [self.pwq]
        self.node.counted = Number(1)
        self.wq.nr_waiting = Thing(counter=1)

    def nodes(self, wq: Thing) -> dict[int, Thing]:
        return {0: self.node}

    def node_index(self, pwq: Thing) -> int:
        return 0

    def entries(self, head: list[Thing], kind: str, member: str) -> list[Thing]:
        return head

    def workers(self, pool: Thing) -> Workers:
        one = Thing(current_pwq=self.pwq, current_func=Number(1), rescue_wq=None)
        busy = dict(enumerate([one] * self.executing))
        return Workers({}, busy, busy)

    def will_run(self, timer: object) -> bool:
        return self.passed_on

    def wrong(self) -> list[str]:
        limit = wq_verify.limit_of(self, self.wq)
        return [what for what, _ in (*limit, *wq_verify.owned_slots(self, self.wq, [self.pwq]))]


def waits_beside(kernel: Slots) -> None:
    kernel.wait()


def waits_unlisted(kernel: Slots) -> None:
    kernel.wait()
    kernel.node.pending_pwqs = []


def waits_uncounted(kernel: Slots) -> None:
    kernel.wait()
    kernel.node.counted = Number(0)


def too_many_execute(kernel: Slots) -> None:
    kernel.executing = 5


def slot_lost(kernel: Slots) -> None:
    kernel.node.nr_owned = Number(3)
    kernel.node.nr_spare = Number(2)


def slot_made_up(kernel: Slots) -> None:
    kernel.node.nr_spare = Number(4)


def granted_for_nothing(kernel: Slots) -> None:
    kernel.pwq.nr_granted = Number(1)


def free_while_owed(kernel: Slots) -> None:
    kernel.wq.nr_owed = Thing(counter=1)


def other_limit(kernel: Slots) -> None:
    kernel.wq.max_active = Number(0)


@pytest.mark.parametrize(
    ("do", "says"),
    [
        (waits_beside, "work items wait beside 3 free slots"),
        (waits_unlisted, "a pwq is not pending on node 0 by mistake"),
        (waits_uncounted, "node 0 waits and is not counted"),
        (too_many_execute, "5 work items execute, max_active is 4"),
        (slot_lost, "nodes own 3 slots, and not max_active, 4"),
        (slot_made_up, "1 started, 0 granted, 0 held and 4 spare slots of node 0 are not the 4"),
        (granted_for_nothing, "1 slots are granted to 0 listed work items"),
        (free_while_owed, "3 slots are free though 1 are owed"),
        (other_limit, "max_active is 0, and should be 4"),
    ],
)
def test_fault_of_slots(do: Callable[[Slots], None], says: str) -> None:
    kernel = Slots()
    assert not kernel.wrong()
    do(kernel)
    assert any(says in what for what in kernel.wrong()), kernel.wrong()


def test_what_is_right_with_slots() -> None:
    """Work items wait, but slots are passed on to them soon; and a freezer takes the limit away."""
    kernel = Slots()
    kernel.wait()
    kernel.passed_on = True
    assert not kernel.wrong()
    kernel = Slots()
    kernel.wq.flags, kernel.wq.max_active = Number(2 | 4), Number(0)
    kernel.values["workqueue_freezing"] = Number(1)
    assert list(wq_verify.limit_of(kernel, kernel.wq)) == []


# --- workers and what waits for them ----------------------------------------------------------


class Pool(MadeUp):
    """One with a busy worker and an idle one."""

    def __init__(self) -> None:
        super().__init__()
        self.one = Thing(id=7, cpu=-1, flags=0, nr_idle=1, nr_workers=2, nr_running=0, manager=None)
        self.one.worklist, self.one.watchdog_ts = [], Number(10_000 - 3 * 1000)
        pwq = Thing(pool=self.one, wq=Thing())
        self.idle = self.worker(1, flags=4)
        self.busy = self.worker(2, current_work=Thing(), current_pwq=pwq)
        self.lists = Workers(*({id(w): w for w in some} for some in (
            [self.idle], [self.busy], [self.idle, self.busy])))  # fmt: skip

    def worker(self, number: int, **members: object) -> Thing:
        none = {"flags": 0, "current_work": None, "current_pwq": None, "rescue_wq": None}
        task = Thing(__state=2, on_rq=0)
        return Thing(id=number, pool=self.one, task=task, **none | members)

    def workers(self, pool: Thing) -> Workers:
        return self.lists

    def items(self, head: list[wq_verify.Item]) -> list[wq_verify.Item]:
        return head

    def member(self, kind: str, *names: str) -> str:
        return names[0]

    def wrong(self, check: wq_verify.PoolCheck) -> list[str]:
        look = Look()
        check(self, look, 7, self.one)
        return faults(look)


@pytest.mark.parametrize(
    ("where", "member", "value", "says"),
    [
        ("one", "nr_idle", 2, "pool 7: nr_idle is 2, 1 workers are on idle_list"),
        ("one", "nr_workers", 3, "pool 7: nr_workers is 3, 2 are attached"),
        ("idle", "flags", 0, "pool 7: worker 1 lacks the idle flag"),
        ("busy", "flags", 4, "pool 7: worker 2 has the idle flag"),
        ("idle", "current_work", 5, "pool 7: worker 1 is idle and executes a work item"),
        ("busy", "current_work", 0, "pool 7: worker 2 is busy with nothing"),
        ("one", "nr_running", 1, "pool 7: nr_running is 1, though nobody counts there"),
    ],
)
def test_fault_of_workers(where: str, member: str, value: int, says: str) -> None:
    kernel = Pool()
    assert not kernel.wrong(wq_verify.check_workers)
    setattr(getattr(kernel, where), member, Number(value))
    assert says in kernel.wrong(wq_verify.check_workers)


def test_stuck() -> None:
    """With an idle worker that nobody wakes up; not where one is woken up, where it has not been a
    second, or where none is idle."""

    def kernel() -> Pool:
        made = Pool()
        made.one.worklist = [wq_verify.Item(Thing(), 1, 0, 0, False)]
        return made

    def stuck(one: Pool) -> list[str]:
        return one.wrong(wq_verify.check_stuck)

    (found,) = stuck(kernel())
    assert "1 work items of  wait for 3 s, 1 workers are idle and none is woken up" in found
    woken, runs, young, full = kernel(), kernel(), kernel(), kernel()
    setattr(woken.idle.task, "__state", Number(0))
    runs.idle.task.on_rq = Number(1)
    young.one.watchdog_ts = Number(9_001)
    full.lists.idle.clear()
    assert [stuck(one) for one in (woken, runs, young, full, Pool())] == [[]] * 5


def test_starved(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker is runnable for five seconds, and something else runs on its CPU all the time."""

    def task(name: str, pid: int, **members: object) -> Thing:
        return Thing(comm=SimpleNamespace(string_=name.encode), pid=pid, **members)

    kernel = Pool()
    kernel.one.worklist = [wq_verify.Item(Thing(), 1, 0, 0, False)]
    kernel.one.watchdog_ts, kernel.one.nr_running = Number(4_000), Number(1)
    start = Thing(exec_start=1_000_000_000)
    kernel.busy.task = task("kworker/3:1", 42, on_rq=1, thread_info=Thing(cpu=3), se=start)
    rq = Thing(clock_task=6_000_000_000, curr=task("spinner", 77))
    kernel.values["runqueues"] = {3: rq}
    monkeypatch.setattr(wq_verify, "per_cpu", lambda rqs, cpu: rqs[cpu])
    (found,) = kernel.wrong(wq_verify.check_stuck)
    assert "kworker/3:1 (42) is runnable on CPU 3, where spinner (77) runs" in found
    rq.clock_task = Number(5_999_999_999)
    assert not kernel.wrong(wq_verify.check_stuck)
    rq.clock_task, rq.curr = Number(6_000_000_000), kernel.busy.task
    assert not kernel.wrong(wq_verify.check_stuck)


# --- what is said -----------------------------------------------------------------------------


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs main() with these options on checks that find so many faults each."""

    def run(numbers: list[int], *words: str) -> int:
        def check(number: int) -> Callable[[object], Look]:
            look = Look(seen=5, unit="pools")
            for index in range(number):
                look.of_pool(index, "is wrong", 1 << index)
            return lambda _: Look(look.seen, look.unit, list(look.faults))

        monkeypatch.setattr(sys, "argv", ["wq_verify.py", *words])
        monkeypatch.setattr(wq_verify, "PAUSE", 0)
        checks = {f"check{at}": check(number) for at, number in enumerate(numbers)}
        monkeypatch.setattr(wq_verify, "CHECKS", checks)
        monkeypatch.setattr(wq_verify.Kernel, "possible", 1)
        monkeypatch.setattr(wq_verify.Kernel, "changing", False)
        monkeypatch.setattr(wq_verify, "shared", lambda kernel: {})
        return wq_verify.main(SimpleNamespace(type=lambda name: None))

    return run


def test_lines(checked: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert checked([0, 5]) == 1
    first = "; ".join(f"pool {number}: is wrong" for number in range(3))
    assert capsys.readouterr().out.splitlines() == [
        "check0    right    5 pools",
        f"check1    wrong    {first}; and 2 more, see --json",
        "",
        "1 right, 1 wrong, 0 unknown, 0 n/a",
    ]
    assert checked([0]) == 0


def test_json(checked: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert checked([0, 5], "--json") == 1
    said = json.loads(capsys.readouterr().out)
    assert said["status"] == 1
    assert [one["status"] for one in said["checks"]] == ["right", "wrong"]
    wrong = said["checks"][1]["faults"]
    assert [one["what"] for one in wrong] == [f"pool {n}: is wrong" for n in range(5)]
    assert [(one["cpus"], one["pools"]) for one in wrong] == [([n], [n]) for n in range(5)]


@pytest.mark.parametrize("error", [wq_verify.Corrupt("bent"), drgn.FaultError("not there", 1)])
def test_memory_that_makes_no_sense(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is wrong, and what the dump or the structs of an older kernel lack is unknown."""

    def result(of: Exception) -> wq_verify.Result:
        def check(_: object) -> Look:
            raise of

        monkeypatch.setattr(wq_verify, "CHECKS", {"pools": check})
        (one,) = wq_verify.verify(drgn.Program())
        return one

    monkeypatch.setattr(wq_verify, "PAUSE", 0)
    found = result(error)
    assert found.status == "wrong" and "a list or pointer is corrupt" in found.text
    lacks = result(drgn.FaultError("cannot read: excluded page", 1))
    assert lacks.status == "unknown" and "the dump lacks pages" in lacks.text
    older = result(AttributeError("no member 'node_nr_active'"))
    assert (older.status, older.text) == ("unknown", "no member 'node_nr_active'")


def test_what_changes_meanwhile_is_not_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPU hotplug, or pods that are laid out anew."""

    def check(_: object) -> Look:
        look = Look(seen=1, unit="pools")
        look.fault("pool 7", "is wrong")
        return look

    monkeypatch.setattr(wq_verify, "PAUSE", 0)
    monkeypatch.setattr(wq_verify, "CHECKS", {"pools": check})
    monkeypatch.setattr(wq_verify.Kernel, "changing", True)
    (result,) = wq_verify.verify(drgn.Program())
    assert (result.status, result.text) == ("unknown", "1 moving")


class Steady(MadeUp):
    """Reads a structure that has this in turn."""

    def __init__(self, *texts: bytes) -> None:
        super().__init__()
        texts = list(texts)
        self.prog = SimpleNamespace(read=lambda address, size: texts.pop(0))


@pytest.mark.parametrize(
    ("texts", "lock", "faults", "moving"),
    [
        ((b"a", b"a"), 0, 1, set()),
        ((b"a", b"b"), 0, 0, {"pool 7"}),
        ((b"a", b"a"), 1, 0, {"pool 7"}),
    ],
)
def test_what_moves(texts: tuple[bytes, ...], lock: int, faults: int, moving: set[str]) -> None:
    kind = SimpleNamespace(type=SimpleNamespace(size=1, has_member=lambda name: name == "lock"))
    raw = SimpleNamespace(val=SimpleNamespace(counter=Number(lock)))
    one = Thing(type_=kind, lock=SimpleNamespace(raw_lock=raw))
    look = Look()
    kernel = Steady(*texts)
    kernel.steadily(look, "pool 7", [one], lambda _, look: look.fault("pool 7", "is wrong"))
    assert (len(look.faults), look.moving, look.seen) == (faults, moving, faults)
