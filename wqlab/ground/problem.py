# SPDX-License-Identifier: GPL-2.0
"""What ends a command: one line that says what is wrong and what would be right."""

OK, FAILED, USAGE, SKIPPED, INTERRUPTED = 0, 1, 2, 77, 130

# Of every command, as help has them
STATUSES = "Exit status: 0 done, 1 failed, 2 wrong usage, 77 skipped, 130 interrupted"


class Problem(Exception):
    """The command has failed."""

    status = FAILED


class Usage(Problem):
    """The command was called wrongly; nothing was begun."""

    status = USAGE


class Skipped(Problem):
    """What was asked for cannot be had here, through nobody's fault."""

    status = SKIPPED
