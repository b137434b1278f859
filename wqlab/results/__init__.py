# SPDX-License-Identifier: GPL-2.0
"""Results of measurements: their format, their figures, their files, and the host they are of."""
