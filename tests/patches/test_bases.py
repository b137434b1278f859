# SPDX-License-Identifier: GPL-2.0
"""The series of each other base applies to its source, and what it touches compiles for SMP. That of
6.18 applies to kernels with and without stable's fix, and what scripts/apply advises where
cache_shard is there already works.

`make test BASE=...` proves all the rest for one of them.

Seen failing: with a patch of 7.3 left out; with the series of 6.18 in one form, with another loop in
one of the two; with a command that lists one commit.
"""

import difflib
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

import checks
import pytest
from farm import Making, Need

from series.check import checkpatch
from wqlab.ground.git import git, git_env
from wqlab.ground.places import ROOT
from wqlab.kernels.apt import Unreachable
from wqlab.kernels.bases import Patch, load_base, other_forms, series_names
from wqlab.kernels.obtain import obtain


@dataclass(frozen=True)
class Ported(Need):
    """The files of a base's series compiled; why its source could not be had, if so."""

    base: str
    guess = 120.0

    def make(self, farm: Making) -> str:
        try:
            source = obtain(load_base(self.base))
        except Unreachable as reason:
            return str(reason)
        with farm.place("patches") as place:
            checks.compiles(source, source.count(None), place, 1)  # most of it is to unpack
        return ""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    chosen = metafunc.config.getoption("--base").name
    others = [] if metafunc.config.getoption("--ksrc") else series_names()
    needs = [Ported(name) for name in others if name != chosen]
    if "ported" in metafunc.fixturenames:
        metafunc.parametrize(
            "ported",
            [pytest.param(need, id=need.base, marks=pytest.mark.needs(need)) for need in needs],
        )


def test_series_compiles(made: str, ported: Ported) -> None:
    if made:
        pytest.skip(f"no source of {ported.base}: {made}")


@dataclass(frozen=True)
class Bases(Need):
    """The repositories of some bases; why one of them could not be had, if so."""

    names: tuple[str, ...]
    tier = "test"
    guess = 120.0

    def make(self, farm: Making) -> str | list[Path]:
        try:
            return [obtain(load_base(name)).repo for name in self.names]
        except Unreachable as reason:
            return str(reason)


def repositories(made: str | list[Path]) -> list[Path]:
    if isinstance(made, str):
        pytest.skip(made)
    return made


def files_of(repo: Path, base: str) -> dict[str, str]:
    """The files of a source that a series touches, and by which one is known for a kernel's."""
    series = load_base(base)
    forms = [
        Patch(0, path) for folder in other_forms(series.folder) for path in folder.glob("*.patch")
    ]
    names = {name for patch in [*series.patches, *forms] for name in patch.files}
    return {
        name: (repo / name).read_text()
        for name in sorted(names | {"Makefile", "Kbuild"})
        if (repo / name).is_file()
    }


def commit(tree: Path, what: str, files: dict[str, str]) -> None:
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    git(tree, "add", "-A", "-f")
    git(tree, "commit", "-q", "-m", what)


def make_tree(tree: Path, files: dict[str, str]) -> Path:
    tree.mkdir()
    git(tree, "init", "-q")
    commit(tree, "linux", files)
    return tree


def run_apply(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "scripts/apply", *words], text=True, capture_output=True, check=False, timeout=120
    )


WQ = "kernel/workqueue.c"
UNPLUG = re.compile(r"^static void unplug_oldest_pwq\(.*?^}\n", re.MULTILINE | re.DOTALL)


@pytest.mark.needs(Bases(("6.18", "6.12")))
def test_series_fits_both_forms_of_6_18(made: str | list[Path], tmp_path: Path) -> None:
    """As Debian has it, and with the function that stable changed in 6.18.22 as in 6.12, where it
    was changed as well: the first patch makes them the same."""
    repo, with_fix = repositories(made)
    files = files_of(repo, "6.18")
    found = UNPLUG.search((with_fix / WQ).read_text())
    assert found, "6.12 has no unplug_oldest_pwq()"
    plain = UNPLUG.sub("", files[WQ])
    fixed = UNPLUG.sub(lambda _: found[0], files[WQ])
    assert plain != files[WQ] != fixed
    results = []
    for name, text in (("plain", files[WQ]), ("fixed", fixed)):
        tree = make_tree(tmp_path / name, files | {WQ: text})
        dest = tmp_path / f"{name}-dest"
        done = run_apply("--base", "6.18", tree, dest)
        assert done.returncode == 0, done.stderr
        count = len(load_base("6.18").patches)
        first = f"HEAD~{count - 1}"
        results.append([git(dest, "rev-parse", f"{at}:{WQ}") for at in (first, "HEAD")])
        assert git(dest, "rev-parse", f"HEAD~{count}^{{tree}}") == git(
            tree, "rev-parse", "HEAD^{tree}"
        )
    assert results[0] == results[1]


@pytest.mark.needs(Bases(("6.18",)))
def test_checkpatch_of_other_forms(made: str | list[Path]) -> None:
    """What the tests of one base see has one form of each patch."""
    [repo] = repositories(made)
    for folder in other_forms(load_base("6.18").folder):
        for form in folder.glob("*.patch"):
            for path in (form, folder.parent / form.name):
                assert not checkpatch(repo, Patch(1, path))


SHARDS = [
    "include/linux/workqueue.h",
    WQ,
    "tools/workqueue/wq_dump.py",
    "Documentation/core-api/workqueue.rst",
    "Documentation/admin-guide/kernel-parameters.txt",
]


def with_shards(old: str, new: str) -> str:
    """The text with those changes of the new one that speak of shards."""
    was, now = (text.splitlines(keepends=True) for text in (old, new))
    made = ""
    matcher = difflib.SequenceMatcher(None, was, now, autojunk=False)
    for tag, first, last, its_first, its_last in matcher.get_opcodes():
        changed = "".join(now[its_first:its_last])
        takes = tag != "equal" and "shard" in changed.lower()
        made += changed if takes else "".join(was[first:last])
    return made


@pytest.mark.needs(Bases(("6.18", "7.3")))
def test_advice_where_cache_shard_is_there_already(made: str | list[Path], tmp_path: Path) -> None:
    """On a 6.18 that has been given mainline's, in two commits. Its header has more behind the
    scope's name than a pipe holds."""
    repo, mainline = repositories(made)
    files = files_of(repo, "6.18")
    files[SHARDS[0]] += f"/*{' more' * 20_000} */\n"
    tree = make_tree(tmp_path / "linux", files)
    shards = {name: with_shards(files[name], (mainline / name).read_text()) for name in SHARDS}
    assert all(shards[name] != files[name] for name in SHARDS)
    commit(tree, "the scope", {name: shards[name] for name in SHARDS[:2]})
    commit(tree, "something else", {"Kbuild": files["Kbuild"] + "# else\n"})
    commit(tree, "tools and documentation", {name: shards[name] for name in SHARDS[2:]})
    for words in (["--base", "7.3"], []):
        done = run_apply("--check", *words, tree)
        assert done.returncode == 1
    assert "has cache_shard already" in done.stderr
    command = shlex.split(done.stderr.split("try again: ")[1].split(";")[0])
    listed = subprocess.run(
        command, text=True, capture_output=True, check=True, timeout=60, env=git_env()
    ).stdout.splitlines()
    assert [line.split(" ", 1)[1] for line in listed] == ["tools and documentation", "the scope"]
    git(tree, "revert", "--no-edit", *(line.split()[0] for line in listed))
    done = run_apply("--check", tree)
    assert (done.returncode, done.stdout) == (0, "applies\n"), done.stderr
