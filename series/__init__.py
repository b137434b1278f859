# SPDX-License-Identifier: GPL-2.0
"""The series of a base: the source that it is for, its patches as commits, and as mails."""

import argparse

from series import check, clean, compare, letters, refresh, tree
from wqlab.kernels import obtain

# What each does; its module has add_options() and command() as that of a command
COMMANDS = {
    "obtain": (obtain, "get the source of a base, or take one of yours"),
    "tree": (tree, "make a git tree with a commit for each patch, to edit in"),
    "refresh": (refresh, "write the patches back from that tree"),
    "compare": (compare, "show how the series of two bases differ"),
    "letters": (letters, "write the series as it would be sent"),
    "check": (check, "say what is wrong with the series as it would be sent"),
    "clean": (clean, "remove build/, but for work of yours"),
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the commands, and the options of each."""
    below = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, (module, about) in COMMANDS.items():
        one = below.add_parser(
            name,
            help=about,
            description=module.__doc__,
            epilog=parser.epilog,
            formatter_class=parser.formatter_class,
            allow_abbrev=False,
        )
        module.add_options(one)
        one.set_defaults(command=module.command)


def command(args: argparse.Namespace) -> int:
    """Run the command that was named."""
    return args.command(args)
