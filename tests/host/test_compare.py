# SPDX-License-Identifier: GPL-2.0
"""series compare: how the series of two bases differ.

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
    done = ported.series("compare", BASE, OTHER)
    assert done.returncode == 0, done.stderr
    heads = re.findall(
        r"^(\d+): +\w+ (.) +([\d-]+): +[\w-]+ workqueue: (\w+)", done.stdout, re.MULTILINE
    )
    assert heads == [("1", "!", "1", "One"), ("2", "=", "2", "Two"), ("3", "<", "-", "Three")]
    assert "+    Other words." in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "required: BASE, OTHER"),
        ([BASE], "required: OTHER"),
        ([BASE, "5.4"], "unknown base '5.4'"),
        ([BASE, "6.18"], f"no series for 6.18: the bases with one are: {BASE} {OTHER}"),
        ([BASE, OTHER, BASE], f"unrecognized arguments: {BASE}"),
    ],
)
def test_wrong_usage(ported: Project, words: list[str], message: str) -> None:
    done = ported.series("compare", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr.splitlines()[-1]
