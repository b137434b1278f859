# SPDX-License-Identifier: GPL-2.0
"""The computer that this runs on and its kernel, which are measured without a guest."""

import gzip
import hashlib
import os
import platform
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from wqlab.ground.places import ROOT
from wqlab.ground.problem import Problem
from wqlab.ground.run import run, uninterrupted
from wqlab.results.host import short_id, this_host
from wqlab.results.model import Build, Host, Kernel

SYSTEMS = ("Debian, Ubuntu", "Fedora", "openSUSE", "Arch")  # the columns of the file packages
END_LIMIT = 10.0  # seconds for what takes no time


@dataclass(frozen=True)
class LiveHost:
    """The computer; tests have one of their own."""

    root: Path = Path("/")
    uid: int = os.geteuid()
    release: str = platform.release()
    version: str = platform.version()

    def read(self, path: str) -> str | None:
        """A file below the root, None if it cannot be read."""
        try:
            return (self.root / path).read_text(errors="replace").strip()
        except OSError:
            return None

    @property
    def headers(self) -> Path:
        """Where modules for its kernel are built against."""
        return self.root / "lib/modules" / self.release / "build"

    @property
    def hypervisor(self) -> str | None:
        """What it is a guest of, None for bare metal."""
        flags = self.read("proc/cpuinfo") or ""
        if not re.search(r"^flags\s*:.*\bhypervisor\b", flags, re.MULTILINE):
            return None
        done = run(["systemd-detect-virt", "--vm"], limit=END_LIMIT)
        name = "" if done.status or done.output.strip() == "none" else done.output.strip()
        return f"virtual machine ({name or self.read('sys/class/dmi/id/sys_vendor') or 'unknown'})"

    def cpu_times(self) -> tuple[int, int]:
        """Of all CPUs since boot: how long they were busy, and how long it was, in ticks."""
        ticks = [int(word) for word in (self.read("proc/stat") or "").split()[1:9]]
        return sum(ticks) - sum(ticks[3:5]), sum(ticks)  # but idle and iowait

    @property
    def machine(self) -> Host:
        """As results describe it."""
        return this_host(self.hypervisor)

    @property
    def kernel(self) -> Kernel:
        """The one that runs, with what can be said of how it was built."""
        compiler = re.search(r"\(([^()]*(?:gcc|clang)\b.*?)\) #", self.read("proc/version") or "")
        config = None
        for name, opened in ((f"boot/config-{self.release}", open), ("proc/config.gz", gzip.open)):
            try:
                with opened(self.root / name, "rb") as file:
                    config = hashlib.sha256(file.read()).hexdigest()
                    break
            except OSError:
                continue
        key = f"{self.release}-{short_id(self.release, self.version)}"
        build = Build(None, None, compiler[1] if compiler else None, config)
        return Kernel(key, self.release, self.release, None, None, [build])

    def install(self, need: str) -> str:
        """What a line of the file packages says to install."""
        lines = [line.split() for line in (ROOT / "packages").read_text().splitlines()]
        names = next((line[2:] for line in lines if line[:1] == [need]), [need] * len(SYSTEMS))
        names = [name.replace("RELEASE", self.release) for name in names]
        return "install " + ", ".join(map("{} ({})".format, names, SYSTEMS))


@contextmanager
def put_back(path: Path) -> Iterator[Callable[[str], None]]:
    """A way to write to a parameter, which is put back whatever happens.

    Should this program be killed, the shell at the other end of a pipe does it.
    """
    before = path.read_text().strip()
    guard = subprocess.Popen(
        ["sh", "-c", 'read -r _ || echo "$1" >"$2"', "sh", before, str(path)],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield lambda value: write(path, value)
    finally:
        with uninterrupted():
            write(path, before)
            guard.communicate(b"done\n", timeout=END_LIMIT)


def write(path: Path, value: str) -> None:
    """To a parameter of the kernel, or Problem."""
    try:
        path.write_text(f"{value}\n")
    except OSError as error:
        raise Problem(f"{path}: {error.strerror}, with {value}") from None
