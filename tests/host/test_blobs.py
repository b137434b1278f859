# SPDX-License-Identifier: GPL-2.0
"""Files that a series adds stand at their kernel path here, as the patches of all bases have them,
also of those whose kernel has another file there, and MAINTAINERS knows them.
"""

import re
import subprocess
from pathlib import Path

import pytest
from fake_kernel import BASE, NEW_FILE, make_project, write

from wqlab.ground.places import ROOT

DIFF = re.compile(r"^diff --git a/(\S+) b/\1$")
INDEX = re.compile(r"^index [0-9a-f]{40}\.\.([0-9a-f]{40})\b")


def blobs_of(series: Path) -> tuple[set[str], dict[str, str]]:
    """The files that the patches of a series add, and the blob of each that they change after the
    last of them."""
    added: set[str] = set()
    blobs: dict[str, str] = {}
    for patch in sorted(series.glob("*.patch")):
        name = ""
        for line in patch.read_text().splitlines():
            if diff := DIFF.match(line):
                name = diff[1]
            elif line.startswith("new file mode "):
                added.add(name)
            elif line.startswith("deleted file mode "):
                added.discard(name)
            elif index := INDEX.match(line):
                blobs[name] = index[1]
    return added, blobs


def differing(root: Path, series: Path) -> list[str]:
    """Files that any series of `root` adds and that this one has: those which are missing below
    root or differ."""
    added = set().union(*(blobs_of(other)[0] for other in (root / "patches").iterdir()))
    _, blobs = blobs_of(series)
    wrong = []
    for name in sorted(added & set(blobs)):
        path = root / name
        have = ""
        if path.is_file():
            have = subprocess.run(
                ["git", "hash-object", "--no-filters", path],
                text=True,
                capture_output=True,
                check=True,
            ).stdout.strip()
        if have != blobs[name]:
            wrong.append(name)
    return wrong


@pytest.mark.parametrize("base", sorted(path.name for path in (ROOT / "patches").iterdir()))
def test_new_files_are_those_of_the_patches(base: str) -> None:
    series = ROOT / "patches" / base
    assert list(series.glob("*.patch")), f"there are no patches in {series}"
    wrong = differing(ROOT, series)
    assert not wrong, f"not as in patches/{base}: {', '.join(wrong)}: run make refresh"


# Seen failing: with the line for tools/workqueue/ left out of its patch.
@pytest.mark.parametrize("base", sorted(path.name for path in (ROOT / "patches").iterdir()))
def test_new_files_have_maintainers(base: str) -> None:
    """Those of WORKQUEUE, from the patch on that adds the file."""
    known: list[str] = []
    for patch in sorted((ROOT / "patches" / base).glob("*.patch")):
        text = patch.read_text()
        known += re.findall(r"^\+F:\t(\S+)$", text, re.MULTILINE)
        added = re.findall(r"^diff --git a/\S+ b/(\S+)\nnew file ", text, re.MULTILINE)
        lost = [
            name for name in added if not any(name.startswith(entry.rstrip("*")) for entry in known)
        ]
        assert not lost, f"{patch.name}: MAINTAINERS has no {', '.join(lost)}"


# Broken on purpose: the blob of the patch that adds the file instead of the last one's.
def test_difference_is_seen(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    assert blobs_of(project.patches)[0] == {NEW_FILE}
    assert differing(project.top, project.top / "patches" / BASE) == []
    write(project.top / NEW_FILE, "int a;\nint b;\n")
    assert differing(project.top, project.patches) == [NEW_FILE]
    (project.top / NEW_FILE).unlink()
    assert differing(project.top, project.patches) == [NEW_FILE]
