"""Ports for servers of tests. Tests run in several processes at a time, and a port that one of them was given may be listened on much later, or again after its
server was killed: so none is given twice, neither in a process nor to two of them.

    10,000 … 21,999   nodes take these for servers of their own (`nadi.io.natsserver`)
    22,000 … 31,999   these
    32,768 …          the system gives these to connections that go out, at any time
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from functools import cache
from pathlib import Path

PORTS = range(22_000, 32_000)


class Ports:
    """Gives ports of a range. Which ones are taken is in a file: who has a byte of it locked has the port of that number, until the process ends."""

    def __init__(self, file: Path, ports: range = PORTS) -> None:
        # A process loses its locks with the first descriptor of the file that it closes: nobody else opens it.
        self._file = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        self._left = random.Random(os.urandom(8)).sample(ports, len(ports))

    def take(self) -> int:
        """A port that nobody was given and nobody listens on."""
        while self._left:
            port = self._left.pop()
            if self._is_mine(port) and _is_free(port):
                return port
        raise LookupError("all ports for tests are taken")

    def _is_mine(self, port: int) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        except OSError:
            return False
        return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@cache
def _ports(_process: int) -> Ports:
    """Those of a process: one that was forked has none of the locks."""
    return Ports(Path(tempfile.gettempdir()) / f"nadi-ports-{os.getuid()}")


def free_port() -> int:
    """A port of this test's own, on the loopback interface."""
    return _ports(os.getpid()).take()


def free_ports(count: int) -> list[int]:
    """As many, in no order."""
    return [free_port() for _ in range(count)]
