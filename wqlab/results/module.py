# SPDX-License-Identifier: GPL-2.0
"""test_workqueue, the benchmark module: its parameters, and the lines that it logs."""

from collections.abc import Iterable

from wqlab.results.model import ResultsError, Row, Run, Value

PREFIX = "test_workqueue: "
MODES = ("serial", "burst", "fanout", "sleep", "chain")  # that measure
SCOPES = ("cpu", "smt", "cache_shard", "cache", "numa", "system", "default")  # in its order
MEASURED = SCOPES[:-1]  # the default is one of these
LISTS = ("scopes",)
TEXTS = ("mode", "cpus")
# As runs and rows call them, and the module, which has mainline's names.
NAMES = {"threads": "nr_threads", "items": "wq_items", "wqs": "nr_wqs"}


def words(run: Run) -> str:
    """The parameters as insmod takes them."""
    return " ".join(
        f"{NAMES.get(key, key)}={','.join(value) if isinstance(value, list) else value}"
        for key, value in run.items()
    )


def turned(run: Run, number: int) -> Run:
    """As it is made for the time `number`, from 1: with its scopes forwards and backwards in turn,
    beginning with each, as kworkers that one leaves idle are there for the next."""
    scopes = run.get("scopes")
    if not isinstance(scopes, list) or not scopes:
        return run
    begin, back = divmod((number - 1) % (2 * len(scopes)), 2)
    order = scopes[::-1] if back else scopes
    begin = -begin if back else begin
    return {**run, "scopes": order[begin:] + order[:begin]}


def parse_words(text: str) -> Run:
    """The way back."""

    def value(key: str, said: str) -> Value:
        return said.split(",") if key in LISTS else said if key in TEXTS else int(said)

    try:
        pairs = [word.split("=") for word in text.split()]
        keys = {name: key for key, name in NAMES.items()}
        return {keys.get(name, name): value(name, said) for name, said in pairs}
    except ValueError:
        raise ResultsError(f"not parameters of test_workqueue: {text}") from None


def parse_row(text: str) -> Row | None:
    """A line that was logged as a row, None if it is about something else."""
    if not text.startswith(PREFIX + "scope="):
        return None
    scope, *rest = text.removeprefix(PREFIX + "scope=").split()
    if rest == ["missing"]:
        return Row(scope, "", missing=True)
    try:
        pairs = dict(word.split("=") for word in rest)
        mode = pairs.pop("mode")
        row = Row(scope, mode, values={key: int(number) for key, number in pairs.items()})
    except (ValueError, KeyError):
        raise ResultsError(f"not a line of test_workqueue: {text}") from None
    lacks = [key for key in ("items", "items_per_sec", "lost", "twice") if key not in row.values]
    if lacks:
        raise ResultsError(f"a line of test_workqueue without {', '.join(lacks)}: {text}")
    return row


def rows_of(run: Run, lines: Iterable[str]) -> list[Row]:
    """What was logged of this run, a row for each scope; ResultsError if one is missing, or an
    item was lost or ran twice."""
    rows = [row for row in map(parse_row, lines) if row]
    asked = run.get("scopes")
    scopes = asked if isinstance(asked, list) else []
    if not rows or (scopes and [row.scope for row in rows] != scopes):
        found = ", ".join(row.scope for row in rows) or "none"
        raise ResultsError(f"not one row for each scope, but {found}, of: {words(run)}")
    for row in rows:
        where = f"scope {row.scope}, mode {row.mode}"
        if row.missing:
            continue
        for what in ("lost", "twice"):
            if row.values[what]:
                raise ResultsError(f"{where}: {row.values[what]} items {what}")
        if row.mode != run.get("mode", "serial"):
            raise ResultsError(f"{where}: not the mode of: {words(run)}")
        if (
            "items" in run
            and "secs" not in run
            and row.values["items"] != row.values.get("threads", 0) * run["items"]
        ):
            raise ResultsError(f"{where}: {row.values['items']} items ran, not all")
        if row.values["items_per_sec"] < 1:
            raise ResultsError(f"{where}: no items per second")
    return rows
