# SPDX-License-Identifier: GPL-2.0
"""Run a load of loads/ on the host, with the kernel that it runs, as root.

dm-crypt, file systems, NFS and NVMe over TCP queue unbound work. The head of each file of loads/
says what the load is, and what it reports. Devices that it needs are named with --devices, and are
overwritten. One that is mounted or otherwise in use is refused, and so is one that holds something:
a file system, a partition table or any other signature that wipefs knows, unless --force is given.

The load is run several times, and once more under perf where that is installed. Results are
stored in a file that `wqlab report` reads. To compare kernels, boot the other one, run it again
and report both files.

Whatever was set up is taken back on every way out, Ctrl-C and a kill included: nothing stays
mounted, mapped or exported, scopes are what they were, and devices have no signature.

Exit status: 0 done, 1 a run failed, 2 wrong usage.
"""

import argparse
import os
import platform
import shlex
import shutil
import signal
import statistics
import subprocess
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from wqlab.ground.places import LOCAL, ROOT
from wqlab.ground.problem import FAILED, OK, Problem, Usage
from wqlab.ground.run import Done, say, started, uninterrupted
from wqlab.ground.text import table
from wqlab.kernels.options import positive
from wqlab.measure import perf
from wqlab.measure.campaign import Campaign, Step, add_out, blank, timed
from wqlab.measure.host import LiveHost
from wqlab.results.metrics import FIGURES
from wqlab.results.model import Count, Number, Perf, Results, Run, Value

FOLDER = ROOT / "loads"
PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
RUNS = 5
CLEAN_LIMIT = 300.0  # seconds to take back what was set up; what was written has to reach devices
LIMIT = 600.0  # seconds for a run of a load, beside its cases
CASES = 100  # and in place of the time of a case for so many of them


@dataclass(frozen=True)
class Load:
    """A file of loads/, and its entry in loads/scales.toml."""

    name: str
    about: str
    programs: tuple[str, ...]  # that it needs
    devices: int
    machines: tuple[str, ...]  # of scenarios/, for the guest
    full: Run  # parameters
    quick: Run  # in place of some of them
    guest: Run
    simulated: Run = field(default_factory=dict)  # in place of the guest's; empty if it's not done
    modules: tuple[str, ...] = ()  # of a kernel that has them apart, for a guest

    @property
    def script(self) -> Path:
        """The file in loads/."""
        return FOLDER / self.name


def read_loads() -> dict[str, Load]:
    """The loads of loads/scales.toml, by name."""
    known = tomllib.loads((FOLDER / "scales.toml").read_text())
    found = {}
    for name, entry in known.items():
        lists = {key: tuple(value) for key, value in entry.items() if isinstance(value, list)}
        found[name] = Load(name=name, **{**entry, **lists})
    return found


LOADS = read_loads()


def assignments(parameters: Mapping[str, Value]) -> str:
    """As a shell reads them, on one line."""
    return " ".join(f"{key}={shlex.quote(str(value))}" for key, value in parameters.items()) + "\n"


def counts_of(load: Load, lines: Sequence[str]) -> tuple[list[Count], list[str]]:
    """What a load has printed: a count for each case, and what could not be measured."""
    found, missing, case = list[Count](), list[str](), ""
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == ">":
            case = rest
        elif word == "missing":
            missing.append(f"{load.name}, {rest}")
        elif word == "figures":
            figures: dict[str, Number] = {}
            for pair in rest.split():
                key, _, value = pair.partition("=")
                if key not in FIGURES:
                    raise Problem(f"{load.name} reports {key}, which is no figure")
                figures[key] = float(value) if "." in value else int(value)
            found.append(Count({"load": f"{load.name}, {case}"}, figures))
    if not found:
        raise Problem(f"{load.name} has reported nothing")
    return found, list(dict.fromkeys(missing))


# --- here -----------------------------------------------------------------------------------


def run_here(command: Sequence[str | Path], parameters: Run, limit: float) -> Done:
    """Run a load, and if it is cut short, have it take back what it has set up."""
    with tempfile.TemporaryFile() as out:
        env = os.environ | {key: str(value) for key, value in parameters.items()}
        with started(command, stdout=out, stderr=subprocess.STDOUT, env=env) as program:
            try:
                status = program.wait(limit)
            except BaseException as error:
                with uninterrupted():
                    say("taking back what was set up")
                    os.killpg(program.pid, signal.SIGTERM)
                    program.wait(CLEAN_LIMIT)
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
                raise Problem(f"the load has not ended after {limit:.0f} s") from None
        out.seek(0)
        return Done(status, out.read().decode(errors="replace"))


def under_perf(command: list[str | Path], parameters: Run, limit: float, out: Path) -> Perf:
    """The share of cycles that spin locks were waited for, of the whole machine and run."""
    data = out / "perf.data"
    record: list[str | Path] = ["perf", "record", "-a", "-q", "-F", "99", "-e", "cycles"]
    done = run_here([*record, "-o", data, "--", *command], parameters, limit)
    try:
        if done.status:
            raise perf.Blind(f"cycles: {perf.why(done)}")
        return Perf(perf.read_slowpath(perf.report_cycles(data)), None, "contention: not recorded")
    except perf.Blind as error:
        return Perf(None, None, str(error))


def summary(results: Results) -> list[str]:
    """The figures of all runs, lowest to highest."""
    rows: list[tuple[str, ...]] = [("case", "figure", "n", "lowest", "median", "highest")]
    boots = [boot for boot in results.passed("loads") if not boot.perf]
    cases = dict.fromkeys(str(count.labels["load"]) for boot in boots for count in boot.counts)
    for case in cases:
        for key, metric in FIGURES.items():
            values = sorted(
                count.figures[key]
                for boot in boots
                for count in boot.counts
                if count.labels["load"] == case and key in count.figures
            )
            if values:
                shown = (values[0], statistics.median(values), values[-1])
                label = f"{metric.label}{', ' * bool(metric.unit)}{metric.unit}"
                rows.append((case, label, str(len(values)), *(f"{v:,.5g}" for v in shown)))
    return table(rows, (True, True, False, False, False, False))


def run_once(
    load: Load, devices: list[str], parameters: Run, perf_in: Path | None, notes: list[str]
) -> dict[str, Any]:
    """What a run of the load has given, for its Boot: figures, or with a folder for its files what
    perf has seen. What could not be measured comes to `notes`; Problem if the load fails."""
    command: list[str | Path] = [load.script, *devices]
    limit = LIMIT + CASES * int(str(parameters["SECS"]))
    if perf_in:
        return {"perf": under_perf(command, parameters, limit, perf_in)}
    done = run_here(command, parameters, limit)
    said = done.output.splitlines() or ["no message"]
    if done.status:
        raise Problem(said[-1].removeprefix(f"{load.name}: error: "))
    counts, missing = counts_of(load, said)
    notes += missing
    return {"counts": counts}


def measure(args: argparse.Namespace, host: LiveHost, temporary: Path) -> int:
    """Run a load as often as asked, and store what it came to. Returns the exit status."""
    load = LOADS[args.load]
    parameters: Run = {**load.full, **(load.quick if args.quick else {})}
    forced: Run = {**parameters, **({"FORCE": "1"} if args.force else {})}
    machine, running = host.machine, host.kernel
    campaign = Campaign(args.typed, args.out, must_begin=True)
    has_perf = args.perf and not (blind := perf.why_blind())
    if args.perf and blind:
        campaign.notes.append(f"the share of cycles that locks are waited for: {blind}")

    def step(number: int) -> Step:
        perf_in = temporary if number > args.runs else None
        boot = blank(machine, running, "loads", [{"load": load.name, **parameters}], number)
        once = partial(run_once, load, args.devices, forced, perf_in, campaign.notes)
        label = f"{load.name}{', under perf' * bool(perf_in)}"
        return Step(label, label, machine, running, partial(timed, boot, once))

    say(f"{load.name}: {load.about}")
    results = campaign.run([step(number) for number in range(1, args.runs + 1 + has_perf)])
    for note in results.notes:
        print(f"not measured: {note}")
    print("\n".join(summary(results)))
    for boot in results.boots:
        if boot.perf and boot.perf.slowpath_percent is not None:
            print(f"{boot.perf.slowpath_percent} % of all cycles waited for spin locks")
        elif boot.perf:
            print(f"not measured: {boot.perf.why_not}")
    print(f"\nstored in {args.out}: wqlab report {args.out} makes the full report of it")
    return FAILED if any(results.not_passed()) else OK


# --- the command ----------------------------------------------------------------------------


def devices(text: str) -> list[str]:
    """The devices of --devices. ArgumentTypeError for a path outside of /dev."""
    for name in (names := text.split(",")):
        if not name.startswith("/dev/"):
            raise argparse.ArgumentTypeError(f"{name!r} is not a device in /dev")
    return names


def add_options(parser: argparse.ArgumentParser) -> None:
    about = "; ".join(f"{load.name}: {load.about}" for load in LOADS.values())
    parser.add_argument("load", choices=LOADS, help=about)
    parser.add_argument(
        "--devices", type=devices, default=[], metavar="DEV,...", help="to be overwritten"
    )
    parser.add_argument(
        "--force", action="store_true", help="overwrite devices that hold something, too"
    )
    parser.add_argument("--runs", type=positive, default=RUNS, metavar="N", help=f"({RUNS})")
    parser.add_argument("--quick", action="store_true", help="short runs: to see it work")
    parser.add_argument("--no-perf", dest="perf", action="store_false", help="leave perf alone")
    add_out(parser, None, "local/LOAD-RELEASE.json")


def command(args: argparse.Namespace, host: LiveHost | None = None) -> int:
    host = host or LiveHost()
    load = LOADS[args.load]
    if len(args.devices) != load.devices:
        raise Usage(
            f"{load.name} takes {load.devices} devices with --devices, which are overwritten,"
            f" not {len(args.devices)}"
            if load.devices
            else f"{load.name} takes no devices"
        )
    if host.uid != 0:
        raise Problem("only root can set up a load: try sudo")
    for program in load.programs:
        if not shutil.which(program, path=PATH):
            raise Problem(f"no {program}, which {load.name} runs: {host.install(program)}")
    args.out = args.out or LOCAL / f"{load.name}-{platform.release()}.json"
    with tempfile.TemporaryDirectory(prefix="wq-load-") as temporary:
        return measure(args, host, Path(temporary))
