# SPDX-License-Identifier: GPL-2.0
"""Boots as results/ has them: what repeats is written once, which makes a file four times smaller.

Of a packed file, "boots" are written with two tables. A shape is the list of the keys of an object;
an object is the list of the number of its shape and its values. A list begins with -1. A list of one
number that is not -1 stands for this entry of "shared". All else is as schema.json has it.
"""

import json
from collections import Counter
from typing import Any

LEAST = 5  # characters that something has at least to be shared
LIST = -1  # in place of the number of a shape


def _line(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


class _Packer:
    """The two tables, while they are made."""

    def __init__(self, data: Any) -> None:
        self.shapes: dict[tuple[str, ...], int] = {}
        self.shared: list[Any] = []
        self.entries: dict[str, int] = {}  # of self.shared, by what they are as a line
        self.seen: Counter[str] = Counter()
        self.count(data)

    def count(self, data: Any) -> None:
        """How often everything comes, but for what is in something that has come before."""
        if isinstance(data, dict | list | str):
            line = _line(data)
            self.seen[line] += len(line) >= LEAST
            if self.seen[line] > 1 or isinstance(data, str):
                return
            for part in data.values() if isinstance(data, dict) else data:
                self.count(part)

    def pack(self, data: Any) -> Any:
        """A value as it is written: what repeats as its number in self.shared."""
        line = _line(data) if isinstance(data, dict | list | str) else ""
        if self.seen[line] < 2:
            return self.whole(data)
        if line not in self.entries:
            packed = self.whole(data)
            self.entries[line] = len(self.shared)
            self.shared.append(packed)
        return [self.entries[line]]

    def whole(self, data: Any) -> Any:
        """The same, but itself even where it repeats."""
        if data and isinstance(data, dict):
            shape = self.shapes.setdefault(tuple(data), len(self.shapes))
            return [shape, *map(self.pack, data.values())]
        return [LIST, *map(self.pack, data)] if isinstance(data, list) else data


def packed(data: dict[str, Any]) -> str:
    """The text of a file, of results as JSON has them: a line for each boot."""
    packer = _Packer(data["boots"])
    boots = [packer.whole(boot) for boot in data["boots"]]
    tables = {"shapes": list(packer.shapes), "shared": packer.shared, "boots": boots}

    def lines(value: Any) -> str:
        each = map(_line, value) if isinstance(value, list) else None
        return "[\n" + ",\n".join(each) + "\n]" if each else _line(value)

    parts = [f"{_line(key)}:{lines(value)}" for key, value in (data | tables).items()]
    return "{" + ",\n".join(parts) + "}\n"


def unpacked(data: dict[str, Any]) -> dict[str, Any]:
    """The results of a packed file; LookupError or TypeError if it is none."""
    shapes: list[list[str]] = data["shapes"]
    shared: list[Any] = []

    def unpack(part: Any) -> Any:
        if not isinstance(part, list):
            return part
        shape, *values = part
        if not values and shape != LIST:
            return shared[shape]
        found = [unpack(value) for value in values]
        return found if shape == LIST else dict(zip(shapes[shape], found, strict=True))

    for entry in data["shared"]:  # which refer to those before them
        shared.append(unpack(entry))
    boots = [unpack(boot) for boot in data["boots"]]
    return {key: data[key] for key in data if key not in ("shapes", "shared")} | {"boots": boots}
