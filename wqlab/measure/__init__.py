# SPDX-License-Identifier: GPL-2.0
"""What measures: in guests, on the host, in simulated time."""
