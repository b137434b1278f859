# SPDX-License-Identifier: GPL-2.0
"""Kernels: bases, sources, builds."""
