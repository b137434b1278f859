# SPDX-License-Identifier: GPL-2.0
"""The file of results: what fits its schema is read back as it was, anything else is refused.

Seen failing: with _load() that ignores what it does not know, takes true for a number or a
missing field for empty; with check() that lets lost items, unknown kernels, flavours or figures
pass; with merge() that keeps machines twice; with a field more in a dataclass than in
results.schema.json; with a figure of results/ made a string; with qemu_line() that keeps
directories; with topology() that counts CPUs that may not be used; with a packed file whose lists
are taken for objects, with slim() that goes by kernels' medians alone, with bare() that keeps all
digits; and with a file in results/ that nothing names, and that makes it too large.
"""

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import made_results
import pytest
import results_schema
import slices
from each import each_holds

from wqlab.ground.places import ROOT
from wqlab.ground.problem import Problem
from wqlab.report import counts
from wqlab.report.keep import bare, kept, slim
from wqlab.results import file, host
from wqlab.results.file import dumps, loads, merge
from wqlab.results.metrics import counted, instructions, samples, wakeups_per_item
from wqlab.results.model import (
    Boot,
    Build,
    Count,
    Kernel,
    Layout,
    Lock,
    Made,
    Perf,
    Results,
    ResultsError,
    Row,
)
from wqlab.results.packed import packed, unpacked

SCHEMA = json.loads(results_schema.PATH.read_text())
MACHINE = replace(host.this_host(None), id="m1", load=0.5)
VALUES = {"threads": 2, "items": 100, "items_per_sec": 5000, "lost": 0, "twice": 0}
LOCKS = {"&pool->lock": Lock(300, 10, 2000, 50, 400, 60, 7, 8)}
COUNTS = [
    Count({"load": "serial"}, {"items": 100}, {"mode": "serial", "scopes": ["cache"]}),
    Count({"load": "serial", "reason": "item queued"}, {"wakeups": 40, "locked": 7}),
    Count({"load": "serial", "reason": "mayday"}, {"wakeups": 10, "locked": 0}),
    Count({"load": "serial", "reason": "other"}, {"wakeups": 3, "locked": 0}),
]


def boot(number: int = 1, **more: object) -> Boot:
    return replace(
        Boot(
            machine="m1",
            kernel="stock-1",
            section="time",
            flavour="bench",
            scenario="bench-2",
            append="",
            runs=[{"mode": "serial", "scopes": ["cache", "cache_shard"], "items": 50}],
            number=number,
            seconds=3.0,
            verdict="pass",
            reason="",
            rows=[Row("cache", "serial", values=VALUES), Row("cache_shard", "", missing=True)],
        ),
        **more,
    )


@pytest.fixture
def whole() -> Results:
    return Results(
        schema=3,
        made=[Made("2026-01-02", "wqlab bench", "abc")],
        machines=[MACHINE],
        kernels=[
            Kernel("stock-1", "stock", "6.12.1", "6.12", 0, [Build("bench", "k", "gcc", None)])
        ],
        boots=[
            boot(),
            boot(section="locks", rows=[Row("cache", "serial", values=VALUES, locks=LOCKS)]),
            boot(2, verdict="lost", reason="no verdict in time", rows=[]),
            boot(section="local", perf=Perf(None, None, "no perf")),
            boot(section="wakeups", rows=[], runs=[], counts=COUNTS),
        ],
        layouts=[Layout("stock-1", "smt-26x2", "cache", {"cache": ["0-51"]})],
        notes=["mainline was not measured"],
    )


def test_round_trip(whole: Results, tmp_path: Path) -> None:
    assert loads(dumps(whole)) == whole
    file.save(whole, tmp_path / "new/file.json")
    assert file.load(tmp_path / "new/file.json") == whole
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["file.json"]


def test_packed(whole: Results) -> None:
    boots = [*whole.boots, boot(3, append='"é', rows=[], runs=[{}, {"mode": "serial"}])]
    data = json.loads(dumps(replace(whole, boots=boots)))
    text = packed(data)
    assert unpacked(json.loads(text)) == data
    assert loads(text) == replace(whole, boots=boots)
    for damaged in (text.replace('"shared":[', '"shared":[[999],'), text.replace("[0,", "[99,")):
        with pytest.raises(ResultsError, match="^not packed as wqlab report --keep does$"):
            loads(damaged)


def test_digits_that_are_kept() -> None:
    assert bare([1 / 3, 25_295_604.045, 123_456_789]) == [0.33333333, 25_295_604.0, 123_456_789]


def test_slim() -> None:
    """Places that no table and no figure has are left out, nothing else."""

    def lines(kernel: str) -> list[Count]:
        """12 places; f11 has least, but in stock most."""
        moves = [*range(100, 100 - counts.PLACES - 1, -1), 200 if kernel == "stock-1" else 0]
        labels = {"scope": "cache", "of": "lines"}
        return [
            Count({**labels, "in": f"f{i}"}, {"moves_per_item": one, "moves_wait_ns": one})
            for i, one in enumerate(moves)
        ]

    whole = made_results.counts("sim")
    whole = replace(whole, boots=[replace(b, runs=[{"mode": "serial"}]) for b in whole.boots])
    boots = [replace(b, counts=[*b.counts, *lines(b.kernel)]) for b in whole.boots]
    slimmed = slim(replace(whole, boots=boots))
    left = [count.labels.get("in") for count in slimmed.boots[0].counts]
    assert "f11" in left and "f8" in left and "f9" not in left and "f10" not in left
    assert slim(slimmed) == slimmed and slim(whole) == whole


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["schema"], 2, "schema 2, and only schema 3 is read: measure again"),
        (["schema"], 10, "schema 10, and only schema 3 is read: a newer wqlab reads it"),
        (["boots", 0, "verdict"], "ok", "boots[0].verdict is 'ok', not one of pass, fail, lost"),
        (["boots", 0, "number"], "1", "boots[0].number is '1', not of type int"),
        (["boots", 0, "number"], True, "boots[0].number is True, not of type int"),
        (["boots", 0, "rows", 0, "values", "items"], 1.5, 'values["items"] is 1.5'),
        (["boots", 0, "rows"], {}, "boots[0].rows is not a list"),
        (["boots", 1, "rows", 0, "locks", "&pool->lock"], 5, "is not an object"),
        (["boots", 0, "color"], "red", 'boots[0] has "color", which schema 3 does not know'),
        (["machines", 0, "cpus"], None, "machines[0].cpus is None"),
        (["boots", 0, "kernel"], "x", 'kernel "x", which is not described'),
        (["boots", 0, "machine"], "x", 'machine "x", which is not described'),
        (["layouts", 0, "kernel"], "x", 'kernel "x", which is not described'),
        (["boots", 0, "rows", 0, "values", "lost"], 1, "boots[0] passed, but lost items"),
        (["boots", 0, "rows", 0, "values", "twice"], 1, "boots[0] passed, but lost items"),
        (["boots", 0, "flavour"], "kasan", 'flavour "kasan", which is not described'),
        (["boots", 0, "runs", 0, "items"], 1.5, 'runs[0]["items"] is 1.5, not of type int'),
        (["boots", 0, "runs", 0, "scopes"], [1], 'runs[0]["scopes"][0] is 1, not of type str'),
        (["boots", 0, "runs", 0], "mode=serial", "runs[0] is not an object"),
        (["boots", 4, "counts", 0, "figures", "items"], "9", 'figures["items"] is'),
        (["boots", 4, "counts", 0, "figures", "itmes"], 9, 'counts "itmes", which is not known'),
        (["boots", 4, "counts", 1, "labels", "reason"], "mayday", "two counts of the same labels"),
        (["boots", 4, "verdict"], "lost", "boots[4] did not pass, but has counts"),
        (["boots", 2, "verdict"], "pass", ""),
        (["boots", 0, "verdict"], "lost", "boots[0] did not pass, but has rows"),
    ],
)
def test_what_does_not_fit(whole: Results, path: list, value: object, message: str) -> None:
    data = json.loads(dumps(whole))
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
def test_field_missing(whole: Results, lacking: str) -> None:
    data = json.loads(dumps(whole))
    del data[lacking]
    with pytest.raises(ResultsError, match=f'results has no "{lacking}"'):
        loads(json.dumps(data))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"schema": 3, "boo', "not JSON"),
        ("[]", "an object is expected"),
        ("{}", 'it has no "schema"'),
        ('{"scopes": {}, "runs": []}', "schema 1, and only schema 3 is read"),
    ],
)
def test_not_results(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text(text)
    with pytest.raises(ResultsError, match=message) as error:
        file.load(path)
    assert str(error.value).startswith(f"{path}: ")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="No such file"):
        file.load(tmp_path / "none.json")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ResultsError):
        file.load(tmp_path / "binary")


def test_schema_is_that_of_the_dataclasses() -> None:
    assert results_schema.PATH.read_text() == results_schema.text(), (
        "python3 -m results_schema writes it anew"
    )


def test_schema_takes_what_is_written(whole: Results) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(json.loads(dumps(whole)), SCHEMA)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["schema"], 2),
        (["boots", 0, "verdict"], "ok"),
        (["boots", 0, "number"], "1"),
        (["boots", 0, "color"], "red"),
        (["boots", 0, "runs", 0], "mode=serial"),
        (["boots", 0, "runs", 0, "items"], 1.5),
        (["boots", 1, "rows", 0, "locks", "&pool->lock"], 5),
        (["boots", 4, "counts", 0, "figures", "itmes"], 9),
        (["machines", 0, "microcode"], 1),
        (["kernels", 0, "builds"], {}),
    ],
)
def test_schema_and_loader_refuse_the_same(whole: Results, path: list, value: object) -> None:
    data = json.loads(dumps(whole))
    at = data
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, SCHEMA)
    with pytest.raises(ResultsError):
        loads(json.dumps(data))


def test_comments_are_descriptions() -> None:
    kinds = SCHEMA["$defs"]
    assert not [name for name in kinds if kinds[name]["description"].startswith(f"{name}(")]
    host, boot = kinds["Host"]["properties"], kinds["Boot"]["properties"]
    assert host["governor"]["description"] == "of CPU frequency"
    described = boot["verdict"]["description"]
    assert described.startswith("fail: the guest said so") and described.endswith("passed count")


def test_stored_results() -> None:
    """They are as report --keep writes them, too: a change to one is seen as such."""

    def check(path: Path) -> None:
        found = file.load(path)
        jsonschema.validate(unpacked(json.loads(path.read_text())), SCHEMA)
        assert kept(found) == path.read_text(), "not as report --keep writes it"
        assert any(boot.passed for boot in found.boots), "no boot passed"

    each_holds(slices.MEASURED, check)


def test_stored_results_are_few() -> None:
    assert len(slices.MEASURED) >= 8
    stored = [path for path in (ROOT / "results").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in stored) <= 6_000_000


def test_every_stored_file_is_named() -> None:
    """By a document, a changelog, a claim or a test."""
    texts = [
        ROOT / "tests/claims.toml",
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "patches").rglob("*.txt"),
        *(ROOT / "patches").rglob("*.patch"),
    ]
    texts += [path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)]
    named = "\n".join(path.read_text() for path in texts)
    files = [path for path in (ROOT / "results").rglob("*") if path.is_file()]
    assert not [
        path.name
        for path in files
        if path.with_suffix(".md" if path.parent.name == "audit" else path.suffix).name not in named
    ]


def test_merge(whole: Results) -> None:
    there = replace(
        whole,
        made=[Made("2026-01-03", "wqlab local", None)],
        machines=[replace(MACHINE, id="m2")],
        boots=[boot(machine="m2", section="local")],
        layouts=[],
        notes=[],
    )
    both = merge([whole, there])
    assert [machine.id for machine in both.machines] == ["m1", "m2"]
    assert len(both.boots) == 6 and len(both.kernels) == 1 and len(both.made) == 2
    busy = replace(whole, machines=[replace(MACHINE, load=9.0)])
    assert len(merge([whole, busy]).machines) == 1
    assert merge([whole, whole]).boots == whole.boots
    other = replace(there, kernels=[replace(whole.kernels[0], release="6.12.2")])
    with pytest.raises(ResultsError, match='two different kernels have the id "stock-1"'):
        merge([whole, other])


def test_samples(whole: Results) -> None:
    """One figure per boot that passed; a boot with repetitions gives their mean."""
    assert samples(whole.passed("time"), "cache", "serial", "items_per_sec") == [5000]
    assert samples(whole.passed("time"), "cache_shard", "serial", "items_per_sec") == []
    assert samples(whole.passed("locks"), "cache", "serial", "lock_hold_ns") == [20]
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


def test_counted(whole: Results) -> None:
    labels = {"load": "serial", "reason": "item queued"}
    assert counted(whole.boots, labels, "wakeups") == [40]
    assert counted(whole.boots, {"load": "serial"}, "wakeups") == []
    assert wakeups_per_item(whole.boots[4], "serial") == 0.5
    assert wakeups_per_item(whole.boots[4], "burst") is None


def test_by_run() -> None:
    """Each row is of the run that asked for its scope."""
    runs = [{"mode": mode, "scopes": ["cpu", "cache"]} for mode in ("serial", "burst")]
    rows = [Row(scope, mode) for mode in ("serial", "burst") for scope in ("cpu", "cache")]
    found = [(run["mode"], row) for run, row in boot(runs=runs, rows=rows).by_run()]
    assert found == [(row.mode, row) for row in rows]
    alone = boot(runs=[{"mode": "serial"}], rows=rows[:2])
    assert [row for _, row in alone.by_run()] == rows[:2]


def test_kernel_of(tmp_path: Path) -> None:
    data = {"key": "k1", "base": "6.12", "version": "6.12.1", "patches": 3, "flavour": "bench"}
    data |= {"arch": "x86_64", "compiler": "gcc 12", "config_sha256": "00ff"}

    def built(name: str, **changes: object) -> Path:
        (tmp_path / name).mkdir()
        (tmp_path / name / "build.json").write_text(json.dumps(data | changes))
        return tmp_path / name

    bench, locks = built("a"), built("b", flavour="lockstat", key="k2")
    kernel = host.kernel_of("patched", "6.12.1+", [bench, locks])
    assert (kernel.name, kernel.release, kernel.base, kernel.patches) == (
        *("patched", "6.12.1+"),
        *("6.12", 3),
    )
    assert kernel.builds == [
        Build("bench", "k1", "gcc 12", "00ff"),
        Build("lockstat", "k2", "gcc 12", "00ff"),
    ]
    assert kernel.id == host.kernel_of("patched", "6.12.1+", [locks, bench]).id
    assert kernel.id != host.kernel_of("patched", "6.12.1+", [bench]).id
    for paths, message in (
        ([bench, bench], "same flavour"),
        ([bench, built("c", flavour="debug", version="6.12.2")], "not of one source"),
        ([tmp_path], "no build.json"),
    ):
        with pytest.raises(Problem, match=message):
            host.kernel_of("patched", "6.12.1+", paths)


def test_qemu_line() -> None:
    command = ["/usr/bin/qemu-system-x86_64", "-smp", "2,cores=2", "-kernel", "/a b/c/bzImage"]
    command += ["-serial", "file:/a/console.log", "-append", "console=ttyS0 job=bench"]
    command += ["-chardev", "socket,id=qmp,path=/a/b/sock,fd=4"]
    assert host.qemu_line(command) == (
        "qemu-system-x86_64 -smp 2,cores=2 -kernel bzImage -serial file:console.log "
        "-append 'console=ttyS0 job=bench' -chardev socket,id=qmp,path=sock,fd=4"
    )


LSCPU = [  # two sockets of two cores with two threads, an LLC for each socket
    {"cpu": cpu, "core": cpu // 2, "socket": cpu // 4, "node": 0, "l1d:l1i:l2:l3": caches}
    for cpu in range(8)
    for caches in [f"{cpu // 2}:{cpu // 2}:{cpu // 2}:{cpu // 4}"]
]


@pytest.mark.parametrize(
    ("cpus", "text"),
    [
        (range(8), "2 sockets, 4 cores, 8 CPUs, 2 LLCs, 1 node"),
        ((0, 1, 2), "1 socket, 2 cores, 3 CPUs, 1 LLC, 1 node"),
        ((2, 4), "2 sockets, 2 cores, 2 CPUs, 2 LLCs, 1 node"),
    ],
)
def test_topology(cpus: tuple[int, ...], text: str) -> None:
    assert host.topology(LSCPU, cpus) == text


def test_without_lscpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be found out is null; the rest is there."""
    monkeypatch.setattr(host, "_said", lambda *command: "")
    machine = host.this_host("QEMU")
    assert machine.topology is None and machine.cpu_model and machine.cpus >= 1


def test_this_machine() -> None:
    machine = host.this_host("QEMU")
    assert machine.cpus >= 1 and machine.memory_mib > 0 and machine.cpu_model
    assert machine.topology and machine.topology.count(",") == 4
    assert machine.id != host.this_host(None).id
    assert machine.id == host.this_host("QEMU").id
