# SPDX-License-Identifier: GPL-2.0
"""How long the rest of a number of steps takes.

Seen failing: steps side by side taken for one after the other; the last one halved, too; a
time said when most of what is left was never done.
"""

from wqlab.ground.run import Progress


def test_time_left() -> None:
    progress = Progress(["boot"] * 4, at_once=2)
    assert progress.left() == ", time left not known yet"
    assert progress.step("boot", 20) == "[1/4]"
    assert progress.left() == ", about 30 s left"
    progress.step("boot", 20)
    progress.step("boot", 20)
    assert progress.left() == ", about 20 s left"
    progress.step("boot", 20)
    assert progress.left() == ""


def test_time_left_of_what_was_never_done() -> None:
    progress = Progress(["build", "boot", "boot", "boot"])
    progress.step("build", 300)
    assert progress.left() == ", time left not known yet"
    progress.step("boot", 60)
    assert progress.left() == ", about 2 min left"


def test_step_that_did_not_count() -> None:
    progress = Progress(["boot"] * 3)
    progress.step("boot", 1, counts=False)
    assert progress.left() == ", time left not known yet"
