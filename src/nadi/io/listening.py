"""How a node listens: the bounds of what strangers may have of it, and the certificate that it shows."""

from __future__ import annotations

import resource
from dataclasses import dataclass

from nadi.io.certificate import OwnCertificate

SPARE_FILES = 512  # a node's own: logs, sinks, connections of its own
LEAST_CONNECTIONS = 64


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

    def possible_connections(self) -> int:
        """As many connections as asked for, or as this process may have files open beside its own."""
        files, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if files == resource.RLIM_INFINITY:
            return self.connections
        return min(self.connections, max(LEAST_CONNECTIONS, files - SPARE_FILES))


@dataclass(frozen=True, slots=True)
class Listening:
    """What a source that listens is given by its node; `certificate` is None where there is none."""

    limits: Limits = Limits()
    certificate: OwnCertificate | None = None
