# SPDX-License-Identifier: GPL-2.0
"""Write the series for the newest base as it would be sent, and send nothing: for each letter of
docs/letters a folder of DIR with its cover letter and its patches, addressed to whom
scripts/get_maintainer.pl of that kernel names. Each part of patches/BASE/parts has a letter, named
by its number and name, as 1-fixes.txt. Another letter names parts that it sends in one series,
which has to apply without the others. A letter begins with

  Subject: of the cover letter
  Parts: 1,3               (of those other letters)

and its text comes after an empty line. The patches have no sign-off: whoever sends them adds
theirs. `series check` checks what is written.

Prints DIR, and nothing else, on stdout. An error writes nothing.
"""

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from series.parts import parts_of
from series.tree import default_tree, make_tree
from series.worktree import SeriesTree, place
from wqlab.ground.files import fresh, remove
from wqlab.ground.git import git, own_index
from wqlab.ground.places import BUILD, ROOT
from wqlab.ground.problem import OK, Problem
from wqlab.ground.run import check, say
from wqlab.kernels.bases import Base, load_base, series_names

LETTERS = ROOT / "docs/letters"
COVER = "0000-cover-letter.patch"
FORMAT = """
    --cover-letter --cover-from-description=none --no-base --no-signature --no-from --no-thread
    --no-attach --no-color --no-ext-diff --no-textconv
"""


@dataclass(frozen=True)
class Letter:
    """A cover letter, and what it sends."""

    name: str
    subject: str
    text: str
    parts: tuple[int, ...]  # in order
    stands_alone: bool  # its parts have to apply without the others


def read_letter(path: Path, base: Base) -> Letter:
    """The letter in a file, which sends parts of a base's series."""
    shown, text = path.relative_to(ROOT), path.read_text()
    found = re.match(r"Subject: (.+)\n(?:Parts: (.*)\n)?", text)
    if not found:
        raise Problem(f"{shown} does not begin with a line 'Subject: ...'")
    subject, several = found.groups()
    own = [str(part.number) for part in parts_of(base) if f"{part.number}-{part.name}" == path.stem]
    numbers = several or "".join(own)
    if not re.fullmatch(r"\d+(,\d+)*", numbers):
        raise Problem(
            f"{shown} is not named after a part of patches/{base.name}, and has no line "
            "'Parts: 1,3' below its subject"
        )
    parts = tuple(sorted(map(int, numbers.split(","))))
    for number in parts:
        if number not in {part.number for part in parts_of(base)}:
            raise Problem(f"{shown}: patches/{base.name} has no part {number}")
    body = text.partition("\n\n")[2].rstrip("\n") + "\n"
    return Letter(path.stem, subject, body, parts, bool(several))


def read_letters(base: Base) -> list[Letter]:
    """Those of docs/letters: one for each part, and others."""
    for part in parts_of(base):
        name = f"{part.number}-{part.name}.txt"
        if not (LETTERS / name).is_file():
            raise Problem(
                f"docs/letters/{name} is missing: the letter of part {part.number} of "
                f"patches/{base.name}"
            )
    return [read_letter(path, base) for path in sorted(LETTERS.glob("*.txt"))]


def on_base(letter: Letter, tree: SeriesTree, commits: Sequence[str]) -> str:
    """The last of new commits that do the same, one after the other, to the base. Nothing but the
    tree's objects becomes more."""
    made = tree.git("rev-parse", "base")
    with own_index(tree.path, "base") as index:
        diff = Path(index["GIT_INDEX_FILE"]).with_name("diff")
        for commit in commits:
            form = "--format=%an%n%ae%n%aI%n%s%n%B"
            name, address, date, subject, text = tree.git("show", "-s", form, commit).split("\n", 4)
            output = f"--output={diff}"
            tree.git("diff-tree", "-p", "--binary", "--full-index", output, commit)
            wrong = (
                f"docs/letters/{letter.name}.txt: '{subject}' does not apply without the parts "
                "that are left out"
            )
            git(tree.path, "apply", "--cached", diff, wrong=wrong, more=index)
            written = git(tree.path, "write-tree", more=index)
            who = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": address, "GIT_AUTHOR_DATE": date}
            made = git(tree.path, "commit-tree", "-p", made, "-m", text, written, more=who)
    return made


def whom(tree: SeriesTree, patches: Sequence[Path], *words: str) -> list[str]:
    """Whom get_maintainer.pl names for the patches."""
    said = check(
        ["perl", "scripts/get_maintainer.pl", "--no-git", "--no-git-fallback", "--no-rolestats"]
        + ["--no-fixes", *words, *map(str, patches)],
        wrong="get_maintainer.pl failed",
        limit=120,
        cwd=tree.path,
        stderr=False,
    )
    return said.splitlines()


def write_letter(
    letter: Letter, base: Base, tree: SeriesTree, commits: list[str], out: Path
) -> None:
    """Its mails, in a folder of `out`."""
    parts = [part for part in parts_of(base) if part.number in letter.parts]
    chosen = [commit for part in parts for commit in commits[part.first - 1 : part.last]]
    sent = f"{chosen[0]}^..{chosen[-1]}"
    if letter.stands_alone:
        sent = f"base..{on_base(letter, tree, chosen)}"
    # A cover letter is from whom the patches are from.
    name, address = tree.git("log", "-1", "--format=%an%n%ae").splitlines()
    sender = {"GIT_COMMITTER_NAME": name, "GIT_COMMITTER_EMAIL": address}

    def write(folder: Path, *words: str) -> list[Path]:
        words = (*FORMAT.split(), *words, sent)
        git(tree.path, "format-patch", "-q", "-o", folder, *words, more=sender)
        return sorted(folder.glob("*.patch"))

    plain = out / ".plain"
    _, *patches = write(plain)
    people = [f"--to={one}" for one in whom(tree, patches, "--no-l")]
    lists = [f"--cc={one}" for one in whom(tree, patches, "--no-m", "--no-r")]
    remove(plain)
    cover, *_ = write(out / letter.name, *people, *lists)
    text = cover.read_text().replace("*** SUBJECT HERE ***", letter.subject, 1)
    cover.write_text(text.replace("*** BLURB HERE ***\n", letter.text, 1))


def write_letters(letters: list[Letter], base: Base, tree: SeriesTree, out: Path) -> None:
    """Their mails, in folders of `out`, in the place of what was there."""
    tree.require(f"{tree} is not a git tree with a tag 'base'")
    commits = tree.git("rev-list", "--reverse", "base..HEAD").splitlines()
    subjects = tree.git("log", "--reverse", "--format=%s", "base..HEAD").splitlines()
    if subjects != [patch.subject for patch in tree.patches(base.folder)]:
        raise Problem(
            f"{tree} has other patches than patches/{base.name}: make refresh BASE={base.name} "
            "writes those"
        )
    with fresh(out.with_name(f"{out.name}.part")) as part:
        for letter in letters:
            write_letter(letter, base, tree, commits, part)
        remove(out)
        part.rename(out)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tree", type=place, metavar="TREE", help="a tree with the series (build/tree/BASE)"
    )
    parser.add_argument(
        "dir",
        nargs="?",
        type=place,
        metavar="DIR",
        help="a folder that is empty or not there yet (build/letters, which is written anew)",
    )


def command(args: argparse.Namespace) -> int:
    base, out = load_base(series_names()[-1]), args.dir
    if out and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise Problem(f"{out} is there already: name a directory that is empty or not there yet")
    out = out or BUILD / "letters"
    letters = read_letters(base)
    tree = SeriesTree(args.tree) if args.tree else make_tree(base, default_tree(base))
    write_letters(letters, base, tree, out)
    say("to send: add your sign-off to each patch, then git send-email, one folder after the other")
    print(out)
    return OK
