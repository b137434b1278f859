# SPDX-License-Identifier: GPL-2.0
"""scripts/setup, with a made-up apt, and what it is to install.

"Broken on purpose" names the breaks of the script with which a test has been seen to fail.
"""

import os
import platform
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from fake_kernel import ROOT, Project, make_project, write

from wqlab import cli
from wqlab.kernels.arch import ARCHES
from wqlab.measure.counts import KINDS

SYSTEMS = {
    "debian": 'ID=debian\nNAME="x"\n',
    "ubuntu": "ID=ubuntu\nID_LIKE=debian\n",
    "fedora": "ID=fedora\n",
    "alma": 'ID="almalinux"\nID_LIKE="rhel centos fedora"\n',
    "opensuse": 'ID="opensuse-leap"\nID_LIKE="suse opensuse"\n',
    "arch": "ID=arch\n",
    "other": "ID=other\n",
}
TABLE = """\
# a comment
bash            build,bench  bash      bash   bash   bash  # is here
no-such-tool    bench        d-tool    f-tool s-tool a-tool
no-such-checker test         d-checker f-checker s-checker a-checker
no-such-extra   local?       d-extra   f-extra s-extra -
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project that lacks some programs, on a Debian whose package lists are fresh."""
    project = make_project(tmp_path)
    write(project.tmp / "cache/unbound-workqueue/apt-lists.stamp", "")
    write(project.top / "packages", TABLE)
    write(project.top / "pyproject.toml", "[dependency-groups]\nbench = []\nsim = []\ntest = []\n")
    for name, text in SYSTEMS.items():
        write(project.tmp / f"os/{name}", text)
    return project


@pytest.fixture
def path(project: Project) -> str:
    """A PATH with an apt that notes how it is called, with which proxies, and fails."""
    project.shim("apt-cache", "")
    return project.shim(
        "apt-get",
        f"""
        echo "$DEBIAN_FRONTEND $*" >>{project.tmp}/apt-log
        env | grep -i _proxy= | sort >>{project.tmp}/proxies
        exit 1""",
    )


def setup(project: Project, *words: str, system: str = "debian", **env: str):
    return project.run("setup", *words, OS_RELEASE=str(project.tmp / "os" / system), **env)


def apt_log(project: Project) -> str:
    log = project.tmp / "apt-log"
    return log.read_text() if log.exists() else ""


def as_nobody(project: Project, **env: str) -> subprocess.CompletedProcess[str]:
    """scripts/setup without being root."""
    command = ["unshare", "-U"] if os.geteuid() == 0 else []
    if subprocess.run([*command, "true"], check=False, capture_output=True).returncode:
        pytest.skip("unshare -U is not allowed here")
    return subprocess.run(
        [*command, project.top / "scripts/setup"],
        env=project.env(OS_RELEASE=str(project.tmp / "os/debian"), **env),
        text=True,
        capture_output=True,
        check=False,
        timeout=60,
    )


# Broken on purpose: an environment never made, or never made again; pip's failure ignored.
def test_environment_is_made_once(project: Project, path: str) -> None:
    write(project.top / "packages", "bash bench bash bash bash bash\n")
    # A venv without pip, which takes long; the pip of this one has nothing to install, or fails.
    project.shim(
        "python3",
        """
        [[ $1 == -m && $2 == venv ]] || exec "$REAL" "$@"
        "$REAL" -m venv --without-pip "$3"
        mv "$3/bin/python" "$3/bin/real"
        printf '%s\\n' '#!/bin/bash' '[[ $2 == pip ]] && { [[ -z $PIP_FAILS ]]; exit; }' \\
            'exec "${0%python}real" "$@"' >"$3/bin/python"
        chmod +x "$3"/bin/python""",
    )
    done = setup(project, PATH=path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    venv = project.tmp / "cache/unbound-workqueue/venv"
    python = venv / "bin/python"
    assert python.exists()
    again = setup(project, PATH=path)
    assert (again.returncode, again.stderr) == (0, "")
    assert apt_log(project) == ""

    used = setup(project, PATH=f"{python.parent}:{path}")
    assert (used.returncode, used.stderr) == (0, "")

    python.unlink()
    assert setup(project, PATH=path).returncode == 0
    assert python.exists()
    (venv / ".whole").unlink()
    assert "making a Python environment" in setup(project, PATH=path).stderr
    write(project.top / "pyproject.toml", '[dependency-groups]\nbench = ["no-such-package==1"]\n')
    done = setup(project, PATH=path, PIP_FAILS="1")
    assert done.returncode == 1 and "could not be installed" in done.stderr
    assert not (venv / ".whole").exists()


# Broken on purpose: apt-get without --no-install-recommends, or without noninteractive; all
# packages for any task.
@pytest.mark.parametrize(
    ("task", "packages"), [("bench", "d-tool"), ("test", "d-tool d-checker"), ("build", "")]
)
@pytest.mark.parametrize("system", ["debian", "ubuntu"])
def test_apt_is_asked_for_what_the_task_lacks(
    project: Project, path: str, task: str, packages: str, system: str
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root calls apt-get without sudo")
    done = setup(project, task, system=system, PATH=path)
    if not packages:
        assert (done.returncode, done.stderr, apt_log(project)) == (0, "", "")
        return
    assert done.returncode == 1
    command = f"apt-get install -y --no-install-recommends {packages}"
    assert f"as root, try: {command}\n" in done.stderr
    last = apt_log(project).splitlines()[-1]
    assert last.startswith("noninteractive install -y") and last.endswith(f" {packages}")
    assert "--no-install-recommends" in last


# Broken on purpose: apt-get called without being root.
def test_without_root_the_command_is_named(project: Project, path: str) -> None:
    project.shim("sudo", "exit 1")
    done = as_nobody(project, PATH=path)
    assert done.returncode == 1 and done.stdout == ""
    assert "as root, type: apt-get install -y --no-install-recommends d-tool" in done.stderr
    assert "Error" not in done.stderr and apt_log(project) == ""


# Broken on purpose: sudo without them; HTTP_PROXY not given the name that apt knows.
def test_proxies_get_through_sudo(project: Project, path: str) -> None:
    project.shim("sudo", '[[ $1 != -v ]] || exit 0; shift; exec env -i PATH="$PATH" "$@"')
    proxies = {"HTTP_PROXY": "http://a:1", "https_proxy": "http://b:2", "no_proxy": "c,d"}
    (project.tmp / "cache/unbound-workqueue/apt-lists.stamp").unlink()
    done = as_nobody(project, PATH=path, **proxies)
    assert "install" in apt_log(project) and "update" in apt_log(project), done.stderr
    seen = (project.tmp / "proxies").read_text().splitlines()
    calls = len(apt_log(project).splitlines())
    for line in ("http_proxy=http://a:1", "https_proxy=http://b:2", "no_proxy=c,d"):
        assert seen.count(line) == calls


# Broken on purpose: no look at the version; the look after apt.
def test_an_old_python_is_refused_first(project: Project, path: str) -> None:
    project.shim(
        "python3",
        """
        [[ $1 == -V ]] && echo Python 3.9.2 && exit
        [[ $1 == -c ]] && exec "$REAL" -c "import sys; sys.version_info = (3, 9, 2); $2"
        exec "$REAL" "$@" """,
    )
    for name in range(11, 21):
        project.shim(f"python3.{name}", "exit 1")
    done = setup(project, PATH=path)
    assert done.returncode == 1 and apt_log(project) == ""
    assert "Python 3.11 or newer is needed, and python3 here is Python 3.9.2" in done.stderr


# Broken on purpose: apt called.
def test_no_apt_is_one_line(project: Project, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in ("/usr/sbin", "/usr/bin"):
        for tool in Path(folder).iterdir():
            if not tool.name.startswith("apt") and not (tools / tool.name).exists():
                (tools / tool.name).symlink_to(tool)
    done = setup(project, PATH=str(tools))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "setup: error: packages are missing and there is no apt-get to install them: d-tool\n"
    )


# Broken on purpose: ID_LIKE not read; the end where nothing essential lacks; apt called.
@pytest.mark.parametrize(
    ("system", "command"),
    [
        ("fedora", "dnf install f-tool"),
        ("alma", "dnf install f-tool"),
        ("opensuse", "zypper install s-tool"),
        ("arch", "pacman -S --needed a-tool"),
        ("other", "no package is known here that has no-such-tool"),
    ],
)
def test_other_systems(project: Project, path: str, system: str, command: str) -> None:
    done = setup(project, "bench", system=system, PATH=path)
    assert (done.returncode, done.stdout) == (1, "")
    as_root = "" if system == "other" else "as root, type: "
    assert done.stderr == f"setup: error: bench needs no-such-tool: {as_root}{command}\n"

    optional = setup(project, "local", system=system, PATH=path)
    assert (optional.returncode, optional.stdout) == (0, "")
    assert optional.stderr.count("\n") == 1 and apt_log(project) == ""
    assert "local goes on without no-such-extra: " in optional.stderr


# Broken on purpose: needs of every architecture, or of none, or those of aarch64 unknown as arm64.
@pytest.mark.parametrize(
    ("arch", "machine", "wanted"),
    [
        ("", "x86_64", ["boot-x86_64"]),
        ("arm64", "x86_64", ["boot-arm64", "build-arm64"]),
        ("", "aarch64", ["boot-arm64"]),
        ("arm64", "aarch64", ["boot-arm64"]),
        ("aarch64", "aarch64", ["boot-arm64"]),
        ("x86_64", "aarch64", ["boot-x86_64", "build-x86_64"]),
        ("vax", "x86_64", []),
    ],
)
def test_needs_of_an_architecture(
    project: Project, arch: str, machine: str, wanted: list[str]
) -> None:
    tasks = [f"{task}-{arch}" for task in ("boot", "build") for arch in ("arm64", "x86_64")]
    rows = "".join(f"no-{task} {task} d-{task} f s a\n" for task in tasks)
    write(project.top / "packages", rows + "bash boot,build bash bash bash bash\n")
    path = project.shim(
        "uname", f'[[ $1 != -m ]] || {{ echo {machine}; exit; }}; exec "$REAL" "$@"'
    )
    for words in ((), ("bench",)):
        done = setup(project, "--missing", *words, PATH=path, ARCH=arch)
        found = [line.split("\t") for line in done.stdout.splitlines() if "Python" not in line]
        assert (done.returncode, [row[0] for row in found]) == (0, wanted)


# Broken on purpose: each kind of need always there, or never.
def test_kinds_of_needs(project: Project, path: str) -> None:
    release = platform.release()
    (project.tmp / f"{release}").mkdir()
    there = ["bash", "chroot", "/bin/ba*", "python3:json", f"{project.tmp}/RELEASE"]
    missing = ["no-such", "/nowhere/*", "python3:no_such", "static:ls", "/nowhere/RELEASE/x"]
    if shutil.which("busybox"):
        there.append("static:busybox")
    rows = "".join(f"{need} bench,local? d-RELEASE f s a\n" for need in [*there, *missing])
    write(project.top / "packages", rows)
    done = setup(project, "--missing", PATH=path)
    assert done.returncode == 0
    found = [line for line in done.stdout.splitlines() if "\tPython packages\t" not in line]
    assert found == [
        f"bench,local?\t{need.replace('RELEASE', release)}\td-{release}" for need in missing
    ]


# Broken on purpose: cpio in the table; a row of five columns; pytest in the group bench; a
# package that is not pinned.
def test_what_is_to_be_installed() -> None:
    lines = (ROOT / "packages").read_text().splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    assert all(len(row) == 6 for row in rows) and len(rows) > 15
    tasks = {row[0]: {task.rstrip("?") for task in row[1].split(",")} for row in rows}
    known = {"obtain", "build", "boot", "bench", "sim", "audit", "test", "load", "local"}
    known |= {f"{task}-{arch.name}" for task in ("build", "boot") for arch in ARCHES}
    for arch in ARCHES:  # on another machine
        assert f"boot-{arch.name}" in tasks[arch.qemu]
        assert f"build-{arch.name}" in tasks[f"{arch.tools}gcc"]
    assert set().union(*tasks.values()) == known
    for need in ("spin", "sparse", "shellcheck", "pahole"):
        assert tasks[need] == {"test"}

    with (ROOT / "pyproject.toml").open("rb") as file:
        groups = tomllib.load(file)["dependency-groups"]
    pins = {name: [i for i in items if isinstance(i, str)] for name, items in groups.items()}
    assert groups["test"][0] == {"include-group": "sim"}
    assert groups["sim"][0] == {"include-group": "bench"}
    assert all(pin.count("==") == 1 for items in pins.values() for pin in items)
    names = [pin.partition("==")[0] for pin in pins["bench"]]
    assert "numpy" in names and not {"pytest", "ruff", "mypy"} & set(names)


# Broken on purpose: each entry of `counts` left out, or another one there.
def test_what_builds_qemu_gets_what_that_takes() -> None:
    """Commands that simulate, and counts in simulated time or of calls that a plugin sees."""
    counted = {f"counts {name}" for name, kind in KINDS.items() if kind.simulated or kind.functions}
    with_qemu = {words for words, task in cli.TASKS.items() if task == "sim"}
    assert with_qemu == counted | {"sim"}


# Broken on purpose: only the first two words looked at.
@pytest.mark.parametrize(
    ("words", "task"),
    [
        ("counts hotplug", "sim"),
        ("counts --boots 2 irqsoff --kernel a=b", "sim"),
        ("counts peaks", "bench"),
        ("bench --quick", "bench"),
        ("sim --machine grace-72", "sim"),
        ("local", ""),
    ],
)
def test_options_may_come_before_what_is_counted(words: str, task: str) -> None:
    assert cli.task_of(["wqlab", *words.split()]) == task
