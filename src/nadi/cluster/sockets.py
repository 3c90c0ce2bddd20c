"""What an instance listens on: a machine has each port once.

Workers with one host in their addresses are on one machine. The sources of one worker that have a port in common share its server, as long as their paths
differ and they speak alike; two workers share nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import msgspec


@dataclass(frozen=True, slots=True)
class Socket:
    """Where a source takes messages: a port of its worker, and a path there. `stream` is what it feeds, as its user calls it."""

    stream: str
    port: int
    path: str
    secure: bool = False

    def clashes(self, other: Socket) -> bool:
        """Whether both cannot be on one worker.

        >>> Socket("A", 8006, "/a").clashes(Socket("B", 8006, "/b")), Socket("A", 8006, "/a").clashes(Socket("B", 8006, "/a"))
        (False, True)
        """
        return self.port == other.port and (self.path == other.path or self.secure != other.secure)


def written(sockets: Iterable[Socket]) -> str:
    """Sockets as the database has them, "" for none.

    >>> sockets_of(written([Socket("A", 8006, "/a")]))
    (Socket(stream='A', port=8006, path='/a', secure=False),)
    """
    found = list(sockets)
    return msgspec.json.encode(found).decode() if found else ""


@lru_cache(maxsize=4096)
def sockets_of(text: str) -> tuple[Socket, ...]:
    """What `written` has written."""
    return msgspec.json.decode(text, type=tuple[Socket, ...]) if text else ()


@dataclass(slots=True)
class Occupied:
    """Who has which port. `hosts` are the machines of workers, by their names; one that is not among them is a machine of its own."""

    hosts: Mapping[str, str] = field(default_factory=dict)
    ports: dict[int, Counter[tuple[str, Socket]]] = field(default_factory=dict)

    def add(self, listens: str, worker: str, by: int = 1) -> None:
        """An instance comes to a worker, or with -1 leaves it."""
        for socket in sockets_of(listens):
            self.ports.setdefault(socket.port, Counter())[worker, socket] += by

    def hinders(self, listens: str, worker: str, leaving: str = "") -> int:
        """A port because of which an instance cannot be on a worker, 0 where there is none. `leaving` is the worker that it is on now."""
        for socket in sockets_of(listens):
            for (holder, other), count in self.ports.get(socket.port, {}).items():
                if count - (holder == leaving and other == socket) <= 0 or self._host(holder) != self._host(worker):
                    continue
                if holder != worker or socket.clashes(other):
                    return socket.port
        return 0

    def _host(self, worker: str) -> str:
        return self.hosts.get(worker) or worker

    def copy(self) -> Occupied:
        return Occupied(self.hosts, {port: held.copy() for port, held in self.ports.items()})
