# SPDX-License-Identifier: GPL-2.0
"""The series as a program."""

import sys

from wqlab.ground.program import call

# The task of scripts/setup that a command needs, if not `obtain`
TASKS = {"check": "test", "clean": ""}


def main() -> int:
    """Run the series with the command line of the process. Returns the exit status."""
    words = sys.argv[1:]
    task = TASKS.get(next(iter(words), ""), "obtain")
    return call("series", "series", words, ["series", *words], task)


if __name__ == "__main__":
    sys.exit(main())
