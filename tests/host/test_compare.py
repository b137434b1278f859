# SPDX-License-Identifier: GPL-2.0
"""scripts/compare: how the series of two bases differ.

Seen failing: with the objects of the other tree left out, and with both ranges the same.
"""

import re
import shutil

import pytest
from fake_kernel import BASE, Project

OTHER = "7.3"


@pytest.fixture
def ported(project: Project) -> Project:
    """A project with another series, which lacks a patch and has another one changed."""
    other = project.patches.with_name(OTHER)
    shutil.copytree(project.patches, other)
    [*_, third] = sorted(other.glob("*.patch"))
    third.unlink()
    [first, _] = sorted(other.glob("*.patch"))
    first.write_text(first.read_text().replace("\n---\n", "\n\nOther words.\n---\n", 1))
    return project


def test_differences_are_shown(ported: Project) -> None:
    done = ported.run("compare", BASE, OTHER)
    assert done.returncode == 0, done.stderr
    heads = re.findall(
        r"^(\d+): +\w+ (.) +([\d-]+): +[\w-]+ workqueue: (\w+)", done.stdout, re.MULTILINE
    )
    assert heads == [("1", "!", "1", "One"), ("2", "=", "2", "Two"), ("3", "<", "-", "Three")]
    assert "+    Other words." in done.stdout


@pytest.mark.parametrize("words", [[], [BASE], [BASE, "5.4"], [BASE, OTHER, BASE]])
def test_wrong_usage(ported: Project, words: list[str]) -> None:
    done = ported.run("compare", *words)
    assert done.returncode == 2
    assert f"{BASE} {OTHER}" in done.stderr and len(done.stderr.splitlines()) == 1
