# SPDX-License-Identifier: GPL-2.0
"""models/litmus/: by the kernel's own memory model, what a protocol without a lock must not allow
never happens; and each barrier that keeps it from happening is needed.

Seen failing: with each of them left out, and with one put back in the broken variant.
"""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from farm import Making, Need
from needs import SOURCE

from wqlab.ground.places import CACHE, ROOT
from wqlab.ground.problem import Skipped
from wqlab.ground.run import check
from wqlab.kernels import apt

FOLDER = ROOT / "models/litmus"
LIMIT = 60  # seconds
# Debian 12 has no herd7. That of sid wants a newer C library, which comes with it.
SUITE, PACKAGES = "sid", ("herdtools7", "libc6", "libgmp10")
LOWERED = "\tr0 = READ_ONCE(*nr_granted);\n"
FREE = "\tr1 = READ_ONCE(*nr_free);\n"
# What is needed, and what takes its place where it's left out
NEEDED = {
    "slot-once": {"atomic_xchg_relaxed(free, -1)": "atomic_read(free)"},
    "free-or-waiting": {f"\tspin_lock(a);\n{FREE}\tspin_unlock(a);\n": FREE},
    "timer-pending": {"\tspin_lock(node);\n\tspin_unlock(node);\n": ""},
    "limit-lowered": {f"\tspin_lock(pool);\n{LOWERED}\tspin_unlock(pool);\n": LOWERED},
}


@dataclass(frozen=True)
class Herd(Need):
    """How herd7 is called, for the kernel's memory model, and where that is."""

    before = (SOURCE,)

    def make(self, farm: Making) -> tuple[list[str], Path]:
        herd = ["herd7"]
        if not shutil.which("herd7"):
            if not shutil.which("apt-get"):
                raise Skipped("no herd7: install herdtools7, 7.58 or newer")
            try:
                place = apt.unpacked(
                    CACHE / "herd7", "herd7", lambda: (apt.private(SUITE), PACKAGES)
                )
            except apt.Unreachable as reason:
                raise Skipped(f"no herd7: {reason}") from None
            [loader] = place.glob("usr/lib/*/ld-linux-*")
            herd = [str(loader), "--library-path", str(loader.parent), f"{place}/usr/bin/herd7"]
            herd += ["-set-libdir", f"{place}/usr/share/herdtools7/herd"]
        return [*herd, "-conf", "linux-kernel.cfg"], farm[SOURCE].repo / "tools/memory-model"


pytestmark = pytest.mark.needs(Herd())


def observed(made: tuple[list[str], Path], name: str, text: str, folder: Path) -> str:
    """How often herd7 finds what the test asks for: Never, Sometimes or Always."""
    herd, model = made
    file = folder / f"{name}.litmus"
    file.write_text(text)
    said = check([*herd, str(file)], wrong=f"herd7 on {name}", limit=LIMIT, cwd=model)
    found = re.search(rf"^Observation {name} (\w+) ", said, re.MULTILINE)
    assert found, said
    return found[1]


def without(name: str, old: str, new: str) -> str:
    text = (FOLDER / f"{name}.litmus").read_text()
    assert text.count(old) == 1
    return text.replace(old, new)


def test_all_are_listed() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(NEEDED)


@pytest.mark.parametrize("name", NEEDED)
def test_never_happens(made: tuple[list[str], Path], name: str, tmp_path: Path) -> None:
    text = (FOLDER / f"{name}.litmus").read_text()
    assert " * Result: Never\n" in text
    assert observed(made, name, text, tmp_path) == "Never"


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [(name, old, new) for name, needed in NEEDED.items() for old, new in needed.items()],
)
def test_is_needed(
    made: tuple[list[str], Path], name: str, old: str, new: str, tmp_path: Path
) -> None:
    assert observed(made, name, without(name, old, new), tmp_path) == "Sometimes"
