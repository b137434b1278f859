# SPDX-License-Identifier: GPL-2.0
"""Get the kernel's source of a base as a git repository in the cache: one commit, tagged `base`.

The source is the newest that apt has, or with --ksrc one of yours: a git tree (its HEAD), an
unpacked directory or a tarball, none of which is written to. No root is needed. The commit's id
depends on the source alone. Prints the repository's path, and nothing else, on stdout.
"""

import argparse
import functools
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from wqlab import apt, options
from wqlab.apt import remove
from wqlab.bases import Base, version_key
from wqlab.places import CACHE
from wqlab.problem import OK, Problem, Usage
from wqlab.run import Done, check, lock, run, say, write_whole

REPOSITORIES = CACHE / "base"
WORK = CACHE / "work"  # trees, and what is built from them
LONG = 1800.0  # seconds, for what reads or writes a whole source

# --- git ------------------------------------------------------------------------------------

SETTINGS = {
    "core.attributesFile": "/dev/null",
    "core.excludesFile": "/dev/null",
    "core.fsmonitor": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
}
WHO = "unbound-workqueue"
WHEN = "2024-11-17T00:00:00+00:00"


@functools.cache
def git_env() -> dict[str, str]:
    """An environment where git reads no configuration but a repository's own, the settings above
    win over that one, and every commit has the same author, committer and date, so that commit
    ids can be reproduced and no identity is needed."""
    # The user's leave to read trees that belong to somebody else stays.
    dirs = run(["git", "config", "--get-all", "safe.directory"], limit=20).output.splitlines()
    settings = [*SETTINGS.items(), *(("safe.directory", path) for path in dirs)]
    env = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    for number, (name, text) in enumerate(settings):
        env |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": text}
    return env | {
        "LC_ALL": "C",
        "GIT_CONFIG_COUNT": str(len(settings)),
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_AUTHOR_NAME": WHO,
        "GIT_AUTHOR_EMAIL": f"{WHO}@localhost",
        "GIT_AUTHOR_DATE": WHEN,
        "GIT_COMMITTER_NAME": WHO,
        "GIT_COMMITTER_EMAIL": f"{WHO}@localhost",
        "GIT_COMMITTER_DATE": WHEN,
    }


def git(
    tree: Path, *words: str | Path, wrong: str = "", limit: float = 120, label: str = ""
) -> str:
    """What git says, where it must succeed."""
    return check(
        ["git", "-C", tree, *words],
        wrong=wrong or f"git {words[0]} failed in {tree}",
        limit=limit,
        label=label,
        env=git_env(),
    ).strip()


def asked(tree: Path, *words: str) -> str:
    """What git says; "" where it fails."""
    done = run(["git", "-C", tree, *words], limit=120, env=git_env())
    return "" if done.status else done.output.strip()


# --- a source -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """A kernel's source, and the base whose series is for it."""

    base: Base
    repo: Path  # a git repository with one commit, tagged `base`; nobody changes it
    version: str

    @cached_property
    def tree_id(self) -> str:
        """A name for what the source says."""
        return git(self.repo, "rev-parse", "base^{tree}")

    def count(self, patches: int | None) -> int:
        """The number of patches that is meant; None is all."""
        there = len(self.base.patches)
        if patches is None:
            return there
        if not 0 <= patches <= there:
            raise Usage(f"the series has patches 1 to {there}, 0 is the base: not {patches}")
        return patches

    def place(self, name: str = "") -> Path:
        """Where a checkout is, and what is built from it."""
        return WORK / self.repo.name / (name or "series")

    def checkout(self, patches: int | None = None, name: str = "") -> Path:
        """A work tree with the base and its first N patches (None: all).

        Each name has a tree of its own, which may be used at the same time. Going from one N
        to another touches only the files that differ, so builds there are incremental.
        """
        count = self.count(patches)
        with self._lock(name):
            return self._checkout(count, name)

    @contextmanager
    def hold(
        self,
        patches: int | None = None,
        name: str = "",
        overlay: Mapping[str, str] | None = None,
    ) -> Iterator[Path]:
        """A checkout that stays as it is until the end, though others may read it too.

        With an overlay, which is new text for some files, nobody else has it.
        """
        count = self.count(patches)
        if overlay:
            with self._lock(name):
                tree = self._checkout(count, name)
                try:
                    for path, text in overlay.items():
                        file = tree / path
                        if not file.is_file() or file.read_text() != text:
                            file.parent.mkdir(parents=True, exist_ok=True)
                            file.write_text(text)
                    yield tree
                finally:
                    self._reset(tree)
            return
        while count:
            with self._lock(name, shared=True):
                tree = self._tree(name)
                if self._stands(tree, count):
                    yield tree
                    return
            self.checkout(count, name)
        yield self.repo

    def _lock(self, name: str, shared: bool = False) -> AbstractContextManager[None]:
        return lock(str(self.place(name).relative_to(CACHE)), shared=shared)

    def _tree(self, name: str) -> Path:
        return self.place(name) / "linux"

    def _commits(self, tree: Path) -> Path:
        """The commits of the series as it is now: the base, and one for each patch."""
        text = "\0".join(patch.text for patch in self.base.patches)
        return tree / ".git/wq-series" / hashlib.sha256(text.encode()).hexdigest()[:16]

    def _stands(self, tree: Path, count: int) -> bool:
        commits = self._commits(tree)
        return (
            commits.is_file()
            and asked(tree, "rev-parse", "HEAD") == commits.read_text().split()[count]
            and self._status(tree) == Done(0, "")
        )

    def _status(self, tree: Path) -> Done:
        return run(["git", "-C", tree, "status", "--porcelain"], limit=120, env=git_env())

    def _reset(self, tree: Path) -> None:
        (tree / ".git/index.lock").unlink(missing_ok=True)
        git(tree, "reset", "-q", "--hard")
        git(tree, "clean", "-qfd")

    def _checkout(self, count: int, name: str) -> Path:
        tree, base = self._tree(name), git(self.repo, "rev-parse", "base")
        if asked(tree, "rev-parse", "-q", "--verify", "base") != base:
            part = tree.with_name("linux.part")
            remove(tree)
            remove(part)
            part.parent.mkdir(parents=True, exist_ok=True)
            check(
                ["git", "clone", "-q", "--local", "--no-checkout", self.repo, part],
                wrong=f"{self.repo} could not be cloned",
                limit=LONG,
                label=f"making a work tree in {tree.parent}",
                env=git_env(),
            )
            git(part, "checkout", "-q", "--detach", "base", limit=LONG)
            part.rename(tree)
        write_whole(tree / ".git/info/exclude", "/build-*\n")  # of wqlab.build
        asked(tree, "am", "--abort")
        self._reset(tree)

        # A series is applied once and then found again by what its patches say.
        commits = self._commits(tree)
        if not commits.is_file():
            git(tree, "checkout", "-q", "--detach", "base", limit=LONG)
            if self.base.patches:
                done = run(
                    [
                        *("git", "-C", tree, "am", "-q", "--keep-non-patch", "--no-scissors"),
                        *(patch.path for patch in self.base.patches),
                    ],
                    limit=LONG,
                    env=git_env(),
                )
                if done.status:
                    failed = re.search(r"^Patch failed at \d+ (.*)$", done.output, re.MULTILINE)
                    asked(tree, "am", "--abort")
                    raise Problem(
                        f"patches/{self.base.name} do not apply to {self.version}: git am failed "
                        f"at '{failed[1] if failed else done.output.strip()}'"
                    )
            write_whole(commits, git(tree, "rev-list", "--reverse", "HEAD") + "\n")
        git(tree, "checkout", "-q", "--detach", commits.read_text().split()[count], limit=LONG)
        git(tree, "clean", "-qfd")
        return tree


# --- making a repository --------------------------------------------------------------------


def usable(repo: Path) -> bool:
    return (repo / "Makefile").is_file() and bool(
        asked(repo, "--git-dir=.git", "rev-parse", "-q", "--verify", "base^{tree}")
    )


def kernel_version(tree: Path, what: str) -> str:
    """As 6.12.117, from the Makefile of a kernel's source."""
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
    """Make a repository with one commit of the source that was unpacked in `tree`."""
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
    left = git(tree, "status", "--porcelain", "--ignored").splitlines()
    if left:
        raise Problem(f"{len(left)} files of {what} are missing from the commit: run it again")


def kbuild_env() -> dict[str, str]:
    """An environment where kernels are built with the cache's compiler output, and alike whoever
    builds them and when. Variables given to a make that calls this are not for the kernel's."""
    not_ours = ("MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "ARCH")
    env = {name: text for name, text in os.environ.items() if name not in not_ours}
    return env | {
        "LC_ALL": "C",
        "CCACHE_DIR": str(CACHE / "ccache"),
        "CCACHE_MAXSIZE": "4G",
        "CCACHE_NOHASHDIR": "1",  # debugging information may name another place
        # Preprocess once, not again to compile: a sixth less time for what is not there yet.
        "CCACHE_NOCPP2": "1",
        # CCACHE_DEPEND would not see .incbin: a kernel's image would be another one's. What was
        # kept with it stays in another namespace.
        "CCACHE_NAMESPACE": "preprocessed",
        "KBUILD_BUILD_TIMESTAMP": "2024-11-17",
        "KBUILD_BUILD_USER": WHO,
        "KBUILD_BUILD_HOST": "localhost",
    }


def open_tarball(tarball: Path, tree: Path, what: str) -> None:
    """Unpack it so that its top folder becomes `tree`."""
    inside = tree.with_name(tree.name + ".tar")
    remove(inside)
    inside.mkdir()
    done = run(
        ["tar", "--no-same-owner", "-xf", tarball, "-C", inside],
        limit=LONG, label=f"unpacking {what}", env=os.environ | {"LC_ALL": "C"},
    )  # fmt: skip
    try:
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
    finally:
        remove(inside)


# --- from apt -------------------------------------------------------------------------------


def from_apt(base: Base) -> Path:
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
        inside = part.with_name(part.name + ".deb")
        remove(inside)
        if base.is_source:
            tarball = its_apt.download_source(base.package, version)
            downloads = [tarball]
        else:
            tarball = inside / f"usr/src/{base.package}.tar.xz"
            downloads = its_apt.download(base.package, version)
        try:
            if not base.is_source:
                apt.unpack(downloads, inside, what)
            open_tarball(tarball, part, what)
        except Problem:  # it may be damaged
            remove(downloads[0].parent)
            raise
        finally:
            remove(inside)
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
    """The repository is found again by what KSRC says."""
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

    part = REPOSITORIES / f".{repo.name}.part"
    remove(part)
    part.mkdir(parents=True)
    try:
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
    finally:
        remove(part)
    places = sorted(REPOSITORIES.glob("ksrc-*"), key=lambda path: path.stat().st_mtime)
    for old in places[: -apt.KEPT]:
        say(f"removing {old}")
        remove(old)
    return repo


def take_commit(ksrc: Path, head: str, part: Path, what: str) -> None:
    """Take one commit of a git tree, without what came before it."""
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


def takes(repo: Path, form: Path) -> bool:
    """Whether the patches in this other form are for this source: they apply to it."""
    patches = sorted(form.glob("*.patch"))
    done = run(["git", "-C", repo, "apply", "--check", *patches], limit=120, env=git_env())
    return not done.status


def obtain(base: Base, ksrc: Path | None = None) -> Source:
    """The source of a base, from apt or from KSRC."""
    ksrc = ksrc and ksrc.resolve()
    with lock("obtain"):
        REPOSITORIES.mkdir(parents=True, exist_ok=True)
        repo = from_ksrc(ksrc) if ksrc else from_apt(base)
        there = {path.name for path in REPOSITORIES.iterdir()}
        for work in WORK.glob("*/"):
            if work.name not in there:
                remove(work)
    base = replace(base, forms=tuple(form for form in base.other_forms if takes(repo, form)))
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
