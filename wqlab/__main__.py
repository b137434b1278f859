# SPDX-License-Identifier: GPL-2.0
import sys

from wqlab.cli import main

sys.exit(main())
