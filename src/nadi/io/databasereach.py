"""What a database that somebody names reaches: a server, or files of this machine."""

from __future__ import annotations

from nadi.databases import Address
from nadi.io.reach import Reached

PORTS = {"postgresql": 5432, "mysql": 3306}


def reached(address: Address, option: str) -> tuple[Reached, ...]:
    """What is reached with the address that an option names. Errors: DATABASE_UNKNOWN.

    >>> reached(Address("jdbc:mysql://DB/orders"), "url")
    (Reached(option='url', path='', named='', trusted='', server='db:3306', host=''),)
    >>> [one.path for one in reached(Address("sqlite:////n/a.db?replica=/n/sync"), "url")]
    ['/n/a.db', '/n/sync']
    """
    url = address.parsed
    kind = url.get_backend_name()
    if kind != "sqlite":
        return (Reached(option, server=f"{(url.host or 'localhost').lower()}:{url.port or PORTS[kind]}"),)
    paths = [] if url.database in (None, "", ":memory:") else [url.database]
    socket = address.replica
    return tuple(Reached(option, path) for path in (*paths, *(() if socket is None else (str(socket),))) if path)
