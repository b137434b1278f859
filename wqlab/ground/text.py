# SPDX-License-Identifier: GPL-2.0
"""Words and tables for the terminal."""

from collections.abc import Sequence


def plural(number: int, what: str) -> str:
    """As "1 boot", "2 boots", "26 patches"."""
    end = "" if number == 1 else "es" if what.endswith(("ch", "s")) else "s"
    return f"{number:,} {what}{end}"


def table(rows: Sequence[Sequence[str]], left: Sequence[bool], indent: str = "  ") -> list[str]:
    """Align rows, the first of which is the head, and return the lines.

    `left` says of each column whether it is aligned to the left. Each line begins with `indent`.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            text.ljust(width) if is_left else text.rjust(width)
            for text, width, is_left in zip(row, widths, left, strict=True)
        ]
        lines.append((indent + "  ".join(cells)).rstrip())
    return lines
