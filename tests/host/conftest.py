# SPDX-License-Identifier: GPL-2.0
"""Fixtures of the tests that need no kernel."""

from pathlib import Path

import pytest
from fake_kernel import Project, make_project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path)
