# SPDX-License-Identifier: GPL-2.0
"""The file of results: what fits its schema is read back as it was, anything else is refused.

Seen failing: with _load() that ignores what it does not know, takes true for a number or a
missing field for empty; with check() that lets lost items or unknown kernels pass; and with
merge() that keeps machines twice.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import wqresults
from conftest import ROOT
from wqresults import (
    Boot,
    Kernel,
    Layout,
    Lock,
    Made,
    Perf,
    Results,
    ResultsError,
    Row,
    dumps,
    instructions,
    loads,
    merge,
    samples,
)

MACHINE = replace(wqresults.this_machine(None), id="m1", load=0.5)
VALUES = {"threads": 2, "items": 100, "items_per_sec": 5000, "lost": 0, "twice": 0}
LOCKS = {"&pool->lock": Lock(300, 10, 2000, 50, 400, 60, 7, 8)}


def boot(number: int = 1, **more: object) -> Boot:
    return replace(
        Boot(
            machine="m1",
            kernel="stock-1",
            section="time",
            config="bench",
            scenario="bench-2",
            append="",
            runs=["mode=serial"],
            number=number,
            seconds=3.0,
            verdict="pass",
            reason="",
            rows=[Row("cache", "serial", values=VALUES), Row("cache_shard", "", missing=True)],
        ),
        **more,
    )


@pytest.fixture
def results() -> Results:
    return Results(
        schema=2,
        made=[Made("2026-01-02", "scripts/bench", "abc")],
        machines=[MACHINE],
        kernels=[Kernel("stock-1", "stock", "6.12.1", "6.12", 0, {"bench": "k"})],
        boots=[
            boot(),
            boot(section="locks", rows=[Row("cache", "serial", values=VALUES, locks=LOCKS)]),
            boot(2, verdict="lost", reason="no verdict in time", rows=[]),
            boot(section="local", perf=Perf(None, None, "no perf")),
        ],
        layouts=[Layout("stock-1", "smt-26x2", "cache", {"cache": ["0-51"]})],
        notes=["mainline was not measured"],
    )


def test_round_trip(results: Results, tmp_path: Path) -> None:
    assert loads(dumps(results)) == results
    wqresults.save(results, tmp_path / "new/file.json")
    assert wqresults.load(tmp_path / "new/file.json") == results
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["file.json"]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["schema"], 3, "schema 3, and only schema 2 is read: measure again"),
        (["boots", 0, "verdict"], "ok", "boots[0].verdict is 'ok', not one of pass, fail, lost"),
        (["boots", 0, "number"], "1", "boots[0].number is '1', not of type int"),
        (["boots", 0, "number"], True, "boots[0].number is True, not of type int"),
        (["boots", 0, "rows", 0, "values", "items"], 1.5, 'values["items"] is 1.5'),
        (["boots", 0, "rows"], {}, "boots[0].rows is not a list"),
        (["boots", 1, "rows", 0, "locks", "&pool->lock"], 5, "is not an object"),
        (["boots", 0, "color"], "red", 'boots[0] has "color", which schema 2 does not know'),
        (["machines", 0, "cpus"], None, "machines[0].cpus is None"),
        (["boots", 0, "kernel"], "x", 'kernel "x", which is not described'),
        (["boots", 0, "machine"], "x", 'machine "x", which is not described'),
        (["layouts", 0, "kernel"], "x", 'kernel "x", which is not described'),
        (["boots", 0, "rows", 0, "values", "lost"], 1, "boots[0] passed, but lost items"),
        (["boots", 0, "rows", 0, "values", "twice"], 1, "boots[0] passed, but lost items"),
        (["boots", 2, "verdict"], "pass", ""),
        (["boots", 0, "verdict"], "lost", "boots[0] did not pass, but has rows"),
    ],
)
def test_what_does_not_fit(results: Results, path: list, value: object, message: str) -> None:
    data = json.loads(dumps(results))
    at = data
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    if not message:
        assert loads(json.dumps(data))
        return
    with pytest.raises(ResultsError) as error:
        loads(json.dumps(data))
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("lacking", ["made", "machines", "kernels", "boots"])
def test_field_missing(results: Results, lacking: str) -> None:
    data = json.loads(dumps(results))
    del data[lacking]
    with pytest.raises(ResultsError, match=f'results has no "{lacking}"'):
        loads(json.dumps(data))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"schema": 2, "boo', "not JSON"),
        ("[]", "an object is expected"),
        ("{}", 'it has no "schema"'),
        ('{"scopes": {}, "runs": []}', "schema 1, and only schema 2 is read"),
    ],
)
def test_not_results(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text(text)
    with pytest.raises(ResultsError, match=message) as error:
        wqresults.load(path)
    assert str(error.value).startswith(f"{path}: ")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="No such file"):
        wqresults.load(tmp_path / "none.json")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ResultsError):
        wqresults.load(tmp_path / "binary")


def test_every_field_is_documented() -> None:
    text = (ROOT / "docs/results-schema.md").read_text()
    data = json.loads(dumps(Results(2, [], [], [], [])))
    names = set(data) | {
        name
        for kind in (wqresults.Machine, Kernel, Boot, Row, Lock, Perf, Layout, Made)
        for name in kind.__dataclass_fields__
    }
    assert not [name for name in names if f"`{name}`" not in text]


def test_merge(results: Results) -> None:
    there = replace(
        results,
        made=[Made("2026-01-03", "scripts/local", "abc")],
        machines=[replace(MACHINE, id="m2")],
        boots=[boot(machine="m2", section="local")],
        layouts=[],
        notes=[],
    )
    both = merge([results, there])
    assert [machine.id for machine in both.machines] == ["m1", "m2"]
    assert len(both.boots) == 5 and len(both.kernels) == 1 and len(both.made) == 2
    busy = replace(results, machines=[replace(MACHINE, load=9.0)])
    assert len(merge([results, busy]).machines) == 1
    assert merge([results, results]).boots == results.boots
    other = replace(there, kernels=[replace(results.kernels[0], release="6.12.2")])
    with pytest.raises(ResultsError, match='two different kernels have the id "stock-1"'):
        merge([results, other])


def test_samples(results: Results) -> None:
    """One figure per boot that passed; a boot with repetitions gives their mean."""
    assert samples(results.passed("time"), "cache", "serial", "items_per_sec") == [5000]
    assert samples(results.passed("time"), "cache_shard", "serial", "items_per_sec") == []
    assert samples(results.passed("locks"), "cache", "serial", "lock_hold_ns") == [20]
    twice = boot(
        rows=[Row("cache", "serial", values=VALUES | {"items_per_sec": n}) for n in (1, 3)]
    )
    assert samples([twice], "cache", "serial", "items_per_sec") == [2]


def test_instructions() -> None:
    def rows(*runs: tuple[int, int]) -> list[Row]:
        return [
            Row("cache", "serial", values=VALUES | {"items": items, "items_per_sec": rate})
            for items, rate in runs
        ]

    # 10 items in 2 ms, 110 in 7 ms: 50 us each, and 1.5 ms whatever their number
    assert instructions(boot(section="icount", rows=rows((10, 5000), (110, 15714))), "cache") == (
        pytest.approx(50_000, rel=1e-4)
    )
    assert instructions(boot(rows=rows((10, 5000))), "cache") is None
    assert instructions(boot(rows=rows((10, 5000), (10, 5000))), "cache") is None
    assert instructions(boot(rows=[Row("cache", "", missing=True)]), "cache") is None


@pytest.mark.parametrize(
    "spoil", [lambda text: text + " x", lambda text: text.replace("mode=serial ", "")]
)
def test_bad_row(spoil: Callable[[str], str]) -> None:
    words = " ".join(f"{key}={value}" for key, value in VALUES.items())
    text = f"test_workqueue: scope=cache mode=serial {words}"
    assert wqresults.parse_row(text) == Row("cache", "serial", values=VALUES)
    with pytest.raises(ResultsError):
        wqresults.parse_row(spoil(text))


def test_this_machine() -> None:
    machine = wqresults.this_machine("QEMU")
    assert machine.cpus >= 1 and machine.memory_mib > 0 and machine.cpu_model
    assert machine.topology.count(",") == 4
    assert machine.id != wqresults.this_machine(None).id
    assert machine.id == wqresults.this_machine("QEMU").id
