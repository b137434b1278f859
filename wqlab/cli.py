# SPDX-License-Identifier: GPL-2.0
"""The command line: which commands there are, and what each of them needs.

Only the module of the command that was asked for is imported: `local` and `doctor` must run
where nothing but Python is installed.
"""

import sys
import tomllib
from collections.abc import Sequence

from wqlab.ground.places import ROOT
from wqlab.ground.problem import OK, STATUSES, USAGE
from wqlab.ground.program import call

# Its module, below wqlab, and what it does
COMMANDS = {
    "doctor": ("doctor", "say what is here, what is missing and what that prevents"),
    "build": ("kernels.build", "build a kernel"),
    "kunit": ("guests.kunit", "run the KUnit suites on User Mode Linux"),
    "boot": ("guests.boot", "boot a kernel in QEMU and run a job in it"),
    "bench": ("measure.bench", "build kernels, boot and measure them in turn, and report"),
    "local": ("measure.local", "measure this host, with the kernel that it runs"),
    "load": (
        "measure.load",
        "run dm-crypt, a file system, NFS or NVMe over TCP on this host, and measure it",
    ),
    "counts": (
        "measure.counts",
        "count in each kernel: costs, hotplug, irqsoff, peaks, reclaim, wakeups or loads",
    ),
    "sim": ("measure.sim", "measure kernels on a machine with many CPUs, in simulated time"),
    "report": ("report", "make tables and a page of results, or draw a machine and its pods"),
}

# The task of scripts/setup that a command needs, if not `bench`. Of these only `sim` takes Python
# packages.
TASKS = {
    "doctor": "",
    "load": "",
    "local": "",
    "build": "build",
    "counts dm-crypt-4k-simulated": "sim",
    "counts hotplug": "sim",
    "counts irqsoff": "sim",
    "sim": "sim",
}


def task_of(again: Sequence[str]) -> str:
    """The task of scripts/setup for this command line; what is counted may come after options."""
    _, *words = again
    counted = (TASKS[name] for word in words[1:] if (name := f"{words[0]} {word}") in TASKS)
    return next(counted, TASKS.get(words[0], "bench"))


def version() -> str:
    """That of pyproject.toml."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)["project"]["version"]


def usage() -> str:
    """The help of the program."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {about}" for name, (_, about) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: wqlab COMMAND [OPTION...]",
            "       wqlab --version",
            "",
            *lines,
            "",
            "wqlab COMMAND --help has the options.",
            STATUSES,
        ]
    )


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line, that of the process unless another one is given. Returns the exit
    status."""
    words = sys.argv[1:] if words is None else words
    if not words or words[0] in ("-h", "--help"):
        print(usage(), file=sys.stdout if words else sys.stderr)
        return OK if words else USAGE
    name, *rest = words
    if name == "--version":
        print(f"wqlab {version()}")
        return OK
    if name not in COMMANDS:
        print(f"wqlab: error: no command {name!r}: {', '.join(COMMANDS)}", file=sys.stderr)
        return USAGE
    (module, _), again = COMMANDS[name], ["wqlab", *words]
    return call(f"wqlab {name}", f"wqlab.{module}", rest, again, task_of(again))
