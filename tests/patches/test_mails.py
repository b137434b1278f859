# SPDX-License-Identifier: GPL-2.0
"""The series for the newest base is fit to be sent.

Seen failing: with figures of 6.12 in a changelog of 7.3, and with a path below results/.
"""

from dataclasses import dataclass

import pytest
from farm import Making, Need

from series.check import all_findings
from wqlab.ground.problem import Skipped
from wqlab.kernels.apt import Unreachable
from wqlab.kernels.bases import load_base, series_names
from wqlab.kernels.obtain import obtain


@dataclass(frozen=True)
class Mails(Need):
    """What is wrong with them."""

    guess = 60.0

    def make(self, farm: Making) -> list[str]:
        try:
            return all_findings(obtain(load_base(series_names()[-1])))
        except Unreachable as reason:
            raise Skipped(str(reason)) from None


@pytest.mark.needs(Mails())
def test_mails(made: list[str]) -> None:
    assert not made, "\n".join(made)
