# SPDX-License-Identifier: GPL-2.0
"""Where things are: in the repository, or in what pip has installed of it."""

import os
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
# pip puts what the package reads into it: pyproject.toml says what that is
INSTALLED = (_PACKAGE / "data").is_dir()

# what is read: bases/, configs/, scenarios/ and so on
ROOT = _PACKAGE / "data" if INSTALLED else _PACKAGE.parent
# what is written; an installed package belongs to root, and the next upgrade replaces it
_WORK = Path.cwd() if INSTALLED else ROOT
BUILD = _WORK / "build"  # what is derived; `make clean` removes it
LOCAL = _WORK / "local"  # results of this host

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "unbound-workqueue"
VENV = CACHE / "venv"  # of scripts/setup
