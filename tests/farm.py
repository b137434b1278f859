# SPDX-License-Identifier: GPL-2.0
"""What tests need made: kernels, boots, KUnit runs, searches of models.

It is made ahead of the tests, side by side as far as the cores of this machine reach, in a
process of its own: no test that changes the environment or catches the output disturbs it, and
when pytest ends, however it ends, that process ends with all that it has started.

A test marked pytest.mark.needs(Kernel("test")) gets as `made` what Kernel("test").make() returns.
Equal needs are made once. What a test did not select is not made.
"""

import multiprocessing
import os
import pickle
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, ClassVar

from wqlab.ground.problem import Problem, Skipped
from wqlab.ground.run import CORES, STARTED, end_all, terminated

ALL = 1_000_000  # for Need.cores: as many as there are
# MiB for what is made at the same time
MEMORY = int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**20 * 0.8)
TICK = 0.1  # seconds between two checks for what is done and whether pytest is still there
BEAT = 60.0  # seconds without news after which the terminal is told what is being made
LIMIT = 3600.0  # seconds that a test waits for what it needs while nothing gets done
END_LIMIT = 30.0  # seconds for everything to end when it is no longer wanted


@dataclass(frozen=True)
class Need:
    """Something that tests need; a frozen dataclass, whose result can be pickled."""

    # A subclass may have properties of these names instead.
    tier = "quick"  # the first tier that has the time to make it with an empty cache
    cores = 1  # that its making keeps busy; if more, it starts with one, and is nice to others
    memory = 500  # MiB that its making takes
    guess = 10.0  # about how many seconds it takes
    before: ClassVar[Sequence["Need"]] = ()  # made before; if one of them fails, this fails

    def make(self, farm: "Making") -> Any:
        raise NotImplementedError


class Making:
    """What a need has at hand while it is made."""

    def __init__(self, results: Mapping[Need, Any], options: Any) -> None:
        self._results = results
        self._lock = threading.Lock()
        self._taken: set[str] = set()
        self.options = options  # pytest's

    def __getitem__(self, need: Need) -> Any:
        """The result of one of those that are made before."""
        return self._results[need]

    @contextmanager
    def place(self, name: str) -> Iterator[str]:
        """A name that nobody else has at this time, as "uml-0": for trees that are built in."""
        with self._lock:
            mine = next(one for n in count() if (one := f"{name}-{n}") not in self._taken)
            self._taken.add(mine)
        try:
            yield mine
        finally:
            self._taken.discard(mine)


@dataclass(frozen=True)
class Made:
    """How the making of a need has ended."""

    result: Any = None
    wrong: str = ""  # why there is no result
    skipped: str = ""  # why it cannot be had here
    seconds: float = 0.0

    @property
    def why(self) -> str:
        """There is no result; "" if there is one."""
        return self.wrong or self.skipped


def with_before(needs: Iterable[Need]) -> list[Need]:
    """The needs and what has to be made before them, each once, in an order that works."""
    found: dict[Need, None] = {}
    for need in needs:
        found |= dict.fromkeys([*with_before(need.before), need])
    return list(found)


class Farm:
    """Makes needs in a process of its own. Equal needs are one."""

    def __init__(
        self,
        needs: Iterable[Need],
        *,
        options: Any = None,
        log: Path | None = None,
        terminal: int = 2,
    ) -> None:
        """What the makers say goes to `log`, one line for each need done to the file descriptor
        `terminal`."""
        self.needs = with_before(needs)
        self.made: dict[Need, Made] = {}
        self._sending = threading.Lock()
        self._gone = False
        self._process: BaseProcess | None = None
        if not self.needs:
            return
        context = multiprocessing.get_context("fork")
        self._pipe, pipe = context.Pipe()
        self._process = context.Process(
            target=self._run, args=(pipe, self._pipe, options, log, terminal)
        )
        self._process.start()
        pipe.close()

    # Here

    def take(self, need: Need) -> Made:
        """How the need's making ended; waits for it."""
        deadline = time.monotonic() + LIMIT
        while need not in self.made:
            if self._gone:
                return Made(wrong="cancelled before it was made")
            if time.monotonic() > deadline:
                return Made(wrong=f"for {LIMIT:.0f} s, nothing was made")
            if self._receive(1.0):
                deadline = time.monotonic() + LIMIT
        return self.made[need]

    def _receive(self, wait: float) -> bool:
        try:
            if self._pipe.poll(wait):
                index, made = self._pipe.recv()
                self.made[self.needs[index]] = made
                return True
        except (EOFError, OSError):
            self._gone = True
        return False

    def close(self) -> None:
        """Cancel what is not made yet; leave nothing behind."""
        if not self._process:
            return
        while not self._gone and self._receive(0):
            pass
        self._gone = True
        self._pipe.close()
        self._process.join(END_LIMIT)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._process = None

    # In the other process

    def _run(
        self, pipe: Connection, other: Connection, options: Any, log: Path | None, terminal: int
    ) -> None:
        other.close()
        # Ctrl-C is for pytest, which then closes the pipe. Not ignored: programs would inherit it.
        signal.signal(signal.SIGINT, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, terminated)
        self._terminal = os.dup(terminal)
        if log:
            log.parent.mkdir(parents=True, exist_ok=True)
        out = os.open(log or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        for ours in (1, 2):
            os.dup2(out, ours)
        sys.stdout = sys.stderr = os.fdopen(out, "w", buffering=1)
        try:
            self._make_all(pipe, options)
        except (BrokenPipeError, EOFError, ConnectionError):
            pass  # pytest has ended
        finally:
            end_all()

    def _tell(self, text: str) -> None:
        line = f"[{time.monotonic() - STARTED:4.0f}s] {text}\n"
        os.write(self._terminal, line.encode())

    def _make_all(self, pipe: Connection, options: Any) -> None:
        rank = self._ranks()
        waiting = sorted(self.needs, key=lambda need: -rank[need])
        running: dict[Need, float] = {}  # since when
        results: dict[Need, Any] = {}
        done: queue.Queue[tuple[Need, Made]] = queue.Queue()
        making = Making(results, options)
        told = time.monotonic()
        while len(self.made) < len(self.needs):
            for need in self._startable(waiting, list(running)):
                waiting.remove(need)
                running[need] = time.monotonic()
                bad = [made for one in need.before if (made := self.made[one]).why]
                run = (done, need, making, bad[0] if bad else None)
                threading.Thread(target=make, args=run, daemon=True).start()
            try:
                need, made = done.get(timeout=TICK)
            except queue.Empty:
                if pipe.poll(0):  # nothing is ever sent: it was closed
                    return
                if time.monotonic() - told > BEAT:
                    told = time.monotonic()
                    names = [f"{need} ({told - begin:.0f} s)" for need, begin in running.items()]
                    self._tell(f"making {', '.join(names)}")
                continue
            del running[need]
            results[need] = made.result
            self.made[need] = made
            # pytest reads when it needs something, which must not hold up what is made
            threading.Thread(target=self._send, args=(pipe, need, made), daemon=True).start()
            told = time.monotonic()
            outcome = "failed: " if made.wrong else "skipped: " if made.skipped else ""
            where = f"[{len(self.made)}/{len(self.needs)}]"
            self._tell(f"{where} {outcome}{need} ({made.seconds:.0f} s)")
        while not pipe.poll(BEAT):  # until pytest has read it all
            pass

    def _startable(self, waiting: Iterable[Need], running: Sequence[Need]) -> Iterator[Need]:
        """Those that may start now, in this order: nothing overtakes one that just lacks a core."""
        free = CORES - sum(min(need.cores, CORES) for need in running)
        memory, alone = MEMORY - sum(need.memory for need in running), not running
        for need in [need for need in waiting if all(one in self.made for one in need.before)]:
            if free >= 1 and (need.memory <= memory or alone):
                free, memory, alone = free - need.cores, memory - need.memory, False
                yield need

    def _send(self, pipe: Connection, need: Need, made: Made) -> None:
        index = self.needs.index(need)
        with self._sending, suppress(OSError):  # pytest may have ended
            try:
                pipe.send((index, made))
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                pipe.send((index, Made(wrong=f"its result cannot be sent: {error}")))

    def _ranks(self) -> dict[Need, float]:
        """The seconds from the start of a need to the end of the last one that waits for it."""
        rank = {need: need.guess for need in self.needs}
        for need in reversed(self.needs):
            for other in need.before:
                rank[other] = max(rank[other], other.guess + rank[need])
        return rank


def make(done: "queue.Queue", need: Need, making: Making, bad: Made | None) -> None:
    """Make a need, unless one that comes before has no result, and put how it ended."""
    if bad:
        done.put((need, Made(wrong=bad.wrong, skipped=bad.skipped)))
        return
    if need.cores > 1:  # of a thread, as Linux has it; its programs inherit it
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 5)
    begin = time.monotonic()
    result, wrong, skipped = None, "", ""
    try:
        result = need.make(making)
    except Skipped as error:
        skipped = str(error) or "skipped"
    except Problem as error:
        wrong = str(error) or "failed"
    except BaseException:  # noqa: BLE001
        wrong = traceback.format_exc()
    done.put((need, Made(result, wrong, skipped, time.monotonic() - begin)))
