# SPDX-License-Identifier: GPL-2.0
"""wqlab/results/schema.json, the JSON Schema of results, made of the dataclasses of
wqlab/results/model.py.

python3 -m tests.proof.results_schema writes it; tests/host/test_results.py says when that is due.
"""

import inspect
import re
import types
import typing
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal

from wqlab.ground.files import write_whole
from wqlab.ground.places import ROOT
from wqlab.results.file import to_text
from wqlab.results.metrics import FIGURES
from wqlab.results.model import SCHEMA, Results

PATH = ROOT / "wqlab/results/schema.json"
NAMES = {int: "integer", float: "number", str: "string", bool: "boolean", types.NoneType: "null"}


def comments(kind: type) -> dict[str, str]:
    """What the comments of a dataclass say of its fields: those above one, and behind it."""
    found: dict[str, str] = {}
    above: list[str] = []
    for line in inspect.getsource(kind).splitlines():
        if comment := re.fullmatch(r" {4}# (.*)", line):
            above.append(comment[1])
        elif declared := re.fullmatch(r" {4}(\w+): [^#]*(?:# (.*))?", line):
            said = " ".join([*above, *filter(None, [declared[2]])])
            found |= {declared[1]: said} if said else {}
            above = []
    return found


def schema_of(kind: Any, known: dict[str, Any]) -> dict[str, Any]:
    """Of what a field is declared to be. Dataclasses are referred to, and added to the known."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if is_dataclass(kind):
        assert isinstance(kind, type)
        if kind.__name__ not in known:
            known[kind.__name__] = {}  # its place
            known[kind.__name__] = object_of(kind, known)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    if origin is list:
        return {"type": "array", "items": schema_of(args[0], known)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(args[1], known)}
    if origin is Literal:
        return {"enum": list(args)}
    if origin is types.UnionType:
        if all(arg in NAMES for arg in args):
            return {"type": [NAMES[arg] for arg in args]}
        return {"anyOf": [schema_of(arg, known) for arg in args]}
    return {"type": NAMES[kind]}


def object_of(kind: type, known: dict[str, Any]) -> dict[str, Any]:
    hints, said = typing.get_type_hints(kind), comments(kind)
    described = {
        name: ({"description": said[name]} if name in said else {}) | schema_of(hint, known)
        for name, hint in hints.items()
    }
    needed = [
        entry.name
        for entry in fields(kind)
        if entry.default is MISSING and entry.default_factory is MISSING
    ]
    return {
        "description": " ".join((kind.__doc__ or "").split()),
        "type": "object",
        "properties": described,
        "required": needed,
        "additionalProperties": False,
    }


def schema() -> dict[str, Any]:
    known: dict[str, Any] = {}
    whole = object_of(Results, known)
    whole["properties"]["schema"] = {"const": SCHEMA}
    known["Count"]["properties"]["figures"]["propertyNames"] = {"enum": list(FIGURES)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Results of wqlab",
        **whole,
        "$defs": known,
    }


def text() -> str:
    return to_text(schema()) + "\n"


if __name__ == "__main__":
    write_whole(PATH, text())
