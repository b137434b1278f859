# SPDX-License-Identifier: GPL-2.0
"""Build a kernel: a base with the first N patches of its series, in one of the flavours.

The result is kept in the cache under a key of all that went into it, so that the same build is
done once; its build.json says what that was. Prints the directory of the result, laid out like
a kernel's build directory, and nothing else, on stdout.
"""

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from wqlab.ground.files import lock, remove, write_whole
from wqlab.ground.git import asked, patched
from wqlab.ground.places import CACHE, ROOT
from wqlab.ground.problem import OK, Problem, Skipped, Usage
from wqlab.ground.run import check, run, say
from wqlab.kernels import options
from wqlab.kernels.arch import UML, Arch, find_arch
from wqlab.kernels.bases import Base, Patch
from wqlab.kernels.obtain import obtain
from wqlab.kernels.source import Source, kbuild_env

CONFIGS = ROOT / "configs"
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
        for name in ("wqcrowd", "wqflush", "wqmany", "wqreclaim")
    },
}
# Changed when the same input gives another result.
VERSION = 4


@dataclass(frozen=True)
class Flavour:
    """What a kernel is built for: an entry of configs/flavours.toml."""

    name: str
    about: str
    fragments: tuple[str, ...]  # files of configs/
    arch: str = ""  # "" is any
    beside: str = ""  # built where this one is: few files of the two differ
    lines: tuple[str, ...] = ()  # put behind them, without "CONFIG_"
    make: tuple[str, ...] = ()  # what is said to the kernel's make


@cache
def flavours() -> dict[str, Flavour]:
    known = tomllib.loads((CONFIGS / "flavours.toml").read_text())
    return {
        name: Flavour(name=name, **{**entry, "fragments": tuple(entry["fragments"])})
        for name, entry in known.items()
    }


def fragments(flavour: Flavour, arch: Arch) -> list[Path]:
    names = [flavour.fragments[0], f"arch/{arch.name}", *flavour.fragments[1:]]
    paths = [CONFIGS / name for name in names]
    for path in paths:
        if not path.is_file():
            raise Problem(f"flavour {flavour.name}: there is no {path.relative_to(ROOT)}")
    return paths


def symbols_of(patches: Sequence[Patch]) -> list[str]:
    """The Kconfig symbols that patches add."""
    return re.findall(r"^\+config (\w+)$", "".join(patch.text for patch in patches), re.MULTILINE)


def wanted(source: Source, count: int, paths: Sequence[Path]) -> list[str]:
    """The lines for .config, without symbols that a patch adds which the source has not got."""
    missing = set(symbols_of(source.base.patches)) - set(symbols_of(source.base.patches[:count]))
    lines = [line for path in paths for line in path.read_text().splitlines()]
    return [
        line
        for line in lines
        if line.startswith("CONFIG_") and line[7:].partition("=")[0] not in missing
    ]


def lost(lines: Sequence[str], config: Sequence[str]) -> list[str]:
    """Those of `lines` that a final configuration does not have; of those for one symbol the last
    counts."""
    last = {line.partition("=")[0]: line for line in lines}
    has = {line.partition("=")[0]: line for line in config if line.startswith("CONFIG_")}
    return [
        line
        for symbol, line in last.items()
        if has.get(symbol, f"{symbol}=n") != line
    ]  # fmt: skip


def compiler(arch: Arch) -> str:
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
class Job:
    """One build: where it is done, and by which make."""

    tree: Path
    obj: Path
    arch: Arch
    jobs: int
    args: tuple[str, ...] = ()  # more for make, that win over what is said here

    @property
    def log(self) -> Path:
        return self.obj / "build.log"

    def make(self, label: str, *targets: str, wrong: str = "the configuration failed") -> None:
        done = run(
            [
                *("make", "-C", self.tree, f"O={self.obj}", f"ARCH={self.arch.kbuild}"),
                *(f"CROSS_COMPILE={self.arch.cross}", f"CC=ccache {self.arch.cross}gcc"),
                *self.args,
                *(f"-j{self.jobs or len(os.sched_getaffinity(0))}", *targets),
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

    def configure(self, label: str, flavour: Flavour, lines: list[str]) -> None:
        """Of `lines` and then those of the flavour. Stays what it is where neither what is wanted
        nor what there is has changed. None of the flavour's lines, or else of all, may be lost to
        what they depend on."""
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
        without = lost(firm or lines, config.read_text().splitlines())
        if without:
            raise Problem(
                f"the final configuration lost {' '.join(without)}: what do they depend on?"
            )
        write_whole(stamp, key)


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
    """The directory of a kernel, built where the cache has not got it.

    `overlay` is new text for some of its files. Of `modules`, of MODULES, the result has those
    that are built out of tree. Each `place` has a checkout and objects of its own: builds in different places, and
    of different flavours without an overlay, go on side by side.
    """
    what = flavours().get(flavour) if isinstance(flavour, str) else flavour
    if not what:
        raise Usage(f"no flavour {flavour!r}: {', '.join(flavours())}")
    if what.arch == UML.name and platform.machine() != "x86_64":
        raise Skipped(f"there is no User Mode Linux for {platform.machine()}: boots run KUnit too")
    arch = UML if what.arch == UML.name else arch or find_arch()
    count = source.count(patches)
    paths = fragments(what, arch)
    files = [*paths, *(path for name in modules for path in MODULES[name])]
    gcc = compiler(arch)
    # What the source is made of, so that a known result needs no checkout.
    parts = [f"{VERSION} {arch.name} {source.tree_id} {gcc} {overlay_key(overlay)}"]
    parts += [patch.diff for patch in source.base.patches[:count]]
    parts += [path.read_text() for path in files]
    parts += [*what.lines, *what.make]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
    result = IMAGES / key

    def found() -> bool:
        if not (result / arch.image).is_file():
            return False
        result.touch()
        return True

    if found():
        return result
    stock = not count and not overlay
    place = place or ("overlay" if overlay else "")
    name = f"build-{arch.name}-{what.beside or what.name}"
    where = source.place(place or ("stock" if stock else ""))
    with lock(str((where / name).relative_to(CACHE))):
        if found():  # whoever held the lock may have built it
            return result
        with source.hold(count, place, overlay) as tree:
            # Right below the source, which kbuild then calls "..": so that the compiler's output
            # in the cache fits every place.
            obj = (where if stock else tree) / name
            job = Job(tree, obj, arch, jobs, what.make)
            obj.mkdir(parents=True, exist_ok=True)
            job.log.write_text("")
            label = f"{source.version} with {count} patches ({what.name})"
            job.configure(label, what, wanted(source, count, paths))
            has_modules = "CONFIG_MODULES=y" in (obj / ".config").read_text().splitlines()
            job.make(
                f"building {label}, log in {job.log}",
                *([arch.target, "vmlinux"] + ["modules"] * has_modules),
                wrong="the build failed",
            )
            more = []
            for module in modules:
                outside = obj.with_name(f"{obj.name}.{module}")
                remove(outside)
                outside.mkdir()
                for path in MODULES[module]:
                    shutil.copy(path, outside)
                job.make(
                    f"building {module}",
                    f"M={outside}",
                    "modules",
                    wrong=f"{module} fails to build",
                )
                more.append(outside / f"{module}.ko")
            about = {
                "key": key,
                "base": source.base.name,
                "version": source.version,
                "patches": count,
                "flavour": what.name,
                "arch": arch.name,
                "compiler": gcc,
                "config_sha256": hashlib.sha256((obj / ".config").read_bytes()).hexdigest(),
                "overlay": overlay_key(overlay),
            }
            keep(job, about, result, more)
    say(f"built: {result}")
    return result


def keep(job: Job, about: Mapping[str, object], result: Path, more: Sequence[Path]) -> None:
    """Copy what is needed of a build beside its place, and move it there last: what is there is
    whole. Of the results those used last stay, and those that may be in use."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{result.name}.", dir=IMAGES) as folder:
        part = Path(folder) / "result"
        names = [job.arch.image, ".config", "include/config/kernel.release"]
        if "CONFIG_DEBUG_INFO=y" in (job.obj / ".config").read_text().splitlines():
            names.append("vmlinux")
        order = job.obj / "modules.order"  # other modules there are of an earlier build
        modules = order.read_text().split() if order.is_file() else []
        names += [str(Path(name).with_suffix(".ko")) for name in modules]
        for name in dict.fromkeys(names):
            (part / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(job.obj / name, part / name)
        for module in more:
            (part / "lib").mkdir(exist_ok=True)
            shutil.copy(module, part / "lib")
        shutil.copy(job.tree / "tools/workqueue/wq_dump.py", part)
        (part / "build.json").write_text(json.dumps(about, indent=1) + "\n")
        remove(result)
        part.rename(result)
    used = {path: path.stat().st_mtime for path in IMAGES.glob("[!.]*")}
    for old in sorted(used, key=used.__getitem__, reverse=True)[KEPT:]:
        if used[old] < time.time() - NEEDED:
            remove(old)


def diff_overlay(source: Source, patches: int | None, diff: Path) -> dict[str, str]:
    """The text of the files that a diff changes, as they are with it."""
    with source.hold(patches) as tree:
        return patched(diff, lambda path: (tree / path).read_text())


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
    """--patches and --diff."""
    parser.add_argument(
        "--patches",
        type=options.checked(patch_count),
        metavar="N",
        help="only the first N patches of the series; 0 is the base (all)",
    )
    parser.add_argument(
        "--diff", type=options.existing, metavar="DIFF", help="what to change on top of them"
    )


def patch_count(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{text!r} is not a number of patches")
    return int(text)


def check_patches(base: Base, *patches: int | None) -> None:
    there = len(base.patches)
    for number in patches:
        if number is not None and number > there:
            raise Usage(f"--patches {number}: the series of {base.name} has {there}")


def command(args: argparse.Namespace) -> int:
    check_patches(args.base, args.patches)
    find_arch()
    source = obtain(args.base, args.ksrc)
    overlay = diff_overlay(source, args.patches, args.diff) if args.diff else None
    print(
        build(source, args.flavour, patches=args.patches, overlay=overlay, modules=args.module)
    )  # fmt: skip
    return OK
