# SPDX-License-Identifier: GPL-2.0
"""What measures: in guests, on this machine, in simulated time."""
