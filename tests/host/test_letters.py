# SPDX-License-Identifier: GPL-2.0
"""series letters, and the letters of docs/letters.

Seen failing: with lists taken for people, with the head of a letter left in its mail, with a DIR
that is not empty written to; with parts sent in the order they are named in, or as they are in the
tree; with files left beside the folders; with each check left out.
"""

import re
from pathlib import Path

import pytest
from fake_kernel import Project, add_parts, write

from wqlab.ground.places import ROOT

# As the kernel's: people unless --no-m, lists unless --no-l; only of what it is given as patches.
GET_MAINTAINER = r"""
my %no = map { $_ => 1 } grep { /^--no/ } @ARGV;
my @patches = grep { !/^--/ } @ARGV;
die "no patch: $_\n" for grep { open(my $in, "<", $_); !grep { /^diff --git/ } <$in> } @patches;
print "Some One <one\@example.org>\n" unless $no{"--no-m"};
print "Kconfig People <kconfig\@example.org>\n" if !$no{"--no-m"} && $patches[-1] =~ /Three/;
print "list\@example.org\n" unless $no{"--no-l"};
"""


def letter(subject: str = "workqueue: What is sent", parts: str = "") -> str:
    head = f"Subject: {subject}\n" + (f"Parts: {parts}\n" if parts else "")
    return f"{head}\nWhy it is sent.\n\nAnd how\n  indented.\n"


def give_maintainers(project: Project, program: str) -> None:
    write(project.base / "scripts/get_maintainer.pl", program)
    project.git(project.base, "add", "-A")
    project.git(project.base, "commit", "-q", "--amend", "--no-edit")
    project.git(project.base, "tag", "-f", "base")


@pytest.fixture
def sending(project: Project) -> Project:
    """A project with a letter for each part of the series, and one for two of them."""
    give_maintainers(project, GET_MAINTAINER)
    add_parts(project)
    for name in ("1-one", "2-two", "3-three", "4-last"):
        write(project.top / f"docs/letters/{name}.txt", letter())
    write(project.top / "docs/letters/first.txt", letter("workqueue: First", "4,1"))
    return project


def test_series_are_written_as_mails(sending: Project) -> None:
    done = sending.series("letters")
    assert done.returncode == 0, done.stderr
    out = Path(done.stdout.strip())
    mails = {mail.relative_to(out).as_posix()[:-6]: mail.read_text() for mail in out.glob("*/*")}
    assert not [path for path in out.iterdir() if not path.is_dir()]
    assert sorted(name.replace("-workqueue-", " ")[:20] for name in mails) == [
        "1-one/0000-cover-let", "1-one/0001 One",
        "2-two/0000-cover-let", "2-two/0001 Two-with-",
        "3-three/0000-cover-l", "3-three/0001 Three-w",
        "4-last/0000-cover-le", "4-last/0001 Four", "4-last/0002 Five",
        "first/0000-cover-let", "first/0001 One", "first/0002 Four", "first/0003 Five",
    ]  # fmt: skip
    for name, mail in mails.items():
        people = "Some One <one@example.org>"
        people += ", Kconfig People <kconfig@example.org>" if name.startswith("3") else ""
        head, body = mail.split("\n\n", 1)
        to = re.search(r"^To: (.*(?:\n .*)*)", head, re.MULTILINE)
        assert to and " ".join(to[1].split()) == people
        assert re.search(r"^Cc: (.*(?:\n .*)*)", head, re.MULTILINE)[1] == "list@example.org"  # type: ignore[index]
        assert "***" not in mail and "Parts:" not in mail
    for name, subject in (("4-last", "[PATCH 0/2] workqueue: What is"), ("first", "[PATCH 0/3] w")):
        head, body = mails[f"{name}/0000-cover-letter"].split("\n\n", 1)
        assert f"\nSubject: {subject}" in head
        assert body.startswith("Why it is sent.\n\nAnd how\n  indented.\n\n")
        assert " lib/Kconfig.debug " in body
    assert "Subject: [PATCH 2/2] workqueue: Five" in mails["4-last/0002-workqueue-Five"]
    assert sending.git(sending.tree, "status", "--porcelain") == ""


def test_letters_of_another_tree(sending: Project) -> None:
    """What is sent is what lies in patches/, wherever it is taken from."""
    assert sending.series("tree", sending.tmp / "other").returncode == 0
    done = sending.series("letters", "--tree", sending.tmp / "other")
    assert done.returncode == 0 and not sending.tree.exists()
    sending.git(sending.tmp / "other", "commit", "-q", "--amend", "-m", "workqueue: Other")
    done = sending.series("letters", "--tree", sending.tmp / "other")
    assert done.returncode == 1 and "has other patches than patches/6.12" in done.stderr
    done = sending.series("letters", "--tree", sending.tmp)
    assert done.returncode == 1 and "is not a git tree with a tag 'base'" in done.stderr


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("2-two", "", "docs/letters/2-two.txt is missing: the letter of part 2"),
        ("2-two", "\n" + letter(), "does not begin with a line 'Subject: ...'"),
        ("second", letter(), "is not named after a part of patches/6.12, and has no line 'Parts"),
        ("1-two", letter(), "is not named after a part of patches/6.12"),
        ("first", letter(parts="1,9"), "docs/letters/first.txt: patches/6.12 has no part 9"),
        ("first", letter(parts="1,3"), "first.txt: 'workqueue: Three with an ümlaut' does not app"),
        ("nobody", letter(parts="1"), "get_maintainer.pl failed"),
    ],
)
def test_wrong_letters(sending: Project, name: str, text: str, words: str) -> None:
    path = sending.top / f"docs/letters/{name}.txt"
    if text:
        write(path, text)
    else:
        path.unlink()
    if name == "nobody":
        give_maintainers(sending, "die;\n")
    done = sending.series("letters")
    assert done.returncode == 1
    [error] = [line for line in done.stderr.splitlines() if line.startswith("series: error")]
    assert words in error
    assert not list((sending.top / "build").glob("letters*"))


def test_full_folder_stays(sending: Project, tmp_path: Path) -> None:
    write(tmp_path / "mine/file", "mine")
    done = sending.series("letters", str(tmp_path / "mine"))
    assert done.returncode == 1 and "empty" in done.stderr
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["file"]


def test_lines_of_letters_are_short() -> None:
    for path in (ROOT / "docs/letters").glob("*.txt"):
        _, _, text = path.read_text().partition("\n\n")
        long = [line for line in text.splitlines() if len(line) > 75 and not line.startswith("  ")]
        assert not long, path.name
