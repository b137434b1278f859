# SPDX-License-Identifier: GPL-2.0
"""series obtain, with a made-up apt and sources of one's own.

Seen failing: with what the comment above each test names.
"""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fake_kernel import (
    BASE,
    Project,
    add_form,
    lines,
    make_older,
    make_project,
    snapshot,
    write,
)

from wqlab.kernels.arch import ARCHES


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project whose package lists are fresh."""
    project = make_project(tmp_path)
    write(project.tmp / "cache/unbound-workqueue/apt-lists.stamp", "")
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


# Broken on purpose: git add without -f; the date of the day; everything done twice; a leftover unpacked over.
def test_obtain_makes_one_commit(project: Project, path: str) -> None:
    make_deb(project, "6.12.107-1")
    make_deb(project, "6.12.117-1~deb12u1")
    repo = cache(project) / "base/6.12.117-1~deb12u1"
    done = project.series("obtain", "--base", BASE, PATH=path)
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
    again = project.series("obtain", "--base", BASE, PATH=path)
    assert (again.returncode, again.stdout, again.stderr) == (0, f"{repo}\n", "")
    assert apt_log(project) == log

    # Cut off while it was committed: made again, to the same commit.
    (repo / ".git").rename(repo / ".git-lost")
    write(repo.parent / f".{repo.name}.part/Makefile.half", "half\n")
    assert project.series("obtain", "--base", BASE, PATH=path).returncode == 0
    assert project.git(repo, "rev-parse", "base") == first
    assert [item.name for item in repo.parent.iterdir()] == [repo.name]


# Broken on purpose: what was downloaded so far left, as it was before `finally`.
@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_obtain_that_is_interrupted(project: Project, path: str, sig: signal.Signals) -> None:
    make_deb(project, "6.12.117-1")
    slow = project.tmp / "slow"
    project.shim(
        "apt-get",
        f"[[ $1 != download ]] || {{ echo half >half.deb; touch {slow}; exec sleep 60; }}",
    )
    with subprocess.Popen(
        [sys.executable, "-m", "series", "obtain", "--base", BASE],
        env=project.env(PYTHONPATH=str(project.top), PATH=path),
        cwd=project.tmp,
        stderr=subprocess.DEVNULL,
    ) as running:
        limit = time.monotonic() + 20
        while not slow.exists():
            assert time.monotonic() < limit and running.poll() is None
            time.sleep(0.05)
        running.send_signal(sig)
        assert running.wait(20) == 128 + sig
    for folder in ("download", "base"):
        assert list((cache(project) / folder).iterdir()) == []


# Broken on purpose: no reason.
def test_obtain_says_why_not(project: Project, path: str) -> None:
    make_deb(project, "6.12.117-1")
    project.shim("apt-get", "echo 'E: No space left on device'; echo 'E: another'; exit 100")
    done = project.series("obtain", "--base", BASE, PATH=path)
    assert (
        done.returncode == 1
        and "could not be downloaded: No space left on device, and" in done.stderr
    )


# Broken on purpose: versions compared as strings.
def test_obtain_refuses_what_is_too_old(project: Project, path: str) -> None:
    make_deb(project, "6.12.99-1")
    done = project.series("obtain", "--base", BASE, PATH=path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "6.12.99-1, and the series needs 6.12.107 or newer" in done.stderr


# Broken on purpose: the cache not looked at.
def test_obtain_falls_back_to_the_cache(project: Project, path: str) -> None:
    done = project.series("obtain", "--base", BASE, PATH=path)
    assert done.returncode == 1 and "apt knows no package" in done.stderr

    make_deb(project, "6.12.117-1")
    used = project.series("obtain", "--base", BASE, PATH=path).stdout
    for deb in (project.tmp / "served").iterdir():
        deb.unlink()
    done = project.series("obtain", "--base", BASE, PATH=path)
    assert (done.returncode, done.stdout) == (0, used)
    assert "using 6.12.117-1 from the cache" in done.stderr

    make_deb(project, "6.12.118-1")
    project.shim("apt-get", "exit 100")
    done = project.series("obtain", "--base", BASE, PATH=path)
    assert (done.returncode, done.stdout) == (0, used)
    assert "6.12.118-1 could not be downloaded: using 6.12.117-1" in done.stderr


# Broken on purpose: a damaged package kept, so that each run fails.
def test_obtain_drops_a_damaged_package(project: Project, path: str) -> None:
    write(project.tmp / f"served/linux-source-{BASE}_6.12.117-1_all.deb", "cut off")
    done = project.series("obtain", "--base", BASE, PATH=path)
    assert done.returncode == 1 and "could not be unpacked" in done.stderr
    make_deb(project, "6.12.117-1")
    assert project.series("obtain", "--base", BASE, PATH=path).returncode == 0


# Broken on purpose: nothing removed; the oldest kept; another base's removed.
def test_obtain_keeps_two_versions(project: Project, path: str) -> None:
    other = cache(project) / "base/7.3.1-1"
    other.mkdir(parents=True)
    for patch in (115, 116, 117):
        make_deb(project, f"6.12.{patch}-1")
        assert project.series("obtain", "--base", BASE, PATH=path).returncode == 0
    kept = sorted(item.name for item in (cache(project) / "base").iterdir())
    assert kept == ["6.12.116-1", "6.12.117-1", "7.3.1-1"]
    assert list((cache(project) / "download").iterdir()) == []


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
        indextargets) echo {MIRROR}/ bookworm ;;
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
    done = project.series("obtain", "--base", "7.3", PATH=suite)
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
    again = project.series("obtain", "--base", "7.3", PATH=suite)
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
    done = project.series("obtain", "--base", "7.3", PATH=suite)
    assert done.returncode == 0, done.stderr
    folder = cache(project) / f"apt-{SUITE}"
    assert (folder / "keyring.gpg").read_text() == "new keys"
    sources = (folder / "sources.d/suite.sources").read_text()
    assert f"Signed-By: {folder}/keyring.gpg" in sources
    calls = [c for c in apt_log(project).splitlines() if "debian-archive-keyring" in c]
    assert len(calls) == 1 and "apt.conf" not in calls[0]  # the machine's own apt, and keys


# Broken on purpose: the machine's own architecture asked for; got again each time.
def test_busybox_of_another_architecture(project: Project, suite: str) -> None:
    arch = next(arch for arch in ARCHES if arch.foreign)
    code = "from wqlab.kernels.arch import find_arch; from wqlab.guests.initramfs import find_busybox; "
    code += f"print(find_busybox(find_arch('{arch.name}')))"

    def find(path: str) -> subprocess.CompletedProcess[str]:
        env = project.env(PATH=path, PYTHONPATH=str(project.top))
        command = [sys.executable, "-c", code]
        return subprocess.run(command, env=env, check=False, capture_output=True, text=True)

    place = cache(project) / f"busybox-{arch.name}"
    missing = find(suite)
    assert missing.returncode == 1 and not place.exists()
    assert missing.stderr.endswith("busybox-static could not be downloaded\n")

    work = project.tmp / "busybox"
    write(work / "bin/busybox", "of another")
    write(
        work / "DEBIAN/control",
        f"Package: busybox-static\nVersion: 1\nArchitecture: {arch.dpkg}\nMaintainer: A <a@b>\n"
        "Description: x\n",
    )
    deb = project.tmp / f"served/busybox-static_1_{arch.dpkg}.deb"
    subprocess.run(["dpkg-deb", "-b", work, deb], check=True, capture_output=True)
    done = find(suite)
    assert (done.returncode, done.stdout) == (0, f"{place}\n"), done.stderr
    assert place.read_text() == "of another"
    folder = cache(project) / f"apt-bookworm-{arch.dpkg}"
    assert f'APT::Architecture "{arch.dpkg}";' in (folder / "apt.conf").read_text()
    assert "Suites: bookworm" in (folder / "sources.d/suite.sources").read_text()
    calls = apt_log(project)
    assert find(suite).stdout == done.stdout and apt_log(project) == calls


# Broken on purpose: the reason of apt not shown.
def test_obtain_from_a_suite_that_is_out_of_reach(project: Project, suite: str) -> None:
    write(project.tmp / "no-network", "")
    done = project.series("obtain", "--base", "7.3", PATH=suite)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{SUITE}: E: no network" in done.stderr
    last = done.stderr.splitlines()[-1]
    assert f"apt knows no package linux-source-7.3 in {SUITE}" in last

    (project.tmp / "no-network").unlink()
    make_deb(project, "7.3.4-1", "7.3")
    first = project.series("obtain", "--base", "7.3", PATH=suite)
    assert first.returncode == 0, first.stderr
    for deb in (project.tmp / "served").iterdir():
        deb.unlink()
    done = project.series("obtain", "--base", "7.3", PATH=suite)
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
    assert project.series("obtain", "--base", "7.3", PATH=suite).returncode == 0
    sources = cache(project) / f"apt-{SUITE}/sources.d/suite.sources"
    assert sources.read_text().splitlines()[-1] == "Signed-By: /k/a.gpg /k/b.gpg"


# Broken on purpose: a base of a suite taken from apt's own lists.
def test_obtain_without_a_mirror(project: Project, suite: str) -> None:
    project.shim("apt-get", "exit 0")
    done = project.series("obtain", "--base", "7.3", PATH=suite)
    assert done.returncode == 1
    assert f"has no Debian mirror to get {SUITE} from" in done.stderr


# --- a base that is a source package ----------------------------------------------------------


def make_orig(project: Project, version: str) -> Path:
    """The orig tarball of a version of the package linux, in the directory that apt serves."""
    upstream = version.partition("-")[0]
    work = project.tmp / f"make-orig-{version}"
    write(work / "linux-x/Makefile", f"VERSION = 6\nPATCHLEVEL = 18\n# {upstream}\n")
    write(work / "linux-x/Kbuild", "\n")
    write(work / "linux-x/kernel/workqueue.c", lines("wq"))
    served = project.tmp / "served"
    served.mkdir(exist_ok=True)
    write(served / f"{version}.version", "")
    tarball = served / f"linux_{upstream}.orig.tar.xz"
    subprocess.run(["tar", "-cJf", tarball, "-C", work, "linux-x"], check=True)
    return tarball


@pytest.fixture
def sources(project: Project, suite: str) -> str:
    """The same for 6.18, whose source package is known to an apt that reads those of the suite."""
    project.shim(
        "apt-cache",
        f"""
        [[ $* == "showsrc --only-source linux -c "*/apt-{SUITE}-src/apt.conf ]] || exit 100
        for version in {project.tmp}/served/*.version; do
            version=${{version##*/}}
            printf 'Package: linux\\nVersion: %s\\n\\n' "${{version%.version}}"
        done""",
    )
    real = project.tmp / "shims/apt-get"
    real.rename(real.with_name("apt-get-of-suite"))
    return project.shim(
        "apt-get",
        f"""
        [[ $1 == source ]] || exec "${{0%/*}}/apt-get-of-suite" "$@"
        echo "$*" >>{project.tmp}/apt-log
        version=${{!#}} version=${{version#linux=}}
        cp {project.tmp}/served/linux_"${{version%%-*}}".orig.tar.xz . 2>/dev/null""",
    )


# Broken on purpose: versions compared as strings; the newest of any series; packages read in
# place of their sources.
def test_obtain_a_source_package(project: Project, sources: str) -> None:
    for version in ("6.17.13-1~bpo13+1", "6.18.9-1", "6.18.15-1~bpo13+1", "7.3.4-1~bpo13+1"):
        make_orig(project, version)
    done = project.series("obtain", "--base", "6.18", PATH=sources)
    repo = cache(project) / "base/6.18.15-1~bpo13+1"
    assert (done.returncode, done.stdout) == (0, f"{repo}\n"), done.stderr
    said = "linux 6.18.15 (Debian linux 6.18.15-1~bpo13+1)"
    assert project.git(repo, "log", "--format=%s") == said
    assert "# 6.18.15" in (repo / "Makefile").read_text()
    folder = cache(project) / f"apt-{SUITE}-src"
    read = (folder / "sources.d/suite.sources").read_text().splitlines()
    assert "Types: deb-src" in read and "Targets: Sources" in read
    (call,) = (call for call in apt_log(project).splitlines() if call.startswith("source"))
    assert f"-c {folder}/apt.conf" in call and "--allow-unauthenticated" not in call
    assert list((cache(project) / "download").iterdir()) == []

    # What is there is used where apt cannot be reached.
    for path in (project.tmp / "served").iterdir():
        path.unlink()
    done = project.series("obtain", "--base", "6.18", PATH=sources)
    assert (done.returncode, done.stdout) == (0, f"{repo}\n")
    assert "using 6.18.15-1~bpo13+1 from the cache" in done.stderr


# Broken on purpose: the minimum not looked at; a damaged tarball kept, so that each run fails.
def test_obtain_no_source_package_that_is_right(project: Project, sources: str) -> None:
    def refused(words: str) -> None:
        done = project.series("obtain", "--base", "6.18", PATH=sources)
        assert (done.returncode, done.stdout) == (1, "")
        assert words in done.stderr.splitlines()[-1]

    make_orig(project, "7.3.4-1~bpo13+1")
    refused(f"apt knows no source of 6.18 in package linux in {SUITE}")
    make_orig(project, "6.18.9-1")
    refused("is 6.18.9-1, and the series needs 6.18.15 or newer")
    tarball = make_orig(project, "6.18.15-1")
    tarball.rename(tarball.with_suffix(".away"))
    refused("the source of linux 6.18.15-1 could not be downloaded")
    write(tarball, "cut off")
    refused("linux 6.18.15-1 could not be unpacked")
    make_orig(project, "6.18.15-1")
    assert project.series("obtain", "--base", "6.18", PATH=sources).returncode == 0


# --- a source of one's own --------------------------------------------------------------------


def check_taken(project: Project, ksrc: Path, *said: str) -> Path:
    """KSRC is taken as it is, twice the same, and stays as it was."""
    before = snapshot(ksrc) if ksrc.is_dir() else ksrc.read_bytes()
    done = project.series("obtain", "--ksrc", ksrc)
    assert done.returncode == 0, done.stderr
    for words in said:
        assert words in done.stderr
    repo = Path(done.stdout.strip())
    assert project.git(repo, "rev-list", "--all") == project.git(repo, "rev-parse", "base")
    assert project.git(repo, "status", "--porcelain", "--ignored") == ""
    assert not (repo / ".git/objects/info/alternates").exists()
    project.git(repo, "fsck", "--full")
    again = project.series("obtain", "--ksrc", ksrc)
    assert again.stdout == done.stdout and "taking" not in again.stderr
    assert before == (snapshot(ksrc) if ksrc.is_dir() else ksrc.read_bytes())
    return repo


# Broken on purpose: NEWEST not read; a version's suffix taken for a number of it.
@pytest.mark.parametrize(
    ("version", "said"),
    [("106", "is known to fit 6.12.107 and newer"), ("107", ""), ("117", ""),
     ("117\nEXTRAVERSION = -2", ""), ("118", "was tried on is 6.12.117")],
)  # fmt: skip
def test_version_that_it_was_not_tried_on(project: Project, version: str, said: str) -> None:
    text = f"VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = {version}\n"
    project.commit(project.base, "another version", Makefile=text + "# another\n")
    done = project.series("obtain", "--ksrc", project.base)
    assert done.returncode == 0, done.stderr
    assert said in done.stderr and bool(said) == ("the series" in done.stderr)


# Broken on purpose: the work tree copied in place of HEAD; objects borrowed for good; HEAD with
# all that came before it; an index that git refreshed.
def test_git_tree_of_ones_own(project: Project) -> None:
    project.commit(project.base, "mine", **{"kernel/mine.c": "int mine;\n"})
    repo = check_taken(project, project.base)
    write(project.base / "kernel/mine.c", "int changed;\n")
    write(project.base / "kernel/new.c", "int untracked;\n")
    changed = check_taken(project, project.base, "changes that are not committed")
    assert changed == repo
    assert (repo / "kernel/mine.c").read_text() == "int mine;\n"
    assert not (repo / "kernel/new.c").exists()
    shutil.rmtree(project.base)
    project.git(repo, "fsck", "--full")

    # What is built from it has the series.
    assert project.git(repo, "show", "base:kernel/mine.c") == "int mine;"


def unpacked(project: Project) -> Path:
    ksrc = project.tmp / "linux-6.12.117"
    shutil.copytree(project.base, ksrc, ignore=shutil.ignore_patterns(".git"))
    write(ksrc / ".gitignore", "*.o\n/*\n")
    write(ksrc / "lib/ignored.o", "but part of the source\n")
    return ksrc


# Broken on purpose: git init in KSRC; found again by its path alone.
def test_unpacked_source_of_ones_own(project: Project) -> None:
    ksrc = unpacked(project)
    repo = check_taken(project, ksrc)
    assert (repo / "lib/ignored.o").is_file()
    write(ksrc / "kernel/workqueue.c", "int changed;\n")
    changed = check_taken(project, ksrc)
    assert changed != repo
    assert (changed / "kernel/workqueue.c").read_text() == "int changed;\n"


# Broken on purpose: what a build left is committed.
def test_source_that_was_built_in(project: Project) -> None:
    ksrc = unpacked(project)
    write(ksrc / "Makefile", (ksrc / "Makefile").read_text() + "mrproper:\n\trm -f .config *.o\n")
    write(ksrc / ".config", "CONFIG_SMP=y\n")
    write(ksrc / "vmlinux.o", "built\n")
    repo = check_taken(project, ksrc)
    assert not (repo / ".config").exists() and not (repo / "vmlinux.o").exists()
    assert (ksrc / ".config").exists()


# Broken on purpose: tar with -J for all; the folder at the top kept.
@pytest.mark.parametrize("kind", ["xz", "gz", "zst", "bz2"])
def test_tarball_of_ones_own(project: Project, kind: str) -> None:
    program = {"xz": "xz", "gz": "gzip", "zst": "zstd", "bz2": "bzip2"}[kind]
    if not shutil.which(program):
        pytest.skip(f"no {program} here")
    ksrc = unpacked(project)
    tarball = project.tmp / f"linux.tar.{kind}"
    subprocess.run(["tar", "-caf", tarball, "-C", ksrc.parent, ksrc.name], check=True)
    repo = check_taken(project, tarball)
    assert (repo / "kernel/workqueue.c").read_text() == (ksrc / "kernel/workqueue.c").read_text()
    assert (repo / "lib/ignored.o").is_file()


# Broken on purpose: no check of what it is; what was begun left in the cache.
def test_what_is_no_source(project: Project) -> None:
    empty, cut, other = project.tmp / "empty", project.tmp / "cut.tar.gz", project.tmp / "o.tar"
    empty.mkdir()
    cut.write_text("no archive")
    subprocess.run(["tar", "-cf", other, "-C", project.top, "scripts"], check=True)
    nothing = project.tmp / "nothing"
    nothing.mkdir()
    project.git(nothing, "init", "-q")
    for ksrc, status, says in [
        (project.tmp / "missing", 2, "does not exist"),
        (empty, 1, "is not a kernel's source"),
        (cut, 1, "could not be unpacked"),
        (other, 1, "is not a kernel's source"),
        (nothing, 1, "has no commit that can be read"),
    ]:
        done = project.series("obtain", "--ksrc", ksrc)
        assert (done.returncode, done.stdout) == (status, ""), done.stderr
        assert says in done.stderr.splitlines()[-1] and str(ksrc) in done.stderr
    assert [path.name for path in (cache(project) / "base").iterdir()] == []


# Broken on purpose: the oldest kept.
def test_two_sources_of_ones_own_stay(project: Project) -> None:
    repos = []
    for number in range(3):
        project.commit(project.base, f"commit {number}", x=str(number))
        repos.append(Path(project.series("obtain", "--ksrc", project.base).stdout.strip()))
    assert [repo.exists() for repo in repos] == [False, True, True]


# Broken on purpose: the advice to use apt where there is none.
def test_machine_without_apt(project: Project) -> None:
    shims = project.tmp / "shims"
    shims.mkdir()
    for name in ("bash", "dirname", "env", "git", "setpriv"):
        (shims / name).symlink_to(str(shutil.which(name)))
    done = project.series("obtain", PATH=str(shims))
    assert (done.returncode, done.stdout) == (1, "")
    assert "no apt" in done.stderr and "KSRC=" in done.stderr
    assert project.series("obtain", "--ksrc", project.base, PATH=str(shims)).returncode == 0


# --- the series on it -------------------------------------------------------------------------

CHECKOUT = """
import sys
from wqlab.kernels.bases import load_base
from wqlab.kernels.obtain import obtain
from pathlib import Path
source = obtain(load_base("6.12"), Path(sys.argv[1]))
for word in sys.argv[2:]:
    print(source.checkout(None if word == "all" else int(word)))
"""


def checkout(
    project: Project, *patches: str, **more: str
) -> tuple[list[Path], subprocess.CompletedProcess[str]]:
    script = project.tmp / "checkout.py"
    write(script, CHECKOUT)
    done = subprocess.run(
        [sys.executable, script, project.base, *patches],
        env=project.env(PYTHONPATH=str(project.top), **more),
        text=True,
        capture_output=True,
        check=False,
        timeout=60,
    )
    return [Path(line) for line in done.stdout.splitlines()], done


# Broken on purpose: the series applied from the base each time; files not cleaned up; a series
# that has changed not noticed.
def test_checkout_of_some_patches(project: Project) -> None:
    [tree], _ = checkout(project, "all")
    assert (
        project.git(tree, "log", "--format=%s").splitlines()[0] == "workqueue: Three with an ümlaut"
    )
    untouched = (tree / "Kbuild").stat().st_mtime_ns
    write(tree / "kernel/workqueue.c", "half done\n")
    write(tree / "new.c", "left\n")
    checkout(project, "1")
    assert "one\n" in (tree / "kernel/workqueue.c").read_text()
    assert "two\n" not in (tree / "kernel/workqueue.c").read_text()
    assert not (tree / "new.c").exists() and not (tree / "lib/test_workqueue.c").exists()
    assert (tree / "Kbuild").stat().st_mtime_ns == untouched
    checkout(project, "0")
    assert project.git(tree, "rev-parse", "HEAD") == project.git(tree, "rev-parse", "base")

    # found again: no patch is applied twice
    names = sorted(project.patches.glob("*.patch"))
    path = project.shim("git", '[[ " $* " != *" am -q "* ]] || exit 1; exec "$REAL" "$@"')
    assert checkout(project, "2", PATH=path)[1].returncode == 0
    text = names[2].read_text()
    names[2].write_text(text.replace("+int c;", "+int d;"))
    assert checkout(project, "3", PATH=path)[1].returncode == 1
    assert checkout(project, "3")[1].returncode == 0
    assert "int d;" in (tree / "lib/test_workqueue.c").read_text()


# Broken on purpose: the form for other kernels left out; taken for all kernels.
@pytest.mark.parametrize("older", [False, True])
def test_checkout_takes_the_form_that_fits(project: Project, older: bool) -> None:
    add_form(project)
    if older:
        make_older(project)
    for number in ("1", "all"):
        trees, done = checkout(project, number)
        assert done.returncode == 0, done.stderr
        assert "one\n" in (trees[0] / "kernel/workqueue.c").read_text()


# Broken on purpose: the number not checked; git am left under way.
def test_checkout_that_cannot_be(project: Project) -> None:
    for number in ("4", "-1"):
        trees, done = checkout(project, number)
        assert trees == [] and "the series has patches 1 to 3, 0 is the base" in done.stderr
    project.commit(project.base, "other", **{"kernel/workqueue.c": "other\n"})
    trees, done = checkout(project, "all")
    assert trees == [] and "git am failed at 'workqueue: One'" in done.stderr
