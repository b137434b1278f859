# SPDX-License-Identifier: GPL-2.0
"""How a command of wqlab or the audit runs and ends.

A command is a module. Its docstring is its help; add_options(parser) declares and checks its
options, and command(args) returns the exit status. args.typed is the command itself, for results.
"""

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper

from wqlab.ground.places import INSTALLED, ROOT, VENV
from wqlab.ground.problem import FAILED, INTERRUPTED, STATUSES, Problem
from wqlab.ground.run import end_all, handle_signals

# The tasks of scripts/setup that install Python packages
PYTHON_TASKS = ("bench", "sim", "test")


def set_up(task: str, again: Sequence[str]) -> int | None:
    """Under a launcher in scripts/, have scripts/setup install what the task needs.

    Where that is Python packages, the program starts anew, as `python -m AGAIN`, with the Python
    that has them. Returns the exit status if the program must end now, None if it can go on.
    """
    setup = os.environ.pop("WQ_SETUP", "")
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
    if task in PYTHON_TASKS:
        python = str(VENV / "bin/python")
        os.execv(python, [python, "-P", "-m", *again])
    return None


def lacks(error: ModuleNotFoundError) -> int:
    """Say which Python package is missing. Returns the exit status."""
    how = "pip installs it" if INSTALLED else "type scripts/wqlab, which installs it"
    print(f"wqlab: error: {error.name} is not installed: {how}", file=sys.stderr)
    return FAILED


def typed(prog: str, words: Sequence[str]) -> str:
    """The command as results say what made them.

    It can be pasted into a shell at the top of the repository.
    """
    program = prog if INSTALLED else f"scripts/{prog}"
    return shlex.join([*program.split(), *(word.replace(f"{ROOT}/", "") for word in words)])


def call(prog: str, name: str, rest: Sequence[str], again: Sequence[str], task: str) -> int:
    """Run the command of module `name` with the options `rest`. Returns the exit status.

    `prog` is what help and messages call it, `task` the task of scripts/setup that it needs, and
    `again` what to run with `python -m` once that is installed.
    """
    handle_signals()
    os.environ["LC_ALL"] = "C"  # what programs say is read
    if isinstance(sys.stdout, TextIOWrapper):  # a terminal may know ASCII alone
        sys.stdout.reconfigure(errors="replace")
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:  # of the Python packages, which are not there yet
        if (status := set_up(task, again)) is not None:
            return status
        return lacks(error)
    parser = argparse.ArgumentParser(
        prog=prog,
        description=module.__doc__,
        epilog=STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    try:
        module.add_options(parser)
        args = parser.parse_args(rest)
        args.typed = typed(prog, rest)
        if (status := set_up(task, again)) is not None:
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
        where = f"{error.filename}: " if error.filename else ""
        print(f"{parser.prog}: error: {where}{error.strerror}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print(f"{parser.prog}: interrupted", file=sys.stderr)
        return INTERRUPTED
    finally:
        end_all()
