# SPDX-License-Identifier: GPL-2.0
"""Make Debian's own kernel ready to boot, with test_workqueue, as a user of a stock machine has it.

It is the cloud kernel of the base's series, the newest that apt knows, as it is in its package;
the module is built against its headers.
"""

import hashlib
import lzma
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from wqlab.ground.files import lock, remove
from wqlab.ground.places import CACHE, ROOT
from wqlab.ground.problem import Problem, Skipped
from wqlab.ground.run import check, run, say
from wqlab.kernels import apt
from wqlab.kernels.arch import Arch, find_arch
from wqlab.kernels.bases import Base, load_base, version_key
from wqlab.kernels.build import IMAGES
from wqlab.kernels.source import kbuild_env

# Not what a build of the user's may have left there
SOURCES = [
    ROOT / "lib" / name
    for name in (
        "Kbuild",
        "test_workqueue.c",
        "test_workqueue.h",
        "test_workqueue_kunit.c",
    )
]


def want_apt() -> None:
    if not shutil.which("apt-get"):
        raise Skipped("this machine has no apt to get what Debian has")


def from_debian(
    folder: str, base: Base, find: Callable[[], str], make: Callable[[str, Path], None]
) -> Path:
    """apt.latest() in a folder of the cache; Skipped where Debian has nothing for us."""
    try:
        return apt.latest(CACHE / folder, base.series, find, make)
    except apt.Unreachable as reason:
        raise Skipped(str(reason)) from None


def get_kernel(base: Base, arch: Arch) -> Path:
    """The unpacked packages of the newest kernel: its image, headers and their tools."""
    flavour, its_apt, releases = arch.debian, apt.Apt(), {}

    def newest() -> str:
        names = its_apt.ask("pkgnames", f"linux-headers-{base.series}.").split()
        found = [name.removeprefix("linux-headers-") for name in names if name.endswith(flavour)]
        for release in sorted(found, key=version_key, reverse=True):
            version = its_apt.newest(f"linux-image-{release}")
            if version:
                releases[version] = release
                return version
        return ""

    def find() -> str:
        version = newest()
        if not version:
            apt.refresh(now=True)
            version = newest()
        if not version:
            raise apt.Unreachable(
                f"apt cannot get linux-image-{base.series}.*-{flavour} and its headers: are they "
                "in the suites that apt is configured for, is the network up?"
            )
        return version

    def make(version: str, part: Path) -> None:
        release = releases[version]
        common = release.removesuffix(f"-{flavour}")
        names = [f"linux-image-{release}", f"linux-headers-{release}"]
        names += [f"linux-headers-{common}-common", f"linux-kbuild-{common}"]
        packages = its_apt.download(names[0], version, names)
        apt.unpack(packages, part, f"{names[0]} {version}")
        remove(packages[0].parent)
        # The only path that is not relative
        makefile = part / f"usr/src/linux-headers-{release}/Makefile"
        makefile.write_text(makefile.read_text().replace("/usr/src/", "../"))

    want_apt()
    apt.refresh()
    return from_debian("debian", base, find, make)


def configuration(base: Base, arch: Arch) -> list[str]:
    """The lines of Debian's own configuration of the newest kernel of the base's series, or of
    that of the base that it names for this."""
    if base.config:
        return configuration(load_base(base.config), arch)
    want_apt()
    name, kind = f"linux-config-{base.series}", arch.dpkg
    suite = base.suite or (base.foreign if arch.foreign else "")
    if arch.foreign and not suite:
        raise Skipped(f"the machine's own apt has no {name} for {kind}")
    its_apt = apt.private(suite, "deb", kind) if suite else apt.Apt()

    def find() -> str:
        version = its_apt.newest(name)
        if not version:
            raise apt.Unreachable(f"Debian has no {name} for {kind}")
        return version

    def make(version: str, part: Path) -> None:
        packages = its_apt.download(name, version)
        apt.unpack(packages, part, f"{name} {version}")
        remove(packages[0].parent)

    place = from_debian(f"config-{kind}", base, find, make)
    [file] = place.glob(f"usr/src/{name}/config.{kind}_none_{kind}.xz")
    with lzma.open(file, "rt") as text:
        return text.read().splitlines()


def loadable(unpacked: Path, release: str, names: Sequence[str], part: Path) -> None:
    """These of the kernel's modules, and what they depend on, for modprobe in `part`."""
    there = {
        path.name.partition(".")[0].replace("-", "_"): path
        for path in (unpacked / "lib/modules" / release).rglob("*.ko.xz")
    }
    place = part / "lib/modules" / release
    place.mkdir(parents=True)
    left = list(names)
    while left:
        name = left.pop().replace("-", "_")
        path = place / f"{name}.ko"
        if path.exists():
            continue
        if name not in there:
            raise Problem(f"{release} has no module {name}")
        path.write_bytes(lzma.decompress(there[name].read_bytes()))
        depends = check(["modinfo", "-F", "depends", path], wrong=f"what is {path.name}?")
        left += filter(None, depends.strip().split(","))
    check(["depmod", "-b", part, release], wrong="depmod failed")


def prepare(base: Base, modules: Sequence[str] = ()) -> Path:
    """The directory of Debian's kernel with test_workqueue, laid out as those of wqlab build.

    It also has `modules` of the kernel's own, with what they depend on, for modprobe. Raises
    Skipped where Debian has no such kernel, and Problem where the module does not build.
    """
    arch = find_arch()
    if modules and not shutil.which("depmod"):
        raise Skipped("there is no depmod here: the package kmod has it")
    with lock("debian"):
        unpacked = get_kernel(base, arch)
        [image] = (unpacked / "boot").glob("vmlinuz-*")
        release = image.name.removeprefix("vmlinuz-")
        headers = unpacked / f"usr/src/linux-headers-{release}"
        sources = [path for path in SOURCES if path.is_file()]
        parts = [f"{arch.name} {release} {unpacked.name}", *(path.read_text() for path in sources)]
        parts += [*modules, compiler_of(headers, release)]
        key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
        result = IMAGES / key
        if (result / arch.image).is_file():
            result.touch()
            return result

        IMAGES.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{key}.", dir=IMAGES) as folder:
            part = Path(folder) / "result"
            build_module(headers, release, sources, part / "lib")
            for path, place in ((image, arch.image), (headers / ".config", ".config")):
                (part / place).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, part / place)
            if modules:
                loadable(unpacked, release, modules, part)
            (part / "include/config").mkdir(parents=True)
            (part / "include/config/kernel.release").write_text(f"{release}\n")
            remove(result)
            part.rename(result)
        say(f"made ready: {result}")
        return result


def compiler_of(headers: Path, release: str) -> str:
    """What the compiler that the headers want says of its version."""
    variables = (headers / ".kernelvariables").read_text()
    [compiler] = re.findall(r"^CC = .*\(CROSS_COMPILE\)(.*)$", variables, re.MULTILINE)
    if not shutil.which(compiler):
        raise Problem(f"the headers of {release} want the compiler {compiler}: install it")
    return check([compiler, "--version"], wrong=f"{compiler} does not run")


def build_module(headers: Path, release: str, sources: Sequence[Path], lib: Path) -> None:
    """Build test_workqueue in `lib`, as a user would, and leave nothing but the module."""
    lib.mkdir(parents=True)
    for path in sources:
        shutil.copy(path, lib)
    log = CACHE / "debian.log"
    log.unlink(missing_ok=True)
    done = run(
        ["make", "-C", headers, f"M={lib}"],
        limit=300,
        label=f"building test_workqueue for {release}",
        log=log,
        env=kbuild_env(),
    )
    if done.status:
        text = log.read_text(errors="replace")
        said = re.findall(r".*(?:error|not found|No such|Error \d).*", text)
        raise Problem("\n".join([f"the module does not build: see {log}", *said[:5]]))
    for path in [*lib.iterdir()]:
        if path.name != "test_workqueue.ko":
            remove(path)
