# SPDX-License-Identifier: GPL-2.0
"""What ends a command: one line that says what is wrong and what would be right."""

OK, FAILED, USAGE, SKIPPED, INTERRUPTED = 0, 1, 2, 77, 130

# Exit statuses, the same for every command
STATUSES = {
    OK: "done",
    FAILED: "failed",
    USAGE: "wrong usage",
    SKIPPED: "skipped",
    INTERRUPTED: "interrupted",
}


def statuses() -> str:
    """The exit statuses as a line of help."""
    return "Exit status: " + ", ".join(f"{status} {what}" for status, what in STATUSES.items())


class Problem(Exception):
    """The command has failed."""

    status = FAILED


class Usage(Problem):
    """The command was called wrongly; nothing was begun."""

    status = USAGE


class Skipped(Problem):
    """What was asked for cannot be had here, through nobody's fault."""

    status = SKIPPED
