"""How a node listens: the bounds of what strangers may have of it, and the certificate that it shows."""

from __future__ import annotations

import resource
from dataclasses import dataclass

from nadi.io.certificate import OwnCertificate

SPARE_FILES = 512  # logs, sinks, connections of the node's own
LEAST_CONNECTIONS = 64
LEAST_WAITING = 8_000_000  # bytes; room for one message of the largest size


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one server. `connections` at a time; `waiting` bytes that have come and are not answered yet; ms that the head of a request, its body, and
    silence between two requests may take.
    """

    connections: int = 16_000
    waiting: int = 64_000_000
    head: int = 10_000
    body: int = 30_000
    idle: int = 120_000

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
