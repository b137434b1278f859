# SPDX-License-Identifier: GPL-2.0
"""Results as they are kept in results/: what the report shows of them, in as little as that takes."""

from dataclasses import MISSING, fields, is_dataclass, replace
from typing import Any

from wqlab.report.compare import counted_panels
from wqlab.report.counts import PLACED, top_places
from wqlab.results.model import Boot, Count, Results
from wqlab.results.packed import packed

# Whose lines docs/results.md has, wherever they come among the others
QUOTED = {"pwq_tryinc_nr_active", "pwq_dec_nr_in_flight"}


def shown_places(results: Results) -> dict[int, set[tuple[str, str, str]]]:
    """By id() of a simulated boot, scope, kind and name of each place that a table of these has."""
    found: dict[int, set[tuple[str, str, str]]] = {}
    for panel in counted_panels(results, "sim"):
        shown = {
            (scope, of, place)
            for scope in panel.groups
            for of in PLACED
            for place in top_places(panel, scope, of)
        }
        found |= {id(boot): set(shown) for boot in panel.boots}
    return found


def slim(results: Results) -> Results:
    """Without places of simulated boots that no report shows. Slim results stay as they are."""
    places = shown_places(results)

    def counts(boot: Boot) -> list[Count]:
        shown = places.get(id(boot))
        return [
            count
            for count in boot.counts
            if shown is None
            or "in" not in count.labels
            or count.labels["in"] in QUOTED
            or tuple(count.labels[key] for key in ("scope", "of", "in")) in shown
        ]

    return replace(results, boots=[replace(boot, counts=counts(boot)) for boot in results.boots])


def bare(data: Any) -> Any:
    """As JSON, without fields that have their default, and with eight digits of each fraction."""
    if is_dataclass(data):
        said = {entry: getattr(data, entry.name) for entry in fields(data)}
        return {
            entry.name: bare(value)
            for entry, value in said.items()
            if value
            != (entry.default if entry.default_factory is MISSING else entry.default_factory())
        }
    if isinstance(data, dict):
        return {key: bare(value) for key, value in data.items()}
    if isinstance(data, float):
        return float(f"{data:.8g}")
    return [bare(value) for value in data] if isinstance(data, list) else data


def kept(results: Results) -> str:
    """The text of the file."""
    return packed(bare(slim(results)))
