"""Waking who waits for descriptors (`nadi.io.readiness`), from any thread and from a handler of signals, where locks must not be taken."""

from __future__ import annotations

import contextlib
import socket
import weakref


class Waker:
    """Readable from when it is rung until it is cleared.

    >>> from nadi.io.readiness import readable
    >>> waker = Waker()
    >>> readable([waker], 0.0)
    []
    >>> waker.ring(); waker.ring()
    >>> readable([waker]) == [waker]
    True
    >>> waker.clear(); readable([waker], 0.0)
    []
    >>> waker.close(); waker.ring()
    """

    def __init__(self) -> None:
        self._here, self._there = socket.socketpair()
        self._here.setblocking(False)
        self._there.setblocking(False)
        weakref.finalize(self, _close, self._here, self._there)

    def ring(self) -> None:
        """Wake who waits. One that is closed wakes nobody."""
        with contextlib.suppress(OSError):  # it is full, so it has been rung; or it is closed
            self._there.send(b"x")

    def clear(self) -> None:
        """Forget all rings so far."""
        with contextlib.suppress(BlockingIOError):
            while self._here.recv(4096):
                pass

    def fileno(self) -> int:
        return self._here.fileno()

    def close(self) -> None:
        _close(self._here, self._there)


def _close(*sockets: socket.socket) -> None:
    for one in sockets:
        one.close()
