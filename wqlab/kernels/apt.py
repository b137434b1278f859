# SPDX-License-Identifier: GPL-2.0
"""Get Debian's packages through apt, which checks their signatures.

They are unpacked in the cache, and nothing is installed. Each version has a folder of its own; those
of the newest two stay.
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

from wqlab.ground.files import fresh, lock, remove, write_whole
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
    """The machine's own apt, or with `options` one that private() has made."""

    options: tuple[str, ...] = ()

    def ask(self, *words: str) -> str:
        """What apt-cache says; "" where it fails."""
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
        """Download packages, by default the one that `name` names, of this version ("": the
        newest), into a folder of their own, which the caller removes; raises Unreachable."""
        words = [f"{package}={version}".rstrip("=") for package in packages or [name]]
        return self._get(["download", *words], name, name, version)

    def download_source(self, name: str, version: str) -> Path:
        """Download the orig tarball of a source package, likewise."""
        words = ["source", "--download-only", "--tar-only", f"{name}={version}"]
        found = self._get(words, f"source-{name}", f"the source of {name}", version)
        if len(found) != 1:
            raise Problem(f"the source of {name} {version} is {len(found)} tarballs, not one")
        return found[0]

    def _get(self, words: Sequence[str], stem: str, name: str, version: str) -> list[Path]:
        """What apt-get downloads, in the folder STEM-VERSION."""
        folder = CACHE / "download"
        place = folder / f"{stem}-{version}"
        what = f"{name} {version}".rstrip()
        if not place.is_dir():
            for old in folder.glob(f"{stem}[-_]*"):
                remove(old)
            with fresh(folder / f"{stem}-{version}.part") as part:
                done = run(
                    ["apt-get", words[0], "-qq", *self.options, *ALONE, *PATIENT, *words[1:]],
                    limit=1800,
                    label=f"downloading {what}",
                    cwd=part,
                )
                if done.status:
                    said = re.findall(r"^E: (.*)", done.output, re.MULTILINE)
                    raise Unreachable(f"{what} could not be downloaded{': '.join(['', *said[:1]])}")
                part.rename(place)
        return sorted(place.iterdir())


def require() -> None:
    """Raise Problem where there is no apt."""
    if not shutil.which("apt-get"):
        raise Problem(
            "this machine has no apt to get the kernel's source with: "
            "pass KSRC=, a kernel source of yours"
        )


def is_below(version: str, other: str) -> bool:
    """Whether a version of a package is older than another, as dpkg compares them."""
    return run(["dpkg", "--compare-versions", version, "lt", other], limit=20).status == 0


def oldest_first(versions: Sequence[str]) -> list[str]:
    """Versions of packages, sorted and each once."""

    def order(one: str, other: str) -> int:
        return -1 if is_below(one, other) else int(is_below(other, one))

    return sorted(set(versions), key=functools.cmp_to_key(order))


def unpack(packages: Sequence[Path], into: Path, name: str) -> None:
    """Unpack packages of `name`; removes them and raises Problem if one is damaged."""
    for package in packages:
        if run(["dpkg-deb", "-x", package, into], limit=600).status:
            remove(package.parent)
            raise Problem(
                f"{name} could not be unpacked (was it cut off, is the disk full?): run it again"
            )


def unpacked(place: Path, name: str, find: Callable[[], tuple[Apt, Sequence[str]]]) -> Path:
    """Unpack packages in `place`, a folder of the cache, once, and return it.

    `find` says which, and which apt has them; `name` is what they are for. Raises what download()
    and unpack() do.
    """
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
    """The folder, in `folder`, of the version that `find` returns.

    Where it is not there or not usable, make(version, part) fills `part`, which becomes it. Where
    apt cannot get that version, it is the newest usable one of `series` that is there; raises
    Unreachable if there is none.
    """

    def kept() -> list[str]:
        return oldest_first([place.name for place in folder.glob(f"{series}.*")])

    folder.mkdir(parents=True, exist_ok=True)
    try:
        version = find()
        place = folder / version
        if not usable(place):
            # Made beside its place and moved there last: what is there is whole.
            with fresh(folder / f".{version}.part") as part:
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
    """Whether a file was touched within a day."""
    return stamp.exists() and time.time() - stamp.stat().st_mtime < DAY


def refresh(*, now: bool = False) -> None:
    """Bring the lists of the machine's apt up to date, once a day or now; say so if that fails."""
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


# Nothing is installed here, which it would have to fit.
FOREIGN = """\
APT::Architecture "{0}";
#clear APT::Architectures;
APT::Architectures {{ "{0}"; }};
Dir::State::status "/dev/null";
"""
# What the machine does after each update is about its own lists.
PRIVATE = """\
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "{0}/sources.d";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State::lists "{0}/lists";
Dir::Cache "{0}/cache";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "1";
Acquire::http::Timeout "20";
"""


@dataclass(frozen=True)
class Suite:
    """A suite of Debian, and the folder of the apt that knows it alone."""

    uri: str
    name: str
    kind: Literal["deb", "deb-src"]
    folder: Path

    @property
    def log(self) -> Path:
        """What apt has said of it."""
        return self.folder / "log"

    @property
    def apt(self) -> Apt:
        """The apt that knows this suite alone."""
        return Apt(("-c", f"{self.folder}/apt.conf"))

    def configure(self, architecture: str) -> None:
        """Write the configuration of its apt, for another architecture unless that is ""."""
        for path in ("sources.d", "lists/partial", "cache/archives/partial"):
            (self.folder / path).mkdir(parents=True, exist_ok=True)
        text = PRIVATE.format(self.folder)
        text += FOREIGN.format(architecture) if architecture else ""
        write_whole(self.folder / "apt.conf", text)

    def read_with(self, keys: str) -> bool:
        """Read the suite's lists, which these keys have signed ("": those apt trusts anyway);
        whether that went well."""
        lines = [f"Types: {self.kind}", f"URIs: {self.uri}", f"Suites: {self.name}"]
        targets = "Packages" if self.kind == "deb" else "Sources"
        lines += ["Components: main", f"Targets: {targets}"]
        lines += [f"Signed-By: {keys}"] if keys else []
        write_whole(self.folder / "sources.d/suite.sources", "\n".join(lines) + "\n")
        self.log.unlink(missing_ok=True)
        command = ["apt-get", "update", "-q", "--error-on=any", *self.apt.options]
        label = f"reading what {self.name} has"
        return run(command, limit=300, label=label, log=self.log).status == 0

    def get_keyring(self) -> str:
        """The keys in Debian's newest keyring package; "" if it cannot be had."""
        part, keyring = self.folder / "keyring.part", self.folder / "keyring.gpg"
        remove(part)
        try:
            packages = Apt().download(KEYRING, "")
        except Unreachable as reason:
            say(str(reason))
            return ""
        unpack(packages, part, KEYRING)
        remove(packages[0].parent)
        (part / f"usr/share/keyrings/{KEYRING}.gpg").replace(keyring)
        return str(keyring)


def private(
    suite: str = "", kind: Literal["deb", "deb-src"] = "deb", architecture: str = ""
) -> Apt:
    """An apt that knows one suite alone ("": the machine's own), its packages or their sources, of
    this architecture ("": the machine's own).

    The machine's configuration gives the mirror, the keys, proxies and logins; it stays as it is,
    and so do its package lists. Lists that cannot be read are said to be, and those of an earlier
    time stay. Raises Unreachable if the machine's apt has no mirror of Debian.
    """
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
    parts = filter(None, [suite, kind.removeprefix("deb").lstrip("-"), architecture])
    its = Suite(uri, suite, kind, CACHE / f"apt-{'-'.join(parts)}")
    its.configure(architecture)
    stamp = its.folder / "stamp"
    if is_fresh(stamp):
        return its.apt
    done = its.read_with(keys_of(uri))
    # The machine's keys may be older than the suite. The newest keyring package, which the
    # machine's own apt gets and verifies, may know it.
    if not done and "NO_PUBKEY" in its.log.read_text() and (keyring := its.get_keyring()):
        done = its.read_with(keyring)
    if done:
        stamp.touch()
    else:
        said = re.search(r"^[EW]:.*", its.log.read_text(), re.MULTILINE)
        say(f"{suite}: {said[0] if said else 'apt gave no reason'}")
    return its.apt
