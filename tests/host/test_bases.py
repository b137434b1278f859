# SPDX-License-Identifier: GPL-2.0
"""README.md names the kernels that bases/ has, and each patch of a series is in one of its parts.

Seen failing: with another NEWEST in bases/6.12, and with the row of a base left out; with a
link to nowhere; with parts of 17 patches; with each check of list_parts left out; with subjects of
one line.
"""

import re
import subprocess

import pytest
from fake_kernel import Project, write

from series.parts import parts_of
from wqlab.ground.places import ROOT
from wqlab.kernels.bases import PATCHES, load_base, series_names

TWO = "workqueue: Two with a subject that is rather longer than one line of mail would hold"
THREE = "workqueue: Three with an ümlaut"


@pytest.mark.parametrize("base", series_names())
def test_readme_names_the_kernels_it_was_tried_on(base: str) -> None:
    text = (ROOT / "README.md").read_text()
    [kernels] = re.findall(rf"^\| ([^|]+) \| `{re.escape(base)}/` \|", text, re.MULTILINE)
    found, known = re.findall(r"\d+(?:\.\d+)+", kernels), load_base(base)
    assert known.newest in found
    assert known.minimum in found or known.minimum == base


@pytest.mark.parametrize("base", series_names())
def test_each_patch_is_in_one_part(base: str) -> None:
    series = load_base(base)
    numbers = [n for part in parts_of(series) for n in range(part.first, part.last + 1)]
    assert numbers == [patch.number for patch in series.patches]
    known = {(part.number, part.name) for part in parts_of(load_base(series_names()[-1]))}
    assert {(part.number, part.name) for part in parts_of(series)} <= known


@pytest.mark.parametrize("base", series_names())
def test_links_lead_to_patches(base: str) -> None:
    """Of other bases, with the same title, and no further."""
    for patch in load_base(base).patches:
        if patch.path.is_symlink():
            to = patch.path.parent / patch.path.readlink()
            assert to.parent.resolve().parent == PATCHES and to.parent.resolve().name != base
            assert to.is_file() and not to.is_symlink() and to.name[5:] == patch.name[5:]


@pytest.mark.parametrize("base", series_names())
def test_parts_are_short(base: str) -> None:
    long = [part for part in parts_of(load_base(base)) if part.last - part.first >= 10]
    assert not long, "more than 10 patches: " + ", ".join(part.name for part in long)


def list_parts(project: Project, parts: str) -> tuple[int, str]:
    """The status, and what it says."""
    (project.patches / "parts").unlink(missing_ok=True)
    if parts:
        write(project.patches / "parts", parts)
    script = f'. {project.top}/scripts/common.sh && list_parts "$ROOT/patches/6.12"'
    done = subprocess.run(["bash", "-c", script], text=True, capture_output=True, check=False)
    return done.returncode, done.stdout if done.returncode == 0 else done.stderr


@pytest.mark.parametrize("number", [2, 7])
def test_parts_are_read(project: Project, number: int) -> None:
    read = list_parts(project, f"1 one workqueue: One\n{number} rest {THREE}\n")
    assert read == (0, f"1 one 1 1\n{number} rest 2 3\n")


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ("", "patches/6.12/parts is missing"),
        (f"1 most {TWO}\n", f"'{THREE}' and what comes after it are in no part"),
        (f"1 one {TWO}\n2 two workqueue: One\n", "no patch behind those of the parts before 2 "),
        (f"1 one {TWO}\n2 two {TWO}\n", "no patch behind those of the parts before 2 "),
        (f"2 one {TWO}\n1 two {THREE}\n", "part 1 comes after part 2"),
        (f"one {THREE}\n", f"'one {THREE}' is not the number, the name"),
        ("1 one\n", "'1 one ' is not the number, the name"),
    ],
)
def test_wrong_parts(project: Project, parts: str, words: str) -> None:
    status, said = list_parts(project, parts)
    assert status == 1 and words in said and len(said.splitlines()) == 1
