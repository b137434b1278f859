# SPDX-License-Identifier: GPL-2.0
"""Workqueue parameters, good and bad, on the command line and at run time.

Seen failing: against a kernel without the cache_shard scope, whose parser also
takes "cachefoo" and "smt2" for the scopes that they start with.
"""

from dataclasses import dataclass

import pytest
from conftest import ROOT, Boot
from wqboot import Record
from wqtopology import SHARD_SIZE, Pods, format_pods, load_scenario, parse_cpulist

MACHINE = load_scenario(ROOT / "scenarios/one-llc-12.toml")
EVERYWHERE = frozenset(range(MACHINE.cpus))
DEFAULT = "cache_shard"

PARAMETERS = "/sys/module/workqueue/parameters"
SIZE = f"{PARAMETERS}/cache_shard_size"
DEFAULT_SCOPE = f"{PARAMETERS}/default_affinity_scope"
SCOPE = "/sys/devices/virtual/workqueue/writeback/affinity_scope"

BAD_SIZES = ["0", "-1", "abc", "99999999999", "", "2147483648", "8x"]
GOOD_SIZES = [4, 1, 1000]
BAD_SCOPES = ["cachefoo", "default", "smt2", "", "cach", "cache_shards"]


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


def at_boot(append: str, scope: str, *values: object, name: str) -> object:
    """Arguments of a test that boots with these parameters and looks at the pods of a scope."""
    boot = Boot(MACHINE.name, "params", append=append, commands=f"pods {scope}\n")
    return pytest.param(*values, id=name or "empty", marks=pytest.mark.boot(boot))


@pytest.mark.parametrize(
    "value",
    [
        at_boot(f"workqueue.cache_shard_size={value}", "cache_shard", value, name=value)
        for value in BAD_SIZES
    ],
)
def test_bad_size_at_boot(record: Record, value: str) -> None:
    message = (
        f'workqueue: cache_shard_size: "{value}" is not a number of cores from 1 to 2147483647'
    )
    assert f"kernel {message}, keeping {SHARD_SIZE}" in record.lines
    assert f"param cache_shard_size {SHARD_SIZE}" in record.lines
    assert confined(answer(record, "pods")) == pools(MACHINE.shards(SHARD_SIZE))


@pytest.mark.boot(
    Boot(MACHINE.name, "params", append="workqueue.cache_shard_size", commands="pods cache_shard\n")
)
def test_no_size_at_boot(record: Record) -> None:
    assert any(line.startswith("kernel ") and "cache_shard_size" in line for line in record.lines)
    assert f"param cache_shard_size {SHARD_SIZE}" in record.lines
    assert confined(answer(record, "pods")) == pools(MACHINE.shards(SHARD_SIZE))


@pytest.mark.parametrize(
    "size",
    [
        at_boot(f"workqueue.cache_shard_size={size}", "cache_shard", size, name=str(size))
        for size in GOOD_SIZES
    ],
)
def test_good_size_at_boot(record: Record, size: int) -> None:
    assert not [line for line in record.lines if line.startswith("kernel ") and "shard" in line]
    assert f"param cache_shard_size {size}" in record.lines
    assert confined(answer(record, "pods")) == pools(MACHINE.shards(size))


@pytest.mark.parametrize(
    "value",
    [
        at_boot(f"workqueue.default_affinity_scope={value}", "default", value, name=value)
        for value in BAD_SCOPES
    ],
)
def test_bad_scope_at_boot(record: Record, value: str) -> None:
    message = (
        f'workqueue: default_affinity_scope: "{value}" is not an affinity scope, keeping {DEFAULT}'
    )
    assert f"kernel {message}" in record.lines
    assert f"param default_affinity_scope {DEFAULT}" in record.lines
    assert confined(answer(record, "pods")) == pools(MACHINE.pods[DEFAULT])


@pytest.mark.parametrize(
    ("value", "scope"),
    [
        at_boot(
            f"workqueue.default_affinity_scope={value}", "default", value, value.lower(), name=value
        )
        for value in [*MACHINE.pods, "Cache_Shard"]
    ],
)
def test_good_scope_at_boot(record: Record, value: str, scope: str) -> None:
    assert not [line for line in record.lines if line.startswith("kernel ") and "scope" in line]
    assert f"param default_affinity_scope {scope}" in record.lines
    assert confined(answer(record, "pods")) == pools(MACHINE.pods[scope])


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
    return Write(SIZE, value, good, str(now), "cache_shard", MACHINE.shards(now))


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
    *[size(value, SHARD_SIZE, False) for value in ("0", "-1", "abc\\n", "99999999999")],
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
@pytest.mark.boot(AT_RUN_TIME)
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
