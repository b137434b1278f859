# SPDX-License-Identifier: GPL-2.0
"""Files of results: read, checked, written and merged."""

import json
import types
import typing
from collections.abc import Iterable
from dataclasses import MISSING, asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal

from wqlab.ground.files import write_whole
from wqlab.results.metrics import FIGURES
from wqlab.results.model import SCHEMA, Kernel, Results, ResultsError
from wqlab.results.packed import unpacked

WIDTH = 100  # of the lines of a file


def _load(kind: Any, data: Any, where: str) -> Any:
    """Data from JSON as what a field is declared to be, or ResultsError."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if is_dataclass(kind) and isinstance(kind, type):
        if not isinstance(data, dict):
            raise ResultsError(f"{where} is not an object")
        hints = typing.get_type_hints(kind)
        for key in data:
            if key not in hints:
                raise ResultsError(f'{where} has "{key}", which schema {SCHEMA} does not know')
        for entry in fields(kind):
            needed = entry.default is MISSING and entry.default_factory is MISSING
            if needed and entry.name not in data:
                raise ResultsError(f'{where} has no "{entry.name}"')
        return kind(**{k: _load(hints[k], v, f"{where}.{k}") for k, v in data.items()})
    if origin is list:
        if not isinstance(data, list):
            raise ResultsError(f"{where} is not a list")
        return [_load(args[0], item, f"{where}[{i}]") for i, item in enumerate(data)]
    if origin is dict:
        if not isinstance(data, dict):
            raise ResultsError(f"{where} is not an object")
        return {key: _load(args[1], item, f'{where}["{key}"]') for key, item in data.items()}
    if origin is types.UnionType:
        if data is None and types.NoneType in args:
            return None
        kinds = [arg for arg in args if arg is not types.NoneType]
        same = (kind for kind in kinds if type(data) is (typing.get_origin(kind) or kind))
        return _load(next(same, kinds[0]), data, where)
    if origin is Literal:
        if data not in args:
            raise ResultsError(f"{where} is {data!r}, not one of {', '.join(args)}")
        return data
    if kind is float and type(data) is int:
        return float(data)
    if type(data) is not kind:
        raise ResultsError(f"{where} is {data!r}, not of type {kind.__name__}")
    return data


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ResultsError(f"not JSON: {error}") from None


def from_json(kind: type, text: str) -> Any:
    """An object of one of these dataclasses, or ResultsError."""
    return _load(kind, _json(text), kind.__name__)


def check(results: Results) -> Results:
    """The results themselves, if they are consistent."""
    for name, things in (("machine", results.machines), ("kernel", results.kernels)):
        known = [thing.id for thing in things]
        if len(set(known)) != len(known):
            raise ResultsError(f"two of its {name}s have the same id")
        used = [getattr(boot, name) for boot in results.boots]
        if name == "kernel":
            used += [layout.kernel for layout in results.layouts]
        for key in used:
            if key not in known:
                raise ResultsError(f'a boot is of {name} "{key}", which is not described')
    for i, boot in enumerate(results.boots):
        flavours = [build.flavour for build in results.kernel(boot.kernel).builds]
        if boot.flavour is not None and boot.flavour not in flavours:
            raise ResultsError(f'boots[{i}] is of flavour "{boot.flavour}", which is not described')
        if not boot.passed:
            for what in ("rows", "counts"):
                if getattr(boot, what):
                    raise ResultsError(f"boots[{i}] did not pass, but has {what}")
        told_apart = {tuple(sorted(count.labels.items())) for count in boot.counts}
        if len(told_apart) != len(boot.counts):
            raise ResultsError(f"boots[{i}] has two counts of the same labels")
        for count in boot.counts:
            if unknown := set(count.figures) - set(FIGURES):
                raise ResultsError(f'boots[{i}] counts "{min(unknown)}", which is not known')
        for row in boot.rows:
            if not row.missing and (
                row.values.get("lost") or row.values.get("twice") or not row.values.get("items")
            ):
                raise ResultsError(f"boots[{i}] passed, but lost items or ran them twice")
    return results


def loads(text: str) -> Results:
    """Results from JSON; ResultsError says what is wrong with it."""
    data = _json(text)
    if not isinstance(data, dict):
        raise ResultsError("not results: an object is expected")
    schema = data.get("schema", 1 if "scopes" in data and "runs" in data else None)
    if schema is None:
        raise ResultsError('not results: it has no "schema"')
    if schema != SCHEMA:
        how = "measure again" if schema in range(SCHEMA) else "a newer wqlab reads it"
        raise ResultsError(f"schema {schema}, and only schema {SCHEMA} is read: {how}")
    if "shapes" in data:
        try:
            data = unpacked(data)
        except (LookupError, TypeError, ValueError):
            raise ResultsError("not packed as wqlab report --keep does") from None
    return check(_load(Results, data, "results"))


def load(path: Path) -> Results:
    """Results from a file; ResultsError names the file."""
    try:
        return loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ResultsError(f"{path}: {error.strerror}") from None
    except (ResultsError, UnicodeDecodeError) as error:
        raise ResultsError(f"{path}: {error}") from None


def dumps(results: Results) -> str:
    """The text of a file. ResultsError if they are not complete."""
    return to_text(asdict(check(results))) + "\n"


def to_text(data: Any, indent: str = "") -> str:
    """JSON, in lines that can be read and compared: what is short is on one."""
    line = json.dumps(data, ensure_ascii=False)
    if len(indent) + len(line) <= WIDTH or not isinstance(data, dict | list):
        return line
    deeper = indent + " "
    if isinstance(data, dict):
        parts = [
            f"{json.dumps(key, ensure_ascii=False)}: {to_text(value, deeper)}"
            for key, value in data.items()
        ]
    else:
        parts = [to_text(value, deeper) for value in data]
    start, end = "{}" if isinstance(data, dict) else "[]"
    return f"{start}\n{deeper}" + f",\n{deeper}".join(parts) + f"\n{indent}{end}"


def save(results: Results, path: Path) -> None:
    """Write a file, whole or not at all."""
    write_whole(path, dumps(results))


def merge(parts: Iterable[Results]) -> Results:
    """All in one. What is in several of them, as a whole machine or boot may be, is there once."""

    def union(name: str) -> list:
        found: list = []
        for part in merged:
            found += [item for item in getattr(part, name) if item not in found]
        return found

    merged = list(parts)
    machines = {machine.id: machine for part in merged for machine in part.machines}
    kernels: dict[str, Kernel] = {}
    for kernel in union("kernels"):
        if kernels.setdefault(kernel.id, kernel) != kernel:
            raise ResultsError(f'two different kernels have the id "{kernel.id}"')
    return check(
        Results(
            schema=SCHEMA,
            made=union("made"),
            machines=list(machines.values()),
            kernels=list(kernels.values()),
            boots=union("boots"),
            layouts=union("layouts"),
            notes=union("notes"),
        )
    )
