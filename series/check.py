# SPDX-License-Identifier: GPL-2.0
"""Check the series for the newest base as it would be sent: what `series letters` writes.

Each mail has to go to people and a list, and each patch to pass checkpatch, but for the sign-off. A
subject is under 75 columns, and that of a patch is in the imperative. What is fixed is named as
Fixes: 12 digits ("title"), as docs/letters/commits has it. No text names a file or a command of this
project, as readers have neither; nor another kernel that there is a series for, whose figures are
none of this one's, but as history: "since 6.12", or before, until, from or to it. The cover letter of
first.txt has 350 words at most. Prints a line for each finding.
"""

import argparse
import email
import email.policy
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from series.letters import COVER, LETTERS, read_letters, write_letters
from series.worktree import SeriesTree
from wqlab.ground.places import ROOT, VENV
from wqlab.ground.problem import FAILED, OK, Problem
from wqlab.ground.run import run, say
from wqlab.kernels.bases import Patch, load_base, series_names
from wqlab.kernels.obtain import obtain
from wqlab.kernels.source import Source

COLUMNS, WORDS = 75, 350
FIXES = re.compile(r"""^Fixes: (?P<id>[0-9a-f]{12}) \("(?P<title>.+)"\)$""")
HISTORY = ("since", "before", "until", "from", "to")
# Verbs that end as other forms of one do
VERBS = {"bring", "embed", "feed", "focus", "need", "shed", "speed"}


@dataclass(frozen=True)
class Mail:
    """A file of what `series letters` writes."""

    path: Path

    @cached_property
    def message(self) -> email.message.EmailMessage:
        """Its headers and text."""
        return email.message_from_bytes(self.path.read_bytes(), policy=email.policy.default)

    @property
    def is_cover(self) -> bool:
        """Whether it is a cover letter."""
        return self.path.name == COVER

    @property
    def subject(self) -> str:
        """Its subject, without [PATCH ...]."""
        return re.sub(r"^\[PATCH[^]]*\] ", "", str(self.message["Subject"]))

    @cached_property
    def text(self) -> str:
        """What it says, without what it changes."""
        return self.message.get_content().partition("\n---\n")[0]


def known_commits() -> dict[str, str]:
    """Titles of commits of mainline, by their ids."""
    lines = (LETTERS / "commits").read_text().splitlines()
    return dict(line.split(" ", 1) for line in lines)


def unaddressed(mail: Mail) -> Iterator[str]:
    """Headers that name nobody."""
    for header, what in (("To", "nobody"), ("Cc", "no list")):
        if "@" not in str(mail.message[header]):
            yield f"get_maintainer.pl names {what}"


def bad_subject(mail: Mail) -> Iterator[str]:
    """A subject that is too long, or not in the imperative."""
    if len(mail.subject) >= COLUMNS:
        yield f"the subject has {len(mail.subject)} columns"
    verb = re.sub(r"^(\S+: )*", "", mail.subject).split()[0]
    inflected = re.search(r"([^s]s|ed|ing)$", verb) and verb.lower() not in VERBS
    if not mail.is_cover and (inflected or not re.match(r"(\S+: )+", mail.subject)):
        yield f"the subject is not 'where: Do something': {mail.subject}"


def bad_fixes(mail: Mail) -> Iterator[str]:
    """Fixes: that are malformed, or name what docs/letters/commits doesn't have."""
    for line in re.findall(r"^Fixes:.*", mail.text, re.MULTILINE):
        found = FIXES.match(line)
        if not found:
            yield f"""not of the form Fixes: 12 digits ("title"): {line}"""
        elif known_commits().get(found["id"]) != found["title"]:
            yield f"docs/letters/commits has no such commit: {line}"


def ours(mail: Mail, tree: Path) -> Iterator[str]:
    """Paths below folders that are here and not in a kernel, and targets of our Makefile."""
    folders = "|".join(path.name for path in ROOT.iterdir() if path.is_dir())
    for path in re.findall(rf"(?<![\w./-])(?:{folders})/[\w.*/-]*\w", mail.text):
        if not (tree / path).exists():
            yield f"{path} is in no kernel"
    targets = re.findall(r"^# make ([a-z-]+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    begin = r"""(?:^\s*[#$]?\s*|['"`])"""  # of a command, not of prose
    for name in re.findall(rf"{begin}make ([a-z-]+)\b", mail.text, re.MULTILINE):
        if name in targets and name != "clean":
            yield f"make {name} is in no kernel"


def other_kernels(mail: Mail) -> Iterator[str]:
    """Kernels that are named other than as history: figures are of the newest base alone."""
    text = " ".join(mail.text.split())
    for name in series_names()[:-1]:
        number = rf"(?<![\d.]){re.escape(name)}(?!\d)"
        for found in re.finditer(rf"(?:(\w+) )?{number}", text):
            if found[1] not in HISTORY:
                around = text[max(0, found.start() - 30) : found.end() + 30]
                yield f"figures are of one kernel, and this names {name}: ...{around}..."


def too_long(mail: Mail) -> Iterator[str]:
    """The first letter, where it has more than WORDS words."""
    if mail.is_cover and mail.path.parent.name == "first":
        _, _, text = (LETTERS / "first.txt").read_text().partition("\n\n")
        if len(text.split()) > WORDS:
            yield f"the first letter has {len(text.split())} words"


def checkpatch(tree: Path, patch: Patch) -> str:
    """What checkpatch of the kernel in `tree` finds; "" for nothing. A missing sign-off is
    expected: whoever sends a patch adds theirs. It asks of each new file whether MAINTAINERS
    knows it, also where that has its folder."""
    done = run(
        ["perl", "scripts/checkpatch.pl", "--strict", "--terse", "--no-summary", "--color=never"]
        + ["--ignore", "MISSING_SIGN_OFF,UNKNOWN_COMMIT_ID,FILE_PATH_CHANGES", patch.path],
        limit=120,
        cwd=tree,
        env=os.environ | {"PATH": f"{VENV / 'bin'}:{os.environ['PATH']}"},
    )
    if done.status and not done.output:
        raise Problem(f"checkpatch ended with status {done.status}")
    return done.output if done.status else ""


def findings(mail: Mail, tree: Path) -> Iterator[str]:
    """All that is wrong with a mail, a line for each."""
    yield from unaddressed(mail)
    yield from bad_subject(mail)
    yield from bad_fixes(mail)
    yield from ours(mail, tree)
    yield from other_kernels(mail)
    yield from too_long(mail)
    if not mail.is_cover:
        yield from checkpatch(tree, Patch(0, mail.path)).splitlines()


def all_findings(source: Source) -> list[str]:
    """Of all letters and their patches."""
    say("writing the mails")
    base = source.base
    with source.hold() as tree, tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "letters")
        write_letters(read_letters(base), base, SeriesTree(tree), out)
        return [
            f"{path.relative_to(out)}: {finding}"
            for path in sorted(out.glob("*/*.patch"))
            for finding in findings(Mail(path), tree)
        ]


def add_options(parser: argparse.ArgumentParser) -> None:
    pass


def command(args: argparse.Namespace) -> int:
    found = all_findings(obtain(load_base(series_names()[-1])))
    for line in found:
        print(line)
    return FAILED if found else OK
