# SPDX-License-Identifier: GPL-2.0
"""Stand-ins for kernels that take minutes to build, and for guests that take as long to boot."""

import json
from collections.abc import Callable
from pathlib import Path

from wqlab.guests.vm import Record
from wqlab.results.module import SCOPES, parse_words


def line(scope: str, mode: str, items: int, rate: int = 1000, **more: int) -> str:
    """A line of test_workqueue, as far as it matters here."""
    values = {"threads": 2, "items": items, "items_per_sec": rate, "queue_p50_ns": 900}
    values |= {"kworkers_peak": 9, "lost": 0, "twice": 0} | more
    words = " ".join(f"{key}={value}" for key, value in values.items())
    return f"test_workqueue: scope={scope} mode={mode} {words}"


COLUMNS = "con-bounces contentions waittime-min waittime-max waittime-total waittime-avg"
COLUMNS += " acq-bounces acquisitions holdtime-min holdtime-max holdtime-total holdtime-avg"
LOCKS = [
    f"lock class name {COLUMNS}",
    "lock      &pool->lock:  11  12  0.10  1.25  20.50  1.70  21  22  0.05  2.30  400.01  3.30",
]


def answer(runs: list[str], locks: bool = False) -> list[str]:
    """What guest/jobs/bench prints for these runs."""
    lines = []
    for run in runs:
        given = parse_words(run)
        threads = given.get("threads", 2)
        lines.append(f"> {run}")
        lines += [
            line(scope, given["mode"], threads * given.get("items", 1000), threads=threads)
            for scope in SCOPES
            if scope in given["scopes"]
        ]
        lines += LOCKS if locks else []
    return lines


def make_kernel(path: Path, key: str, flavour: str, patches: int, base: str = "6.12") -> Path:
    """The directory of a kernel, as wqlab build leaves it."""
    for name, text in (
        ("linux" if flavour == "native" else "arch/x86/boot/bzImage", ""),
        ("include/config/kernel.release", f"{base}.0\n"),
        ("lib/test_workqueue.ko", ""),
    ):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    about = {"key": key, "base": base, "version": f"{base}.0", "patches": patches}
    about |= {"flavour": flavour, "arch": "x86_64", "compiler": "gcc 1", "config_sha256": key * 2}
    (path / "build.json").write_text(json.dumps(about))
    return path


class Guests:
    """In place of vm.boot(): answers as told, and notes what was booted."""

    def __init__(self) -> None:
        self.booted: list[tuple[str, str]] = []
        self.spoil: Callable[[int, Record], Record] = lambda number, record: record

    def boot(self, kernel, scenario, job, out, options) -> Record:
        self.booted.append((kernel.path.name, scenario.name))
        record = Record(
            scenario=scenario.name,
            job=job,
            verdict="pass",
            reason="",
            seconds=2.0,
            accel="tcg",
            release=kernel.release,
            command=["/usr/bin/qemu", "-kernel", str(kernel.image), "-append", options.append],
            lines=answer(options.commands.splitlines(), "lockstat" in kernel.path.name),
            tail=[],
            dumps=[],
        )
        return self.spoil(len(self.booted), record)
