# SPDX-License-Identifier: GPL-2.0
"""What `series check` finds wrong with a mail, and what it doesn't.

Seen failing: with each check left out, and with each of its exceptions.
"""

from pathlib import Path

import pytest
from fake_kernel import write

from series import check
from series.check import COVER, Mail, findings

HEAD = """From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001
From: A Developer <dev@example.org>
Date: Tue, 24 Nov 2026 11:08:12 +0000
Subject: [PATCH 1/2] {subject}
{to}
MIME-Version: 1.0
Content-Type: text/plain; charset=UTF-8

"""
TO = "To: Some One <one@example.org>\nCc: list@example.org"
END = "\n---\n kernel/x.c | 1 +\n\n+see results/x.json in 6.12\n"
CHECKPATCH = 'open(my $in, "<", $ARGV[-1]); if (grep { /^BAD/ } <$in>) { print "bad\n"; exit 1 }\n'


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kernel."""
    write(tmp_path / "linux/scripts/checkpatch.pl", CHECKPATCH)
    write(tmp_path / "linux/kernel/workqueue.c", "")
    write(tmp_path / "letters/commits", "0123456789ab workqueue: Do it\n")
    monkeypatch.setattr(check, "LETTERS", tmp_path / "letters")
    return tmp_path / "linux"


def found(
    tree: Path,
    text: str = "Why.",
    subject: str = "workqueue: Do it",
    to: str = TO,
    name: str = "1-fixes/0001-it.patch",
) -> list[str]:
    path = tree.parent / "mails" / name
    write(path, HEAD.format(subject=subject, to=to) + text + END)
    return list(findings(Mail(path), tree))


@pytest.mark.parametrize(
    "subject",
    ["tools/workqueue: wq_dump.py: Say it", "workqueue: Pass it", "workqueue: Need it",
     "workqueue: " + 5 * "Do it now and " + "later", "x: Don't use a thing: it's left"],
)  # fmt: skip
def test_good_subjects(tree: Path, subject: str) -> None:
    assert found(tree, subject=subject) == (
        ["the subject has 86 columns"] if len(subject) > 80 else []
    )


@pytest.mark.parametrize(
    "subject",
    ["workqueue: Does it", "workqueue: Added it", "x: y: Adding it", "Do it"],
)
def test_bad_subjects(tree: Path, subject: str) -> None:
    assert found(tree, subject=subject) == [f"the subject is not 'where: Do something': {subject}"]
    assert found(tree, subject=subject, name=f"1-fixes/{COVER}") == []


def test_columns_of_subjects(tree: Path) -> None:
    subject = "workqueue: Do it ".ljust(74, "x")
    assert found(tree, subject=subject) == []
    assert found(tree, subject=subject + "x") == ["the subject has 75 columns"]


@pytest.mark.parametrize(
    ("to", "said"),
    [
        ("Cc: list@example.org", "get_maintainer.pl names nobody"),
        ("To: \nCc: list@example.org", "get_maintainer.pl names nobody"),
        ("To: Some One <one@example.org>", "get_maintainer.pl names no list"),
    ],
)
def test_mails_to_nobody(tree: Path, to: str, said: str) -> None:
    assert found(tree, to=to) == [said]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('Fixes: 0123456789ab ("workqueue: Do it")', ""),
        ("Why this\nfixes: nothing", ""),
        ('Fixes: 0123456789ab ("workqueue: Do that")', "no such commit"),
        ('Fixes: 0123456789ac ("workqueue: Do it")', "no such commit"),
        ('Fixes: 0123456 ("workqueue: Do it")', "not of the form"),
        ("Fixes: 0123456789ab (workqueue: Do it)", "not of the form"),
        ('Fixes: commit 0123456789ab ("workqueue: Do it")', "not of the form"),
    ],
)
def test_fixes(tree: Path, line: str, said: str) -> None:
    told = found(tree, f"Why.\n\n{line}")
    assert bool(told) == bool(said) and all(said in one and line in one for one in told)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("see kernel/workqueue.c.", []),
        ("see results/x.json.", ["results/x.json is in no kernel"]),
        ("by\nscripts/wqlab bench, in", ["scripts/wqlab is in no kernel"]),
        ("(guest/wqflush/*.c) or scripts/checkpatch.pl", ["guest/wqflush/*.c is in no kernel"]),
        ("/sys/kernel/nothing, my/docs/x, tools and tests", []),
        ("which tests make bench marks", []),
        ("with:\n\n  # make bench", ["make bench is in no kernel"]),
        ("with 'make test-full'", ["make test-full is in no kernel"]),
        ("with:\n\n  make modules\n  make clean\n", []),
    ],
)
def test_what_only_this_project_has(tree: Path, text: str, said: list[str]) -> None:
    assert found(tree, text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hangs since\n6.12, as before 6.12.117 and from 6.18 to 6.18.22", 0),
        ("takes 16.12 us, 6.120 or 1.6.12", 0),
        ("with 6.12:", 1),
        ("6.18.15 takes 3 us and 6.12 takes 4 us", 2),
    ],
)
def test_other_kernels(tree: Path, text: str, said: int) -> None:
    assert len(found(tree, text)) == said


def test_checkpatch(tree: Path) -> None:
    assert found(tree, "BAD") == ["bad"]
    assert found(tree, "BAD", name=f"1-fixes/{COVER}") == []


@pytest.mark.parametrize(("words", "said"), [(350, []), (351, ["the first letter has 351 words"])])
def test_words_of_the_first_letter(tree: Path, words: int, said: list[str]) -> None:
    write(tree.parent / "letters/first.txt", "Subject: x y\nParts: 1,3\n\n" + "why\n" * words)
    assert found(tree, name=f"first/{COVER}") == said
    assert found(tree, name="first/0001-it.patch") == found(tree, name=f"other/{COVER}") == []
