# SPDX-License-Identifier: GPL-2.0
"""Debian's own kernel is made ready, with a made-up apt. What it makes is booted in tests/boot/test_debian.py."""

import lzma
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import debian
import pytest
from fake_kernel import ROOT, Project, make_project, snapshot, write

from wqlab.kernels import apt
from wqlab.kernels.arch import find_arch
from wqlab.kernels.bases import load_base

COMMON_MAKEFILE = """\
modules:
	test "$$(pwd)" = "$(CURDIR)" && test -f Module.symvers && test -f $(M)/Kbuild
	sha256sum $(M)/test_workqueue.c >$(M)/test_workqueue.ko && touch $(M)/test_workqueue.o
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = make_project(tmp_path)
    write(project.tmp / "cache/unbound-workqueue/apt-lists.stamp", "")
    shutil.rmtree(project.top / "lib", ignore_errors=True)
    shutil.copytree(ROOT / "lib", project.top / "lib")
    (project.tmp / "served").mkdir()
    return project


READY = """\
import sys
from wqlab.ground.problem import Problem
from wqlab.kernels.bases import load_base
import debian
try:
    print(debian.prepare(load_base("6.12")))
except Problem as problem:
    print(f"error: {problem}", file=sys.stderr)
    sys.exit(problem.status)
"""


def make_ready(project: Project, path: str) -> subprocess.CompletedProcess[str]:
    """What prepare() says, with the project's wqlab."""
    return subprocess.run(
        [sys.executable, "-c", READY],
        env=project.env(PYTHONPATH=f"{project.top}:{ROOT}/tests/proof", PATH=path),
        cwd=project.tmp,
        text=True,
        capture_output=True,
        check=False,
        timeout=60,
    )


def make_debs(project: Project, release: str, version: str, compiler: str = "bash") -> None:
    """The packages of a kernel, in the directory that the made-up apt serves."""
    image, common = f"{release}-cloud-amd64", f"linux-headers-{release}-common"
    headers = f"usr/src/linux-headers-{image}"
    packages = {
        f"linux-image-{image}": {f"boot/vmlinuz-{image}": f"kernel {version}\n"},
        f"linux-headers-{image}": {
            f"{headers}/Makefile": f"include /usr/src/{common}/Makefile\n",
            f"{headers}/.kernelvariables": f"CC = $(if $(X),$(Y)) $(CROSS_COMPILE){compiler}\n",
            f"{headers}/.config": "CONFIG_SMP=y\n",
            f"{headers}/Module.symvers": "",
        },
        common: {f"usr/src/{common}/Makefile": COMMON_MAKEFILE},
        f"linux-kbuild-{release}": {f"usr/lib/linux-kbuild-{release}/scripts/x": ""},
    }
    for name, files in packages.items():
        work = project.tmp / "make" / f"{name}_{version}"
        for path, text in files.items():
            write(work / path, text)
        write(
            work / "DEBIAN/control",
            f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: A <a@b>\n"
            "Description: x\n",
        )
        subprocess.run(
            ["dpkg-deb", "-b", work, project.tmp / f"served/{name}_{version}_all.deb"],
            check=True,
            capture_output=True,
        )


@pytest.fixture
def path(project: Project) -> str:
    """A PATH with an apt that has the packages in served/."""
    project.shim(
        "apt-cache",
        f"""
        cd {project.tmp}/served
        for deb in "$2"*.deb; do
            [[ -e $deb ]] || exit 0
            version=${{deb#*_}} version=${{version%_all.deb}}
            case $1 in
            pkgnames) echo "${{deb%%_*}}" ;;
            madison) echo " ${{deb%%_*}} | $version | http://nowhere stable/main amd64 Packages" ;;
            esac
        done""",
    )
    return project.shim(
        "apt-get",
        f"""
        [[ $1 == download ]] || exit 1
        for word; do
            [[ $word != linux-*=* ]] || cp {project.tmp}/served/"${{word/=/_}}"_all.deb . || exit 100
        done""",
    )


def kernels(project: Project) -> list[str]:
    return sorted(item.name for item in (project.tmp / "cache/unbound-workqueue/debian").iterdir())


# Broken on purpose: releases compared as strings; built where the sources are; objects left; a
# key without the sources.
def test_newest_kernel_with_the_module(project: Project, path: str) -> None:
    make_debs(project, "6.12.99+deb12", "6.12.99-1")
    make_debs(project, "6.12.117+deb12", "6.12.117-1~deb12u1")
    before = snapshot(project.top)
    done = make_ready(project, path)
    assert done.returncode == 0, done.stderr
    result = Path(done.stdout.strip())
    assert sorted(
        str(file.relative_to(result)) for file in result.rglob("*") if file.is_file()
    ) == [
        ".config",
        "arch/x86/boot/bzImage",
        "include/config/kernel.release",
        "lib/test_workqueue.ko",
    ]
    assert (result / "arch/x86/boot/bzImage").read_text() == "kernel 6.12.117-1~deb12u1\n"
    release = (result / "include/config/kernel.release").read_text()
    assert release == "6.12.117+deb12-cloud-amd64\n"
    assert kernels(project) == ["6.12.117-1~deb12u1"]
    assert snapshot(project.top) == before

    again = make_ready(project, path)
    assert (again.returncode, again.stdout, again.stderr) == (0, done.stdout, "")

    write(project.top / "lib/test_workqueue.c", "another\n")
    changed = make_ready(project, path)
    assert changed.returncode == 0 and changed.stdout != done.stdout


# Broken on purpose: a status of 1 in place of skipped; the cache not looked at.
def test_no_package(project: Project, path: str) -> None:
    done = make_ready(project, path)
    assert (done.returncode, done.stdout) == (77, "")
    [line] = [line for line in done.stderr.splitlines() if "error" in line]
    assert "apt cannot get linux-image-6.12.*-cloud-amd64 and its headers" in line
    assert kernels(project) == []

    # headers whose image is missing are of no use
    make_debs(project, "6.12.118+deb12", "6.12.118-1")
    next((project.tmp / "served").glob("linux-image-*")).unlink()
    assert make_ready(project, path).returncode == 77

    make_debs(project, "6.12.117+deb12", "6.12.117-1")
    used = make_ready(project, path)
    assert used.returncode == 0, used.stderr
    make_debs(project, "6.12.118+deb12", "6.12.118-1")
    project.shim("apt-get", "exit 100")
    done = make_ready(project, path)
    assert (done.returncode, done.stdout) == (0, used.stdout)
    assert "using 6.12.117-1 from the cache" in done.stderr


# Broken on purpose: nothing removed; unpacked at its place.
def test_what_stays_in_the_cache(project: Project, path: str) -> None:
    for patch in (115, 116, 117):
        make_debs(project, f"6.12.{patch}+deb12", f"6.12.{patch}-1")
        assert make_ready(project, path).returncode == 0
    assert kernels(project) == ["6.12.116-1", "6.12.117-1"]

    make_debs(project, "6.12.118+deb12", "6.12.118-1")
    damaged = next((project.tmp / "served").glob("linux-kbuild-*118*"))
    damaged.write_text("cut off")
    done = make_ready(project, path)
    assert done.returncode == 1 and "could not be unpacked" in done.stderr
    make_debs(project, "6.12.118+deb12", "6.12.118-1")
    assert make_ready(project, path).returncode == 0
    assert kernels(project) == ["6.12.117-1", "6.12.118-1"]


# Broken on purpose: the compiler not looked for; a module that does not build put in its place.
def test_module_does_not_build(project: Project, path: str) -> None:
    make_debs(project, "6.12.117+deb12", "6.12.117-1", compiler="gcc-1")
    done = make_ready(project, path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "want the compiler gcc-1: install it" in done.stderr

    shutil.rmtree(project.tmp / "cache/unbound-workqueue/debian")
    make_debs(project, "6.12.117+deb12", "6.12.117-1")
    (project.top / "lib/test_workqueue.c").rename(project.top / "lib/test_workqueue_x.c")
    done = make_ready(project, path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "the module does not build: see" in done.stderr
    assert "No such file" in done.stderr


@pytest.mark.parametrize(
    ("base", "arch", "suite", "series"),
    [("6.12", "x86_64", "", "6.12"), ("6.12", "arm64", "bookworm-backports", "6.12")]
    + [("6.18", "arm64", "trixie-backports", "7.3")],
)
def test_configuration_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: str, arch: str, suite: str, series: str
) -> None:
    """Of the suite and the series that the base names, the newest that is there without network."""

    class Unreached(apt.Apt):
        def newest(self, package: str) -> str:
            raise apt.Unreachable(f"no network for {package}")

    def private(suite: str, _kind: str, architecture: str) -> apt.Apt:
        assert architecture == kind
        asked.append(suite)
        return Unreached()

    asked: list[str] = []
    kind = find_arch(arch).dpkg
    name = f"linux-config-{series}"
    for version in (f"{series}.4-1", f"{series}.16-1"):
        file = f"{version}/usr/src/{name}/config.{kind}_none_{kind}.xz"
        place = tmp_path / f"config-{kind}" / file
        place.parent.mkdir(parents=True)
        place.write_bytes(lzma.compress(f"CONFIG_X=y\n# {version}\n".encode()))
    monkeypatch.setattr(debian, "CACHE", tmp_path)
    monkeypatch.setattr(debian, "want_apt", lambda: None)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(apt, "private", private)
    monkeypatch.setattr(apt, "Apt", Unreached)
    lines = debian.configuration(load_base(base), find_arch(arch))
    assert lines == ["CONFIG_X=y", f"# {series}.16-1"]
    assert asked == ([suite] if suite else [])
