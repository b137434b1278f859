# SPDX-License-Identifier: GPL-2.0
"""The one command line. Each command is a module, whose docstring is its help.

A command's module has add_options(parser), which declares and checks its options, and
command(args), which returns the exit status. Only the module that was asked for is imported:
`local` and `doctor` must run where nothing but Python is installed.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module

from wqlab.ground.places import VENV
from wqlab.ground.problem import FAILED, OK, USAGE, Problem
from wqlab.ground.run import end_all, handle_signals

# Its module, below wqlab, and what it does
COMMANDS = {
    "doctor": ("doctor", "say what is here, what is missing and what that prevents"),
    "obtain": ("kernels.obtain", "get the source of a base, or take one of yours"),
    "build": ("kernels.build", "build a kernel"),
    "kunit": ("guests.kunit", "run the KUnit suites on User Mode Linux"),
    "boot": ("guests.boot", "boot a kernel in QEMU and run a job in it"),
    "bench": ("measure.bench", "build kernels, boot and measure them in turn, and report"),
    "local": ("measure.local", "measure this very machine, with the kernel that it runs"),
    "load": (
        "measure.load",
        "run dm-crypt, a file system, NFS or NVMe over TCP on this machine, and measure it",
    ),
    "counts": (
        "measure.counts",
        "count in each kernel: costs, hotplug, irqsoff, peaks, reclaim, wakeups or loads",
    ),
    "sim": ("measure.sim", "measure kernels on a machine with many CPUs, in simulated time"),
    "validate": ("measure.validate", "simulate what others have measured, and compare"),
    "picture": ("report.picture", "draw a machine and the pods of each affinity scope"),
    "report": ("report", "make tables and a page of results"),
    "export": ("report.export", "write results as CSV or as benchstat's text"),
}

# The task of scripts/setup that a command needs, if not `bench`. Of these only `sim` takes Python
# packages.
TASKS = {
    "audit": "audit",
    "mutants": "sim",
    "mails": "test",
    "debian": "bench",
    "doctor": "",
    "load": "",
    "local": "",
    "obtain": "obtain",
    "build": "build",
    "counts dm-crypt-4k-simulated": "sim",
    "counts hotplug": "sim",
    "counts irqsoff": "sim",
    "sim": "sim",
    "validate": "sim",
}


def task_of(again: Sequence[str]) -> str:
    """The task of scripts/setup; what is counted may come after options."""
    program, *words = again
    if program != "wqlab":
        return TASKS[program]
    counted = (TASKS[name] for word in words[1:] if (name := f"{words[0]} {word}") in TASKS)
    return next(counted, TASKS.get(words[0], "bench"))


def set_up(again: Sequence[str]) -> int | None:
    """Under scripts/wqlab, have scripts/setup install what the command needs. Where that is
    Python packages, go on with the Python that has them; a status other than None is the end."""
    setup = os.environ.pop("WQ_SETUP", "")
    task = task_of(again)
    if not setup or not task:
        return None
    with subprocess.Popen([setup, task]) as program:  # in our session: sudo may ask for a password
        try:
            failed = program.wait() != 0
        except BaseException:
            program.terminate()
            raise
    if failed:
        return FAILED
    if task in ("bench", "sim"):
        python = str(VENV / "bin/python")
        os.execv(python, [python, "-m", *again])
    return None


def lacks(error: ModuleNotFoundError) -> int:
    print(
        f"wqlab: error: {error.name} is not installed: type scripts/wqlab, which installs it",
        file=sys.stderr,
    )
    return FAILED


def usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {about}" for name, (_, about) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: wqlab COMMAND [OPTION...]",
            "",
            *lines,
            "",
            "wqlab COMMAND --help has the options.",
        ]
    )


def main(words: list[str] | None = None) -> int:
    words = sys.argv[1:] if words is None else words
    if not words or words[0] in ("-h", "--help"):
        print(usage(), file=sys.stdout if words else sys.stderr)
        return OK if words else USAGE
    name, *rest = words
    if name not in COMMANDS:
        print(f"wqlab: error: no command {name!r}: {', '.join(COMMANDS)}", file=sys.stderr)
        return USAGE
    return call(f"wqlab {name}", f"wqlab.{COMMANDS[name][0]}", rest, ["wqlab", *words])


def call(prog: str, name: str, rest: Sequence[str], again: Sequence[str]) -> int:
    """Run the command of module `name` with the options `rest`, and end as a command does.
    `again` is what to run with python -m once what the command needs is installed."""
    handle_signals()
    os.environ["LC_ALL"] = "C"  # what programs say is read
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:  # of the Python packages, which are not there yet
        if (status := set_up(again)) is not None:
            return status
        return lacks(error)
    parser = argparse.ArgumentParser(
        prog=prog,
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    try:
        module.add_options(parser)
        args = parser.parse_args(rest)
        if (status := set_up(again)) is not None:
            return status
        return module.command(args)
    except Problem as problem:
        print(f"{parser.prog}: error: {problem}", file=sys.stderr)
        return problem.status
    except ModuleNotFoundError as error:
        return lacks(error)
    except BrokenPipeError:  # who read what this prints has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        print(f"{parser.prog}: error: {error.filename}: {error.strerror}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print(f"{parser.prog}: interrupted", file=sys.stderr)
        return 130
    finally:
        end_all()
