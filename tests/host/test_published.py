# SPDX-License-Identifier: GPL-2.0
"""What others have measured, and how simulated figures are compared with it.

Seen failing: with a table that is missing, with a row or a number of the documentation changed, with ratios to the wrong scope, and with an order
that is compared the wrong way round.
"""

from dataclasses import replace

import made_results
import published
import pytest
from published import DEFERRED, HELD, Published, load_published

from wqlab.ground.places import ROOT
from wqlab.ground.problem import Problem
from wqlab.ground.text import table
from wqlab.measure.sim.machine import find_machine
from wqlab.results.file import load
from wqlab.results.model import Boot, Count, Results, Row

TABLES = {
    "before": Published(
        "before", find_machine("grace-72"), "cache", {"cpu": 300.0, "cache": 100.0}
    ),
    "after": Published(
        "after", find_machine("grace-72"), "before", {"cpu": 330.0, "cache": 120.0}, deferred=True
    ),
}


def test_each_table() -> None:
    found = load_published()
    assert {one.machine.name for one in found.values()} >= {"grace-72", "xeon-8321hc"}
    for one in found.values():
        assert 0 < one.producers <= one.machine.scenario.cpus
        assert all(rate > 0 for rate in one.items_per_sec.values())
        assert one.queue_p50_ns.keys() <= one.items_per_sec.keys()


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ('to = "cache"', ""),
        ('to = "nothing"', "neither a scope"),
        ('to = "cache"\nqueue_p50_ns = { caches = 1 }', "'caches' is no scope"),
        ('to = "cache"\nkernel = 1', "kernel"),
    ],
)
def test_file(tmp_path, monkeypatch: pytest.MonkeyPatch, text: str, wrong: str) -> None:
    path = tmp_path / "published.toml"
    path.write_text('[one]\nmachine = "grace-72"\nitems_per_sec = { cache = 1 }\n' + text)
    monkeypatch.setattr(published, "PATH", path)
    if not wrong:
        assert list(load_published()) == ["one"]
        return
    with pytest.raises(Problem, match=wrong) as caught:
        load_published()
    assert "\n" not in str(caught.value)


def test_held_wakeups() -> None:
    """Both are held, of a source that has them."""
    call = "\tkick_pool_pick(pool, &wake_task);\n"
    assert (
        published.hold_wakeups(f"a\n{call}b\n{call}")
        == "a\n\tkick_pool(pool);\nb\n\tkick_pool(pool);\n"
    )
    with pytest.raises(Problem, match="not there twice"):
        published.hold_wakeups(call)


def test_gathered_producers() -> None:
    text = (ROOT / "lib/test_workqueue.h").read_text()
    assert "\treturn nr;\n" in published.gather_producers(text)
    with pytest.raises(Problem, match="not there once"):
        published.gather_producers("")


def simulated(rates: dict[str, dict[str, float]]) -> Results:
    """By the name of the kernel, items per second by scope."""
    found = made_results.counts("sim")
    machine = replace(found.machines[0], emulation="simulated grace-72 (insn=1)")
    kernels = [
        replace(made_results.KERNELS["patched"], id=f"{name}-1", name=name) for name in rates
    ]
    boots: list[Boot] = []
    for kernel in kernels:
        one = replace(
            found.boots[0],
            kernel=kernel.id,
            append="",
            runs=[{"mode": "serial", "threads": 72}],
        )
        scopes = rates[kernel.name]
        rows = [Row(scope, "serial", values={"queue_p50_ns": 40}) for scope in scopes]
        counts = [
            Count({"scope": scope}, {"steady_items_per_sec": rate})
            for scope, rate in scopes.items()
        ]
        boots += [replace(one, section="time", rows=rows, counts=[]), replace(one, counts=counts)]
    return replace(found, machines=[machine], kernels=kernels, boots=boots)


def test_errors_of_ratios() -> None:
    """To another scope of the table, or to the same one of another table."""
    found = simulated({HELD: {"cpu": 400, "cache": 100}, DEFERRED: {"cpu": 440, "cache": 100}})
    rows, near, total, wrong = published.compare(found, TABLES, ["before", "after"])
    assert [(row[0], row[1], *row[5:8]) for row in rows] == [
        ("before", "cpu", "3.00", "4.00", "+33%"),
        ("", "cache", "", "", ""),
        ("after", "cpu", "1.10", "1.10", "+0%"),
        ("", "cache", "1.20", "1.00", "-17%"),
    ]
    assert (near, total, wrong) == (2, 3, [])


def test_order() -> None:
    found = simulated({HELD: {"cpu": 90, "cache": 100}})
    *_, wrong = published.compare(found, TABLES, ["before"])
    assert wrong == ["before: cpu and cache"]


def test_nothing_to_compare() -> None:
    with pytest.raises(Problem, match="nothing in it"):
        published.lines(simulated({"stock": {"cpu": 90}}), TABLES)


def test_documentation_has_all_ratios() -> None:
    """docs/measuring.md has each ratio of results/sim-published.json, and how many are near: of all,
    and of the tables by which no cost was chosen."""
    tables = load_published()
    found = load(ROOT / "results/sim-published.json")
    text = " ".join((ROOT / "docs/measuring.md").read_text().split())
    rows, near, total, wrong = published.compare(found, tables, list(tables))
    shown, name = [["published", "scope", "rate", "ratio", "simulated", "error"]], ""
    for row in rows:
        name = row[0] or name
        if row[5]:
            shown.append(
                [name if name not in [line[0] for line in shown] else "", row[1], *row[4:8]]
            )
    for line in table(shown, [True, True, *[False] * 4], "    "):
        assert f"{line}\n" in (ROOT / "docs/measuring.md").read_text()
    assert f"{near} of {total} ratios are within 25 %" in text
    assert "in the wrong order: " + "; ".join(wrong) in text
    others = [one for one in tables if one not in published.CHOSEN_BY]
    _, near, total, _ = published.compare(found, tables, others)
    assert f"of the other {total}, {near} are within 25 %" in text
