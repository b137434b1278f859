# SPDX-License-Identifier: GPL-2.0
"""Tables of where figures come from, of what was lost, and of what stands for itself."""

from collections.abc import Sequence

from wqlab.ground.text import plural
from wqlab.guests.scenario import SCOPES
from wqlab.report.labels import kernel_label, machine_line, ordered_kernels
from wqlab.report.tables import Cell, Table, cells
from wqlab.results.model import Build, Host, Results
from wqlab.results.module import words


def recorded(value: object) -> str:
    """Its text, or that it was not recorded."""
    return "not recorded" if value is None else str(value)


def perf_tables(results: Results) -> list[Table]:
    """What perf saw on real machines."""
    tables = []
    boots = [boot for boot in results.passed("local", "loads") if boot.perf]
    for machine in results.machines:
        rows, callers, why = [], [], []
        for boot in boots:
            perf = boot.perf
            if boot.machine != machine.id or not perf:
                continue
            name, what = kernel_label(results, boot.kernel), "; ".join(map(words, boot.runs))
            share = "-" if perf.slowpath_percent is None else f"{perf.slowpath_percent:.1f} %"
            rows.append(cells(name, what, share))
            callers += [
                cells(name, what, c.caller, f"{c.contended:,}", f"{c.wait_total_ns / 1e6:,.2f}")
                for c in perf.contention or []
            ]
            why += [perf.why_not] if perf.why_not and perf.why_not not in why else []
        note = f"n = 1 run of each row, by itself; {machine_line(machine)}"
        note += "".join(f"; not measured: {reason}" for reason in why)
        if rows:
            title = "perf: share of cycles in native_queued_spin_lock_slowpath"
            tables.append(Table(title, ["kernel", "run", "share"], rows, note, short=True))
        if callers:
            columns = ["kernel", "run", "caller", "contended", "waited, ms"]
            title = "perf: who waited for locks"
            tables.append(Table(title, columns, callers, note, words=3, short=True))
    return tables


def layout_tables(results: Results) -> list[Table]:
    """The pods of each scope, of each kernel that was asked."""
    tables = []
    for layout in results.layouts:
        rows = []
        for scope in [s for s in SCOPES if s in layout.pods]:
            pods = layout.pods[scope]
            shown = "  ".join(pods[:5]) + ("  ..." if len(pods) > 5 else "")
            rows.append(cells(scope, shown, len(pods)))
        name = kernel_label(results, layout.kernel)
        title = f"pods of each scope on {layout.scenario}, kernel {name}"
        note = (
            f"the default scope is {layout.default}; read from the memory of the guest, "
            "exact on any machine"
        )
        tables.append(Table(title, ["scope", "CPUs", "pods"], rows, note, short=True))
    return tables


def lost_table(results: Results) -> Table | None:
    """The boots that did not pass; None if all did."""
    rows = [
        [
            *cells(
                kernel_label(results, boot.kernel),
                boot.section + (f", size {boot.size}" if boot.size is not None else ""),
                boot.scenario or "-",
                boot.number,
            ),
            Cell(boot.verdict, True, "worse"),
            Cell(boot.reason),
        ]
        for boot in results.not_passed()
    ]
    if not rows:
        return None
    title = f"{plural(len(rows), 'boot')} not counted, of {len(results.boots)}"
    columns = ["kernel", "section", "scenario", "boot", "verdict", "reason"]
    return Table(title, columns, rows, "no figure below includes them", words=6, short=True)


def kernels_table(results: Results) -> Table:
    """Release, base and patches of each kernel."""
    rows = [
        cells(kernel_label(results, k.id), k.release, recorded(k.base), recorded(k.patches))
        for k in ordered_kernels(results)
    ]
    columns = ["kernel", "release", "base", "patches of the series"]
    return Table("kernels", columns, rows, words=3)


def builds_table(results: Results) -> Table:
    """Compiler and configuration of each build."""
    unknown = Build(None, None, None, None)
    rows = [
        cells(
            kernel_label(results, kernel.id),
            build.flavour or "-",
            recorded(build.compiler),
            recorded(build.config_sha256 and build.config_sha256[:16]),
            recorded(build.key and build.key[:16]),
        )
        for kernel in ordered_kernels(results)
        for build in kernel.builds or [unknown]
    ]
    columns = ["kernel", "flavour", "compiler", "SHA-256 of .config", "key of the build"]
    return Table("builds", columns, rows, words=5)


def qemu_table(results: Results) -> Table | None:
    """Each command line once; None where nothing ran in QEMU."""
    found = {
        (boot.section, boot.scenario or "-", recorded(boot.qemu)): None
        for boot in results.boots
        if boot.qemu or (results.machine(boot.machine).emulation or "").startswith("QEMU")
    }
    columns = ["section", "scenario", "command line"]
    rows = [cells(*row) for row in found]
    return Table("QEMU's command line", columns, rows, words=3) if rows else None


def loads(machines: Sequence[Host]) -> str:
    """Load averages when measuring began."""
    found = sorted({machine.load for machine in machines if machine.load is not None})
    return ", ".join(f"{load:g}" for load in found) or recorded(None)


def machine_facts(machines: Sequence[Host]) -> dict[str, str]:
    """One host, and what was measured on it."""
    one = machines[0]
    emulated = all((machine.emulation or "").startswith("QEMU") for machine in machines)
    memory = None if one.memory_mib is None else f"{one.memory_mib:,} MiB"
    return {
        "CPU": f"{one.cpu_model}, {plural(one.cpus, 'CPU')}",
        "topology": recorded(one.topology),
        "memory": recorded(memory),
        "system": recorded(one.system),
        "host kernel" if emulated else "kernel": recorded(one.kernel),
        "microcode": recorded(one.microcode),
        "frequency governor": recorded(one.governor),
        "load when measuring began": loads(machines),
        "measured": "; ".join(
            f"in {machine.emulation}" if machine.emulation else "on bare metal"
            for machine in machines
        ),
    }
