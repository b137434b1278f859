"""Tables and the page, from made-up results.

Seen failing with, in this order: words where the interval includes 1, and with any number of
boots; the mean for the median; lost boots not named; missing scopes as 0; machines
compared with each other; memory compared to the MiB; boots under perf counted; a figure without
its source; ids that are not made unique; a style sheet from elsewhere; colours of the light page
left in it; text not escaped; a report of no boots; the page written before the files are read.
"""

import re
import statistics
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import made_results
import pytest
import wqpage
import wqreport
import wqstats
from made_results import LAPTOP, SERVER, local, results
from wqresults import METRICS, Results, load, merge, save, value

ROOT = Path(__file__).resolve().parent.parent
SVG = "{http://www.w3.org/2000/svg}"
RATIO = re.compile(r"([\d.]+) \[([\d.]+) - ([\d.]+)\]( \w+)?")
THREE = {"stock": 1.0, "patched": 1.25, "mainline": 1.0}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals that are less exact, but the same to all."""
    monkeypatch.setattr(wqstats, "RESAMPLES", 500)
    wqreport._ratio.cache_clear()


def full(**more: object) -> Results:
    """Something in every section."""
    options = {"modes": ("serial", "sleep"), "locks": True, "icount": True, "sizes": (1, 2, 4)}
    return results(THREE, **(options | more))


def ratios(found: Results) -> list[re.Match]:
    """Everything in the report that compares."""
    return [
        match
        for line in wqreport.text(found, full=True).splitlines()
        for match in RATIO.finditer(line)
        if "," not in match[0] and match[2].count(".") and len(match[2].split(".")[1]) == 3
    ]


# --- what is said ------------------------------------------------------------------------


def test_words_only_where_the_interval_excludes_1() -> None:
    with_word = without = 0
    for seed in range(1, 4):
        speed = {"stock": 1.0, "patched": 1.0, "mainline": 1.12}
        for match in ratios(results(speed, seed=seed, noise=0.08, boots=6)):
            _, low, high = map(float, match.groups()[:3])
            if 1 in (low, high):  # rounded
                continue
            assert bool(match[4]) == (not low < 1 < high), match[0]
            with_word += bool(match[4])
            without += not match[4]
    assert with_word > 50 and without > 50


@pytest.mark.parametrize("speed", [1.5, 0.6])
def test_words_say_the_direction(speed: float) -> None:
    found = results({"stock": 1.0, "patched": speed}, noise=0.02)
    panel = wqreport.panels(found, "time")[0]
    word, better = ("faster", "better") if speed > 1 else ("slower", "worse")
    for metric in ("items_per_sec", "queue_p95_ns", "start_p50_ns"):
        compared = panel.compared("patched-1", "stock-1", "cache", metric)
        assert compared and (compared.word, compared.better) == (word, better)


def test_few_boots_allow_no_words() -> None:
    few = ratios(results({"stock": 1.0, "patched": 3.0}, boots=wqstats.ENOUGH - 1, noise=0.01))
    assert few and not any(match[4] for match in few)


def test_words_for_locks_and_counts() -> None:
    lines = wqreport.text(full()).splitlines()
    held = lines.index("serial: pool->lock held, ns per item")
    assert any(line.endswith("shorter") for line in lines[held : held + 10])
    taken = lines.index("serial: acquisitions of pool->lock, per item")
    assert any(line.endswith("fewer") for line in lines[taken : taken + 10])
    counted = lines.index("serial: instructions from queueing an item to its completion")
    assert any(" 5,003 " in line for line in lines[counted : counted + 10])


def test_titles_tell_panels_of_one_mode_apart() -> None:
    found = results({"stock": 1.0})
    limited = [
        replace(boot, scenario="nodes-2x1", runs=["mode=serial work_ns=5 max_active=1024"])
        for boot in found.boots
    ]
    panels = wqreport.panels(replace(found, boots=found.boots + limited), "time")
    titles = {panel.title for panel in panels if panel.mode == "serial"}
    assert titles == {"serial", "serial, max_active 1,024, nodes-2x1"}


def test_medians_are_those_of_the_boots() -> None:
    found = full(boots=6)
    rows = [r for b in found.passed("time") if b.kernel == "patched-1" for r in b.rows]
    figures = [r.values["items_per_sec"] for r in rows if (r.scope, r.mode) == ("numa", "serial")]
    assert len(figures) == 6
    shown = wqreport.figure(statistics.median(figures))
    assert f"{shown} [{min(figures):,} - {max(figures):,}]" in wqreport.text(found)
    locks = [r for b in found.passed("locks") if b.kernel == "stock-1" for r in b.rows]
    held = [value(r, "lock_hold_ns") for r in locks if r.scope == "numa"]
    assert f"{wqreport.figure(statistics.median(held))} [" in wqreport.text(found)


def test_a_missing_scope_is_missing() -> None:
    table = wqreport.throughput_table(wqreport.panels(full(), "time")[0])
    row = next(row for row in table.rows if row[3].text == "no such scope")
    assert [cell.text for cell in row[:3]] == ["cache_shard", "stock", "0"]
    assert sum(row[3].text == "no such scope" for row in table.rows) == 1


def test_lost_boots_are_named_and_not_counted() -> None:
    found = results(THREE, boots=7, lost=2, scopes=("cache",))
    shown, (page, _) = wqreport.text(found), wqpage.page(found)
    assert "6 boots not counted, of 21" in shown and "6 boots not counted, of 21" in page
    lost = re.findall(
        r"(stock|patched|mainline) +time +bench-2 +([67]) +lost +the guest said '<oops>'", shown
    )
    assert len(lost) == 6
    assert "n = 5 boots of each kernel" in shown
    assert page.count("the guest said &#x27;&lt;oops&gt;&#x27;") == 6 and "<oops>" not in page
    assert "not counted" not in wqreport.text(full()) + page_of("full")[0]


def test_notes_are_shown() -> None:
    found = replace(
        results(THREE, scopes=("cache",)), notes=["mainline was not measured: <no> source"]
    )
    assert "mainline was not measured: <no> source" in wqreport.text(found)
    assert "mainline was not measured: &lt;no&gt; source" in wqpage.page(found)[0]


def test_modes_have_panels_of_their_own() -> None:
    found = full(modes=("serial", "burst", "chain"))
    assert [panel.mode for panel in wqreport.panels(found, "time")] == ["serial", "burst", "chain"]
    running = [wqreport.running_table(panel) for panel in wqreport.panels(full(), "time")]
    assert running[0] is None and running[1] and "max_active 8" in running[1].title


# --- several machines --------------------------------------------------------------------


def test_machines_are_not_compared() -> None:
    other = results({"stock": 1.0, "patched": 1.0}, machine=SERVER)
    found = merge([results({"stock": 5.0, "patched": 5.0}), other])
    panels = wqreport.panels(found, "time")
    assert [panel.machine for panel in panels] == [LAPTOP, SERVER]
    for panel in panels:
        assert {boot.machine for boot in panel.boots} == {panel.machine.id}
    page = wqpage.page(found)[0]
    assert page.count('<dl class="facts">') == 2
    assert "Example &lt;Server&gt; &amp; Sons 9000" in page


def test_kernels_of_one_machine_are_compared_also_if_they_leave_other_memory() -> None:
    older = made_results.KERNELS["found"]
    newer = replace(older, id="found-2", name="6.12.118", release="6.12.118")
    machine = replace(SERVER, id="cccc3333", memory_mib=SERVER.memory_mib - 40)
    second = local(machine, seed=9)
    second = replace(
        second, kernels=[newer], boots=[replace(boot, kernel=newer.id) for boot in second.boots]
    )
    found = merge([local(), second])
    panel = wqreport.panels(found, "local")[0]
    assert list(panel.by_kernel) == [older.id, newer.id]
    assert panel.pairs() == [(newer.id, older.id)]
    shown = wqreport.text(found)
    assert "to 6.12.117+" in shown and "one after the other" in shown
    assert "one after the other" not in wqreport.text(local())


def test_boots_under_perf_are_no_measurement_of_time() -> None:
    panels = wqreport.panels(local(), "local")
    assert {len(panel.boots) for panel in panels} == {5}
    shown = wqreport.text(local())
    assert "39.1 %" in shown and "__queue_work" in shown and "48,211" in shown


def test_emulations_of_one_host_are_one_machine() -> None:
    counting = replace(LAPTOP, id="dddd4444", emulation="QEMU 7.2.22 tcg, icount shift=0, 1 vCPU")
    found = merge([results(THREE), results(THREE, machine=counting, icount=True)])
    page = wqpage.page(found)[0]
    assert page.count('<dl class="facts">') == 1 and counting.emulation in page
    # but not compared with each other
    panels = wqreport.panels(found, "time")
    assert [panel.n for panel in panels] == ["n = 5 boots of each kernel"] * 2


# --- the page ----------------------------------------------------------------------------


class Reader(HTMLParser):
    """What a page refers to, and what it has."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, text in attrs:
            text = text or ""
            if name == "id":
                self.ids.append(text)
            elif name in ("href", "xlink:href"):
                (self.links if tag == "a" else self.loads).append(text)
            elif name in ("src", "srcset", "data", "action", "poster", "background"):
                self.loads.append(text)
            self.loads += re.findall(r"url\(([^)]*)\)", text)


SHAPES = {
    "full": full,
    "two machines": lambda: merge([full(lost=1, boots=6), local()]),
    "no mainline": lambda: results({"stock": 1.0, "patched": 1.2}, boots=3),
    "one scope": lambda: results(THREE, scopes=("cache",)),
    "local": local,
}


@cache
def page_of(shape: str) -> tuple[str, list[wqpage.Drawing]]:
    return wqpage.page(SHAPES[shape]())


@pytest.mark.parametrize("shape", SHAPES)
def test_page_needs_nothing_else(shape: str) -> None:
    page, drawings = page_of(shape)
    reader = Reader()
    reader.feed(page)
    assert not reader.tags & {"script", "link", "img", "iframe", "object", "embed", "base"}
    assert all(what.startswith("#") for what in reader.loads)
    assert {what[1:] for what in reader.loads} <= set(reader.ids)
    assert len(set(reader.ids)) == len(reader.ids)
    assert reader.links == [f"{drawing.name}.svg" for drawing in drawings]
    assert "@import" not in page and not re.search(r"url\([^#]", page)
    without_names = re.sub(r' xmlns(:\w+)?="[^"]*"', "", page)
    assert "http:" not in without_names and "https:" not in without_names
    assert "$" not in page


@pytest.mark.parametrize("shape", SHAPES)
def test_figures_say_where_they_come_from(shape: str) -> None:
    page, drawings = page_of(shape)
    models = [machine.cpu_model for machine in SHAPES[shape]().machines]
    inline = re.findall(r"<svg .*?</svg>", page, re.DOTALL)
    assert len(inline) == len(drawings) >= 2
    for svg in [*inline, *(wqpage.on_paper(drawing.svg) for drawing in drawings)]:
        root = ET.fromstring(svg)
        for child in [*root.findall(f"{SVG}title"), *root.findall(f"{SVG}desc")]:
            root.remove(child)  # what is seen, that is
        text = re.sub(r"\s+", " ", " ".join(root.itertext()))
        assert re.search(r"n = \d+ ", text)
        assert any(model in text for model in models)
        # a unit, or what is counted
        assert re.search(r"items/s|\(time, log\)|per item|\(items\)", text)


def test_page_is_readable_in_the_dark() -> None:
    page, _ = page_of("full")
    style, body = page.split("</style>")
    dark = style.split("prefers-color-scheme: dark")[1]
    for colour, name in wqpage.VARIABLES.items():
        assert f"--{name}: {colour};" in style and f"--{name}: #" in dark
    assert "var(--ink)" in body and "var(--series2)" in body
    assert not re.search(r"#[0-9a-f]{6}\b", body)  # no colour but variables


def test_sweep_has_kworkers_on_an_axis_of_their_own() -> None:
    _, drawings = page_of("full")
    sweep = next(drawing for drawing in drawings if drawing.name.startswith("sizes"))
    text = " ".join(ET.fromstring(sweep.svg).itertext())
    assert "kworkers" in text and "throughput (items/s" in text
    assert "workqueue.cache_shard_size (cores)" in text


def test_a_missing_scope_is_named_in_the_figure() -> None:
    _, drawings = page_of("full")
    text = " ".join(ET.fromstring(drawings[0].svg).itertext())
    assert "stock: no such scope" in text and "patched: no such scope" not in text


def test_the_same_results_give_the_same_page() -> None:
    assert wqpage.page(SHAPES["one scope"]()) == page_of("one scope")


# --- the command -------------------------------------------------------------------------


def report(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "scripts/report", *map(str, arguments)],
        text=True,
        capture_output=True,
        check=False,
        timeout=120,
    )


def test_report_of_two_machines(tmp_path: Path) -> None:
    save(results({"stock": 1.0, "patched": 1.0}, boots=2), tmp_path / "a.json")
    save(local(loads=2), tmp_path / "b.json")
    out = tmp_path / "out"
    out.mkdir()
    (out / "older-01.svg").write_text("of an older report")
    done = report(tmp_path / "a.json", tmp_path / "b.json", "--out", out)
    assert done.returncode == 0, done.stderr
    assert LAPTOP.cpu_model in done.stdout and SERVER.cpu_model in done.stdout
    assert not (out / "older-01.svg").exists()
    assert "p99.9" in (out / "report.txt").read_text()
    merged = load(out / "results.json")
    assert [machine.id for machine in merged.machines] == [LAPTOP.id, SERVER.id]
    assert (out / "index.html").is_file()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file"),
        ("{", "not JSON"),
        ('{"schema": 1, "scopes": {}, "runs": []}', "schema 1"),
        ('{"schema": 99}', "schema 99"),
        ("lost", "no boot has passed"),
    ],
)
def test_report_refuses_in_one_line(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "results.json"
    if text == "lost":
        save(results(THREE, boots=2, lost=2), path)
    elif text is not None:
        path.write_text(text)
    done = report(path, "--out", tmp_path / "out")
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(f"report: error: .*{said}.*\n", done.stderr)
    assert not (tmp_path / "out").exists()


def test_every_metric_has_a_short_name() -> None:
    names = [wqreport.short_label(metric) for metric in METRICS.values()]
    assert len(set(names)) == len(names)
