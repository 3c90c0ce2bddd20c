"""How a node listens: the bounds of what strangers may have of it, and the certificate that it shows."""

from __future__ import annotations

import resource
import socket
from dataclasses import dataclass

from nadi.errors import error
from nadi.io.certificate import OwnCertificate

SPARE_FILES = 512  # logs, sinks, connections of the node's own
LEAST_CONNECTIONS = 64
LEAST_WAITING = 8_000_000  # bytes; room for one message of the largest size


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one server. `connections` at a time; `waiting` bytes that have come and are not answered yet; ms that the head of a request, its body, and
    silence between two requests may take; `behind` bytes of a source that are in the journal and that the app has not processed (0: no bound).
    """

    connections: int = 16_000
    waiting: int = 64_000_000
    head: int = 10_000
    body: int = 30_000
    idle: int = 120_000
    behind: int = 0

    def make_room(self) -> int:
        """Let this process have as many files open as it needs for its connections, as far as the system lets it; -> for how many there is room."""
        now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = self.connections + SPARE_FILES
        if now == resource.RLIM_INFINITY or now >= wanted:
            return self.connections
        possible = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
        if possible > now:
            resource.setrlimit(resource.RLIMIT_NOFILE, (possible, most))
        return min(self.connections, max(LEAST_CONNECTIONS, possible - SPARE_FILES))


@dataclass(frozen=True, slots=True)
class Listening:
    """What a source that listens is given by its node; `certificate` is None where there is none."""

    limits: Limits = Limits()
    certificate: OwnCertificate | None = None


def listening_socket(host: str, port: int, backlog: int) -> socket.socket:
    """A socket that takes connections for an http server; port 0 is one that the system chooses. Errors: SERVER_NOT_STARTED."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        made = socket.create_server((host, port), family=family, backlog=backlog)
        # its connections inherit it; asyncio sets it only where a socket names its protocol, and without it the body of an answer waits 40 ms for its head
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made
    except OSError as reason:
        raise error("SERVER_NOT_STARTED", server=f"the http server on {host}:{port}", reason=reason) from reason
