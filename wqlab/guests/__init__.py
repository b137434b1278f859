# SPDX-License-Identifier: GPL-2.0
"""Guests: their scenarios, how they are booted, and what is said and dumped there."""
