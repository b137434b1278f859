"""scripts/setup and scripts/obtain, with a made-up apt."""

import os
import subprocess
from pathlib import Path

import pytest
from fake_kernel import BASE, Project, lines, make_project, write

MISSING = "no-such-package-here"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project whose package lists are fresh."""
    project = make_project(tmp_path)
    write(project.tmp / "cache/unbound-workqueue/apt-lists.stamp", "")
    write(project.top / "debian-packages", "# a comment\nbash  # another\n")
    write(project.top / "requirements.txt", "# nothing\n")
    return project


def make_deb(project: Project, version: str, base: str = BASE) -> None:
    """A package of a source, in the directory that the made-up apt serves."""
    work = project.tmp / f"make-{version}"
    upstream = version.partition("-")[0]
    top = f"linux-source-{base}"
    write(work / top / "Makefile", f"VERSION = 6\nPATCHLEVEL = 12\n# {upstream}\n")
    write(work / top / "Kbuild", "\n")
    write(work / top / "kernel/workqueue.c", lines("wq"))
    write(work / top / ".gitignore", "*.o\n/*\n!/debian/\n")
    write(work / top / "ignored.o", "but part of the source\n")
    usr = work / "deb/usr/src"
    usr.mkdir(parents=True)
    subprocess.run(["tar", "-cJf", usr / f"{top}.tar.xz", "-C", work, top], check=True)
    write(
        work / "deb/DEBIAN/control",
        f"Package: {top}\nVersion: {version}\nArchitecture: all\nMaintainer: A <a@b>\n"
        "Description: x\n",
    )
    served = project.tmp / "served"
    served.mkdir(exist_ok=True)
    subprocess.run(
        ["dpkg-deb", "-b", work / "deb", served / f"{top}_{version}_all.deb"],
        check=True,
        capture_output=True,
    )


@pytest.fixture
def path(project: Project) -> str:
    """A PATH with an apt that has the packages in served/, and notes how it is called."""
    (project.tmp / "served").mkdir()
    project.shim(
        "apt-cache",
        f"""
        cd {project.tmp}/served
        for deb in *.deb; do
            [[ -e $deb ]] || exit 0
            version=${{deb#*_}} version=${{version%_all.deb}}
            echo "linux-source-{BASE} | $version | http://nowhere stable/main amd64 Packages"
            echo "linux-source-{BASE} | 99.9-1 | http://nowhere stable/main Sources"
        done""",
    )
    return project.shim(
        "apt-get",
        f"""
        echo "$DEBIAN_FRONTEND $*" >>{project.tmp}/apt-log
        last=${{!#}}
        [[ $1 == download ]] && cp {project.tmp}/served/*_"${{last#*=}}"_all.deb . 2>/dev/null""",
    )


def apt_log(project: Project) -> str:
    log = project.tmp / "apt-log"
    return log.read_text() if log.exists() else ""


def cache(project: Project) -> Path:
    return project.tmp / "cache/unbound-workqueue"


# Broken on purpose: an environment never made, or never made again.
def test_setup_makes_the_environment_once(project: Project, path: str) -> None:
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
    done = project.run("setup", PATH=path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    python = cache(project) / "venv/bin/python"
    assert python.exists()
    again = project.run("setup", PATH=path)
    assert (again.returncode, again.stderr) == (0, "")
    assert apt_log(project) == ""

    used = project.run("setup", PATH=f"{python.parent}:{path}")
    assert (used.returncode, used.stderr) == (0, "")

    python.unlink()
    assert project.run("setup", PATH=path).returncode == 0
    assert python.exists()
    (cache(project) / "venv/.key").unlink()
    assert "making a Python environment" in project.run("setup", PATH=path).stderr
    write(project.top / "requirements.txt", "no-such-package-here==1 # impossible\n")
    done = project.run("setup", PATH=path, PIP_FAILS="1")
    assert done.returncode == 1 and "could not be installed" in done.stderr
    assert not (cache(project) / "venv/.key").exists()


# Broken on purpose: apt-get without --no-install-recommends, or without noninteractive.
def test_setup_asks_apt_for_what_is_missing(project: Project, path: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root calls apt-get without sudo")
    with (project.top / "debian-packages").open("a") as packages:
        packages.write(f"{MISSING}\n")
    done = project.run("setup", PATH=path)
    assert done.returncode == 1
    command = f"apt-get install -y --no-install-recommends {MISSING}"
    assert f"as root, try: {command}\n" in done.stderr
    last = apt_log(project).splitlines()[-1]
    assert last.startswith("noninteractive install -y") and last.endswith(f" {MISSING}")
    assert "--no-install-recommends" in last


# Broken on purpose: apt-get called without being root.
def test_setup_without_root_names_the_command(project: Project, path: str) -> None:
    with (project.top / "debian-packages").open("a") as packages:
        packages.write(f"{MISSING}\n")
    project.shim("sudo", "exit 1")
    as_nobody = ["unshare", "-U"] if os.geteuid() == 0 else []
    if subprocess.run([*as_nobody, "true"], check=False, capture_output=True).returncode:
        pytest.skip("unshare -U is not allowed here")
    done = subprocess.run(
        [*as_nobody, project.top / "scripts/setup"],
        env=project.env(PATH=path),
        text=True,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1 and done.stdout == ""
    assert f"as root, type: apt-get install -y --no-install-recommends {MISSING}" in done.stderr
    assert "Error" not in done.stderr and apt_log(project) == ""


# Broken on purpose: no look at the version.
def test_setup_refuses_an_old_python(project: Project, path: str) -> None:
    project.shim(
        "python3",
        """
        [[ $1 == -V ]] && echo Python 3.9.2 && exit
        [[ $1 == -c ]] && exec "$REAL" -c "import sys; sys.version_info = (3, 9, 2); $2"
        exec "$REAL" "$@" """,
    )
    done = project.run("setup", PATH=path)
    assert done.returncode == 1
    assert "Python 3.11 or newer is needed, and python3 here is Python 3.9.2" in done.stderr


# Broken on purpose: git add without -f; the date of the day; everything done twice; a leftover unpacked over.
def test_obtain_makes_one_commit(project: Project, path: str) -> None:
    make_deb(project, "6.12.107-1")
    make_deb(project, "6.12.117-1~deb12u1")
    repo = cache(project) / "base/6.12.117-1~deb12u1"
    done = project.run("obtain", BASE, PATH=path)
    assert (done.returncode, done.stdout) == (0, f"{repo}\n"), done.stderr
    assert project.git(repo, "log", "--format=%s") == (
        "linux 6.12.117 (Debian linux-source-6.12 6.12.117-1~deb12u1)"
    )
    assert "ignored.o" in project.git(repo, "ls-tree", "-r", "--name-only", "base").splitlines()
    assert project.git(repo, "status", "--porcelain", "--ignored") == ""
    write(repo / "new.c", "")
    assert project.git(repo, "status", "--porcelain") == "?? new.c"
    (repo / "new.c").unlink()
    first = project.git(repo, "rev-parse", "base")
    assert project.git(repo, "log", "--format=%as %cs") == "2024-11-17 2024-11-17"

    log = apt_log(project)
    again = project.run("obtain", BASE, PATH=path)
    assert (again.returncode, again.stdout, again.stderr) == (0, f"{repo}\n", "")
    assert apt_log(project) == log

    # Cut off while it was committed: made again, to the same commit.
    (repo / ".git").rename(repo / ".git-lost")
    write(repo.parent / f".{repo.name}.part/Makefile.half", "half\n")
    assert project.run("obtain", BASE, PATH=path).returncode == 0
    assert project.git(repo, "rev-parse", "base") == first
    assert [item.name for item in repo.parent.iterdir()] == [repo.name]


# Broken on purpose: versions compared as strings.
def test_obtain_refuses_what_is_too_old(project: Project, path: str) -> None:
    make_deb(project, "6.12.99-1")
    done = project.run("obtain", BASE, PATH=path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "6.12.99-1, and the series needs 6.12.107 or newer" in done.stderr


# Broken on purpose: the cache not looked at.
def test_obtain_falls_back_to_the_cache(project: Project, path: str) -> None:
    done = project.run("obtain", BASE, PATH=path)
    assert done.returncode == 1 and "apt knows no package" in done.stderr

    make_deb(project, "6.12.117-1")
    used = project.run("obtain", BASE, PATH=path).stdout
    for deb in (project.tmp / "served").iterdir():
        deb.unlink()
    done = project.run("obtain", BASE, PATH=path)
    assert (done.returncode, done.stdout) == (0, used)
    assert "using 6.12.117-1 from the cache" in done.stderr

    make_deb(project, "6.12.118-1")
    project.shim("apt-get", "exit 100")
    done = project.run("obtain", BASE, PATH=path)
    assert (done.returncode, done.stdout) == (0, used)
    assert "6.12.118-1 could not be downloaded: using 6.12.117-1" in done.stderr


# Broken on purpose: a damaged package kept, so that each run fails.
def test_obtain_drops_a_damaged_package(project: Project, path: str) -> None:
    write(project.tmp / f"served/linux-source-{BASE}_6.12.117-1_all.deb", "cut off")
    done = project.run("obtain", BASE, PATH=path)
    assert done.returncode == 1 and "could not be unpacked" in done.stderr
    make_deb(project, "6.12.117-1")
    assert project.run("obtain", BASE, PATH=path).returncode == 0


# Broken on purpose: nothing removed; the oldest kept; another base's removed.
def test_obtain_keeps_two_versions(project: Project, path: str) -> None:
    other = cache(project) / "base/7.3.1-1"
    other.mkdir(parents=True)
    for patch in (115, 116, 117):
        make_deb(project, f"6.12.{patch}-1")
        assert project.run("obtain", BASE, PATH=path).returncode == 0
    kept = sorted(item.name for item in (cache(project) / "base").iterdir())
    assert kept == ["6.12.116-1", "6.12.117-1", "7.3.1-1"]
    assert len(list((cache(project) / "download").iterdir())) == 1


# --- a base of a suite ------------------------------------------------------------------------

SUITE = "trixie-backports"
MIRROR = "http://mirror.example/debian"
KEYS = "Signed-By: /usr/share/keyrings/some.gpg"


@pytest.fixture
def suite(project: Project, path: str) -> str:
    """The same for 7.3: its packages are known only to an apt that was told to read the suite."""
    write(
        project.tmp / "etc/sources.list.d/x.sources",
        f"# Types: old\nTypes: deb\nURIs: http://other.example/debian\nSigned-By: other\n\n"
        f"Types: deb\n# a comment\nURIs: {MIRROR}\nSuites: bookworm\n{KEYS}\n more.gpg\n\n"
        "Types: deb\nURIs: http://third.example\n",
    )
    project.shim(
        "apt-config",
        f"echo \"parts='{project.tmp}/etc/sources.list.d'; list='{project.tmp}/etc/sources.list'\"",
    )
    project.shim(
        "apt-cache",
        f"""
        [[ $* == *" -c "*apt.conf ]] || exit 0
        cd {project.tmp}/served
        for deb in linux-source-7.3_*.deb; do
            [[ -e $deb ]] || exit 0
            version=${{deb#*_}}
            echo "linux-source-7.3 | ${{version%_all.deb}} | {MIRROR} {SUITE}/main amd64 Packages"
        done""",
    )
    return project.shim(
        "apt-get",
        f"""
        echo "$*" >>{project.tmp}/apt-log
        case $1 in
        indextargets) echo {MIRROR}/ ;;
        update) [[ ! -e {project.tmp}/no-pubkey ]] || grep -qs keyring.gpg \
            {cache(project)}/apt-{SUITE}/sources.d/* || {{ echo "W: NO_PUBKEY 6ED0"; exit 100; }}
            [[ ! -e {project.tmp}/no-network ]] || {{ echo "E: no network"; exit 100; }} ;;
        download) last=${{!#}}
            cp {project.tmp}/served/"${{last%=*}}"_*.deb . 2>/dev/null ;;
        esac""",
    )


# Broken on purpose: the machine's lists refreshed instead; the key of another mirror.
def test_obtain_from_a_suite(project: Project, suite: str) -> None:
    make_deb(project, "7.3.4-1~bpo13+1", "7.3")
    before = sorted((p, p.read_text()) for p in (project.tmp / "etc").rglob("*") if p.is_file())
    done = project.run("obtain", "7.3", PATH=suite)
    repo = cache(project) / "base/7.3.4-1~bpo13+1"
    assert (done.returncode, done.stdout) == (0, f"{repo}\n"), done.stderr
    folder = cache(project) / f"apt-{SUITE}"
    assert (folder / "sources.d/suite.sources").read_text().splitlines() == [
        "Types: deb",
        f"URIs: {MIRROR}/",
        f"Suites: {SUITE}",
        "Components: main",
        "Targets: Packages",
        KEYS,
        " more.gpg",
    ]
    calls = apt_log(project).splitlines()
    updates = [call for call in calls if call.startswith("update")]
    assert len(updates) == 1 and f"-c {folder}/apt.conf" in updates[0]
    assert "--allow-unauthenticated" not in apt_log(project)
    downloads = [call for call in calls if call.startswith("download")]
    assert len(downloads) == 1 and f"-c {folder}/apt.conf" in downloads[0]
    conf = (folder / "apt.conf").read_text()
    for setting in ("Dir::State::lists", "Dir::Cache", "Dir::Etc::sourceparts"):
        assert f'{setting} "{folder}/' in conf
    after = sorted((p, p.read_text()) for p in (project.tmp / "etc").rglob("*") if p.is_file())
    assert before == after

    # Its lists are read once a day.
    again = project.run("obtain", "7.3", PATH=suite)
    assert (again.returncode, again.stdout) == (0, f"{repo}\n")
    assert len([c for c in apt_log(project).splitlines() if c.startswith("update")]) == 1


# Broken on purpose: no second update; the keys not taken from the package.
def test_obtain_with_keys_that_are_too_old(project: Project, suite: str) -> None:
    make_deb(project, "7.3.4-1", "7.3")
    write(project.tmp / "no-pubkey", "")
    work = project.tmp / "keys"
    write(work / "usr/share/keyrings/debian-archive-keyring.gpg", "new keys")
    write(
        work / "DEBIAN/control",
        "Package: debian-archive-keyring\nVersion: 2\nArchitecture: all\nMaintainer: A <a@b>\n"
        "Description: x\n",
    )
    subprocess.run(
        ["dpkg-deb", "-b", work, project.tmp / "served/debian-archive-keyring_2_all.deb"],
        check=True,
        capture_output=True,
    )
    done = project.run("obtain", "7.3", PATH=suite)
    assert done.returncode == 0, done.stderr
    folder = cache(project) / f"apt-{SUITE}"
    assert (folder / "keyring.gpg").read_text() == "new keys"
    sources = (folder / "sources.d/suite.sources").read_text()
    assert f"Signed-By: {folder}/keyring.gpg" in sources
    calls = [c for c in apt_log(project).splitlines() if "debian-archive-keyring" in c]
    assert len(calls) == 1 and "apt.conf" not in calls[0]  # the machine's own apt, and keys


# Broken on purpose: the reason of apt not shown.
def test_obtain_from_a_suite_that_is_out_of_reach(project: Project, suite: str) -> None:
    write(project.tmp / "no-network", "")
    done = project.run("obtain", "7.3", PATH=suite)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{SUITE}: E: no network" in done.stderr
    last = done.stderr.splitlines()[-1]
    assert f"apt knows no package linux-source-7.3 in {SUITE}" in last

    (project.tmp / "no-network").unlink()
    make_deb(project, "7.3.4-1", "7.3")
    first = project.run("obtain", "7.3", PATH=suite)
    assert first.returncode == 0, first.stderr
    for deb in (project.tmp / "served").iterdir():
        deb.unlink()
    done = project.run("obtain", "7.3", PATH=suite)
    assert (done.returncode, done.stdout) == (0, first.stdout)
    assert "using 7.3.4-1 from the cache" in done.stderr


# Broken on purpose: without the list of one line for a source.
def test_obtain_with_sources_of_one_line(project: Project, suite: str) -> None:
    make_deb(project, "7.3.4-1", "7.3")
    (project.tmp / "etc/sources.list.d/x.sources").unlink()
    write(
        project.tmp / "etc/sources.list",
        "deb http://other.example/debian bookworm main\n"
        f"deb [arch=amd64 signed-by=/k/a.gpg,/k/b.gpg] {MIRROR} bookworm main\n",
    )
    assert project.run("obtain", "7.3", PATH=suite).returncode == 0
    sources = cache(project) / f"apt-{SUITE}/sources.d/suite.sources"
    assert sources.read_text().splitlines()[-1] == "Signed-By: /k/a.gpg /k/b.gpg"


# Broken on purpose: a base of a suite taken from apt's own lists.
def test_obtain_without_a_mirror(project: Project, suite: str) -> None:
    project.shim("apt-get", "exit 0")
    done = project.run("obtain", "7.3", PATH=suite)
    assert done.returncode == 1
    assert f"has no Debian mirror to get {SUITE} from" in done.stderr
