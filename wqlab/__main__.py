# SPDX-License-Identifier: GPL-2.0
"""wqlab as a program: `python3 -m wqlab`."""

import sys

from wqlab.cli import main

sys.exit(main())
