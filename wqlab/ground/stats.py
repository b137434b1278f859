# SPDX-License-Identifier: GPL-2.0
"""Medians, and whether two kernels differ, of figures that vary from boot to boot.

The interval is the percentile bootstrap: Efron and Tibshirani, An Introduction to the Bootstrap,
1993, chapter 13.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 10_000
SEED = 20241117  # the same figures give the same interval
LEVEL = 0.95

# With fewer boots on either side, equal kernels would be called different far more often
# than the level says (tests/host/test_stats.py).
ENOUGH = 5


@dataclass(frozen=True)
class Spread:
    """The middle and the ends of figures, one from each boot, in whatever unit they have."""

    median: float
    low: float  # the lowest
    high: float  # the highest
    n: int

    @classmethod
    def of(cls, figures: Sequence[float]) -> "Spread":
        """That of at least one figure."""
        return cls(
            float(np.median(figures)), float(min(figures)), float(max(figures)), len(figures)
        )


@dataclass(frozen=True)
class Ratio:
    """The median of one kernel's figures over that of another's, and its 95 % interval."""

    ratio: float
    low: float
    high: float
    n: tuple[int, int]  # boots of either

    @property
    def differs(self) -> bool:
        """Whether a difference may be claimed."""
        return min(self.n) >= ENOUGH and not self.low <= 1 <= self.high


def medians(figures: Sequence[float], rng: np.random.Generator) -> np.ndarray:
    """The medians of RESAMPLES samples, each as many figures drawn from these with replacement."""
    values = np.asarray(figures, dtype=float)
    return np.median(values[rng.integers(0, len(values), (RESAMPLES, len(values)))], axis=1)


def compare(figures: Sequence[float], to: Sequence[float]) -> Ratio | None:
    """The median of `figures` over that of `to`, with its interval at LEVEL.

    The interval is from quantiles of the ratio of resampled medians. None where there is no
    ratio: no figures, or some that are not above 0.
    """
    if not figures or not to or min(*figures, *to) <= 0:
        return None
    rng = np.random.default_rng(SEED)
    ratios = medians(figures, rng) / medians(to, rng)
    low, high = np.quantile(ratios, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Ratio(
        ratio=float(np.median(figures) / np.median(to)),
        low=float(low),
        high=float(high),
        n=(len(figures), len(to)),
    )
