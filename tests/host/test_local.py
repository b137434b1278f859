# SPDX-License-Identifier: GPL-2.0
"""wqlab local on a made-up machine: its files below a directory, its programs in PATH.

Seen failing with, in this order: each check left out; the shard size not put back, put back but not
when killed; the module left loaded; boots thrown away by a signal; a rerun that begins anew; a file
of another kernel written over; lost items that pass; default_affinity_scope written; a parameter of
mode 0444 written; shares and callers misread; samples of a timer taken for cycles; boots under perf
without a reason; mainline's module taken for this one; a verdict by two runs that does not say so,
by runs that overlap, by a host that was busy, by the scopes alone where no cycles are spent at the
lock, by finer scopes only, by one CPU that queues though the runs overlap, and against scope cache
where another is the default; waiters outside the workqueue code counted, or not named; --watch that
loads, that records before it asks for cycles, that judges few samples or an idle host; README.md
with another figure in the verdict.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass, replace
from pathlib import Path

import made_results
import pytest

from wqlab.ground.places import ROOT
from wqlab.measure import local
from wqlab.results.file import load
from wqlab.results.model import Results

RELEASE = "6.12.0-made-up"
MAIN = f"""
import functools, sys
from pathlib import Path
sys.path.insert(0, {str(ROOT)!r})
from wqlab import cli
from wqlab.measure import local
from wqlab.measure.host import LiveHost
root, uid, version, *arguments = sys.argv[1:]
host = LiveHost(Path(root), int(uid), {RELEASE!r}, version)
local.command = functools.partial(local.command, host=host)
sys.exit(cli.main(["local", *arguments]))
"""
# One row for each scope. A signal ends it without the module being loaded.
INSMOD = """
mkdir $ROOT/sys/module/test_workqueue
trap 'rmdir $ROOT/sys/module/test_workqueue; exit 1' TERM
echo "$* size=$(cat $ROOT/sys/module/workqueue/parameters/cache_shard_size 2>/dev/null)" >>$ROOT/calls
if [[ -e $ROOT/refuse ]]; then
    cat $ROOT/refuse >&2
    rmdir $ROOT/sys/module/test_workqueue
    exit 1
fi
for word in "$@"; do
    case $word in
    mode=*) mode=$word ;;
    scopes=*) scopes=${word#scopes=} ;;
    wq_items=*) items=${word#wq_items=} ;;
    esac
done
if [[ -e $ROOT/slow ]] && (($(wc -l <$ROOT/calls) >= $(cat $ROOT/slow))); then
    echo $$ >$ROOT/waiting.part
    mv $ROOT/waiting.part $ROOT/waiting
    sleep 30 & wait $!
fi
echo "6,1,1,-;test_workqueue: loading out-of-tree module" >>$ROOT/dev/kmsg
for scope in ${scopes//,/ }; do
    if [[ $scope == cache_shard && ! -e $ROOT/sys/module/workqueue/parameters/cache_shard_size ]]; then
        echo "6,2,2,-;test_workqueue: scope=$scope missing" >>$ROOT/dev/kmsg
        continue
    fi
    rate=5000
    for file in $ROOT/rate-$scope{,-${mode#mode=},.$(wc -l <$ROOT/calls)}; do
        [[ ! -e $file ]] || rate=$(<$file)
    done
    echo "6,3,3,-;test_workqueue: scope=$scope $mode threads=2 items=$((2 * items))" \\
        "items_per_sec=$rate" \\
        "queue_p50_ns=100 queue_p90_ns=200 queue_p95_ns=300 kworkers_peak=9 max_active=8" \\
        "lost=$(cat $ROOT/lost 2>/dev/null || echo 0) twice=0" >>$ROOT/dev/kmsg
    echo " SUBSYSTEM=module" >>$ROOT/dev/kmsg
done
"""
RMMOD = "rmdir $ROOT/sys/module/test_workqueue"
MAKE = """
echo "make $*" >>$ROOT/made
for word in "$@"; do [[ $word != M=* ]] || out=${word#M=}; done
[[ -e $out/Kbuild && -e $out/test_workqueue.c && -e $out/test_workqueue.h ]] || exit 2
if [[ -e $ROOT/broken ]]; then echo "x.c:1: error: broken"; exit 2; fi
echo module >$out/test_workqueue.ko
"""
MAINLINES = "nr_threads:Number of threads (int)\nwq_items:Items (int)\n"
MODINFO = "cat $ROOT/modinfo"
# As perf 6.1 prints it, on a machine without BPF in perf.
PERF = """
printf '%s\\n' "$*" >>$ROOT/perf-calls
workload() { while [[ $1 != -- ]]; do shift; done; shift; "$@"; }
case "$1 $2" in
"stat -a")
    if [[ -e $ROOT/no-cycles ]]; then echo "   <not supported>      cycles"; else echo "5      cycles"; fi
    ;;
"record -a")
    if [[ -e $ROOT/no-cycles ]]; then echo "The cycles event is not supported." >&2; exit 255; fi
    workload "$@"
    [[ ! -e $ROOT/stat-then ]] || mv $ROOT/stat-then $ROOT/proc/stat
    ;;
"evlist -i") cat $ROOT/event 2>/dev/null || echo cycles ;;
"report -i")
    if [[ " $* " == *folded* ]]; then cat $ROOT/chains; exit; fi
    if [[ -e $ROOT/shares ]]; then cat $ROOT/shares; exit; fi
    echo "    31.42%          3142  [k] native_queued_spin_lock_slowpath"
    echo "     9.10%           910  [k] __queue_work"
    echo "     0.58%            58  [k] __pv_queued_spin_lock_slowpath"
    ;;
"lock contention")
    if [[ " $* " == *" -b "* ]]; then
        echo " Error: switch 'b' is not available because no BUILD_BPF_SKEL=1" >&2
        exit 129
    fi
    cat <<-END
	 contended   total wait     max wait     avg wait         type   caller

	      4821      1.30 s       1.21 ms    162.41 us     spinlock   __queue_work+0xd6
	         4      1.22 ms      1.19 ms    305.33 us       rwsem:R   process_one_work+0x35
	         1    460.29 us    460.29 us    460.29 us     spinlock   worker_thread+0x88
	         1       460 ns       460 ns       460 ns     spinlock   tick_irq_enter+0x29
	END
    ;;
"lock record")
    if [[ -e $ROOT/no-tracepoints ]]; then echo "event syntax error: no such tracepoint" >&2; exit 1; fi
    workload "$@"
    ;;
esac
"""


@dataclass
class Machine:
    root: Path
    out: Path

    @property
    def parameters(self) -> Path:
        return self.root / "sys/module/workqueue/parameters"

    @property
    def size(self) -> Path:
        return self.parameters / "cache_shard_size"

    def put(self, name: str, text: str = "") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def program(self, name: str, text: str) -> None:
        path = self.put(f"bin/{name}", f"#!/bin/bash\nROOT={self.root}\n{text}\n")
        path.chmod(0o755)

    def only_its_programs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of this host, nothing but what the stand-ins are made of."""
        for name in ("bash", "sh", "cat", "mkdir", "rmdir", "setpriv", "wc"):
            found = shutil.which(name)
            assert found
            (self.root / "bin" / name).symlink_to(found)
        monkeypatch.setenv("PATH", "")

    def start(self, *arguments: str, uid: int = 0, version: str = "#1") -> subprocess.Popen[str]:
        command = [sys.executable, "-c", MAIN, str(self.root), str(uid), version]
        command += ["--out", str(self.out), *arguments]
        return subprocess.Popen(
            command,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"PATH": f"{self.root}/bin:{os.environ['PATH']}"},
        )

    def run(self, *arguments: str, **more: object) -> tuple[int, str, str]:
        program = self.start(*arguments, **more)
        out, err = program.communicate(timeout=60)
        return program.returncode, out, err

    def calls(self) -> list[str]:
        """The parameters of each load, and the shard size at that time."""
        path = self.root / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [
            " ".join(word for word in line.split() if not word.endswith(".ko")) for line in lines
        ]

    def perf_calls(self) -> list[str]:
        path = self.root / "perf-calls"
        return path.read_text().splitlines() if path.exists() else []

    def loaded(self) -> bool:
        return (self.root / "sys/module/test_workqueue").exists()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine with a patched kernel, where everything works."""
    machine = Machine(tmp_path / "root", tmp_path / "out/results.json")
    for name, text in (
        ("proc/modules", ""),
        ("proc/cpuinfo", "flags : fpu\n"),
        ("proc/sys/kernel/modules_disabled", "0\n"),
        ("sys/kernel/security/lockdown", "[none] integrity confidentiality\n"),
        ("sys/module/module/parameters/sig_enforce", "N\n"),
        ("sys/module/workqueue/parameters/cache_shard_size", "8\n"),
        ("sys/module/workqueue/parameters/default_affinity_scope", "cache_shard\n"),
        (f"lib/modules/{RELEASE}/build/Makefile", ""),
        ("dev/kmsg", "6,0,0,-;test_workqueue: scope=cache mode=serial of an earlier run\n"),
    ):
        machine.put(name, text)
    for name, text in (
        ("insmod", INSMOD),
        ("modprobe", INSMOD),
        ("rmmod", RMMOD),
        ("make", MAKE),
        ("gcc", "true"),
        ("modinfo", MODINFO),
        ("perf", PERF),
    ):
        machine.program(name, text)
    return machine


SHORT = ("--runs", "2", "--modes", "serial,sleep", "--sizes", "2,4")


# --- what is measured --------------------------------------------------------------------


def test_everything_is_measured_and_put_back(machine: Machine) -> None:
    default = machine.parameters / "default_affinity_scope"
    before = default.stat()
    status, out, err = machine.run(*SHORT)
    assert status == 0, err
    results = load(machine.out)
    boots = [(b.section, b.runs[0]["mode"], b.number, b.size) for b in results.boots if not b.perf]
    once = [("local", "serial", 1, None), ("local", "sleep", 1, None)]
    once += [("sizes", "serial", 1, 2), ("sizes", "serial", 1, 4)]
    assert boots == once + [(*boot[:2], 2, boot[3]) for boot in once]
    assert all(b.verdict == "pass" for b in results.boots)
    scopes = ["cpu", "smt", "cache_shard", "cache", "numa", "system"]
    assert all(
        [row.scope for row in boot.rows] == scopes == boot.runs[0]["scopes"]
        for boot in results.boots
        if boot.section == "local" and not boot.perf
    )
    calls = [call for call in machine.calls() if "mode=serial" in call and "scopes=c" not in call]
    assert f"scopes={','.join(scopes[::-1])} " in calls[0]  # the second time in another order
    swept = [
        call.rpartition("size=")[2] for call in machine.calls() if "scopes=cache_shard " in call
    ]
    assert swept[:4] == ["2", "4", "2", "4"]
    assert machine.size.read_text() == "8\n"
    assert not machine.loaded()
    after = default.stat()
    assert (before.st_mtime_ns, before.st_ctime_ns) == (after.st_mtime_ns, after.st_ctime_ns)
    assert "the default scope stays as it is (cache_shard)" in err
    assert "5,000  [5,000 - 5,000]" in next(
        line for line in out.splitlines() if line.split()[:1] == ["cache_shard"]
    )
    assert results.kernels[0].release == RELEASE and results.machines[0].emulation is None
    assert "s left" in err


def test_stock_kernel_has_no_sizes_to_sweep(machine: Machine) -> None:
    machine.size.unlink()
    status, _, err = machine.run(*SHORT)
    assert status == 0, err
    results = load(machine.out)
    assert not [boot for boot in results.boots if boot.section == "sizes"]
    assert any("no scope cache_shard" in note for note in results.notes)
    missing = [row.scope for row in results.boots[0].rows if row.missing]
    assert missing == ["cache_shard"]


def test_size_that_is_for_boot_only_is_left_alone(machine: Machine) -> None:
    machine.size.chmod(0o444)
    status, _, err = machine.run(*SHORT)
    assert status == 0, err
    assert {call.rpartition("size=")[2] for call in machine.calls()} == {"8"}
    assert any("at boot only" in note for note in load(machine.out).notes)


def test_a_guest_is_not_bare_metal(machine: Machine) -> None:
    machine.put("proc/cpuinfo", "flags : fpu hypervisor\n")
    machine.program("systemd-detect-virt", "echo kvm")
    assert machine.run(*SHORT, "--no-perf")[0] == 0
    assert load(machine.out).machines[0].emulation == "virtual machine (kvm)"


def test_lost_items_do_not_pass(machine: Machine) -> None:
    machine.put("slow", "999")
    machine.put("lost", "1")
    status, _, err = machine.run(*SHORT)
    assert status == 1 and "scope cpu, mode serial: 1 items lost" in err
    assert not machine.out.exists()


# --- what it refuses ---------------------------------------------------------------------


def refused(machine: Machine, *arguments: str, **more: object) -> str:
    """The one line that it says, having changed nothing."""
    status, out, err = machine.run(*SHORT, *arguments, **more)
    errors = [line for line in err.splitlines() if line.startswith("wqlab local: error: ")]
    assert (status, out, len(errors)) == (1, "", 1), err
    assert err.splitlines()[-1] == errors[0]
    assert machine.size.read_text() == "8\n" and not machine.loaded()
    return errors[0]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("proc/sys/kernel/modules_disabled", "1\n", "until the next boot"),
        ("sys/kernel/security/lockdown", "none [integrity] confidentiality\n", "Secure Boot"),
        ("sys/module/module/parameters/sig_enforce", "Y\n", "signed modules only"),
        ("broken", "", "cannot be built: x.c:1: error: broken"),
        ("refuse", "insmod: ERROR: Operation not permitted", "not signed"),
        ("refuse", "insmod: ERROR: Key was rejected by service", "not signed by a key"),
        ("refuse", "insmod: ERROR: Invalid module format", "headers are not those"),
    ],
)
def test_refusals(machine: Machine, name: str, text: str, said: str) -> None:
    machine.put(name, text)
    assert said in refused(machine)


def test_only_root_measures(machine: Machine) -> None:
    assert "only root" in refused(machine, uid=1000)
    assert not machine.calls() and not (machine.root / "made").exists()


def test_no_modules(machine: Machine) -> None:
    (machine.root / "proc/modules").unlink()
    assert "without modules" in refused(machine)


def test_no_headers_but_the_module_is_installed(machine: Machine) -> None:
    (machine.root / f"lib/modules/{RELEASE}/build/Makefile").unlink()
    # mainline's module of that name is another one
    machine.put("modinfo", MAINLINES)
    said = refused(machine)
    for package in (
        f"linux-headers-{RELEASE} (Debian, Ubuntu)",
        f"kernel-devel-{RELEASE} (Fedora)",
        "kernel-default-devel (openSUSE)",
        "linux-headers (Arch)",
    ):
        assert package in said
    machine.put("modinfo", "scopes:Affinity scopes (charp)\nsleep_us:Time (charp)\n")
    assert machine.run(*SHORT)[0] == 0
    assert machine.calls()[0].startswith("test_workqueue mode=serial")
    assert not (machine.root / "made").exists()


def test_module_of_that_name_in_mainline(machine: Machine) -> None:
    """It is what modprobe would load, and not what is measured."""
    machine.put("modinfo", MAINLINES)
    status, _, err = machine.run(*SHORT, "--no-perf")
    assert status == 0, err
    assert "modprobe test_workqueue would insert mainline's" in err
    assert (machine.root / "made").exists() and machine.calls()[0].startswith("mode=serial")


@pytest.mark.parametrize("tool", ["make", "gcc"])
def test_tools_that_are_missing_are_named(
    machine: Machine, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.only_its_programs(monkeypatch)
    (machine.root / "bin" / tool).unlink()
    said = refused(machine)
    assert f"no {tool} to build test_workqueue with: install {tool} (Debian, Ubuntu)" in said
    for name in ("Debian", "Ubuntu", "Fedora", "openSUSE", "Arch"):
        assert name in said


def test_kernel_that_clang_has_built(machine: Machine) -> None:
    config = f"lib/modules/{RELEASE}/build/include/config/auto.conf"
    machine.put(config, "CONFIG_CC_IS_CLANG=y\n")
    machine.program("clang", "true")
    assert machine.run(*SHORT, "--no-perf")[0] == 0
    assert "LLVM=1" in (machine.root / "made").read_text().split()


def test_already_loaded(machine: Machine) -> None:
    loaded = machine.put("sys/module/test_workqueue/initstate", "live\n").parent
    status, _, err = machine.run(*SHORT)
    assert status == 1 and "rmmod test_workqueue" in err
    (loaded / "initstate").unlink()
    status, _, err = machine.run(*SHORT)
    assert status == 1 and "built into the running kernel" in err
    assert machine.loaded() and not machine.calls()


def test_file_of_another_kernel_is_kept(machine: Machine) -> None:
    assert machine.run(*SHORT, "--no-perf")[0] == 0
    before = machine.out.read_text()
    assert "another machine or kernel" in refused(machine, version="#2")
    assert machine.out.read_text() == before


@pytest.mark.parametrize(
    "option", ["--runs 0", "--sizes 0", "--modes fast", "--watch 0", "--watch 1 --quick", "--out /"]
)
def test_bad_options(machine: Machine, option: str) -> None:
    status, _, err = machine.run(*option.split())
    assert status == 2 and "wqlab local: error:" in err.splitlines()[-1]
    assert not machine.calls()


# --- interrupted -------------------------------------------------------------------------


def wait_for(path: Path) -> None:
    for _ in range(600):
        if path.exists():
            return
        time.sleep(0.05)
    pytest.fail(f"no {path.name}")


# The third load is the first one with another shard size.
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_puts_everything_back_and_a_rerun_goes_on(machine: Machine, number: int) -> None:
    machine.put("slow", "3")
    program = machine.start(*SHORT, "--no-perf")
    wait_for(machine.root / "waiting")
    assert machine.size.read_text() == "2\n"
    begin = time.monotonic()
    program.send_signal(number)
    _, err = program.communicate(timeout=20)
    assert time.monotonic() - begin < 10
    assert program.returncode == 128 + number
    assert machine.size.read_text() == "8\n" and not machine.loaded()
    assert "2 of 8 steps passed" in err and "Traceback" not in err
    assert len(load(machine.out).boots) == 2

    (machine.root / "slow").unlink()
    (machine.root / "calls").unlink()
    status, _, err = machine.run(*SHORT, "--no-perf")
    assert status == 0, err
    assert len(machine.calls()) == 6 and len(load(machine.out).boots) == 8
    assert machine.run(*SHORT, "--no-perf")[0] == 0
    assert len(machine.calls()) == 6
    assert machine.run(*SHORT, "--no-perf", "--again")[0] == 0
    assert len(machine.calls()) == 14


def test_size_is_put_back_when_killed(machine: Machine) -> None:
    machine.put("slow", "3")
    program = machine.start(*SHORT, "--no-perf")
    wait_for(machine.root / "waiting")
    assert machine.size.read_text() == "2\n"
    program.kill()
    program.wait(10)
    for _ in range(100):
        if machine.size.read_text() == "8\n":
            break
        time.sleep(0.05)
    assert machine.size.read_text() == "8\n"
    os.killpg(int((machine.root / "waiting").read_text()), signal.SIGKILL)


# --- perf --------------------------------------------------------------------------------


def under_perf(machine: Machine) -> Results:
    status, _, err = machine.run("--runs", "1", "--modes", "serial", "--sizes", "")
    assert status == 0, err
    return load(machine.out)


def test_perf(machine: Machine) -> None:
    perfs = [boot for boot in under_perf(machine).boots if boot.perf]
    assert [boot.runs[0]["scopes"] for boot in perfs] == [["cache"], ["cache_shard"]]
    for boot in perfs:
        assert boot.perf and boot.perf.slowpath_percent == 32.0
        assert boot.perf.why_not == "" and boot.rows
        found = [(c.caller, c.contended, c.wait_total_ns) for c in boot.perf.contention or []]
        assert found == [
            ("__queue_work+0xd6", 4821, 1_300_000_000),
            ("process_one_work+0x35", 4, 1_220_000),
            ("worker_thread+0x88", 1, 460_290),
            ("tick_irq_enter+0x29", 1, 460),
        ]


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("no-cycles", "", "cycles: The cycles event is not supported"),
        ("event", "cpu-clock\n", "cycles: this host counts none"),
    ],
)
def test_perf_without_cycles_says_why(machine: Machine, name: str, text: str, reason: str) -> None:
    machine.put(name, text)
    perf = next(boot.perf for boot in under_perf(machine).boots if boot.perf)
    assert perf.slowpath_percent is None and reason in perf.why_not and perf.contention


def test_perf_without_tracepoints_says_why(machine: Machine) -> None:
    machine.put("no-tracepoints")
    perf = next(boot.perf for boot in under_perf(machine).boots if boot.perf)
    assert perf.contention is None and perf.slowpath_percent == 32.0
    assert "BUILD_BPF_SKEL" in perf.why_not and "no such tracepoint" in perf.why_not


def test_no_perf_says_why(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    (machine.root / "bin/perf").unlink()
    machine.only_its_programs(monkeypatch)
    results = under_perf(machine)
    assert len(results.boots) == 1
    assert "locks and the share of the slow path: perf is not installed" in results.notes


# --- the verdict -------------------------------------------------------------------------


def quickly(machine: Machine, *options: str, **rates: int) -> str:
    """The last paragraph, joined, of a kernel with these rates."""
    for scope, rate in rates.items():
        machine.put(f"rate-{scope}", str(rate))
    status, out, err = machine.run("--modes", "serial", "--sizes", "", *options)
    assert status == 0, err
    return " ".join(out.rpartition("\n\n")[2].split())


def test_quick_is_one_load_per_mode_and_says_so(machine: Machine) -> None:
    status, out, err = machine.run("--quick")
    assert status == 0, err
    modes = [call.split()[0] for call in machine.calls() if "scopes=cpu," in call]
    assert modes == [f"mode={mode}" for mode in ("serial", "burst", "fanout", "sleep", "chain")]
    assert {call.rpartition("size=")[2] for call in machine.calls()} == {"8"}
    assert "wq_items=10000" in machine.calls()[0]
    assert "too few runs for a verdict" in " ".join(out.split())


def default_scope(machine: Machine, scope: str) -> None:
    machine.put("sys/module/workqueue/parameters/default_affinity_scope", f"{scope}\n")


# As in Grace and as in virtual machines whose CPUs are sockets, in thousand items/s
LOCK = {"cpu": 3200, "smt": 3300, "cache_shard": 2900, "cache": 700, "numa": 720, "system": 710}
SMALL = {"cpu": 1000, "smt": 1000, "cache_shard": 1000, "cache": 1000, "numa": 2500, "system": 2600}
BOTTLENECK = "pool->lock is your bottleneck, try workqueue.default_affinity_scope=smt"
TOO_SMALL = (
    "pools of cache are too small, as in virtual machines with a CPU per socket, "
    "try workqueue.default_affinity_scope=system"
)
LITTLE = "there is little to gain here"


@pytest.mark.parametrize(
    ("rates", "default", "shown", "said"),
    [
        (LOCK, "cache", "cache (default): 0.70, smt: 3.30, numa: 0.72", BOTTLENECK),
        (LOCK, "strange", "cache: 0.70, smt: 3.30, numa: 0.72", BOTTLENECK),
        (LOCK, "cache_shard", "cache_shard (default): 2.90, smt: 3.30, numa: 0.72", LITTLE),
        (LOCK, "cpu", "cpu (default): 3.20, smt: 3.30", LITTLE),
        (SMALL, "cache", "cache (default): 1.00, cpu: 1.00, system: 2.60", TOO_SMALL),
        (SMALL, "system", "system (default): 2.60, numa: 2.50", LITTLE),
    ],
)
def test_verdict(
    machine: Machine, rates: dict[str, int], default: str, shown: str, said: str
) -> None:
    default_scope(machine, default)
    rates = {scope: 1000 * rate for scope, rate in rates.items()}
    found = quickly(machine, "--no-perf", "--runs", "3", **rates)
    assert found.startswith(f"Is it you? {shown} M items/s: {said}. This is of 3 runs, on")


# One CPU queues: sixteen sockets of one CPU, and one cache of four, in QEMU
SOCKETS = {"cpu": 34309, "smt": 33901, "cache": 38106, "numa": 182432, "system": 130713}
CACHE = {"cpu": 66375, "smt": 43567, "cache": 106713, "numa": 111355, "system": 76463}


@pytest.mark.parametrize(
    ("fanout", "default", "runs", "said"),
    [
        (
            SOCKETS,
            "cache",
            3,
            "One CPU that queues gets 4.8 times as much in numa: pools of cache are",
        ),
        (SOCKETS, "cache", 1, "At first sight, one CPU that queues gets 4.8 times as much in numa"),
        (SOCKETS, "cpu", 3, "gets 5.3 times as much in numa: pools of cpu are too small"),
        (SOCKETS, "numa", 3, ""),
        (SOCKETS, "system", 3, ""),
        (CACHE, "cache", 3, ""),
        (CACHE, "cpu", 3, "gets 1.7 times as much in numa"),
    ],
)
def test_verdict_of_one_cpu_that_queues(
    machine: Machine, fanout: dict[str, int], default: str, runs: int, said: str
) -> None:
    default_scope(machine, default)
    for scope, rate in fanout.items():
        machine.put(f"rate-{scope}-fanout", str(rate))
    found = quickly(machine, "--modes", "serial,fanout", "--no-perf", "--runs", str(runs))
    assert LITTLE in found and (said in found if said else "that queues" not in found)
    assert all("work_ns=20000" in call for call in machine.calls() if "mode=fanout" in call)


def test_no_verdict_where_runs_of_one_cpu_that_queues_overlap(machine: Machine) -> None:
    default_scope(machine, "cache")
    machine.put("rate-numa-fanout", "9000")
    machine.put("rate-numa.2", "5000")  # its first run in mode fanout
    machine.put("rate-cache-fanout", "5000")
    found = quickly(machine, "--modes", "serial,fanout", "--no-perf", "--runs", "3")
    assert "that queues" not in found


def test_verdict_says_where_the_cycles_went(machine: Machine) -> None:
    default_scope(machine, "cache")
    said = quickly(machine, cache=700_000, cpu=3_200_000)
    assert "in scope cache, 32.0 % of all cycles were spent in native_queued" in said
    assert "_slowpath, and __queue_work+0xd6 waited the longest." in said


@pytest.mark.parametrize(("runs", "few"), [(1, True), (2, True), (3, False)])
def test_verdict_of_few_runs(machine: Machine, runs: int, few: bool) -> None:
    said = quickly(machine, "--no-perf", "--runs", str(runs), cache_shard=1000)
    assert ("too few runs for a verdict, but at first sight pool->lock is your" in said) == few


def test_verdict_of_a_busy_host() -> None:
    found = made_results.local()
    assert "busy" not in local.verdict(found, "cache")
    busy = replace(found.machines[0], load=7.3)
    said = local.verdict(replace(found, machines=[busy]), "cache")
    assert "The host is busy: load average 7.3." in " ".join(said.split())


def test_readme_has_the_verdict_of_a_run() -> None:
    """On the rates that stock 6.12 gave in QEMU."""
    stored = load(ROOT / "results/bench-16-6.12.json")
    stock = next(kernel.id for kernel in stored.kernels if kernel.name == "stock")
    boots = [
        replace(boot, section="local", rows=[row for row in boot.rows if row.mode == "serial"])
        for boot in stored.passed("time")
        if boot.kernel == stock and boot.runs[0]["mode"] == "serial"
    ]
    said = textwrap.indent(local.verdict(replace(stored, boots=boots), "cache"), " " * 4)
    assert f"\n\n{said}\n\n" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ((1000, 1249), "there is little to gain here"),
        ((1000, 900), "there is little to gain here"),
        ((1000, 1250), "pool->lock costs you something"),
        ((1000, 1999), "pool->lock costs you something"),
        ((1000, 2000), "pool->lock is your bottleneck"),
    ],
)
def test_verdict_is_by_the_rule(machine: Machine, rates: tuple[int, int], said: str) -> None:
    machine.size.unlink()  # no scope cache_shard, as in stock kernels
    cache, cpu = rates
    others = dict.fromkeys(("smt", "numa", "system"), 500)
    found = quickly(machine, "--no-perf", cache=cache, cpu=cpu, **others)
    assert f"cache: {cache / 1000:.1f}, cpu: {cpu / 1000:.1f}, " in found
    assert f" thousand items/s: {said}" in found and "%" not in found


def test_no_verdict_where_loads_overlap(machine: Machine) -> None:
    """One load of three in scope cache as fast as those in scope cpu."""
    machine.put("rate-cache.2", "5000")
    default_scope(machine, "cache")
    said = quickly(machine, "--no-perf", "--runs", "3", cache=1000)
    assert "the runs differ too much to tell: measure again" in said and "bottleneck" not in said


def test_scopes_that_differ_without_waiting(machine: Machine) -> None:
    machine.put("shares", "    0.42%     42  [k] native_queued_spin_lock_slowpath\n")
    default_scope(machine, "cache")
    said = quickly(machine, cache=1000, cpu=5001)
    assert "hardly any cycles are spent waiting for pool->lock" in said
    assert "bottleneck" not in said


def test_no_verdict_without_the_modes_it_takes(machine: Machine) -> None:
    status, out, _ = machine.run("--modes", "burst", "--sizes", "", "--no-perf", "--runs", "1")
    assert status == 0 and "no verdict" in out


# --- watching ----------------------------------------------------------------------------

# As perf 6.1 prints call chains
CHAINS = """
    21.40%           428  [k] native_queued_spin_lock_slowpath                     -      -
9.10% native_queued_spin_lock_slowpath;_raw_spin_lock;__queue_work;queue_work_on;btrfs_queue_work;x
4.90% native_queued_spin_lock_slowpath;_raw_spin_lock;__queue_work.part.0;queue_work_on;crypt_map
3.20% native_queued_spin_lock_slowpath;_raw_spin_lock_irq;process_one_work;worker_thread;kthread
3.00% native_queued_spin_lock_slowpath;raw_spin_rq_lock_nested;try_to_wake_up;kick_pool;__queue_work
1.20% native_queued_spin_lock_slowpath;_raw_spin_lock_irqsave;__wake_up;ep_poll_callback
    10.00%           200  [k] __queue_work                                         -      -
10.00% __queue_work;queue_work_on;btrfs_queue_work
    68.60%          1372  [.] 0x0000000000401136                                   -      -
68.60% 0x0000000000401136
"""
SLOWPATH = "native_queued_spin_lock_slowpath"


def watched(machine: Machine, chains: str, busy: int = 50) -> tuple[list[list[str]], str]:
    """The rows of the table and the verdict, of a host whose CPUs were so busy, in percent."""
    machine.put("chains", chains)
    machine.put("proc/stat", "cpu  1000 10 20 3000 400 5 5 60 7 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n")
    used, idle = 10 * busy, 10 * (100 - busy)
    machine.put("stat-then", f"cpu  {1000 + used} 10 20 {3000 + idle - 9} 409 5 5 60 99 0\n")
    status, out, err = machine.run("--watch", "1")
    assert status == 0, err
    table, _, said = out.rpartition("\n\n")
    return [line.split() for line in table.splitlines()[1:]], said


def test_watch(machine: Machine) -> None:
    rows, said = watched(machine, CHAINS)
    assert rows == [
        ["9.10", "__queue_work", "btrfs_queue_work", "*"],
        ["4.90", "__queue_work", "crypt_map", "*"],
        ["3.20", "process_one_work", "kthread", "*"],
        ["3.00", "raw_spin_rq_lock_nested", "try_to_wake_up"],
        ["1.20", "__wake_up", "ep_poll_callback"],
    ]
    assert "21.4 % of all cycles" in said and "17.2 % in workqueue code" in said
    assert "by 2,000 samples of CPUs that were 50 % busy: pool->lock is your bottleneck" in said
    assert "hottest" not in said
    # nothing was loaded, built, changed or stored
    assert not machine.calls() and not (machine.root / "made").exists() and not machine.out.exists()
    assert any("record -a" in line for line in machine.perf_calls())


def test_watch_names_a_lock_that_is_none_of_workqueues(machine: Machine) -> None:
    chains = (
        f"  30.00%  3000  [k] {SLOWPATH}\n25.00% {SLOWPATH};_raw_spin_lock;d_alloc;path_openat\n"
    )
    rows, said = watched(machine, f"{chains}5.00% {SLOWPATH};_raw_spin_lock;worker_thread\n")
    assert rows[0] == ["25.00", "d_alloc", "path_openat"]
    assert "pool->lock costs you something" in said
    assert "The hottest lock is not workqueue's: d_alloc takes it, for path_openat." in said


@pytest.mark.parametrize(
    ("percent", "samples", "busy", "said"),
    [
        ("9.99", 1000, 9, "pool->lock costs you something"),
        ("10.00", 1000, 9, "pool->lock is your bottleneck"),
        ("1.99", 1000, 10, "there is little to gain here"),
        ("1.99", 1000, 9, "the host was idle, so this cannot be told"),
        ("10.00", 999, 90, "that is too few samples for a verdict, 1,000 would do"),
        ("1.00", 999, 90, "that is too few samples for a verdict"),
    ],
)
def test_watch_is_by_the_rule(
    machine: Machine, percent: str, samples: int, busy: int, said: str
) -> None:
    chains = (
        f"  30.00%  {samples}  [k] {SLOWPATH}\n{percent}% {SLOWPATH};_raw_spin_lock;worker_thread\n"
    )
    assert f"busy: {said}" in watched(machine, chains, busy)[1]


def test_watch_of_a_host_that_waits_for_nothing(machine: Machine) -> None:
    chains = "    3.00%  1000  [k] intel_idle  -  -\n3.00% intel_idle;cpuidle_enter\n"
    rows, said = watched(machine, chains)
    assert not rows and said.startswith("0.0 % of all cycles")


def test_what_perf_cannot_see_is_said_before_it_records(machine: Machine) -> None:
    machine.put("no-cycles")
    status, out, err = machine.run("--watch", "1")
    assert (status, out) == (
        77,
        "",
    ) and "perf counts no cycles here (<not supported> cycles)" in err
    assert "wq_contention.py --bpf --for 30 instead" in err
    assert not any("record" in line for line in machine.perf_calls())
    status, _, err = machine.run("--runs", "1", "--modes", "serial", "--sizes", "")
    assert status == 0
    assert err.index("wq_contention.py --bpf") < err.index("[1/3]")


def test_watch_that_gets_a_timer_in_place_of_cycles(machine: Machine) -> None:
    machine.put("event", "cpu-clock\n")
    status, out, err = machine.run("--watch", "1")
    assert (status, out) == (77, "") and "this host counts none" in err


def test_watch_needs_perf(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    (machine.root / "bin/perf").unlink()
    machine.only_its_programs(monkeypatch)
    status, _, err = machine.run("--watch", "1")
    assert status == 77 and "linux-perf (Debian, Ubuntu), perf (Fedora)" in err


def ended(pid: int) -> bool:
    """The process is gone, or waits for nothing but to be reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


def test_watch_that_is_ended_leaves_nothing_running(machine: Machine) -> None:
    machine.program("sleep", "echo $$ >$ROOT/slept\nexec /bin/sleep 60")
    program = machine.start("--watch", "60")
    wait_for(machine.root / "slept")
    time.sleep(0.1)
    pid = int((machine.root / "slept").read_text())
    program.send_signal(signal.SIGTERM)
    program.communicate(timeout=20)
    assert program.returncode == 143 and ended(pid)


def test_result_is_what_report_reads(machine: Machine) -> None:
    assert machine.run(*SHORT)[0] == 0
    page = machine.out.parent / "page"
    done = subprocess.run(
        [sys.executable, "-m", "wqlab", "report", machine.out, "--out", page],
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "32.0 %" in done.stdout and "no scope" not in done.stdout
    assert json.loads(machine.out.read_text())["schema"] == 3
