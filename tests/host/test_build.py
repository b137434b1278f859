# SPDX-License-Identifier: GPL-2.0
"""wqlab build, with a kernel whose make does little.

Seen failing: with what the comment above each test names.
"""

import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_kernel import Project, make_project, write

from wqlab.ground.places import ROOT
from wqlab.ground.problem import Skipped
from wqlab.kernels.arch import ARCHES, UML
from wqlab.kernels.bases import base_names, load_base, series_names
from wqlab.kernels.build import KEPT, NEEDED
from wqlab.kernels.build import build as build_kernel
from wqlab.kernels.flavours import flavours, fragments, wanted
from wqlab.kernels.source import Source, kbuild_env

# What a build is made of: the image says what was configured and compiled.
MAKEFILE = """\
VERSION = 6
PATCHLEVEL = 12
SUBLEVEL = 117
tinyconfig:
	echo CONFIG_TINY=y >$(O)/.config
olddefconfig:
	test ! -e lose || sed -i "/$$(cat lose)/d" $(O)/.config
bzImage:
	mkdir -p $(O)/arch/x86/boot $(O)/include/config $(O)/lib
	test ! -e Kbuild.sh || O=$(O) sh ./Kbuild.sh
	cat kernel/workqueue.c >$(O)/arch/x86/boot/bzImage
	echo 6.12.117 >$(O)/include/config/kernel.release
	echo in the tree >$(O)/lib/test_workqueue.ko
	echo of another build >$(O)/lib/other.ko
	touch $(O)/compiled
vmlinux:
	echo types >$(O)/vmlinux
modules:
	test -n "$(M)" || echo lib/test_workqueue.o >$(O)/modules.order
	test -z "$(M)" || for c in $(M)/*.c; do cp $$c $${c%.c}.ko; done
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = make_project(tmp_path)
    for name in ("Kbuild", "test_workqueue.c", "test_workqueue.h"):
        write(project.top / "lib" / name, f"{name} of lib/\n")
    for name in ("Kbuild", "wqmany.c"):
        write(project.top / "guest/wqmany" / name, f"{name} of guest/\n")
    set_source(project, MAKEFILE)
    return project


def set_source(project: Project, makefile: str, **files: str) -> None:
    project.commit(
        project.base, "make", **{"Makefile": makefile, "tools/workqueue/wq_dump.py": "#\n", **files}
    )


def build(
    project: Project, *words: str | Path, flavour: str = "bench", **env: str
) -> subprocess.CompletedProcess[str]:
    return project.lab(
        *("build", "--ksrc", project.base, "--flavour", flavour, *words),
        **({"ARCH": "x86_64"} | env),
    )


def result_of(done: subprocess.CompletedProcess[str]) -> Path:
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


# Broken on purpose: a key without the patches, the compiler or the configuration.
def test_the_same_build_is_done_once(project: Project) -> None:
    result = result_of(build(project))
    about = json.loads((result / "build.json").read_text())
    assert about["key"] == result.name and len(about.pop("config_sha256")) == 64
    gcc = subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=True).stdout
    assert about == {
        "key": result.name,
        "base": "6.12",
        "version": "6.12.117",
        "patches": 3,
        "flavour": "bench",
        "arch": "x86_64",
        "compiler": gcc.splitlines()[0],
        "overlay": "",
    }
    assert (result / "include/config/kernel.release").read_text() == "6.12.117\n"
    config = (result / ".config").read_text().splitlines()
    assert config[0] == "CONFIG_TINY=y" and "CONFIG_PREEMPT=y" in config
    assert (result / "wq_dump.py").exists()

    # The kernel's make need not run again.
    path = project.shim("make", "exit 1")
    assert result_of(build(project, PATH=path)) == result
    stock = build(project, "--patches", "0", PATH=path)
    assert stock.returncode == 1 and "the configuration failed" in stock.stderr
    results = {
        result,
        result_of(build(project, "--patches", "0")),
        result_of(build(project, "--patches", "1")),
        result_of(build(project, flavour="lockstat")),
        result_of(build(project, "--module")),
        result_of(build(project, "--module", "wqmany")),
    }
    write(project.top / "configs/bench", "CONFIG_OTHER=y\n")
    results.add(result_of(build(project)))
    project.shim("make", 'exec "$REAL" "$@"')
    path = project.shim("gcc", "echo gcc 99")
    results.add(result_of(build(project, PATH=path)))
    assert len(results) == 8


# Broken on purpose: none removed; what a run of tests may still boot removed.
def test_old_results_are_removed(project: Project) -> None:
    result = result_of(build(project))
    others = [result.with_name(f"{number:03}") for number in range(KEPT + 2)]
    for other in others:
        other.mkdir()
    old = time.time() - 2 * NEEDED
    os.utime(others[0], (old, old))
    result_of(build(project, flavour="lockstat"))
    assert result.is_dir() and [other for other in others if not other.is_dir()] == others[:1]


# Broken on purpose: the module of the tree taken; the objects of the module left over.
def test_module_is_that_of_lib(project: Project) -> None:
    module = result_of(build(project, "--module")) / "lib/test_workqueue.ko"
    assert module.read_text() == "test_workqueue.c of lib/\n"
    write(project.top / "lib/test_workqueue.c", "changed\n")
    module = result_of(build(project, "--module")) / "lib/test_workqueue.ko"
    assert module.read_text() == "changed\n"
    result = result_of(build(project, "--module", "--module", "wqmany"))
    assert (result / "lib/test_workqueue.ko").read_text() == "changed\n"
    assert (result / "lib/wqmany.ko").read_text() == "wqmany.c of guest/\n"
    result = result_of(build(project))
    assert (result / "lib/test_workqueue.ko").read_text() == "in the tree\n"
    assert [path.name for path in result.rglob("*.ko")] == ["test_workqueue.ko"]


# Broken on purpose: a directory for each flavour; the configuration of the other one kept.
def test_flavours_beside_each_other(project: Project) -> None:
    """One directory, in which the configuration changes."""
    for flavour, kunit in (("bench", False), ("test", True), ("bench", False)):
        result = result_of(build(project, flavour=flavour))
        assert ("CONFIG_KUNIT=y" in (result / ".config").read_text()) == kunit
        shutil.rmtree(result)
    work = project.tmp / "cache/unbound-workqueue/work"
    assert {path.name for path in work.glob("*/*/linux/build-*")} == {"build-x86_64-bench"}


# Broken on purpose: what was lost not noticed; the configuration taken for good afterwards.
def test_lost_symbol_is_an_error(project: Project) -> None:
    set_source(project, MAKEFILE, lose="CONFIG_KEXEC\n")
    for _ in range(2):
        done = build(project)
        assert (done.returncode, done.stdout) == (1, "")
        assert "the final configuration lost CONFIG_KEXEC=y: what do they depend on?" in done.stderr
    set_source(project, MAKEFILE, lose="CONFIG_VT=n\n")
    result_of(build(project))


CHANGED = """
from pathlib import Path
from overlay import diff_overlay
from wqlab.kernels.bases import load_base
from wqlab.kernels.build import build
from wqlab.kernels.obtain import obtain
source = obtain(load_base("6.12"), Path({base!r}))
print(build(source, {flavour!r}, overlay=diff_overlay(source, None, Path({diff!r}))))
"""


def broken(project: Project, flavour: str) -> subprocess.CompletedProcess[str]:
    """A kernel with a diff on top of the series."""
    diff = project.tmp / "break.diff"
    write(
        diff,
        "--- a/kernel/workqueue.c\n+++ b/kernel/workqueue.c\n@@ -9,4 +9,4 @@\n"
        " wq line 8\n wq line 9\n-one\n+broken\n two\n",
    )
    code = CHANGED.format(base=str(project.base), flavour=flavour, diff=str(diff))
    env = project.env(ARCH="x86_64", PYTHONPATH=f"{project.top}:{ROOT / 'tests/proof'}")
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, env=env, cwd=project.tmp, check=False, capture_output=True, text=True
    )


# Broken on purpose: the files not put back; each file of the tree written; the key without it.
def test_changes_on_top_are_undone(project: Project) -> None:
    plain = result_of(build(project))
    text = (plain / "arch/x86/boot/bzImage").read_text()
    assert "one\n" in text
    changed = result_of(broken(project, "bench"))
    assert (changed / "arch/x86/boot/bzImage").read_text() == text.replace("one\n", "broken\n")
    assert json.loads((changed / "build.json").read_text())["overlay"]
    assert changed != plain

    [tree] = (project.tmp / "cache/unbound-workqueue/work").glob("*/overlay/linux")
    assert project.git(tree, "status", "--porcelain") == ""
    assert (tree / "kernel/workqueue.c").read_text() == text
    objects = tree / "build-x86_64-bench"
    compiled = (objects / "compiled").stat().st_mtime_ns
    assert (tree / "kernel/workqueue.c").stat().st_mtime_ns > compiled  # is compiled again
    again = (tree / "Kbuild").stat().st_mtime_ns
    result_of(broken(project, "lockstat"))
    assert (tree / "Kbuild").stat().st_mtime_ns == again


# Broken on purpose: checked only after the source was obtained.
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--flavour", "fast"], "invalid choice: 'fast'"),
        (["--flavour", "bench", "--patches", "4"], "the series of 6.12 has 3"),
        (["--flavour", "bench", "--patches", "one"], "'one' is not a number of patches"),
        (["--flavour", "bench", "--base", "5.4"], "unknown base '5.4'"),
    ],
)
def test_wrong_options(project: Project, words: list[str], says: str) -> None:
    path = project.shim("apt-get", "exit 99")
    done = project.lab("build", *words, PATH=path)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert not (project.tmp / "cache/unbound-workqueue").exists()


# Broken on purpose: ARCH of the environment not read.
def test_unknown_architecture(project: Project) -> None:
    done = project.lab("build", "--flavour", "bench", "--ksrc", project.base, ARCH="vax")
    assert (done.returncode, done.stdout) == (2, "")
    assert "ARCH=vax: the architectures are: x86_64, arm64" in done.stderr


# Broken on purpose: without the check.
def test_no_user_mode_linux_elsewhere(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    source = Source(load_base("6.12"), project.base, "6.12.117")
    with pytest.raises(Skipped, match="no User Mode Linux for aarch64"):
        build_kernel(source, "uml")


# Broken on purpose: the native compiler taken; its version in the key in place of the other's.
def test_foreign_architecture(project: Project) -> None:
    arch = next(arch for arch in ARCHES if arch.foreign)
    image = Path(arch.image)
    said = f"echo $(CROSS_COMPILE) $(CC) $(ARCH) >$(O)/{image}"
    makefile = MAKEFILE.replace("bzImage:", f"{arch.target}:")
    makefile = makefile.replace("cat kernel/workqueue.c >$(O)/arch/x86/boot/bzImage", said)
    set_source(project, makefile.replace("arch/x86/boot", str(image.parent)))
    done = build(project, ARCH=arch.name, PATH=project.shim(f"{arch.tools}gcc", "exit 1"))
    assert done.returncode == 1 and f"{arch.tools}gcc does not run" in done.stderr
    path = project.shim(f"{arch.tools}gcc", "echo other gcc 12")
    result = result_of(build(project, ARCH=arch.name, PATH=path))
    about = json.loads((result / "build.json").read_text())
    assert (about["arch"], about["compiler"]) == (arch.name, "other gcc 12")
    assert (result / image).read_text() == f"{arch.tools} ccache {arch.tools}gcc {arch.kbuild}\n"
    path = project.shim(f"{arch.tools}gcc", "echo other gcc 13")
    assert result_of(build(project, ARCH=arch.uname, PATH=path)) != result


# Broken on purpose: CCACHE_DEPEND, with which ccache does not preprocess.
def test_compiler_output_that_includes_a_file(tmp_path: Path) -> None:
    """A kernel's image is a .S with .incbin, and has the same text for each kernel of a size."""
    env = kbuild_env() | {"CCACHE_DIR": str(tmp_path / "ccache")}
    write(tmp_path / "image.S", '.incbin "kernel"\n')
    for text in ("one", "two"):
        write(tmp_path / "kernel", text)
        subprocess.run(
            [*("ccache", "gcc", "-c", "-Wp,-MMD,image.d"), *("-o", f"{text}.o", "image.S")],
            cwd=tmp_path,
            env=env,
            check=True,
            timeout=60,
        )
        assert text.encode() in (tmp_path / f"{text}.o").read_bytes()


# --- at the same time -------------------------------------------------------------------------


def start(project: Project, flavour: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "wqlab", "build", "--ksrc", project.base, "--flavour", flavour],
        env=project.env(PYTHONPATH=str(project.top), ARCH="x86_64"),
        cwd=project.tmp,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


# Broken on purpose: one lock for all builds.
def test_two_flavours_side_by_side(project: Project) -> None:
    meet = project.tmp / "meet"
    meet.mkdir()
    set_source(
        project,
        MAKEFILE,
        **{
            "Kbuild.sh": f"touch {meet}/$(basename $O)\n"
            f"for i in $(seq 100); do [ $(ls {meet} | wc -l) != 2 ] || exit 0; sleep 0.1; done\n"
            "exit 1\n"
        },
    )
    builds = [start(project, "bench"), start(project, "lockstat")]
    said = [build.communicate(timeout=60)[1] for build in builds]
    assert [build.returncode for build in builds] == [0, 0], said


def running(text: str) -> list[int]:
    """The processes that have this text in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in words and int(path.parent.name) != os.getpid():
            found.append(int(path.parent.name))
    return found


def wait_for(condition: Callable[[], object]) -> bool:
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.1)
    return bool(condition())


# Broken on purpose: only the program itself ended.
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_end_of_a_build_ends_all(project: Project, number: signal.Signals) -> None:
    marker = f"{600 + os.getpid() / 1e7:.7f}"
    set_source(project, MAKEFILE, **{"Kbuild.sh": f"sleep {marker}\n"})
    first = start(project, "bench")
    assert wait_for(lambda: running(f"sleep {marker}"))
    first.send_signal(number)
    first.communicate(timeout=30)
    assert first.returncode == 128 + number
    assert not running(f"sleep {marker}") and not running(str(project.tmp / "cache"))


# Broken on purpose: a lock that make inherits; make left to itself.
def test_killed_build_holds_no_lock(project: Project) -> None:
    marker = f"{600 + os.getpid() / 1e7:.7f}"
    set_source(project, MAKEFILE, **{"Kbuild.sh": f"sleep {marker}\n"})
    first = start(project, "bench")
    assert wait_for(lambda: running(f"sleep {marker}"))
    first.kill()
    first.communicate(timeout=30)
    assert wait_for(lambda: not running("make -C " + str(project.tmp)))
    left = running(f"sleep {marker}")  # what a make that was killed has not ended
    second = start(project, "bench")
    assert wait_for(lambda: len(running(f"sleep {marker}")) > len(left))
    second.terminate()
    assert "waiting for another run" not in second.communicate(timeout=30)[1]
    for pid in left:
        os.kill(pid, signal.SIGKILL)


# --- configs/ ---------------------------------------------------------------------------------


# Broken on purpose: KUnit in `common`; a misspelt fragment.
TWICE = ("bpf", "debug", "find", "kcsan", "rt", "seen")  # have fragments that name a symbol anew


def test_flavours() -> None:
    source = Source(load_base("6.12"), Path("/nonexistent"), "6.12.117")
    for name, flavour in flavours().items():
        arch = UML if flavour.arch else ARCHES[0]
        lines = wanted(source, source.count(None), fragments(flavour, arch))
        has_kunit = "CONFIG_KUNIT=y" in lines
        assert has_kunit == ("kunit" in flavour.fragments), name
        assert any("KUNIT" in line for line in lines) == has_kunit
        symbols = [line.partition("=")[0] for line in lines]
        assert len(symbols) == len(set(symbols)) or name in TWICE, name


# Broken on purpose: only the configuration `series` made to fit.
def test_symbols_of_patches_that_are_missing() -> None:
    for name in series_names():
        base = load_base(name)
        source = Source(base, Path("/nonexistent"), name)
        paths = fragments(flavours()["test"], ARCHES[0])
        everything = set(wanted(source, source.count(None), paths))
        assert "CONFIG_WORKQUEUE_KUNIT_TEST=y" in everything
        for count in range(len(base.patches) + 1):
            added = {
                symbol
                for patch in base.patches[:count]
                for symbol in re.findall(r"^\+config (\w+)", patch.text, re.MULTILINE)
            }
            left = everything - set(wanted(source, count, paths))
            assert {line[7:].partition("=")[0] for line in left}.isdisjoint(added)
            mainline_has = {"CONFIG_TEST_WORKQUEUE=m"} if name == base_names()[-1] else set()
            new = {
                "CONFIG_TEST_WORKQUEUE=m",
                "CONFIG_WORKQUEUE_KUNIT_TEST=y",
                "CONFIG_WQ_TORTURE_TEST=m",
            }
            assert count or left == new - mainline_has
