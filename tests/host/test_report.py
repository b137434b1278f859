# SPDX-License-Identifier: GPL-2.0
"""Tables and the page, from made-up results and from those of the repository.

Seen failing with, in this order: words where the interval includes 1, and with any number of
boots; the mean for the median; lost boots not named; missing scopes as 0; machines
compared with each other; memory compared to the MiB; boots under perf counted; a figure without
its source; ids that are not made unique; a style sheet from elsewhere; colours of the light page
left in it; text not escaped; a report of no boots; the page written before the files are read;
a reason that a trace does not have left out of the median; peaks compared with max_active alone;
the figures of one kernel alone left out; loads that a kernel lacks left out; figures of several
loads taken together; nulls shown as None; a section without its tables; QEMU's command line
shown per boot; files judged together, not each by its boots; an older report that is gone before
the new one is whole; a file that is of no report removed with it.
"""

import re
import statistics
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from functools import cache
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import made_results
import pytest
import slices
from each import each_holds
from made_results import LAPTOP, SERVER, local, results
from matplotlib.figure import Figure

from wqlab.ground import stats
from wqlab.ground.places import ROOT
from wqlab.ground.problem import Problem
from wqlab.report import canvas, compare, counts, figures, glance, labels, tables, terminal, varied
from wqlab.report.page import page, write
from wqlab.results.file import load, merge, save
from wqlab.results.metrics import METRICS, value
from wqlab.results.model import Build, Count, Results, Run

SVG = "{http://www.w3.org/2000/svg}"
RATIO = re.compile(r"([\d.]+) \[([\d.]+) - ([\d.]+)\]( \w+)?")
THREE = {"stock": 1.0, "patched": 1.25, "mainline": 1.0}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals that are less exact, but the same to all."""
    monkeypatch.setattr(stats, "RESAMPLES", 500)
    compare._ratio.cache_clear()


def full(**more: object) -> Results:
    """Something in every section."""
    options = {"modes": ("serial", "sleep"), "locks": True, "icount": True, "sizes": (1, 2, 4)}
    return results(THREE, **(options | more))


def ratios(found: Results) -> list[re.Match]:
    """Everything in the report that compares."""
    return [
        match
        for line in terminal.text(found, full=True).splitlines()
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
    panel = compare.panels(found, "time")[0]
    word, better = ("faster", "better") if speed > 1 else ("slower", "worse")
    for metric in ("items_per_sec", "queue_p95_ns", "start_p50_ns"):
        compared = panel.compared("patched-1", "stock-1", "cache", metric)
        assert compared and (compared.word, compared.better) == (word, better)


def test_few_boots_allow_no_words() -> None:
    few = ratios(results({"stock": 1.0, "patched": 3.0}, boots=stats.ENOUGH - 1, noise=0.01))
    assert few and not any(match[4] for match in few)


def test_words_for_locks_and_counts() -> None:
    lines = terminal.text(full()).splitlines()
    held = lines.index("serial: pool->lock held, ns per item")
    assert any(line.endswith("shorter") for line in lines[held : held + 10])
    taken = lines.index("serial: acquisitions of pool->lock, per item")
    assert any(line.endswith("fewer") for line in lines[taken : taken + 10])
    counted = lines.index("serial: instructions from queueing an item to its completion")
    assert any(" 5,003 " in line for line in lines[counted : counted + 10])


def test_titles_tell_panels_of_one_mode_apart() -> None:
    found = results({"stock": 1.0})
    limited = [
        replace(
            boot, scenario="nodes-2x1", runs=[{"mode": "serial", "work_ns": 5, "max_active": 1024}]
        )
        for boot in found.boots
    ]
    panels = compare.panels(replace(found, boots=found.boots + limited), "time")
    titles = {panel.title for panel in panels if panel.mode == "serial"}
    assert titles == {"serial", "serial, max_active 1,024, nodes-2x1"}


def test_medians_are_those_of_the_boots() -> None:
    found = full(boots=6)
    rows = [r for b in found.passed("time") if b.kernel == "patched-1" for r in b.rows]
    figures = [r.values["items_per_sec"] for r in rows if (r.scope, r.mode) == ("numa", "serial")]
    assert len(figures) == 6
    shown = tables.figure(statistics.median(figures))
    assert f"{shown} [{min(figures):,} - {max(figures):,}]" in terminal.text(found)
    locks = [r for b in found.passed("locks") if b.kernel == "stock-1" for r in b.rows]
    held = [value(r, "lock_hold_ns") for r in locks if r.scope == "numa"]
    assert f"{tables.figure(statistics.median(held))} [" in terminal.text(found)


def test_costs_of_an_item_where_rows_have_them() -> None:
    """Seen failing: with totals in place of what an item takes."""
    old = results({"stock": 1.0})
    (panel,) = [one for one in compare.panels(old, "time") if one.mode == "serial"]
    assert tables.costs_table(panel) is None
    for boot in old.boots:
        for row in boot.rows:
            items = row.values.get("items", 0)
            row.values.update({"switches": items * 3, "cpu_us": items * 2})
    (panel,) = [one for one in compare.panels(old, "time") if one.mode == "serial"]
    costs = tables.costs_table(panel)
    assert costs
    (row, *_) = texts(costs)
    assert row[3].startswith("3") and row[4].startswith("2,000")


def test_a_missing_scope_is_missing() -> None:
    table = tables.throughput_table(compare.panels(full(), "time")[0])
    row = next(row for row in table.rows if row[3].text == "no such scope")
    assert [cell.text for cell in row[:3]] == ["cache_shard", "stock", "0"]
    assert sum(row[3].text == "no such scope" for row in table.rows) == 1


@pytest.mark.tier("test")
def test_lost_boots_are_named_and_not_counted() -> None:
    found = results(THREE, boots=7, lost=2, scopes=("cache",))
    shown, (html, _) = terminal.text(found), page(found)
    assert "6 boots not counted, of 21" in shown and "6 boots not counted, of 21" in html
    lost = re.findall(
        r"(stock|patched|mainline) +time +bench-2 +([67]) +lost +the guest said '<oops>'", shown
    )
    assert len(lost) == 6
    assert "n = 5 boots of each kernel" in shown
    assert html.count("the guest said &#39;&lt;oops&gt;&#39;") == 6 and "<oops>" not in html
    assert "not counted" not in terminal.text(full()) + page_of("full")[0]


def test_notes_are_shown() -> None:
    found = replace(
        results(THREE, scopes=("cache",)), notes=["mainline was not measured: <no> source"]
    )
    assert "mainline was not measured: <no> source" in terminal.text(found)
    assert "mainline was not measured: &lt;no&gt; source" in page(found)[0]


def test_modes_have_panels_of_their_own() -> None:
    found = full(modes=("serial", "burst", "chain"))
    assert [panel.mode for panel in compare.panels(found, "time")] == ["serial", "burst", "chain"]
    native = load(ROOT / "results/native-7.3.json")
    bursts = [panel for panel in compare.panels(native, "time") if panel.mode == "burst"]
    titles = ["burst", "burst, 1,000 ns of work", "burst, max_active 2"]
    assert [panel.title for panel in bursts] == titles * 2
    limited = bursts[2].figures(bursts[2].results.kernels[0].id, "cpu", "items_per_sec")
    first = next(boot for boot in native.boots if boot.kernel == native.kernels[0].id)
    assert (
        limited[0] == [row for row in first.rows if row.mode == "burst"][-2].values["items_per_sec"]
    )
    running = [tables.running_table(panel) for panel in compare.panels(full(), "time")]
    assert running[0] is None and running[1] and "max_active 8" in running[1].title


# --- several machines --------------------------------------------------------------------


def test_machines_are_not_compared() -> None:
    cache = {"scopes": ("cache",)}
    other = results({"stock": 1.0, "patched": 1.0}, machine=SERVER, **cache)
    found = merge([results({"stock": 5.0, "patched": 5.0}, **cache), other])
    panels = compare.panels(found, "time")
    assert [panel.machine for panel in panels] == [LAPTOP, SERVER]
    for panel in panels:
        assert {boot.machine for boot in panel.boots} == {panel.machine.id}
    html = page(found)[0]
    assert html.count('<dl class="facts">') == 2
    assert "Example &lt;Server&gt; &amp; Sons 9000" in html


def test_kernels_of_one_machine_are_compared_also_if_they_leave_other_memory() -> None:
    older = made_results.KERNELS["found"]
    newer = replace(older, id="found-2", name="6.12.118", release="6.12.118")
    machine = replace(SERVER, id="cccc3333", memory_mib=SERVER.memory_mib - 40)
    second = local(machine, seed=9)
    second = replace(
        second, kernels=[newer], boots=[replace(boot, kernel=newer.id) for boot in second.boots]
    )
    found = merge([local(), second])
    panel = compare.panels(found, "local")[0]
    assert list(panel.by_kernel) == [older.id, newer.id]
    assert panel.pairs() == [(newer.id, older.id)]
    shown = terminal.text(found)
    assert "to 6.12.117+" in shown and "one after the other" in shown
    assert "one after the other" not in terminal.text(local())


def test_boots_under_perf_are_no_measurement_of_time() -> None:
    panels = compare.panels(local(), "local")
    assert {len(panel.boots) for panel in panels} == {5}
    shown = terminal.text(local())
    assert "39.1 %" in shown and "__queue_work" in shown and "48,211" in shown


def test_emulations_of_one_host_are_one_machine() -> None:
    counting = replace(LAPTOP, id="dddd4444", emulation="QEMU 7.2.22 tcg, icount shift=0, 1 vCPU")
    cache = {"scopes": ("cache",)}
    other = results(THREE, machine=counting, icount=True, **cache)
    found = merge([results(THREE, **cache), other])
    html = page(found)[0]
    assert html.count('<dl class="facts">') == 1 and counting.emulation in html
    # but not compared with each other
    panels = compare.panels(found, "time")
    assert [panel.n for panel in panels] == ["n = 5 boots of each kernel"] * 2


# --- what was counted --------------------------------------------------------------------


def of_counts(section: str, of: dict[str, list[list[Count]]]) -> Results:
    """By kernel, the counts of each of its boots."""
    boots = [
        made_results.boot(name, section=section, runs=[], number=number, counts=found)
        for name, boots in of.items()
        for number, found in enumerate(boots, 1)
    ]
    kernels = [made_results.KERNELS[name] for name in of]
    return replace(results({"stock": 1.0}), kernels=kernels, boots=boots, layouts=[])


def woken(items: int, **reasons: tuple[int, int]) -> list[Count]:
    """A trace of the load "burst"."""
    found = [Count({"load": "burst"}, {"items": items})]
    for reason, (wakeups, locked) in reasons.items():
        labels = {"load": "burst", "reason": reason.replace("_", " ")}
        found.append(Count(labels, {"wakeups": wakeups, "locked": locked}))
    return found


def texts(table: tables.Table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


def test_reasons_side_by_side() -> None:
    stock = [woken(10, item_queued=(number, number), other=(3, 0)) for number in (9, 2, 4)]
    patched = [woken(10, item_queued=(3, 0), mayday=(2, 1), other=(0, 0))]
    (panel,) = compare.counted_panels(
        of_counts("wakeups", {"stock": stock, "patched": patched}), "wakeups"
    )
    (reasons,) = counts.detail_tables(panel)
    assert reasons.columns == ["reason", "stock", "patched"]
    assert texts(reasons) == [
        ["item queued", "4/4", "3/0"],
        ["mayday", "0/0", "2/1"],
        ["other", "3/0", "0/0"],
    ]
    (per_item,) = counts.figure_tables(panel)
    assert per_item.columns == ["load", "kernel", "n", "wakeups of workers per item", "to stock"]
    assert texts(per_item) == [
        ["burst", "stock", "3", "0.400 [0.200 - 0.900]", ""],
        ["", "patched", "1", "0.500", "1.250"],
    ]


def test_a_reason_that_a_trace_does_not_have_is_0() -> None:
    boots = [woken(10, mayday=(6, 2)), woken(10, other=(1, 0)), woken(10, other=(1, 0))]
    (panel,) = compare.counted_panels(of_counts("wakeups", {"stock": boots}), "wakeups")
    assert texts(counts.detail_tables(panel)[0]) == [["other", "1/0"]]


def test_a_load_that_a_kernel_does_not_have() -> None:
    suite = [Count({"load": "suite"}, {"items": 1})]
    found = of_counts("wakeups", {"stock": [woken(10, mayday=(6, 2))], "patched": [suite]})
    (panel,) = compare.counted_panels(found, "wakeups")
    rows = texts(counts.figure_tables(panel)[0])
    assert rows[1][:4] == ["", "patched", "0", "not measured"]
    assert rows[2][:4] == ["suite", "stock", "0", "not measured"]
    assert texts(counts.reason_table(panel, "burst")) == [["mayday", "6/2", "-"]]


def test_costs_are_compared_by_load_and_figure() -> None:
    def boots(*switches: float) -> list[list[Count]]:
        return [
            [
                Count({"load": "serial"}, {"switches_per_item": figure}),
                Count({"load": "burst"}, {"switches_per_item": 3.0, "instructions_per_item": 90.5}),
            ]
            for figure in switches
        ]

    stock, patched = boots(2.0, 2.1, 2.2, 2.3, 2.4), boots(1.0, 1.1, 1.2, 1.3, 1.4)
    found = of_counts("costs", {"stock": stock, "patched": patched})
    (panel,) = compare.counted_panels(found, "costs")
    switches, instructions = counts.figure_tables(panel)
    assert switches.title == "bench-2: context switches per item"
    first, second, third, fourth = texts(switches)
    assert first == ["serial", "stock", "5", "2.20 [2.00 - 2.40]", ""]
    assert second[:4] == ["", "patched", "5", "1.20 [1.00 - 1.40]"]
    assert re.fullmatch(r"0\.545 \[0\.\d{3} - 0\.\d{3}\] fewer", second[4])
    assert switches.rows[1][4].better == "better"
    assert (third[0], fourth[4]) == ("burst", "1.000 [1.000 - 1.000]")
    assert "not measured" in texts(instructions)[0]
    assert texts(instructions)[2][3] == "90.5"


def peak(limit: int, scope: str, wanted: int, peak: int) -> Count:
    labels = {"max_active": limit, "items": 48, "issuers": "all CPUs", "scope": scope}
    return Count(labels, {"wanted": wanted, "peak": peak})


def test_peaks_that_are_not_wanted_are_marked() -> None:
    boots = [
        [peak(1, "cpu", 1, first), peak(64, "cpu", 48, 48), peak(64, "system", 48, last)]
        for first, last in ((1, 64), (2, 64))
    ]
    found = of_counts("peaks", {"stock": boots})
    (panel,) = compare.counted_panels(found, "peaks")
    (table,) = counts.detail_tables(panel)
    assert table.columns[3:] == ["all CPUs, cpu", "all CPUs, system"]
    assert texts(table) == [["1", "48", "1", "1-2*", ""], ["64", "48", "48", "48", "64*"]]
    assert "2 of 3 are not min(max_active, items)" in table.note
    assert page(found)[0].count('class="claim worse"') == 2


def test_figures_of_one_kernel_have_no_ratio() -> None:
    boots = [[Count({"case": "cheap"}, {"layout_ns": 59904 + n, "fill_ns": 5})] for n in range(3)]
    (panel,) = compare.counted_panels(of_counts("setup", {"patched": boots}), "setup")
    (table,) = counts.figure_tables(panel)
    assert table.columns == ["case", "kernel", "figure", "n", "median"]
    shown = [(row[0], row[1], *row[3:]) for row in texts(table)]
    assert shown == [
        ("cheap", "patched", "3", "59,905 [59,904 - 59,906]"),
        ("cheap", "patched", "3", "5"),
    ]


def simulated(cpus: int) -> Results:
    """On a machine with so many CPUs, each with a producer."""
    found = made_results.counts("sim")
    runs: list[Run] = [{"mode": "serial", "threads": cpus, "items": 60}]
    scenario = "one-llc-72" + ("" if cpus == 72 else f"-cores-{cpus}")
    boots = [replace(boot, runs=runs, scenario=scenario) for boot in found.boots]
    return replace(found, boots=boots)


def test_functions_side_by_side() -> None:
    """Those that have most come first; only what they add up to is compared by ratios."""
    (panel,) = compare.counted_panels(simulated(72), "sim")
    assert panel.groups == ["cache"]
    far, lines, pools, locks = counts.detail_tables(panel)
    assert texts(pools)[0][0] == "pool->lock" and pools.columns[0] == "locks"
    assert far.columns == ["lines from", "stock", "patched"]
    assert texts(far) == [["llc", "30.0", "15.0"]]
    assert lines.columns == ["lines in", "stock", "patched"]
    assert texts(lines) == [
        ["__queue_work", "20.0 / 1,000", "10.0 / 1,000"],
        ["kick_pool", "10.0 / 500", "5.00 / 500"],
    ]
    assert texts(locks) == [["__queue_work", "900 / 100 / 0.500", "900 / 50.0 / 0.500"]]
    throughput, moves = counts.figure_tables(panel)
    assert [row[1].text for row in throughput.rows] == ["stock", "patched"]
    assert "fewer" in moves.rows[1][-1].text


def test_by_number_of_cpus() -> None:
    """Parts of one machine are one figure, from three of them on."""
    found = [simulated(cpus) for cpus in (72, 8, 32)]
    assert varied.scalings(merge(found[:2])) == []
    (one,) = varied.scalings(merge(found))
    assert one.whole == "one-llc-72"
    _, patched = one.kernels
    assert list(one.figures(patched, "cache", "moves_per_item")) == [8, 32, 72]
    html, drawings = page(merge(found))
    [one] = (one for one in drawings if one.name.startswith("threads-one-llc-72-"))
    assert "CPUs, with a producer each" in one.svg and one.name in html and "patched" in one.svg


def test_by_max_active() -> None:
    """The same machine each time; a load without a limit is not among them."""

    def limited(limit: int) -> Results:
        found = simulated(32)
        boots = [
            replace(b, runs=[run | {"max_active": limit} for run in b.runs]) for b in found.boots
        ]
        return replace(found, boots=boots)

    found = [limited(limit) for limit in (64, 8, 1)]
    (one,) = varied.scalings(merge([*found, simulated(32)]))
    assert (one.over, one.whole) == ("max_active", "one-llc-72-cores-32")
    assert list(one.figures(one.kernels[0], "cache", "moves_per_item")) == [1, 8, 64]
    assert one.about.count("max_active") == 0 and "threads=32" in one.about


# What shows that the boots of a section are in the report
SHOWN = {
    "time": "throughput",
    "locks": "contentions of pool->lock, per item",
    "icount": "instructions from queueing an item to its completion",
    "sizes": "with shards of different size",
    "costs": "context switches per item",
    "hotplug": "another node online, first time, 300 workqueues",
    "irqsoff": "raise 10,000 items",
    "reclaim": "items of 1 ms, no workers",
    "wakeups": "wakeups by reason, all/with a pool->lock held",
    "peaks": "most items running at once",
    "setup": "figures of one kernel",
    "sim": "lines that move per item",
    "loads": "kworkers of unbound workqueues at most",
}


def paint_only(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[Figure, list[str]]]:
    """By name, the figures that are made from now on, which are not rendered, and their kernels."""
    painted: dict[str, tuple[Figure, list[str]]] = {}

    def draw(name: str, title: str, of: object, kernels: list[str], height: float, paint: Any):
        assert name not in painted
        painted[name] = Figure(), kernels
        paint(painted[name][0])
        return canvas.Drawing(name, '<svg width="1pt"></svg>')

    monkeypatch.setattr(canvas, "draw", draw)
    return painted


def all_is_in_the_axes(figure: Figure) -> None:
    """Seen failing: with set_ylim(bottom=0) after each of several axes that share one."""
    for axes in figure.axes:
        (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
        drawn: list[Any] = [line.get_xydata() for line in axes.lines]
        drawn += [path.vertices for one in axes.collections for path in one.get_paths()]
        assert drawn or axes.texts
        for x, y in (point for points in drawn for point in points if point[1] == point[1]):
            assert left <= x <= right and bottom <= y <= top


@pytest.mark.tier("test")
def test_every_measured_file_can_be_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its figures are painted, but not rendered, which takes most of the time."""
    painted = paint_only(monkeypatch)
    each_holds(slices.MEASURED, lambda path: check_report(path, painted))


def check_report(path: Path, painted: dict[str, tuple[Figure, list[str]]]) -> None:
    painted.clear()
    found = load(path)
    shown, (html, _) = terminal.text(found, full=True), page(found)
    for section in {boot.section for boot in found.boots}:
        assert SHOWN[section] in shown and SHOWN[section] in unescape(html)
    for kernel in found.kernels:
        assert f"kernel {labels.kernel_label(found, kernel.id)}: {kernel.release}" in shown
    for made in found.made:
        assert made.command in shown and made.command in unescape(html)
    for figure, kernels in painted.values():
        all_is_in_the_axes(figure)
        colour = canvas.colours(found)
        lines = {line.get_color() for axes in figure.axes for line in axes.lines}
        assert lines == {canvas.SERIES[colour[kernel]] for kernel in kernels}
    assert not re.search(r"\b(None|nan)\b", shown + re.sub(r"<[^>]*>", " ", html))


CHARTS = sorted((ROOT / "docs/charts").glob("*.svg"))


@pytest.mark.tier("test")
@pytest.mark.parametrize("path", CHARTS, ids=lambda path: path.stem)
def test_charts_are_of_the_results(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/charts/RESULTS.FIGURE.svg is what `make report` makes of results/RESULTS.json, and is
    shown."""
    results, _, wanted = path.stem.partition(".")
    draw = canvas.draw

    def draw_one(name: str, *what) -> canvas.Drawing:
        return draw(name, *what) if name == wanted else canvas.Drawing(name, "<svg></svg>")

    monkeypatch.setattr(canvas, "draw", draw_one)
    monkeypatch.setattr(canvas, "in_page", str)
    _, drawings = page(load(ROOT / f"results/{results}.json"))
    [drawing] = [drawing for drawing in drawings if drawing.name == wanted]
    assert path.read_text() == canvas.on_paper(drawing.svg)
    assert f"(charts/{path.name})" in (ROOT / "docs/results.md").read_text()


def test_there_are_charts() -> None:
    shown = re.findall(r"\(charts/(.*?)\)", (ROOT / "docs/results.md").read_text())
    assert sorted(shown) == [path.name for path in CHARTS] and 0 < len(shown) <= 4


def test_there_are_measured_files() -> None:
    assert len(slices.MEASURED) >= 8


# --- where it comes from -----------------------------------------------------------------


def test_provenance_is_shown() -> None:
    found = results({"stock": 1.0}, scopes=("cache",))
    build = Build("bench", "5" * 24, "gcc (Example 1.2) 12.2.0", "0a1b2c3d" * 8)
    command = "qemu-system-x86_64 -smp 2 -append 'a=\"<b>\"'"
    told = replace(
        found,
        machines=[replace(LAPTOP, microcode="0xa0011d5")],
        kernels=[replace(found.kernels[0], builds=[build])],
        boots=[replace(boot, qemu=command) for boot in found.boots],
    )
    html, _ = page(told)
    for shown in (terminal.text(told, full=True), unescape(html)):
        for what in (build.compiler, build.config_sha256[:16], "0xa0011d5", command):
            assert what in shown
        assert shown.count(command) == 1
    assert "&lt;b&gt;" in html and "<b>'" not in html


def test_what_is_not_recorded_is_called_so() -> None:
    found = results({"stock": 1.0}, scopes=("cache",))
    less = replace(
        found,
        machines=[replace(LAPTOP, memory_mib=None, system=None, kernel=None, load=None)],
        kernels=[replace(found.kernels[0], builds=[])],
    )
    shown = terminal.text(less, full=True)
    for name in ("memory", "system", "host kernel", "load when measuring began", "compiler"):
        assert f"  {name}: not recorded" in shown
    assert re.search("time +bench-2 +not recorded", shown)  # QEMU's command line
    assert "None" not in shown


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
def page_of(shape: str) -> tuple[str, list[canvas.Drawing]]:
    return page(SHAPES[shape]())


@pytest.mark.tier("test")
@pytest.mark.parametrize("shape", SHAPES)
def test_page_needs_nothing_else(shape: str) -> None:
    html, drawings = page_of(shape)
    reader = Reader()
    reader.feed(html)
    assert not reader.tags & {"script", "link", "img", "iframe", "object", "embed", "base"}
    assert all(what.startswith("#") for what in reader.loads)
    assert {what[1:] for what in reader.loads} <= set(reader.ids)
    assert len(set(reader.ids)) == len(reader.ids)
    files = [link for link in reader.links if not link.startswith("#")]
    assert files == [f"{drawing.name}.svg" for drawing in drawings]
    inside = {link[1:] for link in reader.links if link.startswith("#")}
    assert inside <= set(reader.ids)
    assert "@import" not in html and not re.search(r"url\([^#]", html)
    without_names = re.sub(r' xmlns(:\w+)?="[^"]*"', "", html)
    assert "http:" not in without_names and "https:" not in without_names
    assert "{{" not in html and "{%" not in html


@pytest.mark.tier("test")
@pytest.mark.parametrize("shape", SHAPES)
def test_figures_say_where_they_come_from(shape: str) -> None:
    html, drawings = page_of(shape)
    models = [machine.cpu_model for machine in SHAPES[shape]().machines]
    inline = re.findall(r"<svg .*?</svg>", html, re.DOTALL)
    assert len(inline) == len(drawings) >= 1
    for svg in [*inline, *(canvas.on_paper(drawing.svg) for drawing in drawings)]:
        root = ET.fromstring(svg)
        for child in [*root.findall(f"{SVG}title"), *root.findall(f"{SVG}desc")]:
            root.remove(child)  # what is seen, that is
        text = re.sub(r"\s+", " ", " ".join(root.itertext()))
        assert re.search(r"n = \d+ ", text)
        assert any(model in text for model in models)
        # a unit, or what is counted
        assert re.search(r"items/s|\(time, log\)|per item", text)


def test_page_is_readable_in_the_dark() -> None:
    html, _ = page_of("full")
    style, body = html.split("</style>")
    dark = style.split("prefers-color-scheme: dark")[1]
    for colour, name in canvas.VARIABLES.items():
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
    text = " ".join(" ".join(ET.fromstring(drawings[0].svg).itertext()).split())
    assert "stock: no such scope" in text and "patched: no such scope" not in text


def test_the_same_results_give_the_same_page() -> None:
    assert page(SHAPES["one scope"]()) == page_of("one scope")


# --- figures -----------------------------------------------------------------------------


def test_axes_hold_all_that_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a factor matters it is seen: axes are logarithmic. Seen failing: with the range of the
    first of several axes kept for all, and with linear axes."""
    found, painted = load(ROOT / "results/sim-max_active-8.json"), paint_only(monkeypatch)
    (one,) = varied.scalings(found)
    figure = painted[figures.scaling(one).name][0]
    columns = len(one.scopes)
    for place, metric in enumerate(("steady_items_per_sec", "moves_per_item")):
        for axes, scope in zip(figure.axes[place * columns :], one.scopes, strict=False):
            values = [
                figure
                for kernel in one.kernels
                for measured in one.figures(kernel, scope, metric).values()
                for figure in measured
            ]
            bottom, top = axes.get_ylim()
            assert bottom < min(values) and max(values) < top
            assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


def test_zeros_are_on_a_logarithmic_axis_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen failing: with a logarithmic axis, which leaves them out."""
    found, painted = load(ROOT / "results/sim-defaults.json"), paint_only(monkeypatch)
    few = [boot for boot in found.boots if boot.scenario.endswith("-cores-8")]
    for count in (count for boot in few for count in boot.counts):
        count.figures.update(dict.fromkeys(count.figures, 0.0))
    one, *_ = varied.scalings(found)
    figure = painted[figures.scaling(one).name][0]
    assert figure.axes[-1].get_yscale() == "symlog" and figure.axes[-1].get_ylim()[0] < 0
    all_is_in_the_axes(figure)


def test_a_kernel_has_one_colour() -> None:
    """Seen failing: with that of the series for a kernel that was found, and with one colour for two
    kernels of one name."""
    named = {key: made_results.KERNELS[key] for key in ("stock", "patched", "mainline")}
    whole = results(THREE)
    three = canvas.colours(whole)
    assert three == {"stock-1": 0, "patched-1": 1, "mainline-1": 2}
    assert canvas.colours(results({"patched": 1.0})) == {"patched-1": 1}
    (found,) = canvas.colours(local()).values()
    twice = replace(whole, kernels=[*named.values(), replace(named["patched"], id="patched-2")])
    other = canvas.colours(twice)
    assert found > 2 and other == {**three, "patched-2": other["patched-2"]}
    assert other["patched-2"] > 2


@pytest.mark.parametrize("title", ["short", "a title that is as long as it gets " * 6])
def test_titles_leave_the_legend_alone(title: str) -> None:
    """Seen failing: with the legend at one height whatever the title, and a title of one line."""
    panel = compare.panels(results(THREE), "time")[0]
    kept: list[Figure] = []
    canvas.draw("x", title, panel, list(panel.by_kernel), 2.0, kept.append)
    head, legend = (one.get_window_extent() for one in (kept[0].texts[0], kept[0].legends[0]))
    assert legend.y1 <= head.y0 and head.y1 <= kept[0].bbox.y1
    assert max(head.x1, legend.x1) <= kept[0].bbox.x1


def test_figures_are_named_by_what_they_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen failing: with numbers within the page."""
    paint_only(monkeypatch)
    first = {drawing.name for drawing in page(full())[1]}
    monkeypatch.undo()
    painted = paint_only(monkeypatch)
    page(merge([local(), full()]))
    assert first < painted.keys()


def test_a_simulated_machine_is_not_its_host() -> None:
    """Seen failing: with the model of the host's CPU in captions."""
    found = load(ROOT / "results/sim-sizes-grace.json")
    (one,) = varied.sweeps(found)
    assert canvas.source(one).count("simulated grace-72 (insn=") == 1
    model = found.machines[0].cpu_model
    assert model not in canvas.source(one) and model not in one.about
    assert f"machine: simulated, on {model}" in terminal.text(found)
    assert '<h2 id="chapter-1">Simulated machines</h2>' in page(found)[0]


# --- at a glance -------------------------------------------------------------------------


def test_largest_losses_and_gains() -> None:
    """Losses come first, the largest at the top. Seen failing: with gains alone, and by ratio."""
    slow = results({"stock": 1.0, "patched": 0.5, "mainline": 0.4}, locks=True, noise=0.01)
    losses, gains = glance.largest(slow)
    assert (losses.title, gains.title) == ("largest losses", "largest gains")
    factors = [float(row[-1].text.split()[0]) for row in losses.rows]
    away = [max(factor, 1 / factor) for factor in factors]
    assert away == sorted(away, reverse=True) and away[0] > 1.9
    assert {row[-1].better for row in losses.rows} == {"worse"}
    assert {row[-1].better for row in gains.rows} == {"better"}
    assert any("items/s" in row[0].text and "slower" in row[-1].text for row in losses.rows)
    assert any("held, ns per item" in row[0].text for row in gains.rows)
    compared = [row[1].text for row in losses.rows + gains.rows]
    assert not any(text.startswith("mainline") for text in compared)
    assert len(losses.rows) <= glance.LARGEST


def test_max_active_at_a_glance() -> None:
    """Seen failing: with counts that are as they should left out."""
    (table,) = glance.limits(made_results.counts("peaks"))
    assert texts(table) == [
        ["bench-2", "stock", "0 of 20", "8 of 4", "8 of 4"],
        ["", "patched", "20 of 20", "4 of 4", "4 of 4"],
    ]
    (sleep,) = glance.limits(full())
    assert texts(sleep)[0][1:] == ["stock", "25 of 25", "8 of 8", "8 of 8"]


def headings(html: str) -> dict[str, str]:
    """Of chapters, by what links to them."""
    found = re.findall(r'<h[23] id="([^"]*)">(.*?)</h', html)
    return {**dict(found), "glance": "At a glance", "reading": "How to read this"}


@pytest.mark.parametrize("shape", ["full", "two machines"])
def test_contents(shape: str) -> None:
    """Seen failing: with a chapter left out."""
    html, _ = page_of(shape)
    nav = html.split("<nav")[1].split("</nav>")[0]
    links = dict(re.findall(r'<a href="#([^"]*)">(.*?)</a>', nav))
    assert links == {**headings(html), "source": "Kernels"}


def test_caveats_are_above_what_they_are_for() -> None:
    """Seen failing: with each below its tables."""
    html, _ = page_of("two machines")
    glanced = html.index('<section id="glance">')
    assert glanced < html.index("absolute times mean nothing") < html.index("compared")
    second = merge([local(), replace(local(seed=4), made=[])])
    assert "one after the other" not in page(second)[0]
    figure = html.index('<figure id="times-serial')
    assert html.rindex("intervals of ratios of times", 0, figure) > html.rindex("<table", 0, figure)
    html, _ = page(simulated(72))
    assert html.index("by the function that waits for them") < html.rindex("<table")


def test_rows_lead_to_figures() -> None:
    """Seen failing: with a name that no figure has."""
    html, drawings = page_of("full")
    shown = html.split('<section id="glance">')[1].split("</section>")[0]
    linked = set(re.findall(r'<td><a href="#([^"]*)">', shown))
    assert linked & {drawing.name for drawing in drawings}


@pytest.mark.tier("test")
@pytest.mark.parametrize("name", ["bench-6.12", "sim-max_active-7.3"])
def test_pages_are_small(name: str) -> None:
    """The largest two. Seen failing: with figures as matplotlib writes them."""
    assert len(page(load(ROOT / f"results/{name}.json"))[0].encode()) < 1_500_000


# --- the command -------------------------------------------------------------------------


def report(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "wqlab", "report", *map(str, arguments)],
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=False,
        timeout=120,
    )


@pytest.mark.tier("test")
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
    assert re.fullmatch(f"wqlab report: error: .*{said}.*\n", done.stderr)
    assert not (tmp_path / "out").exists()


def test_a_file_without_a_boot_that_passed_is_refused_by_name(tmp_path: Path) -> None:
    save(results(THREE, boots=1, scopes=("cache",)), tmp_path / "good.json")
    save(results(THREE, boots=2, lost=2), tmp_path / "lost.json")
    done = report(tmp_path / "good.json", tmp_path / "lost.json", "--out", tmp_path / "out")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"wqlab report: error: {tmp_path}/lost.json: no boot has passed: "
        "there is nothing to report\n"
    )
    assert not (tmp_path / "out").exists()


def test_what_is_no_report_is_not_replaced(tmp_path: Path) -> None:
    save(results({"stock": 1.0}, boots=1, scopes=("cache",)), tmp_path / "a.json")
    done = report(tmp_path / "a.json", "--out", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(
        "wqlab report: error: .* has a.json, which is of no report: .*\n", done.stderr
    )
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_an_older_report_is_replaced_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, out = results({"stock": 1.0}, boots=1, scopes=("cache",)), tmp_path / "out"
    out.mkdir()
    (out / "index.html").write_text("older")
    write_text = Path.write_text

    def full_disk(path: Path, text: str, **more: str) -> int:
        if path.name == "report.txt.part":
            raise OSError(28, "No space left on device", str(path))
        return write_text(path, text, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full_disk)
        with pytest.raises(Problem, match="No space"):
            write(found, out)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert [path.name for path in out.iterdir()] == ["index.html"]
    assert (out / "index.html").read_text() == "older"
    write(found, out)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (out / "index.html").read_text() != "older" and (out / "report.txt").is_file()


def test_every_metric_has_a_short_name() -> None:
    names = [tables.short_label(metric) for metric in METRICS.values()]
    assert len(set(names)) == len(names)
