# SPDX-License-Identifier: GPL-2.0
"""The parts of a series: which patches are sent together."""

from dataclasses import dataclass

from wqlab.ground.places import ROOT
from wqlab.ground.run import check
from wqlab.kernels.bases import Base


@dataclass(frozen=True)
class Part:
    """Patches of a series that belong together, and are sent together."""

    number: int
    name: str
    first: int  # the numbers of its patches
    last: int


def parts_of(base: Base) -> list[Part]:
    """The parts of a base's series, in order, as scripts/common.sh reads them.

    Problem if its file `parts` is missing or wrong.
    """
    script = '. "$1/scripts/common.sh" && list_parts "$2"'
    command = ["bash", "-c", script, "list_parts", str(ROOT), str(base.folder)]
    said = check(command, wrong=f"the series for {base.name} has no parts")
    lines = [line.split() for line in said.splitlines()]
    return [Part(int(no), name, int(first), int(last)) for no, name, first, last in lines]
