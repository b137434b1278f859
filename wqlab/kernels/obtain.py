# SPDX-License-Identifier: GPL-2.0
"""Get the kernel's source of a base as a git repository in the cache: one commit, tagged `base`.

The source is the newest that apt has, or with --ksrc one of yours: a git tree (its HEAD), an
unpacked directory or a tarball, none of which is written to. No root is needed. The commit's id
depends on the source alone. Prints the repository's path, and nothing else, on stdout.
"""

import argparse
import hashlib
import os
import re
from pathlib import Path

from wqlab.ground.files import fresh, lock, remove
from wqlab.ground.git import asked, git
from wqlab.ground.places import CACHE
from wqlab.ground.problem import OK, Problem
from wqlab.ground.run import check, run, say
from wqlab.kernels import apt, options
from wqlab.kernels.bases import Base, version_key
from wqlab.kernels.source import LONG, WORK, Source, kbuild_env

REPOSITORIES = CACHE / "base"


def usable(repo: Path) -> bool:
    """Whether a repository has a kernel's source, tagged `base`."""
    return (repo / "Makefile").is_file() and bool(
        asked(repo, "--git-dir=.git", "rev-parse", "-q", "--verify", "base^{tree}")
    )


def kernel_version(tree: Path, what: str) -> str:
    """The version in the Makefile of a kernel's source, as 6.12.117; Problem if it is none."""
    makefile = tree / "Makefile"
    text = makefile.read_text(errors="replace") if makefile.is_file() else ""
    found = dict(
        re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL|EXTRAVERSION) *=[ \t]*(\S*)", text, re.MULTILINE)
    )
    if not {"VERSION", "PATCHLEVEL"} <= set(found) or not (tree / "Kbuild").is_file():
        raise Problem(f"{what} is not a kernel's source: its top has no Makefile and Kbuild of one")
    numbers = [found.get(key, "") for key in ("VERSION", "PATCHLEVEL", "SUBLEVEL")]
    return ".".join(filter(None, numbers)) + found.get("EXTRAVERSION", "")


def commit(tree: Path, what: str, message: str) -> None:
    """Make a repository of the source in `tree`, with one commit, tagged `base`. Raises Problem."""
    ignore = tree / ".gitignore"
    if ignore.is_file():
        # Debian's "/*" would hide each new file from `git add` and `git status`.
        ignore.write_text(re.sub(r"^/\*\n", "", ignore.read_text(), flags=re.MULTILINE))
    if any((tree / path).exists() for path in (".config", "include/config")):
        check(
            ["make", "-C", tree, "mrproper"],
            wrong=f"what a build left in {what} could not be removed",
            limit=LONG,
            label="removing what a build left in it",
            env=kbuild_env(),
        )
    git(tree, "init", "-q", "-b", "linux")
    # One pack without deltas instead of one file per object: quicker to write, and to clone.
    git(
        tree, "-c", "core.bigFileThreshold=1", "add", "-A", "-f",
        wrong="the source could not be added to git (is the disk full?)",
        limit=LONG, label=f"committing {what}",
    )  # fmt: skip
    git(tree, "commit", "-q", "--no-verify", "--cleanup=verbatim", "-m", message, limit=LONG)
    git(tree, "tag", "base")
    if left := git(tree, "status", "--porcelain", "--ignored").splitlines():
        raise Problem(f"{len(left)} files of {what} are missing from the commit: run it again")


def open_tarball(tarball: Path, tree: Path, what: str) -> None:
    """Unpack a tarball so that its top folder becomes `tree`; raises Problem."""
    with fresh(tree.with_name(tree.name + ".tar")) as inside:
        done = run(
            ["tar", "--no-same-owner", "-xf", tarball, "-C", inside],
            limit=LONG, label=f"unpacking {what}", env=os.environ | {"LC_ALL": "C"},
        )  # fmt: skip
        if done.status:
            raise Problem(
                f"{what} could not be unpacked (was it cut off, is the disk full?): "
                + (done.output.strip().splitlines() or ["tar gave no reason"])[0]
            )
        tops = list(inside.iterdir())
        if len(tops) != 1 or not tops[0].is_dir():
            raise Problem(f"{what} is not a kernel's source: its files are not in one folder")
        for path in tops[0].iterdir():
            path.rename(tree / path.name)


# --- from apt -------------------------------------------------------------------------------


def from_apt(base: Base) -> Path:
    """The repository of the newest source that apt has for a base; raises Unreachable."""
    apt.require()
    apt.refresh()
    its_apt = apt.Apt()

    def find() -> str:
        nonlocal its_apt
        if base.suite:
            its_apt = apt.private(base.suite, "deb-src" if base.is_source else "deb")
        if base.is_source:
            version = its_apt.newest_source(base.package, base.series)
        else:
            version = its_apt.newest(base.package)
        if not version and not base.suite:
            apt.refresh(now=True)
            version = its_apt.newest(base.package)
        if not version:
            where = f" in {base.suite}" if base.suite else ""
            kind = f"source of {base.series} in package" if base.is_source else "package"
            raise apt.Unreachable(f"apt knows no {kind} {base.package}{where}")
        if apt.is_below(version, base.minimum):
            raise Problem(
                f"the newest {base.package} is {version}, and the series needs {base.minimum} or "
                "newer: refresh apt's lists (apt-get update) or add the Debian security sources"
            )
        return version

    def make(version: str, part: Path) -> None:
        what = f"{base.package} {version}"
        if base.is_source:
            downloads = [its_apt.download_source(base.package, version)]
        else:
            downloads = its_apt.download(base.package, version)
        with fresh(part.with_name(part.name + ".deb")) as inside:
            try:
                tarball = downloads[0]
                if not base.is_source:
                    apt.unpack(downloads, inside, what)
                    tarball = inside / f"usr/src/{base.package}.tar.xz"
                open_tarball(tarball, part, what)
            except Problem:  # it may be damaged
                remove(downloads[0].parent)
                raise
        commit(part, what, f"linux {version.partition('-')[0]} (Debian {what})")
        remove(downloads[0].parent)
        say(f"{what} is in {REPOSITORIES / version}")

    def good(repo: Path) -> bool:
        return usable(repo) and not apt.is_below(repo.name, base.minimum)

    try:
        return apt.latest(REPOSITORIES, base.series, find, make, good)
    except apt.Unreachable as reason:
        raise apt.Unreachable(f"{reason}; KSRC= takes a kernel's source of yours instead") from None


# --- from KSRC ------------------------------------------------------------------------------


def from_ksrc(ksrc: Path) -> Path:
    """The repository of a git tree, a folder or a tarball, made once for what that contains."""
    what = f"KSRC={ksrc}"
    if (ksrc / ".git").exists():
        head = git(ksrc, "rev-parse", "HEAD", wrong=f"{what} has no commit that can be read")
        if asked(ksrc, "status", "--porcelain", "--untracked-files=no"):
            say(f"{what} has changes that are not committed: they are not taken")
        key = head
    elif ksrc.is_dir():
        kernel_version(ksrc, what)
        files = sorted(path for path in ksrc.rglob("*") if not path.is_dir())
        states = [(path, path.lstat()) for path in files]
        key = hashlib.sha256(
            "".join(f"{path} {s.st_size} {s.st_mtime_ns}\n" for path, s in states).encode()
        ).hexdigest()
    else:
        with ksrc.open("rb") as file:
            key = hashlib.file_digest(file, "sha256").hexdigest()
    repo = REPOSITORIES / f"ksrc-{key[:16]}"
    if usable(repo):
        repo.touch()
        return repo

    with fresh(REPOSITORIES / f".{repo.name}.part") as part:
        if (ksrc / ".git").exists():
            take_commit(ksrc, head, part, what)
        elif ksrc.is_dir():
            check(
                ["cp", "-a", "--no-preserve=ownership", "--reflink=auto", f"{ksrc}/.", part],
                wrong=f"{what} could not be copied",
                limit=LONG,
                label=f"copying {what}",
            )
            commit(part, what, f"linux {kernel_version(part, what)}")
        else:
            open_tarball(ksrc, part, what)
            commit(part, what, f"linux {kernel_version(part, what)}")
        part.rename(repo)
    places = sorted(REPOSITORIES.glob("ksrc-*"), key=lambda path: path.stat().st_mtime)
    for old in places[: -apt.KEPT]:
        say(f"removing {old}")
        remove(old)
    return repo


def take_commit(ksrc: Path, head: str, part: Path, what: str) -> None:
    """Make a repository in `part` of one commit of a git tree, without its history."""
    objects = git(ksrc, "rev-parse", "--path-format=absolute", "--git-path", "objects")
    git(part, "init", "-q", "-b", "linux")
    borrowed = part / ".git/objects/info/alternates"
    borrowed.write_text(objects + "\n")
    made = git(part, "commit-tree", f"{head}^{{tree}}", "-m", f"linux {head}")
    say(f"taking {what}, commit {head[:12]}")
    git(part, "reset", "-q", "--hard", made, limit=LONG)
    kernel_version(part, what)
    git(part, "repack", "-a", "-d", "-q", limit=LONG, label="copying what belongs to it")
    borrowed.unlink()
    git(part, "tag", "base")


# --- the command ----------------------------------------------------------------------------


def obtain(base: Base, ksrc: Path | None = None) -> Source:
    """The source of a base, from apt or from KSRC. Says where KSRC is of a version never tried."""
    ksrc = ksrc and ksrc.resolve()
    with lock("obtain"):
        REPOSITORIES.mkdir(parents=True, exist_ok=True)
        repo = from_ksrc(ksrc) if ksrc else from_apt(base)
        there = {path.name for path in REPOSITORIES.iterdir()}
        for work in WORK.glob("*/"):
            if work.name not in there:
                remove(work)
    base = base.fitted(repo)
    if not ksrc:
        return Source(base, repo, repo.name)
    version = kernel_version(repo, f"KSRC={ksrc}")
    if version_key(version) < version_key(base.minimum):
        say(f"KSRC={ksrc} is {version}: the series is known to fit {base.minimum} and newer")
    elif version_key(version)[:3] > version_key(base.newest):
        say(f"KSRC={ksrc} is {version}: the newest that the series was tried on is {base.newest}")
    return Source(base, repo, version)


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_base(parser, series=False)


def command(args: argparse.Namespace) -> int:
    print(obtain(args.base, args.ksrc).repo)
    return OK
