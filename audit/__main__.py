# SPDX-License-Identifier: GPL-2.0
import sys

from wqlab.cli import call

sys.exit(call("audit", "audit", sys.argv[1:], ["audit", *sys.argv[1:]]))
