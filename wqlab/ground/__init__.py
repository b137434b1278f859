# SPDX-License-Identifier: GPL-2.0
"""What everything stands on: programs, files, git, errors, words and statistics."""
