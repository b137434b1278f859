# SPDX-License-Identifier: GPL-2.0
"""Machines that are emulated: what they look like, how they boot."""
