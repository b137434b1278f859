# SPDX-License-Identifier: GPL-2.0
"""wqlab doctor, and scripts/wqlab, through which it runs.

Seen failing: with an essential need that does not count, an optional one that does, a full disk
that does not, headers to be installed for a kernel without modules, a source that apt does not know taken for one that it does, scripts/setup run ahead
of the options, and a command that goes on with another Python than that of the environment.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from fake_kernel import ROOT, Project, make_project, write

from wqlab.doctor import TASKS, WITHOUT

HERE = "bash  obtain,build,boot,bench,test,local  bash bash bash bash\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project where nothing lacks."""
    project = make_project(tmp_path)
    write(project.top / "packages", HERE)
    write(project.top / "pyproject.toml", "[dependency-groups]\nbench = []\nsim = []\ntest = []\n")
    write(project.tmp / "os", "ID=fedora\n")
    cache = project.tmp / "cache/unbound-workqueue"
    write(cache / "venv/.whole", "")
    home = Path(sys.base_prefix) / "bin"
    write(cache / "venv/pyvenv.cfg", f"home = {home}\n")
    (cache / "venv/bin").mkdir()
    (cache / "venv/bin/python").symlink_to(home / "python3")
    for version in ("6.12.99-1", "6.12.117-1", "7.3.4-1"):
        (cache / "base" / version).mkdir(parents=True)
    need_space(project, 0)
    look_for_modules(project, "/proc")
    return project


def need_space(project: Project, size: int) -> None:
    """Have doctor want that many bytes, however full the host's disk is."""
    program = project.top / "wqlab/doctor.py"
    program.write_text(
        re.sub("^LEAST = .*", f"LEAST = {size}", program.read_text(), flags=re.MULTILINE)
    )


def look_for_modules(project: Project, path: str) -> None:
    """Have doctor take the kernel for one with modules if this path is there."""
    program = project.top / "wqlab/doctor.py"
    program.write_text(
        re.sub("^(MODULES = Path)\\S+", rf'\1("{path}")', program.read_text(), flags=re.MULTILINE)
    )


def wqlab(project: Project, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return project.run("wqlab", *words, OS_RELEASE=str(project.tmp / "os"), **env)


def doctor(project: Project, **env: str) -> tuple[int, dict[str, str]]:
    """Its status, and its lines by what they are about."""
    done = wqlab(project, "doctor", **env)
    assert done.stderr == ""
    lines = [line.partition(":") for line in done.stdout.splitlines()]
    return done.returncode, {what: " ".join(state.split()) for what, _, state in lines}


def test_nothing_lacks(project: Project) -> None:
    status, found = doctor(project, ARCH="x86_64")
    assert status == 0 and "make bench can run" in found
    assert {found[task] for task in TASKS} == {"all that it needs"}
    assert found["source of 6.12"] == "6.12.117-1 is in the cache"
    assert found["architecture"] == "x86_64"


@pytest.mark.parametrize("task", TASKS)
def test_what_is_missing_and_what_that_prevents(project: Project, task: str) -> None:
    write(project.top / "packages", f"{HERE}no-such {task} d f s a\n")
    status, found = doctor(project)
    assert found[task] == f"lacks no-such (f); {TASKS[task]}"
    assert status == (0 if task in ("sim", "test", "audit", "load", "local") else 1)


def test_kernel_without_modules(project: Project) -> None:
    look_for_modules(project, "/nowhere")
    write(project.top / "packages", f"{HERE}/nowhere/headers local d f s a\n")
    said = "the running kernel has no modules; `wqlab local` works with --watch alone"
    assert doctor(project)[1]["local"] == said


def test_what_can_be_done_without(project: Project) -> None:
    write(project.top / "packages", f"{HERE}/nowhere/perf local? d f s a\n")
    table = project.top / "wqlab/doctor.py"
    table.write_text(table.read_text().replace('"perf": "', '"/nowhere/perf": "'))
    status, found = doctor(project)
    assert (status, found["local"]) == (0, f"lacks /nowhere/perf (f); {WITHOUT['perf']}")
    rows = [line.split() for line in (ROOT / "packages").read_text().splitlines()]
    assert {row[0] for row in rows if len(row) == 6 and "?" in row[1]} == set(WITHOUT)


def test_python_packages(project: Project) -> None:
    write(
        project.top / "pyproject.toml",
        '[dependency-groups]\nbench = []\nsim = []\ntest = ["x==1"]\n',
    )
    status, found = doctor(project)
    assert status == 0 and found["test"].startswith("lacks Python packages (pyproject.toml); ")
    (project.tmp / "cache/unbound-workqueue/venv/.whole").unlink()
    status, found = doctor(project)
    assert status == 1 and found["bench"].startswith("lacks Python packages")


def test_source_that_cannot_be_had(project: Project) -> None:
    for path in (project.tmp / "cache/unbound-workqueue/base").glob("6.12*"):
        path.rmdir()
    path = project.shim("apt-cache", "")
    status, found = doctor(project, PATH=path)
    assert status == 1 and "KSRC=" in found["source of 6.12"]
    project.shim("apt-cache", 'echo "linux-source-6.12 | 6.12.117-1 | http://x stable Packages"')
    project.shim("apt-get", "")
    status, found = doctor(project, PATH=path)
    assert (status, found["source of 6.12"]) == (0, "apt knows linux-source-6.12 6.12.117-1")


def test_cache_without_room(project: Project) -> None:
    need_space(project, 1 << 60)
    status, found = doctor(project)
    assert status == 1 and "builds may fail: have 1073741824 GiB free" in found["cache"]


def test_architecture_without_a_declaration(project: Project) -> None:
    status, found = doctor(project, ARCH="z80")
    assert status == 1 and "no kernel can be built" in found["architecture"]


def test_options_are_checked_before_anything_is_installed(project: Project) -> None:
    write(project.top / "packages", f"{HERE}no-such obtain d f s a\n")
    done = wqlab(project, "kunit", "--bogus")
    assert done.returncode == 2 and "no-such" not in done.stderr
    done = wqlab(project, "kunit")
    assert (done.returncode, done.stderr) == (
        1,
        "setup: error: bench needs no-such: as root, type: dnf install f\n",
    )


def test_goes_on_in_the_environment(project: Project) -> None:
    stub = "import sys\ndef add_options(parser): parser.add_argument('words', nargs='*')\n"
    stub += "def command(args): print(sys.prefix, args.words); return 77\n"
    write(project.top / "wqlab/report/__init__.py", stub)
    done = wqlab(project, "report", "a", "b c")
    assert (done.returncode, done.stderr) == (77, "")
    assert done.stdout == f"{project.tmp}/cache/unbound-workqueue/venv ['a', 'b c']\n"
    write(project.top / "wqlab/report/__init__.py", f"import no_such_package\n{stub}")
    assert "no_such_package is not installed" in wqlab(project, "report").stderr


def test_newer_python_beside_an_old_one(project: Project) -> None:
    path = project.shim("python3", "exit 1")
    project.shim("python3.19", f'exec {sys.executable} "$@"')
    for version in (20, *range(11, 19)):
        project.shim(f"python3.{version}", "exit 1")
    done = wqlab(project, "--help", PATH=path)
    assert done.returncode == 0 and "usage: wqlab" in done.stdout
    project.shim("python3.19", "exit 1")
    done = wqlab(project, "--help", PATH=path)
    assert done.returncode == 1 and "Python 3.11 or newer is needed" in done.stderr
