# SPDX-License-Identifier: GPL-2.0
"""The audit as a program."""

import sys

from wqlab.ground.program import call


def main() -> int:
    """Run the audit with the command line of the process. Returns the exit status."""
    return call("audit", "audit", sys.argv[1:], ["audit", *sys.argv[1:]], "audit")


if __name__ == "__main__":
    sys.exit(main())
