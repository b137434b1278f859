# SPDX-License-Identifier: GPL-2.0
"""Running programs with a limit, signals, and lines of progress."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from wqlab.ground.problem import Problem

BEAT = 10.0  # seconds between lines that say that something is still going on
END_LIMIT = 10.0  # seconds for a program that was told to end
STARTED = time.monotonic()
CORES = len(os.sched_getaffinity(0))
TIMED_OUT = 124  # the status of a program that took longer than its limit

T = TypeVar("T")
R = TypeVar("R")

_running: set[subprocess.Popen] = set()
_closing = threading.Event()
_starting = threading.Lock()


def say(text: str) -> None:
    """Print a line of progress on stderr, with the seconds since the command started."""
    print(f"[{time.monotonic() - STARTED:4.0f}s] {text}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Done:
    """How a program ended. TIMED_OUT is the status at the limit."""

    status: int
    output: str  # stdout, and stderr where it was not kept apart; "" if it went to a log


def _signal(program: subprocess.Popen, number: signal.Signals) -> None:
    """Send a signal to a program and to all that it has started: its process group."""
    try:
        os.killpg(program.pid, number)
    except ProcessLookupError:
        pass


def end(*programs: subprocess.Popen) -> None:
    """End programs and all that they have started.

    They get TERM first. What is left of their process groups once the programs have ended, or
    after END_LIMIT, gets KILL: a child may be deaf to TERM, or outlive what started it.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        for program in programs:
            _signal(program, number)
        deadline = time.monotonic() + END_LIMIT
        for program in programs:
            try:
                program.wait(max(deadline - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                continue


def end_all() -> None:
    """End every program that was started, in whatever thread, and start no other."""
    with _starting:
        _closing.set()
        programs = list(_running)
    end(*programs)


@contextmanager
def started(
    command: Sequence[str | Path], *, deaf: bool = False, **more: Any
) -> Iterator[subprocess.Popen]:
    """A program that ends with the block, with end_all() or with this process.

    A `deaf` program may not react to TERM, and has nothing to tidy up: it gets KILL when this
    process dies, and so does what it leaves behind. `more` is for Popen. Raises Problem where the
    program cannot be run.
    """
    at_death = "KILL" if deaf else "TERM"
    with _starting:
        if _closing.is_set():
            raise Problem("interrupted")
        try:
            # A session of its own: Ctrl-C is for us, and we end it. Should this process be
            # killed, setpriv has the kernel end the program.
            program = subprocess.Popen(
                ["setpriv", "--pdeathsig", at_death, *map(str, command)],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                **more,
            )
        except OSError as error:
            raise Problem(f"{command[0]} cannot be run: {error.strerror}") from None
        _running.add(program)
    try:
        yield program
    finally:
        if deaf:
            _signal(program, signal.SIGKILL)
        if program.poll() is None:
            end(program)
        _running.discard(program)


def run(
    command: Sequence[str | Path],
    *,
    limit: float,
    label: str = "",
    log: Path | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stderr: bool = True,
    deaf: bool = False,
) -> Done:
    """Run a program, which ends at the limit (seconds) or with this one, whatever ends it.

    With a label, progress is shown. With a log, its output is appended there. Without stderr,
    what it says there goes to this program's, and is not part of the output. `deaf` is for
    started(). Returns its status and output; raises Problem where it cannot be run.
    """
    if label:
        say(label)
    if log:
        log.parent.mkdir(parents=True, exist_ok=True)
    out = log.open("ab") if log else subprocess.PIPE
    try:
        with started(
            command,
            stdout=out,
            stderr=subprocess.STDOUT if stderr else None,
            cwd=cwd,
            env=None if env is None else dict(env),
            deaf=deaf,
        ) as program:
            status, output = _wait(program, limit, label)
    finally:
        if not isinstance(out, int):
            out.close()
    if status == TIMED_OUT and label:
        say(f"{label}: stopped after the limit of {limit:.0f} s")
    return Done(status, output.decode(errors="replace") if output else "")


def _rest(program: subprocess.Popen) -> bytes:
    """What a program that has ended has said; a child in another session may keep its pipe open."""
    try:
        output, _ = program.communicate(timeout=END_LIMIT)
    except subprocess.TimeoutExpired as error:
        output = error.output
    return output or b""


def _wait(program: subprocess.Popen, limit: float, label: str) -> tuple[int, bytes]:
    started = time.monotonic()
    while True:
        passed = time.monotonic() - started
        try:
            wait = min(BEAT, limit - passed) if label else limit - passed
            output, _ = program.communicate(timeout=max(wait, 0))
            return program.returncode, output or b""
        except subprocess.TimeoutExpired:
            passed = time.monotonic() - started
            if passed >= limit:
                end(program)
                return TIMED_OUT, _rest(program)
            say(f"{label} ... {passed:.0f} s")
        except BaseException:
            end(program)
            raise


def check(command: Sequence[str | Path], *, wrong: str, limit: float = 60.0, **more) -> str:
    """The output of a program that must succeed.

    Raises Problem, with `wrong` and the last line that it said, where it does not within `limit`
    seconds; `more` is for run().
    """
    done = run(command, limit=limit, **more)
    if done.status:
        said = [line for line in done.output.splitlines() if line.strip()]
        raise Problem(f"{wrong}: {said[-1].strip() if said else f'status {done.status}'}")
    return done.output


def side_by_side(
    make: Callable[[T], R], of: Iterable[T], number: int = CORES
) -> Iterator[tuple[T, R]]:
    """Call `make` for each, `number` at a time, and yield each with its result as they end.

    Raises what `make` raises. When this is broken off, every program that was started ends.
    """
    pool = ThreadPoolExecutor(number)
    try:
        futures = {pool.submit(make, one): one for one in of}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        end_all()
        raise
    finally:
        pool.shutdown()


def terminated(number: int, _: FrameType | None) -> None:
    """TERM and HUP end a command as Ctrl-C does, with everything tidied up."""
    sys.exit(128 + number)


def handle_signals() -> None:
    """Have INT, TERM and HUP end this process with everything tidied up."""
    # A shell ignores SIGINT in what it runs in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, terminated)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Not to be interrupted while things are put in their place."""
    if threading.current_thread() is not threading.main_thread():  # which alone gets signals
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, lambda *_: None) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before):
            signal.signal(number, handler)
