"""The parameter `replica` of the URL of a service: the Unix socket of the node's event sync, which is asked before anything is written there."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote, unquote

from nadi.errors import error

PARAMETER = "replica"


def replica_of(url: str) -> tuple[str, Path | None]:
    """A URL without the parameter, and the socket that it names; None where it names none. Nothing else of the URL is changed. Errors: INVALID_SETTING, for a
    path that is not absolute.

    >>> replica_of("tls://127.0.0.1:4222?identity=/n/a.pem&replica=/n/pair/sync.sock")
    ('tls://127.0.0.1:4222?identity=/n/a.pem', PosixPath('/n/pair/sync.sock'))
    >>> replica_of("sqlite:////n/pair/logs.db?replica=/my%20node/sync.sock")
    ('sqlite:////n/pair/logs.db', PosixPath('/my node/sync.sock'))
    >>> replica_of("nats://here:4222,nats://there:4222?replicas=2"), replica_of("/a folder?")
    (('nats://here:4222,nats://there:4222?replicas=2', None), ('/a folder?', None))
    """
    address, mark, query = url.partition("?")
    others, found = [], None
    for part in query.split("&"):
        name, _, value = part.partition("=")
        if name == PARAMETER:
            found = Path(unquote(value))
        else:
            others.append(part)
    if found is None:
        return url, None
    if not found.is_absolute():
        raise error("INVALID_SETTING", name=PARAMETER, value=found, wanted="the absolute path of a Unix socket")
    return address + (mark + "&".join(others) if others else ""), found


def with_replica(url: str, socket: Path) -> str:
    """A URL with the parameter.

    >>> with_replica("file:///n/pair/state", Path("/my node/sync.sock"))
    'file:///n/pair/state?replica=/my%20node/sync.sock'
    >>> with_replica("tls://127.0.0.1:4222?identity=/n/a.pem", Path("/n/s"))
    'tls://127.0.0.1:4222?identity=/n/a.pem&replica=/n/s'
    """
    return f"{url}{'&' if '?' in url else '?'}{PARAMETER}={quote(str(socket))}"
