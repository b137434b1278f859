# SPDX-License-Identifier: GPL-2.0
"""The kernels to measure: which there are, and what each is built from."""

import argparse
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from wqlab.ground.git import asked, git, own_index
from wqlab.ground.problem import Problem
from wqlab.ground.run import say
from wqlab.kernels.bases import base_names, load_base
from wqlab.kernels.build import build
from wqlab.kernels.builddir import BuildDir, find_build
from wqlab.kernels.obtain import obtain
from wqlab.kernels.options import names
from wqlab.kernels.source import Source
from wqlab.results.host import kernel_of
from wqlab.results.model import Kernel

NAMES = ("stock", "patched", "mainline")
FLAVOUR = "bench"  # if no other is asked for


@dataclass(frozen=True)
class Subject:
    """A kernel to measure, built in one or more flavours."""

    described: Kernel
    builds: dict[str, BuildDir]  # by flavour

    @property
    def name(self) -> str:
        """What results call it."""
        return self.described.name

    def key(self, flavour: str) -> str:
        """Of all that went into the build."""
        return next(b.key or "" for b in self.described.builds if b.flavour == flavour)


def find_subject(name: str, paths: list[Path]) -> Subject:
    """A kernel from the directories of its flavours."""
    kernels = [find_build(path) for path in paths]
    described = kernel_of(name, kernels[0].release, paths)
    flavours = (str(build.flavour) for build in described.builds)
    return Subject(described, dict(zip(flavours, kernels, strict=True)))


def build_subject(
    name: str, source: Source, patches: int | None, flavours: Sequence[str] = (FLAVOUR,)
) -> Subject:
    """The kernel with the first `patches` of the series (None: all), and test_workqueue."""
    modules = ["test_workqueue"]
    paths = [build(source, flavour, patches=patches, modules=modules) for flavour in flavours]
    return find_subject(name, paths)


def add_kernels(parser: argparse.ArgumentParser) -> None:
    """--kernels, for sources()."""
    parser.add_argument(
        "--kernels",
        type=names(NAMES),
        default=list(NAMES),
        metavar="NAME,...",
        help=f"of {','.join(NAMES)} (all); mainline is left out if its source cannot be had",
    )


def has_series(source: Source) -> bool:
    """Whether the source has all patches already: they can be taken off one by one."""
    with own_index(source.repo, "HEAD") as index, suppress(Problem):
        for patch in reversed(source.base.patches):
            git(source.repo, "apply", "--cached", "--reverse", patch.path, more=index)
        return bool(source.base.patches)
    return False


def several_cpus(source: Source) -> bool:
    """Whether its User Mode Linux can have them: that of 7.3 can, 6.18 cannot."""
    words = ("UML_SUBARCH_SUPPORTS_SMP", "HEAD", "--", "arch/um/Kconfig")
    return bool(asked(source.repo, "grep", *words))


def sources(
    args: argparse.Namespace, notes: list[str], firsts: Sequence[int] = ()
) -> dict[str, tuple[Source, int | None]]:
    """What each kernel of --kernels is built from, and with how many patches (None: all), by its
    name; and a kernel first-N for each N of `firsts`, with the first N patches. Why one is left out
    comes to `notes`; Problem if all are."""
    found: dict[str, tuple[Source, int | None]] = {}
    in_source = "the series is in the source of --ksrc already"

    def leave_out(name: str, why: str) -> None:
        say(f"{name} is not measured: {why}")
        notes.append(f"{name} was not measured: {why}")

    if firsts or {"stock", "patched"} & set(args.kernels):
        source = obtain(args.base, args.ksrc)
        if args.ksrc:
            notes.append(
                f"the source is not that of base {args.base.name}, but one of {source.version}"
            )
        there = bool(args.ksrc) and has_series(source)
        if "stock" in args.kernels:
            if there:
                leave_out("stock", in_source)
            else:
                found["stock"] = source, 0
        if "patched" in args.kernels:
            found["patched"] = source, 0 if there else None
            if not there:
                with source.hold():  # that the series fits is seen before anything is built
                    pass
    if "mainline" in args.kernels:
        newest = load_base(base_names()[-1])
        if newest == args.base and not args.ksrc and "stock" in found:
            leave_out("mainline", f"it is {newest.name}, which is measured as stock")
        else:
            try:
                found["mainline"] = obtain(newest), 0
            except Problem as problem:
                leave_out("mainline", f"its source could not be had: {problem}")
    for number in firsts:
        if there:
            leave_out(f"first-{number}", in_source)
        else:
            found[f"first-{number}"] = source, number
    if not found:
        raise Problem(f"nothing to measure: {'; '.join(notes)}")
    return found
