# SPDX-License-Identifier: GPL-2.0
"""The host side of this project, from obtaining a kernel's source to the report.

CONTRIBUTING.md says what is in which room; `python3 -m wqlab --help` lists the commands.
"""
