# SPDX-License-Identifier: GPL-2.0
"""What ends a command: one line that says what is wrong and what would be right.

Exit statuses, the same for every command: 0 done, 1 failed, 2 wrong usage, 77 skipped.
"""

OK, FAILED, USAGE, SKIPPED = 0, 1, 2, 77


class Problem(Exception):
    """The command has failed."""

    status = FAILED


class Usage(Problem):
    """The command was called wrongly; nothing was begun."""

    status = USAGE


class Skipped(Problem):
    """What was asked for cannot be had here, through nobody's fault."""

    status = SKIPPED
