# SPDX-License-Identifier: GPL-2.0
"""Build a kernel: a base with the first N patches of its series, in one of the flavours.

The result is kept in the cache under a key of all that went into it, so that the same build is
done once; its build.json says what that was. Prints the directory of the result, laid out like
a kernel's build directory, and nothing else, on stdout.
"""

import argparse
import hashlib
import json
import platform
import re
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from wqlab.ground.files import lock, remove, write_whole
from wqlab.ground.git import asked
from wqlab.ground.places import CACHE, ROOT
from wqlab.ground.problem import OK, Problem, Skipped, Usage
from wqlab.ground.run import CORES, check, run, say
from wqlab.kernels import options
from wqlab.kernels.arch import UML, Arch, find_arch
from wqlab.kernels.bases import Base
from wqlab.kernels.flavours import Flavour, flavours, fragments, lost, wanted
from wqlab.kernels.obtain import obtain
from wqlab.kernels.source import Source, kbuild_env

IMAGES = CACHE / "images"
KEPT = 60  # results, those used last
NEEDED = 6 * 3600.0  # seconds since it was used in which a run of tests may still need one
LIMIT = 3600.0  # seconds for a build
# What is built out of tree, which every kernel can have
MODULES = {
    "test_workqueue": [
        ROOT / "lib" / name for name in ("Kbuild", "test_workqueue.c", "test_workqueue.h")
    ],
    "wqtorture": [ROOT / "kernel" / name for name in ("Kbuild", "wqtorture.c")],
    **{
        name: [ROOT / "guest" / name / file for file in ("Kbuild", f"{name}.c")]
        for name in ("wqbh", "wqcrowd", "wqflush", "wqhog", "wqmany", "wqreclaim")
    },
}
# To be changed when the same input gives another result than before.
VERSION = 4


def compiler(arch: Arch) -> str:
    """The first line of gcc --version; raises Problem if it is not installed."""
    gcc = f"{arch.cross}gcc"
    if not shutil.which(gcc):
        raise Problem(f"there is no {gcc} to build for {arch.name} with: scripts/setup installs it")
    done = check([gcc, "--version"], wrong=f"{gcc} does not run", limit=20)
    return done.splitlines()[0]


def overlay_key(overlay: Mapping[str, str] | None) -> str:
    """A name for what is put over the source; "" for nothing."""
    if not overlay:
        return ""
    text = json.dumps(sorted(overlay.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Kbuild:
    """The kernel's make for one build."""

    tree: Path  # the source
    obj: Path  # where objects go, O=
    arch: Arch
    jobs: int  # for make -j; 0: as many as there are CPUs
    args: tuple[str, ...] = ()  # more for make, that win over what is said here

    @property
    def log(self) -> Path:
        """What make has said."""
        return self.obj / "build.log"

    def make(self, label: str, *targets: str, wrong: str = "the configuration failed") -> None:
        """Run the kernel's make; raises Problem, with `wrong` and its errors, if it fails."""
        done = run(
            [
                *("make", "-C", self.tree, f"O={self.obj}", f"ARCH={self.arch.kbuild}"),
                *(f"CROSS_COMPILE={self.arch.cross}", f"CC=ccache {self.arch.cross}gcc"),
                *self.args,
                *(f"-j{self.jobs or CORES}", *targets),
            ],
            limit=LIMIT,
            label=label,
            log=self.log,
            env=kbuild_env(),
        )
        if done.status:
            lines = self.log.read_text(errors="replace").splitlines()
            errors = [line for line in lines if re.search(r"error|undefined|Error \d", line)]
            raise Problem("\n".join([f"{wrong}: see {self.log}", *(errors[:5] or lines[-15:])]))

    def make_module(self, name: str, overlay: Mapping[str, str]) -> Path:
        """Build a module of MODULES out of tree, beside the kernel's objects."""
        outside = self.obj.with_name(f"{self.obj.name}.{name}")
        remove(outside)
        outside.mkdir()
        for path in MODULES[name]:
            text = overlay.get(str(path.relative_to(ROOT))) or path.read_text()
            (outside / path.name).write_text(text)
        self.make(f"building {name}", f"M={outside}", "modules", wrong=f"{name} fails to build")
        return outside / f"{name}.ko"

    def configure(self, label: str, flavour: Flavour, lines: list[str]) -> None:
        """Write .config: `lines`, and behind them those of the flavour.

        Nothing is done where .config was made of the same lines by the same Kconfig and compiler.
        Raises Problem where olddefconfig drops a line of the flavour, or one of `lines` if the
        flavour has none.
        """
        firm = [f"CONFIG_{line}" for line in flavour.lines]
        lines = lines + firm
        kconfig = asked(self.tree, "ls-files", "-s", "--", "*Kconfig*", "kernel/configs/*")
        text = "\n".join([*lines, kconfig, compiler(self.arch), *self.args])
        key = hashlib.sha256(text.encode()).hexdigest()
        stamp, config = self.obj / "configured", self.obj / ".config"
        if stamp.is_file() and stamp.read_text() == key:
            return
        stamp.unlink(missing_ok=True)
        self.make(f"configuring {label}", "tinyconfig")
        with config.open("a") as file:
            file.write("\n".join(lines) + "\n")
        self.make(f"completing the configuration of {label}", "olddefconfig")
        if without := lost(firm or lines, config.read_text().splitlines()):
            raise Problem(
                f"the final configuration lost {' '.join(without)}: what do they depend on?"
            )
        write_whole(stamp, key)


@dataclass(frozen=True)
class Recipe:
    """What goes into a build."""

    source: Source
    flavour: Flavour
    arch: Arch
    patches: int
    overlay: Mapping[str, str]  # new text for files of the source, or of modules
    modules: tuple[str, ...]  # of MODULES, built out of tree

    @property
    def is_stock(self) -> bool:
        """Whether no patch and no overlay changes the source."""
        return not self.patches and not self.overlay

    @property
    def paths(self) -> list[Path]:
        """The fragments of its configuration."""
        return fragments(self.flavour, self.arch)

    @cached_property
    def key(self) -> str:
        """A name for all of it. The source is named by its parts, so that a build that is kept
        takes no checkout."""
        files = [*self.paths, *(path for name in self.modules for path in MODULES[name])]
        words = [str(VERSION), self.arch.name, self.source.tree_id, compiler(self.arch)]
        parts = [" ".join([*words, overlay_key(self.overlay)])]
        parts += [patch.diff for patch in self.source.base.patches[: self.patches]]
        parts += [path.read_text() for path in files]
        parts += [*self.flavour.lines, *self.flavour.make]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]

    def make(self, kbuild: "Kbuild") -> list[Path]:
        """Configure and build the kernel; the modules that are built out of tree."""
        label = f"{self.source.version} with {self.patches} patches ({self.flavour.name})"
        kbuild.obj.mkdir(parents=True, exist_ok=True)
        kbuild.log.write_text("")
        kbuild.configure(label, self.flavour, wanted(self.source, self.patches, self.paths))
        targets = [self.arch.target, "vmlinux"]
        if "CONFIG_MODULES=y" in (kbuild.obj / ".config").read_text().splitlines():
            targets.append("modules")
        kbuild.make(f"building {label}, log in {kbuild.log}", *targets, wrong="the build failed")
        return [kbuild.make_module(name, self.overlay) for name in self.modules]

    def about(self, obj: Path) -> dict[str, object]:
        """What build.json says of a build that was made in `obj`."""
        return {
            "key": self.key,
            "base": self.source.base.name,
            "version": self.source.version,
            "patches": self.patches,
            "flavour": self.flavour.name,
            "arch": self.arch.name,
            "compiler": compiler(self.arch),
            "config_sha256": hashlib.sha256((obj / ".config").read_bytes()).hexdigest(),
            "overlay": overlay_key(self.overlay),
        }


def build(
    source: Source,
    flavour: str | Flavour,
    *,
    patches: int | None = None,
    overlay: Mapping[str, str] | None = None,
    modules: Sequence[str] = (),
    arch: Arch | None = None,
    place: str = "",
    jobs: int = 0,
) -> Path:
    """The directory of a kernel, which is built unless the cache has it.

    `patches` is how many of the series it has (None: all), `overlay` is new text for some of its
    files or theirs, and `modules` are names of MODULES, built out of tree. Each `place` has a checkout and
    objects of its own: builds in different places go on side by side, and so do those of different
    flavours without an overlay. `jobs` is for make -j (0: as many as there are CPUs). Raises Usage
    for an unknown flavour, Skipped for User Mode Linux where there is none, and Problem where the
    build fails.
    """
    what = flavours().get(flavour) if isinstance(flavour, str) else flavour
    if not what:
        raise Usage(f"no flavour {flavour!r}: {', '.join(flavours())}")
    if what.arch == UML.name and platform.machine() != "x86_64":
        raise Skipped(f"there is no User Mode Linux for {platform.machine()}: boots run KUnit too")
    arch = UML if what.arch == UML.name else arch or find_arch()
    recipe = Recipe(source, what, arch, source.count(patches), overlay or {}, tuple(modules))
    result = IMAGES / recipe.key

    def found() -> bool:
        if not (result / arch.image).is_file():
            return False
        result.touch()
        return True

    if found():
        return result
    place = place or ("overlay" if overlay else "")
    name = f"build-{arch.name}-{what.beside or what.name}"
    where = source.place(place or ("stock" if recipe.is_stock else ""))
    with lock(str((where / name).relative_to(CACHE))):
        if found():  # whoever held the lock may have built it
            return result
        with source.hold(recipe.patches, place, overlay) as tree:
            # Kbuild then calls the source "..", whatever its path: the compiler's output in the
            # cache fits every place.
            obj = (where if recipe.is_stock else tree) / name
            kbuild = Kbuild(tree, obj, arch, jobs, what.make)
            more = recipe.make(kbuild)
            keep(kbuild, recipe.about(obj), result, more)
    say(f"built: {result}")
    return result


def keep(kbuild: Kbuild, about: Mapping[str, object], result: Path, more: Sequence[Path]) -> None:
    """Move what is needed of a build to its place, `result`, and remove old results.

    It is copied beside its place first, so that nobody finds it half copied. The KEPT results
    that were used last stay, and those that a run of tests may still need.
    """
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{result.name}.", dir=IMAGES) as folder:
        part = Path(folder) / "result"
        names = [kbuild.arch.image, ".config", "include/config/kernel.release"]
        if "CONFIG_DEBUG_INFO=y" in (kbuild.obj / ".config").read_text().splitlines():
            names.append("vmlinux")
        order = kbuild.obj / "modules.order"  # other modules there are of an earlier build
        modules = order.read_text().split() if order.is_file() else []
        names += [str(Path(name).with_suffix(".ko")) for name in modules]
        for name in dict.fromkeys(names):
            (part / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(kbuild.obj / name, part / name)
        for module in more:
            (part / "lib").mkdir(exist_ok=True)
            shutil.copy(module, part / "lib")
        shutil.copy(kbuild.tree / "tools/workqueue/wq_dump.py", part)
        (part / "build.json").write_text(json.dumps(about, indent=1) + "\n")
        remove(result)
        part.rename(result)
    used = {path: path.stat().st_mtime for path in IMAGES.glob("[!.]*")}
    for old in sorted(used, key=used.__getitem__, reverse=True)[KEPT:]:
        if used[old] < time.time() - NEEDED:
            remove(old)


# --- the command ----------------------------------------------------------------------------


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_base(parser, series=False)
    parser.add_argument(
        "--flavour",
        choices=flavours(),
        required=True,
        help="; ".join(f"{name}: {entry.about}" for name, entry in flavours().items()),
    )
    add_patches(parser)
    parser.add_argument(
        "--module",
        action="append",
        nargs="?",
        choices=MODULES,
        const="test_workqueue",
        default=[],
        help="with test_workqueue, or another module, built out of tree; may be repeated",
    )


def add_patches(parser: argparse.ArgumentParser) -> None:
    """--patches."""
    parser.add_argument(
        "--patches",
        type=options.checked(patch_count),
        metavar="N",
        help="only the first N patches of the series; 0 is the base (all)",
    )


def patch_count(text: str) -> int:
    """The value of --patches; raises ValueError for no number."""
    if not text.isdecimal():
        raise ValueError(f"{text!r} is not a number of patches")
    return int(text)


def check_patches(base: Base, *patches: int | None) -> None:
    """Raise Usage if the series of the base has fewer patches."""
    there = len(base.patches)
    for number in patches:
        if number is not None and number > there:
            raise Usage(f"--patches {number}: the series of {base.name} has {there}")


def command(args: argparse.Namespace) -> int:
    check_patches(args.base, args.patches)
    find_arch()
    source = obtain(args.base, args.ksrc)
    print(build(source, args.flavour, patches=args.patches, modules=args.module))
    return OK
