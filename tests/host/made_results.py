# SPDX-License-Identifier: GPL-2.0
"""Made-up results, for the tests of the report: figures from a seed, none of them measured."""

import random
from dataclasses import dataclass, replace

from wqlab.guests.scenario import SCOPES
from wqlab.results.metrics import POOL_LOCK
from wqlab.results.model import (
    SCHEMA,
    Boot,
    Build,
    Contention,
    Count,
    Host,
    Kernel,
    Layout,
    Lock,
    Made,
    Perf,
    Results,
    Row,
    Section,
)

LAPTOP = Host(
    id="aaaa1111",
    cpu_model="Example CPU 7",
    cpus=2,
    memory_mib=15872,
    system="Debian GNU/Linux 12 (bookworm)",
    kernel="6.1.0-40-amd64",
    microcode="0x1000065",
    governor="powersave",
    load=0.2,
    topology="1 socket, 2 cores, 2 CPUs, 1 LLC, 1 node",
    emulation="QEMU 7.2.22 tcg,thread=multi, 2 vCPUs",
)
SERVER = replace(
    LAPTOP,
    id="bbbb2222",
    cpu_model="Example <Server> & Sons 9000",
    cpus=72,
    topology="1 socket, 72 cores, 72 CPUs, 1 LLC, 1 node",
    emulation=None,
    kernel="6.12.117+",
)


def kernel(name: str, release: str, base: str, patches: int) -> Kernel:
    builds = [
        Build(flavour, f"{name}-{flavour}", "gcc (Debian 12.2.0-14) 12.2.0", "5e" * 32)
        for flavour in ("bench", "lockstat", "debug")
    ]
    return Kernel(f"{name}-1", name, release, base, patches, builds)


KERNELS = {
    "stock": kernel("stock", "6.12.117", "6.12", 0),
    "patched": kernel("patched", "6.12.117+", "6.12", 9),
    "mainline": kernel("mainline", "7.3.2", "7.3", 0),
    "found": Kernel("found-1", "6.12.117+", "6.12.117+", None, None),
}
RANKS = {"p50": 1.0, "p90": 1.4, "p95": 1.8, "p99": 4.0, "p999": 30.0, "max": 900.0}
SPEED = {"cpu": 1.0, "smt": 0.98, "cache_shard": 0.95, "cache": 0.3, "numa": 0.3, "system": 0.31}


@dataclass
class Maker:
    """Rows of a machine; speed says how many times faster than stock a kernel is."""

    speed: dict[str, float]
    seed: int = 1
    noise: float = 0.05
    items: int = 5000
    threads: int = 2

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def some(self, figure: float) -> float:
        return figure * self.random.lognormvariate(0, self.noise)

    def row(self, kernel: str, scope: str, mode: str, size: int = 8, items: int = 0) -> Row:
        if scope == "cache_shard" and kernel == "stock":
            return Row(scope, "", missing=True)
        items = (items or self.items) * self.threads
        fast = SPEED[scope] * self.speed.get(kernel, 1.0) * (8 / size) ** 0.2
        values = {"threads": self.threads, "items": items}
        values["items_per_sec"] = round(self.some(220_000 * fast))
        for time, base in (("queue", 2000), ("start", 9000)):
            for rank, factor in RANKS.items():
                values[f"{time}_{rank}_ns"] = round(self.some(base * factor / fast))
        values |= {"kworkers_before": 9, "kworkers_peak": 9 + round(self.some(24 / size))}
        values |= {"kworkers_after": 10, "pools": max(1, round(16 / size)), "lost": 0, "twice": 0}
        values |= {
            "running_peak": 8 if mode == "sleep" else 0,
            "max_active": 8 if mode == "sleep" else 1024,
        }
        values |= {"clock_ns": 25, "window": 1 if mode == "serial" else 32, "work_ns": 0}
        values |= {"sleep_us": 1000 if mode == "sleep" else 0, "spread": 0, "wqs": 1}
        return Row(scope, mode, values=values)

    def locked(self, kernel: str, scope: str, mode: str) -> Row:
        row = self.row(kernel, scope, mode)
        if row.missing:
            return row
        less = {"stock": 1.0, "patched": 0.6, "mainline": 0.7}[kernel] * row.values["items"]

        def lock(share: float) -> Lock:
            return Lock(
                acquisitions=round(self.some(6 * less * share)),
                contentions=round(self.some(0.4 * less * share)),
                hold_total_ns=round(self.some(5000 * less * share)),
                hold_max_ns=90_000,
                wait_total_ns=round(self.some(900 * less * share)),
                wait_max_ns=70_000,
                acq_bounces=round(2 * less * share),
                con_bounces=round(less * share),
            )

        return replace(row, locks={POOL_LOCK: lock(0.9), POOL_LOCK + "/1": lock(0.1)})

    def counted(self, kernel: str, scope: str, items: int) -> Row:
        """A row by a clock that counts instructions."""
        row = self.row(kernel, scope, "serial", items=items)
        if row.missing:
            return row
        each = {"stock": 5200, "patched": 5000, "mainline": 5100}[kernel] + len(scope)
        number = row.values["items"]
        row.values["items_per_sec"] = round(number * 1e9 / (300_000 + each * number))
        return row


def boot(kernel: str, machine: Host = LAPTOP, **more: object) -> Boot:
    return replace(
        Boot(
            machine=machine.id,
            kernel=KERNELS[kernel].id,
            section="time",
            flavour="bench",
            scenario="bench-2",
            append="workqueue.cache_shard_size=1",
            runs=[{"mode": "serial", "items": 5000}],
            number=1,
            seconds=12.5,
            verdict="pass",
            reason="",
        ),
        **more,
    )


def results(
    speed: dict[str, float],
    *,
    machine: Host = LAPTOP,
    boots: int = 5,
    noise: float = 0.05,
    seed: int = 1,
    modes: tuple[str, ...] = ("serial",),
    scopes: tuple[str, ...] = SCOPES,
    lost: int = 0,
    locks: bool = False,
    icount: bool = False,
    sizes: tuple[int, ...] = (),
) -> Results:
    """Results of the kernels that speed names; of each, the last boots are lost."""
    make = Maker(speed, seed, noise)
    found = []
    for number in range(1, boots + 1):
        for name in speed:
            if number > boots - lost:
                found.append(
                    boot(
                        name,
                        machine,
                        number=number,
                        verdict="lost",
                        reason="the guest said '<oops>', which is no verdict",
                    )
                )
                continue
            rows = [make.row(name, scope, mode) for mode in modes for scope in scopes]
            runs = [{"mode": mode, "scopes": list(scopes), "items": 5000} for mode in modes]
            found.append(boot(name, machine, number=number, rows=rows, runs=runs))
            if locks:
                rows = [make.locked(name, scope, "serial") for scope in scopes]
                found.append(
                    boot(
                        name, machine, number=number, rows=rows, section="locks", flavour="lockstat"
                    )
                )
            if icount:
                rows = [make.counted(name, scope, n) for n in (200, 2200) for scope in scopes]
                runs = [{"mode": "serial", "scopes": list(scopes), "items": n} for n in (200, 2200)]
                found.append(
                    boot(name, machine, number=number, rows=rows, runs=runs, section="icount")
                )
            for size in sizes if name != "stock" else ():
                rows = [make.row(name, "cache_shard", "serial", size)]
                found.append(
                    boot(
                        name,
                        machine,
                        number=number,
                        rows=rows,
                        section="sizes",
                        size=size,
                        append=f"workqueue.cache_shard_size={size}",
                    )
                )
    return Results(
        schema=SCHEMA,
        made=[Made("2026-11-21", "wqlab bench --boots 5", "0123456789ab")],
        machines=[machine],
        kernels=[KERNELS[name] for name in speed],
        boots=found,
        layouts=[
            Layout(
                KERNELS[name].id,
                "smt-26x2",
                "cache_shard",
                {"cpu": [str(c) for c in range(52)], "cache_shard": ["0-17", "18-35", "36-51"]},
            )
            for name in speed
            if name == "patched"
        ],
    )


def local(machine: Host = SERVER, loads: int = 5, seed: int = 2) -> Results:
    """As wqlab local makes them."""
    make = Maker({"found": 9.0}, seed, threads=machine.cpus, items=50000)
    found = [
        boot(
            "found",
            machine,
            section="local",
            flavour=None,
            scenario=None,
            append="",
            number=number,
            runs=[{"mode": mode, "items": 50000}],
            rows=[make.row("found", scope, mode) for scope in SCOPES],
        )
        for number in range(1, loads + 1)
        for mode in ("serial", "burst")
    ]
    found.append(
        boot(
            "found",
            machine,
            section="local",
            flavour=None,
            scenario=None,
            append="",
            number=loads + 1,
            runs=[{"mode": "serial", "items": 50000, "scopes": ["cache"]}],
            rows=[make.row("found", "cache", "serial")],
            perf=Perf(39.1, [Contention("__queue_work", 48211, 912_000_000)], ""),
        )
    )
    found += [
        boot(
            "found",
            machine,
            section="sizes",
            flavour=None,
            scenario=None,
            append="",
            number=number,
            size=size,
            runs=[{"mode": "serial", "items": 50000, "scopes": ["cache_shard"]}],
            rows=[make.row("found", "cache_shard", "serial", size)],
        )
        for number in range(1, loads + 1)
        for size in (1, 2, 4, 8, 16, 32)
    ]
    return Results(
        schema=SCHEMA,
        made=[Made("2026-11-21", "wqlab local", None)],
        machines=[machine],
        kernels=[KERNELS["found"]],
        boots=found,
        notes=["lock statistics: the kernel was built without them"],
    )


def counts(section: Section, boots: int = 5, seed: int = 3) -> Results:
    """As wqlab counts makes them: costs, wakeups or peaks."""
    make = Maker({}, seed)
    whole = results({"stock": 1.0, "patched": 1.0})
    return replace(
        whole,
        boots=[
            boot(
                name,
                section=section,
                flavour="debug" if section == "wakeups" else "bench",
                runs=[],
                number=number,
                counts=COUNTED[section](make, name),
            )
            for number in range(1, boots + 1)
            for name in ("stock", "patched")
        ],
        layouts=[],
    )


def costs(make: Maker, name: str) -> list[Count]:
    each = {"stock": 2.5, "patched": 2.4}[name]
    return [
        Count({"load": mode}, {"switches_per_item": make.some(each)}, {"mode": mode})
        for mode in ("serial", "burst")
    ]


def wakeups(make: Maker, name: str) -> list[Count]:
    woken = round(make.some(450))
    found = {"item queued": (woken, woken if name == "stock" else 0), "other": (2, 0)}
    return [
        Count({"load": "serial"}, {"items": 601}, {"mode": "serial"}),
        *(
            Count({"load": "serial", "reason": reason}, {"wakeups": all_, "locked": locked})
            for reason, (all_, locked) in found.items()
        ),
    ]


def peaks(make: Maker, name: str) -> list[Count]:
    """stock shares max_active out to two nodes."""
    return [
        Count(
            {"max_active": limit, "items": 32, "issuers": issuers, "scope": "cpu"},
            {"wanted": limit, "peak": limit * 2 if name == "stock" else limit},
        )
        for limit in (4, 8)
        for issuers in ("all CPUs", "one node")
    ]


def sim(make: Maker, name: str) -> list[Count]:
    """patched moves half as many lines."""
    half = 0.5 if name == "patched" else 1.0
    found = [Count({"scope": "cache"}, {"steady_items_per_sec": 1e6, "moves_per_item": 30 * half})]
    far = {"scope": "cache", "of": "distance", "in": "llc"}
    found.append(Count(far, {"moves_per_item": 30 * half}))
    for where, moves in (("__queue_work", 20.0), ("kick_pool", 10.0)):
        lines = {"scope": "cache", "of": "lines", "in": where}
        found.append(Count(lines, {"moves_per_item": moves * half, "moves_wait_ns": 50 * moves}))
    figures = {"taken_per_item": 1, "contended_per_item": 0.5}
    figures |= {"lock_wait_ns": 900, "lock_hold_ns": 100 * half}
    for of, where in (("locks", "pool->lock"), ("lock", "__queue_work")):
        found.append(Count({"scope": "cache", "of": of, "in": where}, figures))
    return found


COUNTED = {"costs": costs, "wakeups": wakeups, "peaks": peaks, "sim": sim}
