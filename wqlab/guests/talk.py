# SPDX-License-Identifier: GPL-2.0
"""What host and guest say to each other: lines of the guest's init, and QEMU's monitor.

guest/init has the lines that a guest may say.
"""

import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from wqlab.results.model import Verdict


class Lost(Exception):
    """The guest did not say how it ended; the text is why."""


def connected() -> tuple[socket.socket, socket.socket]:
    """Two sockets that are connected to each other.

    They are TCP's, which take any number of single bytes; a Unix socket is full after 278. QEMU's
    serial lines send single bytes, and must never have to wait until somebody reads.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        end = socket.create_connection(server.getsockname())
        return server.accept()[0], end


def read_lines(port: socket.socket, deadline: float) -> Iterator[str]:
    """Whole lines from a port, until the other end closes it.

    Raises Lost when time.monotonic() is past the deadline.
    """
    buffer = b""
    while True:
        port.settimeout(max(deadline - time.monotonic(), 0.001))
        try:
            chunk = port.recv(65536)
        except TimeoutError:
            raise Lost("no verdict in time") from None
        except ConnectionError:
            return
        if not chunk:
            return
        *lines, buffer = (buffer + chunk).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace").rstrip("\r")


class Monitor:
    """QEMU's monitor, which speaks QMP: docs/interop/qmp-spec.rst of QEMU."""

    def __init__(self, port: socket.socket, deadline: float) -> None:
        self.port = port
        self.said = map(json.loads, read_lines(port, deadline))
        self.ready = False

    def execute(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        """Give QEMU a command and return its answer; raises Lost if QEMU refuses it or ends."""
        if not self.ready:
            self.ready = True
            self.execute("qmp_capabilities")
        self.port.sendall(json.dumps({"execute": name, "arguments": arguments or {}}).encode())
        answer = next((said for said in self.said if said.keys() & {"return", "error"}), None)
        if not answer or "error" in answer:
            raise Lost(f"QEMU {name}: {answer['error'].get('desc') if answer else 'no answer'}")
        return answer["return"]

    def dump_memory(self, core: Path, paging: bool = False) -> None:
        """Write the guest's memory to a file; with `paging`, what page tables map."""
        self.execute("dump-guest-memory", {"paging": paging, "protocol": f"file:{core}"})


def follow(
    port: socket.socket,
    deadline: float,
    on_ask: Callable[[str], None],
    on_line: Callable[[str], None],
) -> tuple[Verdict, str]:
    """Listen to the guest until its verdict: ("pass", "") or ("fail", reason).

    Calls `on_line` with each line of the job, and `on_ask` with what the job asks of the host.
    Raises Lost if there is no verdict before the deadline.
    """
    for line in read_lines(port, deadline):
        if line.startswith("| "):
            on_line(line[2:])
        elif line.startswith("ask "):
            on_ask(line.removeprefix("ask "))
        elif line == "verdict pass":
            return "pass", ""
        elif line.startswith("verdict fail "):
            return "fail", line.removeprefix("verdict fail ")
        else:
            raise Lost(f"the guest said {line!r}, which is no verdict")
    raise Lost("the guest ended without a verdict")
