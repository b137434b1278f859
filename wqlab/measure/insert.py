# SPDX-License-Identifier: GPL-2.0
"""test_workqueue on this host: whether its kernel takes the module, how the module is built and
inserted, and what it logs."""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from wqlab.ground.places import ROOT
from wqlab.ground.problem import Problem
from wqlab.ground.run import TIMED_OUT, Done, run, say, uninterrupted
from wqlab.measure.host import END_LIMIT, LiveHost
from wqlab.results.model import Row, Run
from wqlab.results.module import MEASURED, rows_of, turned, words

MODULE = "test_workqueue"
BUILD_LIMIT = 300.0  # seconds
INSERT_LIMIT = 900.0  # for inserting the module once, which makes a run in each scope


def modinfo(host: LiveHost) -> set[str]:
    """The parameters of the module that modprobe would insert; none if there is no such module."""
    done = run(["modinfo", "-k", host.release, "-F", "parm", MODULE], limit=30)
    return set() if done.status else {line.partition(":")[0] for line in done.output.splitlines()}


def is_ours(parameters: set[str]) -> bool:
    """And not the one of that name in mainline."""
    return {"scopes", "sleep_us"} <= parameters


def only_signed(host: LiveHost) -> str:
    """Why the kernel refuses modules that are not signed, "" if it does not."""
    lockdown = re.search(r"\[(\w+)\]", host.read("sys/kernel/security/lockdown") or "")
    if lockdown and lockdown[1] != "none":
        return f"lockdown={lockdown[1]}, as Secure Boot sets it"
    if host.read("sys/module/module/parameters/sig_enforce") == "Y":
        return "module.sig_enforce"
    return ""


def check(host: LiveHost) -> list[str]:
    """The command that inserts the module, without its parameters; empty: build it first. Problem if
    the kernel would not take it."""
    if host.read("proc/modules") is None:
        raise Problem("the running kernel was built without modules (CONFIG_MODULES)")
    if host.read("proc/sys/kernel/modules_disabled") == "1":
        raise Problem("modules cannot be inserted until the next boot (kernel.modules_disabled=1)")
    if (there := host.root / "sys/module" / MODULE).exists():
        if not (there / "initstate").exists():
            raise Problem(f"{MODULE} is built into the running kernel, which takes no other one")
        raise Problem(f"{MODULE} is inserted already: rmmod {MODULE}, then try again")
    why, known = only_signed(host), modinfo(host)
    if not why and (host.headers / "Makefile").is_file():
        if known and not is_ours(known):
            say(f"modprobe {MODULE} would insert mainline's, which is another: this one is built")
        return []
    if is_ours(known):
        return ["modprobe", MODULE]
    if why:
        raise Problem(
            f"the kernel takes signed modules only ({why}): install the module signed, with "
            "dkms install lib and its key enrolled (mokutil --import), or turn that off"
        )
    need = "/lib/modules/RELEASE/build/Makefile"
    raise Problem(f"no headers of the running kernel in {host.headers}: {host.install(need)}")


def build(host: LiveHost, out: Path) -> Path:
    """The module, built from copies of its sources in out."""
    config = host.read(f"lib/modules/{host.release}/build/include/config/auto.conf")
    clang = "CONFIG_CC_IS_CLANG=y" in (config or "").splitlines()
    for tool in ("make", "clang" if clang else "gcc"):
        if not shutil.which(tool):
            raise Problem(f"no {tool} to build {MODULE} with: {host.install(tool)}")
    for source in ("Kbuild", f"{MODULE}.c", f"{MODULE}.h"):
        shutil.copy(ROOT / "lib" / source, out)
    command = ["make", "-C", str(host.headers), f"M={out}", *["LLVM=1"] * clang, "modules"]
    done = run(command, limit=BUILD_LIMIT, label=f"building {MODULE} for {host.release}")
    module = out / f"{MODULE}.ko"
    if done.status or not module.is_file():
        lines = done.output.splitlines()
        wrong = [line for line in lines if re.search(r"(?i)error|\*\*\*|not found", line)]
        raise Problem(f"{MODULE} cannot be built: {(wrong or lines or ['no message'])[0]}")
    return module


class Log:
    """What the kernel says from now on."""

    def __init__(self, host: LiveHost) -> None:
        self.fd = os.open(host.root / "dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.fd, 0, os.SEEK_END)

    def lines(self) -> Iterator[str]:
        """What the kernel has said since. Problem if it was overwritten before it was read."""
        while True:
            try:
                records = os.read(self.fd, 8192)
            except BlockingIOError:
                return
            except BrokenPipeError:  # overwritten before it was read
                raise Problem("the kernel log was overrun by other messages") from None
            if not records:
                return
            for record in records.decode(errors="replace").splitlines():
                if not record.startswith(" "):  # else it continues a record, with details
                    yield record.partition(";")[2]


@dataclass(frozen=True)
class Instrument:
    """The module, and how it is inserted."""

    host: LiveHost
    inserter: list[str]

    def measure(
        self, what: Run, number: int = 1, around: Callable[[list[str]], Done] | None = None
    ) -> list[Row]:
        """Insert it with these parameters, for the time `number`, which makes the run, and remove
        it. Problem if it has not logged all rows."""
        log = Log(self.host)
        run_now = turned(what, number)
        try:
            command = [*self.inserter, *words(run_now).split()]
            done = around(command) if around else run(command, limit=INSERT_LIMIT)
            said = list(log.lines())
        finally:
            os.close(log.fd)
            with uninterrupted():
                self.remove()
        if done.status == TIMED_OUT:
            raise Problem(f"{command[0]} took more than {INSERT_LIMIT:.0f} s")
        if done.status:
            why = [line for line in said if line.startswith(f"{MODULE}: ") and "=" in line]
            text = (done.output.splitlines() or ["no message"])[-1]
            raise Problem(explain(text, why[-1:]))
        return sorted(rows_of(run_now, said), key=lambda row: MEASURED.index(row.scope))

    def remove(self) -> None:
        """Remove the module, and say so if that fails."""
        if (self.host.root / "sys/module" / MODULE).exists():
            done = run(["rmmod", MODULE], limit=END_LIMIT)
            if done.status:
                say(f"{MODULE} could not be removed: {done.output.strip()}")


def explain(text: str, said: list[str]) -> str:
    """Why the module could not be inserted, by what insmod and the kernel said."""
    for sign, meaning in (
        ("Operation not permitted", "the kernel refuses modules that are not signed (lockdown?)"),
        (
            "Key was rejected|Required key",
            "the kernel refuses modules that are not signed by a key it knows",
        ),
        ("Invalid module format", "the headers are not those of the running kernel"),
    ):
        if re.search(sign, text):
            return f"{meaning}: {text}"
    return "; ".join([text, *said])
