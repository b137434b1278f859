# SPDX-License-Identifier: GPL-2.0
"""What can be said of patches without running the kernel."""

import os
import re
import shutil
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from debian import configuration
from sparse import find_sparse

from wqlab.ground.problem import Problem
from wqlab.ground.run import run
from wqlab.kernels.arch import Arch, find_arch
from wqlab.kernels.bases import Base, base_names
from wqlab.kernels.build import Kbuild
from wqlab.kernels.flavours import CONFIGS, Flavour, fragments, wanted
from wqlab.kernels.source import Source

# A kernel for SMP, of which only the objects of the series are made.
FLAVOUR = Flavour("check", "for SMP", ("common", "series"))
# That a series may add to, and those that it adds
FILES = [f"{name}.c" for name in ("kernel/workqueue", "kernel/wqtorture")]
FILES += [f"{name}.c" for name in ("lib/test_workqueue", "lib/test_workqueue_kunit")]
HEADER = "include/linux/workqueue.h"
DOCUMENT = "Documentation/core-api/workqueue.rst"
WARNING = re.compile(
    r"^(?:\S*/)?(\w*workqueue(?:_kunit)?\.[ch]|wqtorture\.c):\d+(?::\d+)?(:.*(?:warning|error):.*)"
)
# of Coccinelle
FINDING = re.compile(r"^(?:\S*/)?(\w+\.[ch]):\d+:[\d-]+(: .*)")
# of Sphinx
REMARK = re.compile(r"^(?:\S*/)?(index\.rst|workqueue\.[ch]):\d+(: .*)")
LIMIT = 1800.0  # seconds


@dataclass(frozen=True)
class Gate(Flavour):
    """A configuration in which the series has to compile: an entry of configs/gates.toml."""

    fragments: tuple[str, ...] = ("common", "kunit", "torture", "series")
    needs: str = ""
    since: str = ""
    quick: bool = False
    files: int = 1  # of FILES, where there are no fragments, which configure all
    debian: bool = False  # on top of Debian's own configuration, in place of `fragments`
    machine: str = ""  # of scenarios/, on which the suites of KUnit pass; "" for none

    def unfit(self, base: Base) -> str:
        """Why it can't be tried with a base on the host; "" if it can."""
        if self.since and base_names().index(base.name) < base_names().index(self.since):
            return f"{self.about}: not before {self.since}"
        if self.arch not in ("", find_arch().name):
            return f"{self.about}: for {self.arch}"
        if self.needs and not shutil.which(self.needs):
            return f"{self.about}: no {self.needs}"
        return ""


@cache
def gates() -> dict[str, Gate]:
    known: dict[str, dict[str, Any]] = tomllib.loads((CONFIGS / "gates.toml").read_text())
    made = {}
    for name, entry in known.items():
        fields: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()
        }
        made[name] = Gate(name, **fields)
    return made


def objects(tree: Path) -> list[str]:
    return [name.replace(".c", ".o") for name in FILES if (tree / name).is_file()]


def configured(
    source: Source,
    tree: Path,
    patches: int | None,
    place: str,
    jobs: int,
    arch: Arch | None = None,
    gate: Gate | None = None,
) -> Kbuild:
    """A build for SMP, or for a gate, of which nothing is made yet."""
    arch, flavour = arch or find_arch(), gate or FLAVOUR
    if gate:  # of the whole kernel others of its files may have warnings
        flavour = replace(gate, lines=("WERROR=y", *gate.lines))
    name = f"gate-{gate.name}" if gate else FLAVOUR.name
    obj = source.place(place) / f"{arch.name}-{name}"
    obj.mkdir(parents=True, exist_ok=True)
    kbuild = Kbuild(tree, obj, arch, jobs, flavour.make)
    kbuild.log.write_text("")
    if gate and gate.debian:
        lines = configuration(source.base, arch)
    else:
        paths = fragments(flavour, arch) if flavour.fragments else []
        lines = wanted(source, source.count(patches), paths)
    kbuild.configure(f"{source.version} ({name})", flavour, lines)
    return kbuild


def compiles(
    source: Source, patches: int, place: str, jobs: int = 0, arch: Arch | None = None
) -> frozenset[str]:
    """The warnings with which the files of the series compile for SMP with its first patches;
    Problem if they do not. What was compiled before is not compiled again, but for another
    architecture than the usual one."""
    with source.hold(patches, place) as tree:
        kbuild = configured(source, tree, patches, place, jobs, arch)
        names = objects(tree)
        for name in names if arch else []:
            (kbuild.obj / name).unlink(missing_ok=True)
        kbuild.make(f"compiling {patches} patches", *names, wrong="it does not compile")
        return about(kbuild.log.read_text(errors="replace"))


def about(text: str, pattern: re.Pattern[str] = WARNING) -> frozenset[str]:
    """The warnings in it about the files of the series, without the numbers of their lines."""
    found = map(pattern.match, text.splitlines())
    return frozenset(match[1] + match[2] for match in found if match)


def pass_gate(
    source: Source,
    gate: Gate,
    patches: int | None,
    place: str,
    jobs: int = 0,
    arch: Arch | None = None,
) -> None:
    """The files of the series compile without a warning; Problem if not."""
    with source.hold(patches, place) as tree:
        kbuild = configured(source, tree, patches, place, jobs, arch, gate)
        names = objects(tree)[: len(FILES) if gate.fragments else gate.files]
        kbuild.make(f"compiling for {gate.name}", *names, wrong=f"no {gate.name}: {gate.about}")


@dataclass(frozen=True)
class Warnings:
    """Those about the files of the series."""

    lines: frozenset[str]
    sparse: bool  # was run: a kernel may need a newer one than there is


def warnings(source: Source, patches: int | None, place: str, jobs: int = 0) -> Warnings:
    """The warnings of sparse, W=1 and kernel-doc."""
    with source.hold(patches, place) as tree:
        kbuild = configured(source, tree, patches, place, jobs)
        names = objects(tree)
        for name in names:
            (kbuild.obj / name).unlink(missing_ok=True)  # it would not be compiled again
        checker = f"CHECK={find_sparse(tree)}"
        kbuild.make("warnings", "C=2", "W=1", checker, *names, wrong="the build failed")
        files = [name.replace(".o", ".c") for name in names]
        done = run(
            [tree / "scripts/kernel-doc", "-none", "-Wall", HEADER, *files], limit=120, cwd=tree
        )
        text = kbuild.log.read_text(errors="replace") + done.output
    ran = f"CHECK   {tree}/{files[0]}" in text or f"CHECK   {files[0]}" in text
    if not ran and "sparse is not available or not up to date" not in text:
        raise Problem(f"sparse was not run: see {kbuild.log}")
    return Warnings(about(text), ran)


def documentation(source: Source, patches: int | None) -> frozenset[str]:
    """The warnings of Sphinx about the page on workqueues, without lines: that page alone, so
    what it refers to in others counts as well."""
    with source.hold(patches) as tree, tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "Documentation/index.rst"  # Sphinx wants one
        page.parent.mkdir()
        shutil.copy(tree / DOCUMENT, page)
        shutil.copy(tree / "MAINTAINERS", folder)
        settings = {
            "kerneldoc_srctree": tree,
            "kerneldoc_bin": tree / "scripts/kernel-doc",
            "version": 0,
            "release": 0,
        }
        done = run(
            [
                *("sphinx-build", "-q", "-b", "dummy", "-c", tree / "Documentation"),
                *(f"-D{name}={value}" for name, value in settings.items()),
                *(page.parent, f"{folder}/out"),
            ],
            limit=300,
            env=os.environ | {"srctree": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
        )
    if done.status:
        raise Problem(f"sphinx-build ended with status {done.status}: {done.output[-500:]}")
    return about(done.output, REMARK)


def findings(source: Source, patches: int | None, jobs: int) -> frozenset[str]:
    """What the semantic patches of the kernel (scripts/coccinelle) report of the files of the
    series, without lines. It is what `make coccicheck MODE=report` runs, which takes a folder."""
    with source.hold(patches) as tree:
        files = [name for name in FILES if (tree / name).is_file()]

        def report(rule: Path) -> str:
            text = rules[rule]
            options = re.findall(r"^// ?Options: *(.*)$", text, re.MULTILINE)
            done = run(
                ["spatch", "-D", "report", "--very-quiet", "--cocci-file", str(rule)]
                + [*" ".join(options).split(), "-I", f"{tree}/include", HEADER, *files],
                limit=600,
                cwd=tree,
            )
            # one with a part in OCaml can't be run by a spatch that was built without
            if done.status and "ocaml" not in text:
                raise Problem(f"spatch of {rule} ended with {done.status}: {done.output[-300:]}")
            return done.output

        rules = {
            rule: text
            for rule in sorted((tree / "scripts/coccinelle").rglob("*.cocci"))
            if re.search(
                r"^virtual .*\breport\b", text := rule.read_text(errors="replace"), re.MULTILINE
            )
        }
        if not rules:
            raise Problem(f"{tree} has no semantic patches that report")
        with ThreadPoolExecutor(jobs) as pool:
            said = "".join(pool.map(report, rules))
    return about(re.sub(r"\bline \d+", "line", said), FINDING)
