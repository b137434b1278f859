# SPDX-License-Identifier: GPL-2.0
"""scripts/letters, and the letters of docs/letters.

Seen failing: with lists taken for people, with the head of a letter left in its mail, with the
patches behind the last letter forgotten, with a DIR that is not empty written to; and with two of
the project's letters swapped.
"""

import re
from pathlib import Path

import pytest
from fake_kernel import Project, write

from wqlab.bases import load_base, series_names
from wqlab.places import ROOT

# As the kernel's: people unless --no-m, lists unless --no-l; only of what it is given as patches.
GET_MAINTAINER = r"""
my %no = map { $_ => 1 } grep { /^--no/ } @ARGV;
my @patches = grep { !/^--/ } @ARGV;
die "no patch: $_\n" for grep { open(my $in, "<", $_); !grep { /^diff --git/ } <$in> } @patches;
print "Some One <one\@example.org>\n" unless $no{"--no-m"};
print "Kconfig People <kconfig\@example.org>\n" if !$no{"--no-m"} && $patches[-1] =~ /Three/;
print "list\@example.org\n" unless $no{"--no-l"};
"""
TWO = "workqueue: Two with a subject that is rather longer than one line of mail would hold"
THREE = "workqueue: Three with an ümlaut"


def letter(last: str, subject: str = "workqueue: What is sent") -> str:
    return f"Subject: {subject}\nLast: {last}\n\nWhy it is sent.\n\nAnd how\n  indented.\n"


@pytest.fixture
def sending(project: Project) -> Project:
    """A project with a letter for two patches and one for the third."""
    write(project.base / "scripts/get_maintainer.pl", GET_MAINTAINER)
    project.git(project.base, "add", "-A")
    project.git(project.base, "commit", "-q", "--amend", "--no-edit")
    project.git(project.base, "tag", "-f", "base")
    write(project.top / "docs/letters/1-some.txt", letter(TWO))
    write(project.top / "docs/letters/2-more.txt", letter(THREE, "workqueue: More"))
    return project


def test_series_are_written_as_mails(sending: Project) -> None:
    done = sending.run("letters")
    assert done.returncode == 0, done.stderr
    out = Path(done.stdout.strip())
    mails = {mail.relative_to(out).as_posix()[:11]: mail.read_text() for mail in out.glob("*/*")}
    assert sorted(mails) == [
        "1-some/0000", "1-some/0001", "1-some/0002", "2-more/0000", "2-more/0001",
    ]  # fmt: skip
    for name, mail in mails.items():
        to = {"1": "Some One <one@example.org>", "2": "Kconfig People <kconfig@example.org>"}
        head, body = mail.split("\n\n", 1)
        assert to[name[0]] in re.search(r"^To: (.*(?:\n .*)*)", head, re.MULTILINE)[1]  # type: ignore[index]
        assert re.search(r"^Cc: (.*(?:\n .*)*)", head, re.MULTILINE)[1] == "list@example.org"  # type: ignore[index]
        assert "***" not in mail and "Last:" not in mail
    head, body = mails["1-some/0000"].split("\n\n", 1)
    assert "\nSubject: [PATCH 0/2] workqueue: What is sent\n" in head
    assert body.startswith("Why it is sent.\n\nAnd how\n  indented.\n\n")
    assert " kernel/workqueue.c " in body
    assert "Subject: [PATCH 2/2] workqueue: Two" in mails["1-some/0002"]
    assert "Subject: [PATCH 1/1] " in mails["2-more/0001"]


@pytest.mark.parametrize(
    ("letters", "words"),
    [
        ({"1-some": letter(TWO)}, "no letter of docs/letters is of the patches behind"),
        ({"1-some": letter("workqueue: Four")}, "has no patch 'workqueue: Four'"),
        ({"1-some": letter(THREE), "2-more": letter(TWO)}, f"has no patch '{TWO}'"),
        ({"1-some": "Last: " + THREE}, "does not begin with a line 'Subject: ...'"),
        ({"1-some": letter(THREE, "workqueue: Nobody")}, "get_maintainer.pl failed"),
    ],
)
def test_wrong_letters(sending: Project, letters: dict[str, str], words: str) -> None:
    for path in (sending.top / "docs/letters").iterdir():
        path.unlink()
    for name, text in letters.items():
        write(sending.top / f"docs/letters/{name}.txt", text)
        if "Nobody" in text:
            write(sending.base / "scripts/get_maintainer.pl", "die;\n")
            sending.git(sending.base, "commit", "-aq", "--amend", "--no-edit")
            sending.git(sending.base, "tag", "-f", "base")
    done = sending.run("letters")
    assert done.returncode == 1
    assert words in done.stderr
    assert not list((sending.top / "build").glob("letters*"))


def test_full_folder_stays(sending: Project, tmp_path: Path) -> None:
    write(tmp_path / "mine/file", "mine")
    done = sending.run("letters", str(tmp_path / "mine"))
    assert done.returncode == 1 and "empty" in done.stderr
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["file"]


def test_letters_are_of_the_series() -> None:
    """The project's own: each patch of the newest series belongs to one."""
    letters = sorted((ROOT / "docs/letters").glob("*.txt"))
    lasts = [path.read_text().splitlines()[1].removeprefix("Last: ") for path in letters]
    heads = [patch.text.split("\n\n", 1)[0] for patch in load_base(series_names()[-1]).patches]
    subjects = [
        re.search(r"^Subject: \[PATCH\] (.*(?:\n .*)*)", head, re.MULTILINE) for head in heads
    ]
    titles = [" ".join(subject[1].split()) for subject in subjects if subject]
    assert [title for title in titles if title in lasts] == lasts
    assert lasts[-1] == titles[-1]
    for path in letters:
        lines = path.read_text().splitlines()[3:]
        assert not [line for line in lines if len(line) > 75 and not line.startswith("  ")]
