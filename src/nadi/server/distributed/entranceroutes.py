"""Who takes the messages for the http sources of a cluster's apps, by what the database has in one moment. Pure."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from nadi.cluster.contract import Seen
from nadi.cluster.messages import Owner, Owners
from nadi.cluster.rows import Actual, Part, Placement, Row, WorkerRow
from nadi.cluster.sockets import Socket, sockets_of
from nadi.config.loopback import with_port

KINDS: tuple[type[Row], ...] = (Part, Placement, Actual, WorkerRow)
"""The rows that say it."""


def owners_of(seen: Seen) -> Owners:
    """Those of all apps: of one source several, where its group has several instances."""
    found: dict[str, list[Owner]] = {}
    for part in seen.all(Part):
        for socket in sockets_of(part.listens):
            owners = found.setdefault(path_of(part.app, socket.path), [])
            if (owner := _owner(seen, part, socket)) is not None:
                owners.append(owner)
    return Owners({path: tuple(owners) for path, owners in found.items()})


def path_of(app: str, path: str) -> str:
    """The path of a source at the entrance: behind the name of its app, unless it begins with it.

    >>> path_of("Meters", "/readings"), path_of("Meters", "/Meters/Readings")
    ('/Meters/readings', '/Meters/Readings')
    """
    return path if path.startswith(f"/{app}/") else f"/{app}{path}"


def _owner(seen: Seen, part: Part, socket: Socket) -> Owner | None:
    """An instance that runs where it is to run, with the text that it is to have."""
    placed, actual = seen.get(Placement, part.instance), seen.get(Actual, part.instance)
    worker = None if placed is None else seen.get(WorkerRow, placed.worker)
    if placed is None or actual is None or worker is None or not placed.wanted or placed.digest != part.digest:
        return None
    if actual.state != "running" or (actual.worker, actual.epoch) != (placed.worker, placed.epoch):
        return None
    host = urlsplit(worker.address).hostname or ""
    scheme = "https" if socket.secure else "http"
    return Owner(part.instance, placed.epoch, f"{scheme}://{with_port(host, socket.port)}{quote(socket.path)}")
