# SPDX-License-Identifier: GPL-2.0
"""CPUs that come online late, as far as that is not asked of workqueues made afterwards
(test_late.py): a strict workqueue is there before, and must have its CPUs right by itself.

Where its workers are confined to, which pool serves each CPU, and the pods in the kernel's
memory, against pods that follow from the machine and from which CPUs have been online.

Seen failing: against a kernel whose restore_unbound_workers_cpumask() lets strict workers run on all
CPUs (what was there before, suspending, load); with an oracle that takes CPUs which were never
online for pods of their own, or siblings for none; with pools compared by their numbers (suspend);
against tests/mutants/series/late-known.diff (suspend);
against a kernel that doesn't lay out pods again for the last CPU (without memory), for one that
shares nothing with those that are online (caches), or for one that was online before (back).
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass

import pytest
import sharding
from needs import DEBUG, FIND, TEST, Boot, Kernel
from test_late import at_boot

from wqlab.ground.places import ROOT
from wqlab.guests.scenario import SCOPES, Cpus, Scenario, find_scenario, format_pods, parse_cpulist
from wqlab.guests.vm import Record
from wqlab.kernels.arch import find_arch

SEED = 20261122
CPU = "/sys/devices/system/cpu"


def online(*cpus: int, to: int = 1) -> tuple[str, ...]:
    return tuple(f"write {CPU}/cpu{cpu}/online {to}" for cpu in cpus)


def added(scenario: str, *cpus: int) -> tuple[str, ...]:
    """CPUs of a machine are added to it, and come online."""
    smp, arch, steps = find_scenario(scenario).smp, find_arch(), []
    for cpu in cpus:
        where: dict[str, int | str] = {"driver": f"{arch.cpu}-{arch.name}-cpu"}
        rest = cpu
        for level in ("thread", "core", "die"):
            rest, where[f"{level}-id"] = divmod(rest, smp[f"{level}s"])
        where["socket-id"] = rest
        steps += [f"qmp device_add {json.dumps(where)}", f"await {CPU}/cpu{cpu}/online"]
        steps += online(cpu)
    return tuple(steps)


HOTADD = ROOT / "tests/mutants/hotadd.diff"


@dataclass(frozen=True)
class Case:
    """A machine, how it is booted, and what is done to it then."""

    name: str
    scenario: str
    maxcpus: int | None = None  # online at boot, if not all
    gone: tuple[int, ...] = ()  # that go offline then
    late: tuple[int, ...] = ()  # that come online after that, one after the other
    scope: str = "cache_shard"  # of the workqueue that is there throughout
    more: tuple[str, ...] = ()  # steps after that, see guest/jobs/params
    possible: int | None = None  # CPUs for the kernel, if not all
    present: int | None = None  # CPUs at boot, if not all: the others are added
    tier: str = "test"

    @property
    def up(self) -> Cpus:
        """CPUs that are online at boot."""
        if self.maxcpus:
            return at_boot(self.scenario, self.maxcpus)
        return frozenset(range(self.present or self.possible or self.machine.cpus))

    @property
    def been(self) -> Cpus:
        """Those that are online in the end."""
        return self.up | set(self.late)

    @property
    def append(self) -> str:
        option = "possible_cpus" if find_arch().name == "x86_64" else "nr_cpus"
        words = [f"{option}={self.possible}"] if self.possible else []
        return " ".join(words + ([f"maxcpus={self.maxcpus}"] if self.maxcpus else []))

    @property
    def steps(self) -> tuple[str, ...]:
        come = added(self.scenario, *self.late) if self.present else online(*self.late)
        return online(*self.gone, to=0) + come + self.more

    @property
    def machine(self) -> Scenario:
        return find_scenario(self.scenario)

    def pods(self, been: Cpus, scope: str) -> set[Cpus]:
        """What the pods of a scope must be."""
        possible = frozenset(range(self.possible or self.machine.cpus))
        placed = sharding.placed(self.machine, been)[scope]
        return {pod & possible for pod in placed if pod & possible}

    def pools(self, been: Cpus, scope: str) -> set[Cpus]:
        """Those of strict pods with CPUs that are online, and the fallback pool."""
        pods = self.pods(been, scope)
        return {pod for pod in pods if pod & been} | {frozenset().union(*pods)}

    def known(self, pods: set[Cpus], been: Cpus) -> list[str]:
        """Without CPUs of which the kernel doesn't know where they will be added."""
        cpus = been if self.present else frozenset(range(self.machine.cpus))
        return format_pods(tuple({pod & cpus for pod in pods if pod & cpus}))

    @property
    def boot(self) -> Boot:
        scopes = [f"pods {scope}" for scope in SCOPES if scope != self.scope]
        settled = " ".join(format_pods(tuple(self.pools(self.been, self.scope))))
        lines = [*scopes, f"pods {self.scope}", *self.steps, f"settled {settled}", "hold", *scopes]
        return Boot(
            self.scenario,
            "params",
            Kernel("test", diff=HOTADD) if self.present else TEST,
            self.append,
            "\n".join([*lines, f"pods {self.scope}", ""]),
            present=self.present,
        )


NODES = "two-nodes-2x3x2"
CASES = (
    Case("possible", "llc-2x10", possible=14, tier="full"),
    Case("possible-smt", "smt-7x2", possible=9, tier="full"),
    Case("possible-late", NODES, 1, late=(8, 4, 6, 3), possible=9),
    Case(
        "late-node",
        NODES,
        3,
        late=(11, 6, 8, 10, 7, 9),
        scope="numa",
        more=("where scopes=numa cpus=6-11",),
    ),
    # the late CPU moves others, to another shard than its own
    Case("split", "one-llc-12", 10, late=(10,)),
    # siblings that meet when the one that was online before comes back
    Case("back", NODES, 3, gone=(2,), late=(3, 2), scope="smt"),
    # each has a cache of its own
    Case("caches", "sockets-16x1", 1, late=(2, 1), scope="cache", possible=4),
    Case("added", NODES, late=(11, 6, 4, 9, 5, 10, 7, 8), present=4, tier="full"),
)


def each_case(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "case",
        [
            pytest.param(
                case,
                id=case.name,
                marks=[case.boot.mark, pytest.mark.tier(case.tier)],
            )
            for case in CASES
            if not names or case.name in names
        ],
    )


def answers(record: Record, start: str) -> list[list[str]]:
    """What follows in lines that start like this."""
    return [line.split()[len(start.split()) :] for line in record.lines if line.startswith(start)]


def online_part(pods: Iterable[Cpus], cpus: Cpus) -> list[str]:
    """A worker that was there when a CPU came online may run on CPUs of its pod that were online
    then."""
    return format_pods(tuple(pod & cpus for pod in pods))


def settled(record: Record, cpus: Cpus) -> list[str]:
    """Where the workers of the workqueue that was there are confined to."""
    (said,) = answers(record, "settled ")
    return online_part(map(parse_cpulist, said), cpus)


@each_case()
def test_workqueues_made_then(record: Record, case: Case) -> None:
    """At boot, and in the end."""
    assert all(answer == ["ok"] for answer in answers(record, "result "))
    for scope in SCOPES:
        said = answers(record, f"pods {scope} ")
        have = [
            case.known(set(map(parse_cpulist, one)), been)
            for one, been in zip(said, (case.up, case.been), strict=True)
        ]
        want = [case.known(case.pools(been, scope), been) for been in (case.up, case.been)]
        assert have == want, scope


@each_case()
def test_workqueue_that_was_there(record: Record, case: Case) -> None:
    """Its workers are confined to the new pods, and each CPU's work goes there."""
    pods, cpus = case.pods(case.been, case.scope), case.been
    assert record.dump
    pools = record.dump.pool_of["writeback"]
    have = {cpu: record.dump.pools[pools[cpu]] for cpu in cpus}
    assert have == {cpu: next(pod for pod in pods if cpu in pod) for cpu in cpus}
    assert settled(record, cpus) == online_part(case.pools(case.been, case.scope), cpus)


@each_case()
def test_pods_in_memory(record: Record, case: Case) -> None:
    assert record.dump
    for scope in SCOPES:
        pods = case.known(set(record.dump.pods[scope]), case.been)
        assert pods == case.known(case.pods(case.been, scope), case.been), scope


@each_case("late-node")
def test_work_stays_on_its_node(record: Record, case: Case) -> None:
    """Queued from its CPUs, all of which came late."""
    node = case.machine.nodes[1]
    ran = answers(record, "ran ")
    assert ran
    assert {parse_cpulist(confined) for confined, _ in ran} == {node}
    assert {int(cpu) for _, cpu in ran} <= node


# Suspending


def suspended(scenario: str, maxcpus: int | None) -> pytest.MarkDecorator:
    """All CPUs but one are taken offline and come back; the machine doesn't sleep."""
    if find_arch().name != "x86_64":
        return pytest.mark.skip(f"QEMU's machine of {find_arch().name} cannot suspend")
    append = f"maxcpus={maxcpus}" if maxcpus else ""
    suspend = "write /sys/power/pm_test processors\nwrite /sys/power/state mem\n"
    commands = f"pods numa\npods cache_shard\nhold\n{suspend}hold\nsettled\npods cache_shard\n"
    # 7.3's virtio ports are dead after that
    return Boot(scenario, "params", append=append, commands=commands, serial=True).mark


@pytest.mark.parametrize(
    "up",
    [
        pytest.param(
            at_boot(scenario, maxcpus or find_scenario(scenario).cpus),
            id=f"{scenario}{'-late' if maxcpus else ''}",
            marks=[suspended(scenario, maxcpus), pytest.mark.tier(tier)],
        )
        for scenario, maxcpus, tier in (
            (NODES, 6, "test"),
            (NODES, None, "full"),
            ("smt-7x2", None, "full"),
            ("llc-2x10", None, "full"),
        )
    ],
)
def test_suspend(record: Record, up: Cpus) -> None:
    """All is as before, and nothing was laid out anew: the pods are where they were. A layout takes
    new memory before it gives back the old one, and an odd number of CPUs comes back, so the last
    one cannot be where the first was."""
    assert all(answer == ["ok"] for answer in answers(record, "result "))
    before, after = record.dumps
    assert before.places and before.places == after.places
    assert before.pods == after.pods
    # a pool none of whose CPUs were online has another number then
    was, now = ([dump.pools[pool] for pool in dump.pool_of["writeback"]] for dump in record.dumps)
    assert was == now
    first, last = answers(record, "pods cache_shard ")
    assert first == last
    assert settled(record, up) == online_part(map(parse_cpulist, first), up)


# CPUs go offline and come online under load


def hotplug(scenario: str, kernel: Kernel, steps: int, append: str) -> Boot:
    append = f"{append} hotplug.seed={SEED} hotplug.steps={steps}"
    return Boot(scenario, "hotplug", kernel, append, timeout=600)


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(
            scenario,
            id=f"{scenario}-{kernel.flavour}-{steps}",
            marks=[
                hotplug(scenario, kernel, steps, append).mark,
                pytest.mark.tier(tier),
            ],
        )
        for scenario, kernel, steps, append, tier in (
            (NODES, TEST, 25, "maxcpus=3", "test"),
            ("nodes-2x1", DEBUG, 4, "maxcpus=1", "test"),
            ("nodes-2", FIND, 20, "maxcpus=2", "full"),
            ("llc-4x3x2", TEST, 100, "maxcpus=4", "full"),
            (NODES, FIND, 60, "maxcpus=3", "full"),
        )
    ],
)
def test_hotplug_under_load(record: Record, scenario: str) -> None:
    """In the end all CPUs are online, and pods are those of the machine."""
    machine = find_scenario(scenario)
    everywhere = frozenset(range(machine.cpus))
    assert int(answers(record, "runs ")[0][0]) > 0
    for scope in SCOPES:
        want = format_pods(tuple({*machine.pods[scope], everywhere}))
        last = answers(record, f"pods {scope} ")[-1]
        assert format_pods(tuple(map(parse_cpulist, last))) == want, scope
        if record.dump:
            assert format_pods(record.dump.pods[scope]) == format_pods(machine.pods[scope]), scope
    want = format_pods(tuple({*machine.pods["cache_shard"], everywhere}))
    assert settled(record, everywhere) == want


# Without memory

FAILED = Boot(
    "bench-4",
    "nomem",
    FIND,
    "workqueue.cache_shard_size=8 maxcpus=1 nomem.step=2",
    timeout=900,
)


@pytest.mark.needs(FAILED)
@pytest.mark.tier("full")
def test_size_is_written_wholly_or_not_at_all(record: Record) -> None:
    """An allocation that fails and has no other way makes the write fail, and nothing changes."""
    writes = answers(record, "write ")
    said = [" ".join(line[1:]) for line in writes]
    assert {*said} <= {"Cannot allocate memory 8", "2"}
    refused = said.count("Cannot allocate memory 8")
    # how many varies: every other allocation is one of kmemleak, which can do without
    assert refused
    pods = {"8": ["0-3"], "2": ["0-1", "0-3", "2-3"]}
    assert [sorted(answer) for answer in answers(record, "settled ")] == [
        *(pods[line[-1]] for line in writes),
        pods["8"],
    ]
    said = answers(record, "pods cache_shard ")
    assert [sorted(answer) for answer in said] == [pods["2"], *[pods["8"]] * (refused + 1)]
    # as do many that fail together
    random = [" ".join(line[1:]) for line in answers(record, "random ")]
    assert {*random} <= {"Cannot allocate memory 8", "8", "2"}
    assert random.count("Cannot allocate memory 8") > 10


@pytest.mark.needs(FAILED)
@pytest.mark.tier("full")
def test_cpus_come_online_without_memory(record: Record) -> None:
    """They do. Where pods could not be laid out, the next CPU makes up for that, and so does one
    that has been offline."""
    came = answers(record, "online ")
    assert [nth for nth, _ in came[:3]] == ["1", "2", "1"]
    assert all(answer == "ok" for _, answer in came)
    said = [
        sorted(map(parse_cpulist, answer), key=len) for answer in answers(record, "pods cache ")
    ]
    # the first and the third had no memory, the second could do without
    without = [line[-1] for line in answers(record, "kernel ") if "laying" in line]
    assert without[0] == "1"
    assert {*without[1:]} == {"3"}
    assert said[1] == [frozenset({0, 1, 2}), frozenset(range(4))]
    assert said[-1] == [frozenset(range(4))]
    assert sorted(answers(record, "pods cache_shard ")[0]) == ["0-1", "0-3", "2-3"]


@pytest.mark.needs(FAILED)
@pytest.mark.tier("full")
def test_nothing_is_left(record: Record) -> None:
    """No leak, and no message but that there was no memory."""
    assert not answers(record, "leak ")
    said = [line for line in record.lines if line.startswith("kernel ")]
    assert said
    expected = "kernel workqueue: allocation failed while ", "kernel workqueue: Failed to "
    assert all(line.startswith(expected) for line in said)
