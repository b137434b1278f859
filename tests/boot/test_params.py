# SPDX-License-Identifier: GPL-2.0
"""Workqueue parameters, good and bad, on the command line and at run time.

Seen failing: against a kernel without the cache_shard scope, whose parser also
takes "cachefoo" and "smt2" for the scopes that they start with.
"""

from dataclasses import dataclass

import pytest
import sharding
from needs import Boot

from wqlab.guests.scenario import SCOPES, Pods, find_scenario, format_pods, parse_cpulist
from wqlab.guests.vm import Record

MACHINE = find_scenario("one-llc-12")
EVERYWHERE = frozenset(range(MACHINE.cpus))
DEFAULT = "cache_shard"

PARAMETERS = "/sys/module/workqueue/parameters"
SIZE = f"{PARAMETERS}/cache_shard_size"
DEFAULT_SCOPE = f"{PARAMETERS}/default_affinity_scope"
SCOPE = "/sys/devices/virtual/workqueue/writeback/affinity_scope"


def confined(line: str) -> list[str]:
    """The pods in "pods SCOPE CPULIST ..."."""
    return format_pods(tuple(parse_cpulist(item) for item in line.split()[2:]))


def pools(pods: Pods) -> list[str]:
    """The pools that strict pods make, with the fallback pool."""
    return format_pods(tuple({*pods, EVERYWHERE}))


def answer(record: Record, start: str) -> str:
    """The one line of the guest that starts like this."""
    lines = [line for line in record.lines if line.startswith(start)]
    assert len(lines) == 1, f"{len(lines)} lines start with {start!r}"
    return lines[0]


# One boot for each pair: what is given, with None a parameter without "=", and whether it is good.
# They show the way that a value takes at boot, before there are pods: that it counts, that the
# kernel says what is wrong with it, and that a bad one leaves the default and the other parameter
# as they are. Which values are good is the parsers' part: KUnit's scope_names_match_exactly,
# bogus_default_scope_changes_nothing and bogus_shard_size_changes_nothing have each kind of wrong
# value, and WRITES below sends good and bad ones through the same two functions.
SIZES = [("99999999999", False), ("", False), (None, False), ("4", True), ("1000", True)]
DEFAULTS = [
    ("cachefoo", False),
    ("Cache_Shard", True),
    ("default", False),
    ("", False),
    ("numa", True),
]
AT_BOOT = [
    pytest.param(
        size,
        scope,
        id=f"{size[0]}-{scope[0]}",
        marks=pytest.mark.needs(
            Boot(
                MACHINE.name,
                "params",
                append="workqueue.cache_shard_size"
                + ("" if size[0] is None else f"={size[0]}")
                + f" workqueue.default_affinity_scope={scope[0]}",
                commands="pods cache_shard\npods default\n",
            )
        ),
    )
    for size, scope in zip(SIZES, DEFAULTS, strict=True)
]


def said_of(record: Record, name: str) -> list[str]:
    """What the kernel said about a parameter."""
    return [line for line in record.lines if line.startswith("kernel ") and name in line]


@pytest.mark.parametrize(("size", "scope"), AT_BOOT)
def test_size_at_boot(
    record: Record, size: tuple[str | None, bool], scope: tuple[str, bool]
) -> None:
    value, good = size
    now = int(value) if value and good else sharding.shard_size(MACHINE)
    said = said_of(record, "cache_shard_size")
    if good:
        assert not said
    elif value is None:
        assert said
    else:
        message = f'cache_shard_size: "{value}" is not a number of cores from 1 to 2147483647'
        assert f"kernel workqueue: {message}, ignored" in said
    assert f"param cache_shard_size {now}" in record.lines
    assert confined(answer(record, "pods cache_shard ")) == pools(sharding.shards(MACHINE, now))


@pytest.mark.parametrize(("size", "scope"), AT_BOOT)
def test_scope_at_boot(
    record: Record, size: tuple[str | None, bool], scope: tuple[str, bool]
) -> None:
    value, good = scope
    now = value.lower() if good else DEFAULT
    said = said_of(record, "default_affinity_scope")
    if good:
        assert not said
    else:
        message = (
            f'default_affinity_scope: "{value}" is none of {" ".join(SCOPES)}, keeping {DEFAULT}'
        )
        assert f"kernel workqueue: {message}" in said
    assert f"param default_affinity_scope {now}" in record.lines
    shard_size = int(size[0]) if size[0] and size[1] else sharding.shard_size(MACHINE)
    pods = sharding.shards(MACHINE, shard_size) if now == "cache_shard" else MACHINE.pods[now]
    assert confined(answer(record, "pods default ")) == pools(pods)


@dataclass(frozen=True)
class Write:
    """One write() to sysfs and what must come of it."""

    file: str
    value: str  # with printf escapes, for the guest to expand
    good: bool
    now: str  # what the file says afterwards
    scope: str  # that the workqueue has before
    pods: Pods  # that the workqueue has afterwards


def size(value: str, now: int, good: bool = True) -> Write:
    return Write(SIZE, value, good, str(now), "cache_shard", sharding.shards(MACHINE, now))


def default_scope(value: str, now: str, good: bool = True) -> Write:
    return Write(DEFAULT_SCOPE, value, good, now, "default", MACHINE.pods[now])


def scope(value: str, now: str, good: bool = True) -> Write:
    shown = f"default ({DEFAULT})" if now == "default" else now
    return Write(
        SCOPE, value, good, shown, "default", MACHINE.pods[DEFAULT if now == "default" else now]
    )


# All in one boot, one after the other: a bad value must keep what was there,
# which is not always the default.
WRITES = [
    *[
        size(value, sharding.shard_size(MACHINE), False)
        for value in ("0", "-1", "abc\\n", "99999999999")
    ],
    size("4", 4),
    *[size(value, 4, False) for value in ("0\\n", "\\n", "8x", "2147483648", "-1\\n")],
    size("1\\n", 1),
    size("1000", 1000),
    size("2147483647\\n", 2147483647),
    size("8\\n", 8),
    default_scope("cpu", "cpu"),
    default_scope("smt\\n", "smt"),
    default_scope("cache_shard", "cache_shard"),
    default_scope("cache", "cache"),
    *[
        default_scope(value, "cache", False)
        for value in ("cachefoo", "cache_shards\\n", "cach", "\\n")
    ],
    default_scope("NUMA\\n", "numa"),
    *[default_scope(value, "numa", False) for value in ("default", "smt2", "num\\n")],
    default_scope("system\\n", "system"),
    default_scope("Cache_Shard\\n", "cache_shard"),
    scope("cache", "cache"),
    *[scope(value, "cache", False) for value in ("cachefoo\\n", "\\n", "cach", "defaults")],
    scope("cache_shard\\n", "cache_shard"),
    scope("SMT", "smt"),
    scope("default\\n", "default"),
]


def commands() -> str:
    """For the guest. A write by itself must move the workqueue to its new pods."""
    lines = []
    for before, write in zip([None, *WRITES], WRITES, strict=False):
        if not before or before.file != write.file:
            lines.append(f"pods {write.scope}")
        lines.append(f"write {write.file} {write.value}")
        lines.append(" ".join(["settled", *pools(write.pods)]))
    return "\n".join([*lines, ""])


AT_RUN_TIME = Boot(MACHINE.name, "params", commands=commands())


@pytest.mark.parametrize(
    "index",
    [
        pytest.param(index, id=f"{index:02}-{write.file.rsplit('/', 1)[1]}-{write.value}")
        for index, write in enumerate(WRITES)
    ],
)
@pytest.mark.needs(AT_RUN_TIME)
def test_write_at_run_time(record: Record, index: int) -> None:
    write = WRITES[index]
    starts = [i for i, line in enumerate(record.lines) if line.startswith("write ")]
    assert len(starts) == len(WRITES)
    asked, result, value, *rest = record.lines[starts[index] : [*starts, None][index + 1]]
    assert asked == f"write {write.file} {write.value}"
    errors = ("result Invalid argument", "result Numerical result out of range")
    assert result in (("result ok",) if write.good else errors)
    assert value == f"value {write.now}"
    settled = next(line for line in rest if line.startswith("settled ")).split()[1:]
    assert format_pods(tuple(map(parse_cpulist, settled))) == pools(write.pods)
