# SPDX-License-Identifier: GPL-2.0
"""A tiny kernel tree, a series for it and a copy of this project, for the tests of scripts/."""

import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BASE = "6.12"
NEW_FILE = "lib/test_workqueue.c"

# Settings that real people have, each of which once changed what a script did.
ODD_CONFIG = """\
[user]
	useConfigOnly = true
[commit]
	gpgSign = true
[format]
	signature = made by me
	numbered = true
	thread = shallow
	attach = true
	coverLetter = true
	pretty = oneline
	from = Somebody Else <else@example.org>
[diff]
	noprefix = true
	mnemonicPrefix = true
	algorithm = patience
	context = 7
	renames = copies
[am]
	threeWay = true
	keepcr = true
[apply]
	whitespace = error
[core]
	autocrlf = true
	hooksPath = /nonexistent
	abbrev = 5
	bigFileThreshold = 1
	commentChar = x
[rebase]
	autoSquash = false
	missingCommitsCheck = error
[log]
	showSignature = true
[clone]
	defaultRemoteName = upstream
"""


def odd_home(home: Path) -> None:
    """A home with that configuration, and files that git reads without being told to."""
    write(home / ".gitconfig", ODD_CONFIG)
    write(home / ".config/git/attributes", "* text eol=crlf\n")
    write(home / ".config/git/ignore", "Kbuild\n")


def lines(name: str, changed: dict[int, str] | None = None) -> str:
    """A source file of 60 numbered lines, some of them changed."""
    return "".join((changed or {}).get(n, f"{name} line {n}\n") for n in range(60))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def snapshot(top: Path) -> dict[str, str]:
    """Every file below top, .git included, by what it holds."""
    found = {}
    for path in sorted(top.rglob("*")):
        name = str(path.relative_to(top))
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif path.is_file():
            mode = path.stat().st_mode
            found[name] = f"{mode:o} {hashlib.sha256(path.read_bytes()).hexdigest()}"
        else:
            found[name] = "directory"
    return found


@dataclass
class Project:
    """A copy of this project's scripts in top, with a home and a cache of its own."""

    top: Path
    base: Path  # the fake base's git repository, with its tag `base`

    @property
    def tmp(self) -> Path:
        return self.top.parent

    @property
    def patches(self) -> Path:
        return self.top / "patches" / BASE

    @property
    def tree(self) -> Path:
        return self.top / "build" / "tree" / BASE

    def env(self, **more: str) -> dict[str, str]:
        """An environment where git knows no identity."""
        env = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("GIT_", "EMAIL", "DEBIAN_", "XDG_"))
        }
        env |= {
            "HOME": str(self.tmp / "home"),
            "XDG_CACHE_HOME": str(self.tmp / "cache"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "BASE_REPO": str(self.base),
        }
        return env | more

    def run(self, script: str, *args: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.top / "scripts" / script, *args],
            env=self.env(**more),
            cwd=self.tmp,
            text=True,
            capture_output=True,
            check=False,
            timeout=60,
        )

    def lab(self, *args: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
        """python3 -m wqlab"""
        return self.program("wqlab", *args, **more)

    def series(self, *args: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
        """python3 -m series"""
        return self.program("series", *args, **more)

    def program(
        self, name: str, *args: str | Path, **more: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", name, *args],
            env=self.env(PYTHONPATH=str(self.top), **more),
            cwd=self.tmp,
            text=True,
            capture_output=True,
            check=False,
            timeout=60,
        )

    def git(self, tree: Path, *args: str | Path, check: bool = True) -> str:
        """git as some developer, with no configuration."""
        who = ["-c", "user.name=A Developer", "-c", "user.email=dev@example.org"]
        return subprocess.run(
            ["git", *who, *args],
            env=self.env(GIT_CONFIG_GLOBAL="/dev/null"),
            cwd=tree,
            text=True,
            capture_output=True,
            check=check,
        ).stdout.strip()

    def commit(self, tree: Path, subject: str, **files: str) -> None:
        for name, text in files.items():
            write(tree / name, text)
        self.git(tree, "add", "-A")
        self.git(tree, "commit", "-q", "-m", subject)

    def shim(self, name: str, body: str) -> str:
        """A PATH on which the command `name` is the shell script `body`, where it can call the
        real one as "$REAL"."""
        real = shutil.which(name) or "/bin/false"
        path = self.tmp / "shims" / name
        write(path, f"#!/bin/bash\nREAL={real}\n{body}\n")
        path.chmod(0o755)
        return f"{path.parent}:{os.environ['PATH']}"


OLDER = lines("wq", {10: "older\n"})  # kernel/workqueue.c of an older kernel


def add_form(project: Project) -> Path:
    """The first patch in another form, for kernels with OLDER."""
    first = min(project.patches.glob("*.patch"))
    form = project.patches / "before-6.12.110" / first.name
    write(form, first.read_text().replace("-wq line 10\n", "-older\n"))
    return form


FOUR = lines("kconfig", {1: "four\n", 30: "three\n"})


def add_parts(project: Project) -> None:
    """A series of a part for each patch, and one of two patches: the second builds on the first,
    the third and the fourth on the second, the fifth on nothing."""
    parts = ["one workqueue: One", "two workqueue: Two with a subject that is rather longer"]
    parts[1] += " than one line of mail would hold"
    parts += ["three workqueue: Three with an ümlaut", "last workqueue: Five"]
    text = "".join(f"{number} {part}\n" for number, part in enumerate(parts, 1))
    write(project.patches / "parts", text)
    work = project.tmp / "parts"
    project.git(project.tmp, "clone", "-q", project.base, work)
    project.git(work, "am", "-q", *sorted(project.patches.glob("*.patch")))
    project.commit(work, "workqueue: Four", **{"lib/Kconfig.debug": FOUR})
    project.commit(work, "workqueue: Five", Kbuild="# five\n")
    project.git(work, "format-patch", "-q", "-2", "--start-number=4", "-o", project.patches)


def make_older(project: Project) -> None:
    """The base is such a kernel."""
    project.commit(project.base, "linux 6.12.109", **{"kernel/workqueue.c": OLDER})
    project.git(project.base, "tag", "-f", "base")


def make_project(tmp: Path) -> Project:
    shutil.copytree(template().name, tmp, symlinks=True, dirs_exist_ok=True)
    return Project(tmp / "project", tmp / "base")


@functools.cache
def template() -> tempfile.TemporaryDirectory[str]:
    """The files of a project, made once; the caller copies them."""
    keep = tempfile.TemporaryDirectory()
    tmp = Path(keep.name)
    project = Project(tmp / "project", tmp / "base")
    shutil.copytree(ROOT / "scripts", project.top / "scripts")
    for name in ("bases", "configs", "series", "wqlab"):
        shutil.copytree(
            ROOT / name, project.top / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in ("Makefile", "packages", "pyproject.toml"):
        shutil.copy(ROOT / name, project.top)
    (tmp / "home").mkdir()

    base = project.base
    write(base / "Makefile", "# SPDX\nVERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 117\n")
    write(base / "Kbuild", "# Kbuild\n")
    write(base / ".gitignore", "*.o\n")
    write(base / "kernel/workqueue.c", lines("wq"))
    write(base / "lib/Kconfig.debug", lines("kconfig"))
    project.git(base, "init", "-q", "-b", "linux")
    project.commit(base, "linux 6.12.117")
    project.git(base, "tag", "base")

    # Three patches: the second touches what the first did and adds a file, the
    # third changes that file.
    work = tmp / "work"
    project.git(tmp, "clone", "-q", base, work)
    one = {10: "one\n"}
    two = {11: "two\n"}
    project.commit(work, "workqueue: One", **{"kernel/workqueue.c": lines("wq", one)})
    project.commit(
        work,
        "workqueue: Two with a subject that is rather longer than one line of mail would hold",
        **{"kernel/workqueue.c": lines("wq", one | two), NEW_FILE: "int a;\nint b;\n"},
    )
    project.commit(
        work,
        "workqueue: Three with an ümlaut",
        **{NEW_FILE: "int a;\nint c;\n", "lib/Kconfig.debug": lines("kconfig", {30: "three\n"})},
    )
    project.git(
        work, "format-patch", "-q", "--no-signature", "--zero-commit", "--full-index", "-N",
        "--no-renames", "--diff-algorithm=histogram", "--no-encode-email-headers",
        "-o", project.patches, "base",
    )  # fmt: skip
    write(project.patches / "cover-letter.txt", "Subject: [PATCH 0/3] a cover letter\n")
    write(project.top / NEW_FILE, (work / NEW_FILE).read_text())
    shutil.rmtree(work)
    return keep
