# SPDX-License-Identifier: GPL-2.0
"""test_workqueue on Debian's own kernel, which has no cache_shard scope.

Seen failing: with a module that reports a scope which is missing as an error, and with one that
doesn't see that this kernel took cache_shard for cache.
"""

import pytest
from needs import Boot, DebianKernel
from test_module import CPUS, MACHINE, MODES, SCOPES, one, rows, run

from wqlab.guests.vm import Record, sections

LACKING = "cache_shard"
STOCK = [scope for scope in SCOPES if scope != LACKING]
LOAD = "run wq_items=200"
ONLY_LACKING = f"run scopes={LACKING} wq_items=200"
RUNS = {LOAD: "serial"} | {run(mode): mode for mode in MODES}
COMMANDS = [*RUNS, ONLY_LACKING]
pytestmark = pytest.mark.needs(
    Boot(MACHINE.name, "module", DebianKernel(), commands="\n".join([*COMMANDS, ""]))
)

MISSING = f"kernel test_workqueue: scope={LACKING} missing"


def test_it_is_debians(record: Record) -> None:
    assert record.release.endswith("-cloud-amd64")


@pytest.mark.parametrize("command", RUNS)
def test_rows(record: Record, command: str) -> None:
    """One for each scope that the kernel has, with every item; the other one is missing."""
    lines = sections(record.lines)[command]
    assert one(lines, "result") == "ok"
    assert [line for line in lines if LACKING in line] == [MISSING]
    lines.remove(MISSING)
    found = rows(lines)
    assert [row["scope"] for row in found] == STOCK
    mode = RUNS[command]
    items = (1 if mode == "fanout" else CPUS) * int(
        dict(word.split("=") for word in command.split()[1:])["wq_items"]
    )
    for row in found:
        assert row["mode"] == mode
        assert int(row["items"]) == items
        assert int(row["items_per_sec"]) > 0
        assert (row["lost"], row["twice"]) == ("0", "0")


def test_a_run_of_the_missing_scope_only(record: Record) -> None:
    """It has nothing to show, and has not failed."""
    lines = sections(record.lines)[ONLY_LACKING]
    assert lines == ["result ok", MISSING]


def test_nothing_is_left(record: Record) -> None:
    assert not [line for line in record.lines if line.startswith("left")]
