# SPDX-License-Identifier: GPL-2.0
"""Which kernels scripts/bench builds and hands on, with stand-ins for all that takes long.

Seen failing: with a base that can't be had as the end of everything, with the series left in
what stock is built from, with the status of scripts/measure thrown away, and with one
configuration only.
"""

import shlex
from pathlib import Path

import pytest
from fake_kernel import BASE, Project, make_project, write

BENCH, LOCKSTAT = "--config bench", "--config lockstat"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = make_project(tmp_path)
    log = tmp_path / "log"

    def stub(path: Path, body: str) -> None:
        write(path, f"#!/bin/bash\n{body}\n")
        path.chmod(0o755)

    scripts = project.top / "scripts"
    stub(scripts / "setup", "")
    stub(scripts / "obtain", f"[[ ! -e {tmp_path}/no-$1 ]] || {{ echo none >&2; exit 1; }}")
    stub(scripts / "build", f'echo "build $*" >>{log}; echo "/k/$(wc -l <{log})"')
    stub(
        project.tmp / "cache/unbound-workqueue/venv/bin/python",
        f'echo "${{1##*/}} ${{*:2}}" >>{log}\n'
        f'[[ $1 != *measure ]] || exit "$(cat {tmp_path}/status 2>/dev/null || echo 0)"',
    )
    return project


def calls(project: Project, name: str) -> list[str]:
    log = project.tmp / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    return [line.partition(" ")[2] for line in lines if line.partition(" ")[0] == name]


def kernels(project: Project) -> list[str]:
    """What scripts/measure was given as kernels."""
    words = shlex.split(calls(project, "measure")[0])
    return [word.partition("=")[0] for at, word in enumerate(words) if words[at - 1] == "--kernel"]


def test_three_kernels(project: Project) -> None:
    done = project.run("bench", "--boots", "7", SIZES="1,2,4")
    assert (done.returncode, done.stderr) == (0, "")
    assert calls(project, "build") == [
        f"--module {config} {source}"
        for source in (f"--base {BASE} --patches 0", f"--base {BASE}", "--base 7.3 --patches 0")
        for config in (BENCH, LOCKSTAT)
    ]
    assert kernels(project) == ["stock"] * 2 + ["patched"] * 2 + ["mainline"] * 2
    words = calls(project, "measure")[0]
    assert "--boots 7" in words and "--sizes 1,2,4" in words and "--note" not in words
    assert calls(project, "report") == [str(project.top / "build/bench.json")]


def test_without_mainline(project: Project) -> None:
    """It is said, and noted in the results."""
    write(project.tmp / "no-7.3", "")
    done = project.run("bench")
    assert done.returncode == 0
    assert "mainline is not measured: its source, the package of bases/7.3" in done.stderr
    assert kernels(project) == ["stock"] * 2 + ["patched"] * 2
    assert "--note mainline was not measured: its source" in calls(project, "measure")[0]
    assert calls(project, "report")


def test_no_stock_is_the_end(project: Project) -> None:
    write(project.top / "scripts/build", "#!/bin/bash\nexit 1\n")
    done = project.run("bench")
    assert done.returncode == 1 and not calls(project, "measure")


@pytest.mark.parametrize(("status", "reported"), [(0, True), (1, True), (130, False)])
def test_status(project: Project, status: int, reported: bool) -> None:
    write(project.tmp / "status", str(status))
    assert project.run("bench").returncode == status
    assert bool(calls(project, "report")) == reported


def test_chosen_kernels(project: Project) -> None:
    assert project.run("bench", "--kernels", "patched", "--quick").returncode == 0
    assert kernels(project) == ["patched"] * 2
    assert "--boots 1 " in calls(project, "measure")[0]
    done = project.run("bench", "--kernels", "patched,other")
    assert done.returncode == 1
    assert "the names are stock, patched and mainline" in done.stderr


def test_mainline_is_the_base(project: Project) -> None:
    done = project.run("bench", "--base", "7.3")
    assert "measured as stock" in done.stderr
    assert kernels(project) == ["stock"] * 2 + ["patched"] * 2


def test_ksrc(project: Project) -> None:
    """A tree of the user's, with the series and without it, which stays as it is."""
    ksrc = project.tmp / "ksrc"
    project.git(project.tmp, "clone", "-q", project.base, ksrc)
    head = project.git(ksrc, "rev-parse", "HEAD")
    for _ in range(2):
        done = project.run("bench", "--ksrc", ksrc)
        assert done.returncode == 0, done.stderr
        builds = calls(project, "build")
        tree = project.top / "build/ksrc"
        assert builds[0] == (f"--module {BENCH} --base {BASE} --source {tree}-stock --patches 0")
        assert builds[2] == f"--module {BENCH} --base {BASE} --source {tree}"
        assert project.git(tree, "rev-list", "--count", f"{head}..HEAD") == "3"
        assert project.git(Path(f"{tree}-stock"), "rev-parse", "HEAD") == head
    assert project.git(ksrc, "rev-parse", "HEAD") == head
    assert project.git(ksrc, "status", "--porcelain") == ""

    other = project.run("bench", "--ksrc", project.base)
    assert other.returncode == 1 and "make clean, then try again" in other.stderr
    missing = project.run("bench", "--ksrc", project.tmp / "nowhere")
    assert missing.returncode == 1 and "no such directory" in missing.stderr


def test_ksrc_that_has_the_series(project: Project) -> None:
    ksrc = project.tmp / "ksrc"
    project.git(project.tmp, "clone", "-q", project.base, ksrc)
    project.git(ksrc, "am", "-q", *sorted(project.patches.glob("*.patch")))
    done = project.run("bench", "--ksrc", ksrc)
    assert done.returncode == 0, done.stderr
    assert "stock is not measured" in done.stderr
    assert kernels(project) == ["patched"] * 2 + ["mainline"] * 2
    assert calls(project, "build")[0] == f"--module {BENCH} --base {BASE} --source {ksrc}"
