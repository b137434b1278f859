# SPDX-License-Identifier: GPL-2.0
"""Where things are."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"  # what is derived; `make clean` removes it
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "unbound-workqueue"
VENV = CACHE / "venv"  # of scripts/setup
