# SPDX-License-Identifier: GPL-2.0
"""sparse: the machine's own, or where a kernel wants a newer one, that of Debian's source package,
built once and kept in the cache."""

import shutil
from pathlib import Path

from wqlab.ground.files import lock, remove
from wqlab.ground.places import CACHE
from wqlab.ground.problem import Problem
from wqlab.ground.run import check, run, say
from wqlab.kernels import apt
from wqlab.kernels.source import kbuild_env

SUITE, SERIES = "sid", "0.6"
WITHOUT = [f"HAVE_{name}=no" for name in ("LLVM", "GTK", "SQLITE", "LIBXML")]


def knows(tree: Path, sparse: str | Path) -> bool:
    """Whether it knows the C of this kernel, which says itself what that takes."""
    script = tree / "scripts/checker-valid.sh"
    return not script.is_file() or run(["sh", script, sparse], limit=30).output.strip() == "1"


def newest() -> Path:
    """The program of Debian's newest source package."""
    its_apt = apt.private(SUITE, "deb-src")

    def find() -> str:
        version = its_apt.newest_source("sparse", SERIES)
        if not version:
            raise apt.Unreachable(f"apt knows no source of sparse {SERIES} in {SUITE}")
        return version

    def make(version: str, part: Path) -> None:
        tarball = its_apt.download_source("sparse", version)
        check(
            ["tar", "--no-same-owner", "--strip-components=1", "-xf", tarball, "-C", part],
            wrong=f"{tarball} could not be unpacked",
        )
        remove(tarball.parent)
        check(
            ["make", "-C", part, *WITHOUT, "sparse"],
            wrong=f"sparse {version} does not build",
            limit=300,
            label=f"building sparse {version}",
            env=kbuild_env(),
        )

    with lock("sparse"):
        return apt.latest(CACHE / "sparse", SERIES, find, make) / "sparse"


def find_sparse(tree: Path) -> str | Path:
    """One that knows the C of this kernel, where it is to be had."""
    if not shutil.which("sparse"):
        raise Problem("no sparse: install it")
    if knows(tree, "sparse"):
        return "sparse"
    try:
        return newest()
    except Problem as reason:
        say(f"no newer sparse, which this kernel wants: {reason}")
        return "sparse"
