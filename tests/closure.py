# SPDX-License-Identifier: GPL-2.0
"""Python and drgn for a guest: this machine's files, at the paths that they have here."""

import re
import sys
from pathlib import Path

from wqlab.vm import libraries

# of the standard library, what nothing here imports
LEFT_OUT = {"__pycache__", "ensurepip", "idlelib", "lib2to3", "site-packages", "test", "tkinter"}


def python_with(packages: Path) -> dict[str, Path]:
    """The files of Python and of drgn in that folder."""
    program = Path(sys.executable).resolve()
    library = Path(re.__file__).resolve().parent.parent
    files = [
        path
        for path in library.rglob("*")
        if path.is_file()
        and not LEFT_OUT & set(path.relative_to(library).parts)
        and not path.relative_to(library).parts[0].startswith("config-")
    ]
    drgn = [*packages.glob("*drgn*/**/*.py"), *packages.glob("_drgn*.so")]
    found = {program, *files, *drgn}
    for path in [program, *(path for path in (*files, *drgn) if path.suffix == ".so")]:
        found.update(libraries(path))
    return {str(path): path for path in found}
