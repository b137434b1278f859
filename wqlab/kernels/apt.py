# SPDX-License-Identifier: GPL-2.0
"""Debian's packages, through apt, which checks their signatures. They are unpacked in the cache
and nothing is installed. What is unpacked has one place for each version; the newest two stay.
"""

import functools
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from typing import Literal

from wqlab.ground.files import lock, remove, write_whole
from wqlab.ground.places import CACHE
from wqlab.ground.problem import Problem
from wqlab.ground.run import check, run, say

DAY = 24 * 3600.0
KEPT = 2  # versions, the one before in case somebody works with it
KEYRING = "debian-archive-keyring"
ALONE = ["-o", "APT::Sandbox::User=root"]  # no other user writes into the cache
PATIENT = ["-o", "Acquire::Retries=3", "-o", "Acquire::http::Timeout=30"]


class Unreachable(Problem):
    """apt cannot get it."""


@dataclass(frozen=True)
class Apt:
    """The machine's apt, or with options one that has a folder of its own."""

    options: tuple[str, ...] = ()

    def ask(self, *words: str) -> str:
        """What apt-cache says, or ""."""
        done = run(["apt-cache", *words, *self.options], limit=60)
        return "" if done.status else done.output

    def newest(self, package: str) -> str:
        """The newest version of a binary package; "" if apt knows none."""
        rows = [re.split(r" *\| *", line) for line in self.ask("madison", package).splitlines()]
        known = [row[1] for row in rows if len(row) == 3 and row[2].endswith(" Packages")]
        return oldest_first(known)[-1] if known else ""

    def newest_source(self, package: str, series: str) -> str:
        """The newest version of this series of a source package; "" if apt knows none."""
        said = self.ask("showsrc", "--only-source", package)
        versions = re.findall(r"^Version: (\S+)$", said, re.MULTILINE)
        known = [v for v in versions if v.rpartition(":")[2].startswith(f"{series}.")]
        return oldest_first(known)[-1] if known else ""

    def download(self, name: str, version: str, packages: Sequence[str] = ()) -> list[Path]:
        """The packages (default: `name` alone) of this version ("": the newest), in a folder
        of their own, which the caller removes when it needs them no longer."""
        words = [f"{package}={version}".rstrip("=") for package in packages or [name]]
        return self._get(["download", *words], name, name, version)

    def download_source(self, name: str, version: str) -> Path:
        """The orig tarball of this version of a source package, likewise."""
        words = ["source", "--download-only", "--tar-only", f"{name}={version}"]
        found = self._get(words, f"source-{name}", f"the source of {name}", version)
        if len(found) != 1:
            raise Problem(f"the source of {name} {version} is {len(found)} tarballs, not one")
        return found[0]

    def _get(self, words: Sequence[str], stem: str, name: str, version: str) -> list[Path]:
        """What apt-get puts into a folder of its own, STEM-VERSION."""
        folder = CACHE / "download"
        place = folder / f"{stem}-{version}"
        what = f"{name} {version}".rstrip()
        if not place.is_dir():
            for old in folder.glob(f"{stem}[-_]*"):
                remove(old)
            part = folder / f"{stem}-{version}.part"
            part.mkdir(parents=True)
            done = run(
                ["apt-get", words[0], "-qq", *self.options, *ALONE, *PATIENT, *words[1:]],
                limit=1800,
                label=f"downloading {what}",
                cwd=part,
            )
            if done.status:
                remove(part)
                raise Unreachable(f"{what} could not be downloaded")
            part.rename(place)
        return sorted(place.iterdir())


def require() -> None:
    if not shutil.which("apt-get"):
        raise Problem(
            "this machine has no apt to get the kernel's source with: "
            "pass KSRC=, a kernel source of yours"
        )


def is_below(version: str, other: str) -> bool:
    return run(["dpkg", "--compare-versions", version, "lt", other], limit=20).status == 0


def oldest_first(versions: Sequence[str]) -> list[str]:
    def order(one: str, other: str) -> int:
        return -1 if is_below(one, other) else int(is_below(other, one))

    return sorted(set(versions), key=functools.cmp_to_key(order))


def unpack(packages: Sequence[Path], into: Path, name: str) -> None:
    """Unpack packages; those that are damaged are dropped."""
    for package in packages:
        if run(["dpkg-deb", "-x", package, into], limit=600).status:
            remove(package.parent)
            raise Problem(
                f"{name} could not be unpacked (was it cut off, is the disk full?): run it again"
            )


def unpacked(place: Path, name: str, find: Callable[[], tuple[Apt, Sequence[str]]]) -> Path:
    """The place of packages that are unpacked in the cache, once: those that `find` says, and the
    apt that has them. `name` is what they are for."""
    with lock(place.name):
        if not place.is_dir():
            its, packages = find()
            with tempfile.TemporaryDirectory(prefix=f".{place.name}.", dir=CACHE) as folder:
                found = its.download(name, "", packages)
                unpack(found, Path(folder) / "whole", name)
                remove(found[0].parent)
                (Path(folder) / "whole").rename(place)
    return place


def latest(
    folder: Path,
    series: str,
    find: Callable[[], str],
    make: Callable[[str, Path], None],
    usable: Callable[[Path], bool] = Path.is_dir,
) -> Path:
    """The place in `folder` of the version that `find` says, made by `make` where it is not there.

    Where apt cannot get it, the newest usable one of the series that is there.
    """

    def kept() -> list[str]:
        return oldest_first([place.name for place in folder.glob(f"{series}.*")])

    folder.mkdir(parents=True, exist_ok=True)
    try:
        version = find()
        place = folder / version
        if not usable(place):
            # Made beside its place and moved there last: what is there is whole.
            part = folder / f".{version}.part"
            remove(part)
            part.mkdir()
            make(version, part)
            remove(place)
            part.rename(place)
            for old in kept()[:-KEPT]:
                say(f"removing {old} from {folder}")
                remove(folder / old)
        return place
    except Unreachable as reason:
        for version in reversed(kept()):
            if usable(folder / version):
                say(f"{reason}: using {version} from the cache")
                return folder / version
        raise Unreachable(f"{reason}, and no usable one of {series} is in {folder}") from None


def is_fresh(stamp: Path) -> bool:
    return stamp.exists() and time.time() - stamp.stat().st_mtime < DAY


def refresh(*, now: bool = False) -> None:
    """Bring apt's lists up to date, once a day or now; say so where that cannot be."""
    stamp = CACHE / "apt-lists.stamp"
    if is_fresh(stamp) and not now:
        return
    root: list[str] = []
    if os.geteuid():
        proxies = [f"{k}={v}" for k, v in os.environ.items() if k.lower().endswith("_proxy")]
        root = ["sudo", "-n", "env", *proxies]  # sudo drops them
        if not shutil.which("sudo") or run([*root, "true"], limit=20).status:
            say("apt's lists may be out of date and only root can refresh them: apt-get update")
            return
    done = run(
        [*root, "apt-get", "update", "-qq", "--error-on=any"]
        + ["-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=20"],
        limit=300,
        label="refreshing apt's lists",
    )
    if done.status:
        say("apt's lists could not be refreshed: going on with the ones there are")
        return
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.touch()


# --- a suite that the machine's own apt need not have ----------------------------------------


def keys_of(uri: str) -> str:
    """What the machine's sources give as Signed-By for this mirror, or ""."""

    def is_it(words: str) -> bool:
        return uri.rstrip("/") in [word.rstrip("/") for word in words.split()]

    shell = check(
        ["apt-config", "shell", "parts", "Dir::Etc::sourceparts/d"]
        + ["list", "Dir::Etc::sourcelist/f"],
        wrong="apt does not say where its sources are",
    )
    where = dict(re.findall(r"(\w+)='(.*?)'", shell))
    parts = Path(where["parts"])
    for path in sorted(parts.glob("*.sources")):
        text = re.sub(r"^#.*\n", "", path.read_text(), flags=re.MULTILINE)
        for stanza in re.split(r"\n\s*\n", text):
            fields = HeaderParser().parsestr(stanza.lstrip("\n"))
            if is_it(fields.get("URIs", "")) and fields["Signed-By"]:
                return fields["Signed-By"]
    for path in [Path(where["list"]), *sorted(parts.glob("*.list"))]:
        text = path.read_text() if path.is_file() else ""
        for keys, mirror in re.findall(
            r"^deb +\[(?:.* )?signed-by=([^] ]+).*\] +(\S+) ", text, re.MULTILINE
        ):
            if is_it(mirror):
                return keys.replace(",", " ")
    return ""  # apt takes the keys in trusted.gpg.d, here too


def private(
    suite: str = "", kind: Literal["deb", "deb-src"] = "deb", architecture: str = ""
) -> Apt:
    """An apt that knows this suite alone ("": the machine's own), its packages or their sources,
    of this architecture ("": the machine's own). The machine's configuration gives the mirror,
    the keys, proxies and logins, and stays as it is, as do its package lists."""
    found = run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME)"]
        + ["Created-By: Packages", "Origin: Debian", "Label: Debian"],
        limit=60,
    ).output.split()
    if not found:
        what = suite or f"packages for {architecture}"
        raise Unreachable(f"apt's configuration has no Debian mirror to get {what} from")
    uri, own = found[:2]
    suite = suite or own
    name = "-".join(filter(None, [suite, kind.removeprefix("deb").lstrip("-"), architecture]))
    folder = CACHE / f"apt-{name}"
    log, stamp, keyring = folder / "log", folder / "stamp", folder / "keyring.gpg"
    apt = Apt(("-c", f"{folder}/apt.conf"))
    # Nothing is installed here that it would have to fit.
    other = f"""\
APT::Architecture "{architecture}";
#clear APT::Architectures;
APT::Architectures {{ "{architecture}"; }};
Dir::State::status "/dev/null";
"""

    for path in ("sources.d", "lists/partial", "cache/archives/partial"):
        (folder / path).mkdir(parents=True, exist_ok=True)
    # What the machine does after each update is about its own lists.
    write_whole(
        folder / "apt.conf",
        f"""\
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "{folder}/sources.d";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State::lists "{folder}/lists";
Dir::Cache "{folder}/cache";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "1";
Acquire::http::Timeout "20";
"""
        + (other if architecture else ""),
    )

    def read_with(keys: str) -> bool:
        lines = [f"Types: {kind}", f"URIs: {uri}", f"Suites: {suite}", "Components: main"]
        lines += [f"Targets: {'Packages' if kind == 'deb' else 'Sources'}"]
        lines += [f"Signed-By: {keys}"] if keys else []
        write_whole(folder / "sources.d/suite.sources", "\n".join(lines) + "\n")
        log.unlink(missing_ok=True)
        command = ["apt-get", "update", "-q", "--error-on=any", *apt.options]
        return run(command, limit=300, label=f"reading what {suite} has", log=log).status == 0

    if is_fresh(stamp):
        return apt
    done = read_with(keys_of(uri))
    if not done and "NO_PUBKEY" in log.read_text():
        # The machine's keys may be older than the suite. The newest keyring package, which the
        # machine's own apt gets and verifies, may know it.
        try:
            part = folder / "keyring.part"
            remove(part)
            packages = Apt().download(KEYRING, "")
            unpack(packages, part, KEYRING)
            remove(packages[0].parent)
            (part / f"usr/share/keyrings/{KEYRING}.gpg").replace(keyring)
            done = read_with(str(keyring))
        except Unreachable as reason:
            say(str(reason))
    if done:
        stamp.touch()
    else:
        said = re.search(r"^[EW]:.*", log.read_text(), re.MULTILINE)
        say(f"{suite}: {said[0] if said else 'apt gave no reason'}")
    return apt
