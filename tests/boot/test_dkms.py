# SPDX-License-Identifier: GPL-2.0
"""lib/dkms.conf, as `dkms install lib` reads it: the module is built against Debian's headers. Nothing is
installed.

Seen failing: with another module in Kbuild, another folder to build in, and another name of the module.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

import debian
import pytest
from farm import Making, Need

from wqlab.ground.files import lock
from wqlab.ground.places import ROOT
from wqlab.ground.run import check
from wqlab.kernels.arch import find_arch
from wqlab.kernels.bases import default_base, load_base


@dataclass(frozen=True)
class Headers(Need):
    """Debian's own kernel with its headers, unpacked."""

    guess = 60.0

    def make(self, farm: Making) -> Path:
        with lock("debian"):
            return debian.get_kernel(load_base(default_base()), find_arch())


@pytest.mark.skipif(not shutil.which("dkms"), reason="there is no dkms here")
@pytest.mark.needs(Headers())
def test_dkms_builds_the_module(made: Path, tmp_path: Path) -> None:
    [image] = (made / "boot").glob("vmlinuz-*")
    release, arch = image.name.removeprefix("vmlinuz-"), find_arch().uname
    headers = made / f"usr/src/linux-headers-{release}"
    places = {name: tmp_path / name for name in ("dkmstree", "sourcetree", "installtree")}
    for place in places.values():
        place.mkdir()
    where = [f"--{name}={place}" for name, place in places.items()]
    what = [
        "-k",
        release,
        "-a",
        arch,
        "--kernelsourcedir",
        headers,
        "--config",
        headers / ".config",
    ]
    command = ["dkms", "build", ROOT / "lib", *what, *where]
    check(command, wrong="dkms build lib", limit=300)
    [module] = places["dkmstree"].rglob("test_workqueue.ko*")
    known = check(["modinfo", "-F", "vermagic", module], wrong="modinfo")
    assert known.startswith(f"{release} ") and module.parent.parent.name == arch
    parameters = check(["modinfo", "-F", "parm", module], wrong="modinfo")
    assert {"scopes", "sleep_us"} <= {line.partition(":")[0] for line in parameters.splitlines()}
