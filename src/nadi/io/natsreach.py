"""What the URL of a NATS server names on this machine: certificates and keys, the identity of a node's own server, the socket of an event sync."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nadi.io.contract import Connector
from nadi.io.natsidentity import parted
from nadi.io.natstrust import trust_of
from nadi.io.reach import Reached
from nadi.replica.address import replica_of

OPTIONS = ("bootstrap.servers", "url")


def reaches(connector: Connector) -> tuple[Reached, ...]:
    """Of a connector with one server, or one cluster of them. Errors: INVALID_SETTING."""
    return tuple(one for name in OPTIONS for one in _of(name, [connector.options.get(name, "")], trusted=True))


def reaches_of_centres(connector: Connector) -> tuple[Reached, ...]:
    """Likewise of one with a server in each centre."""
    return tuple(one for name in OPTIONS for one in _of(name, connector.options.get(name, "").split(","), trusted=True))


def reaches_of_channel(connector: Connector) -> tuple[Reached, ...]:
    """Likewise of a channel. The certificates in its URL are the manager's word, who has written the partial app."""
    return tuple(one for name in OPTIONS for one in _of(name, [connector.options.get(name, "")], trusted=False))


def _of(name: str, urls: Sequence[str], trusted: bool) -> Iterator[Reached]:
    for url in urls:
        trust, identity, socket = trust_of(url), parted(url)[1], replica_of(url)[1]
        if trust is not None and trusted:
            yield from (Reached(name, trusted=str(file)) for file in trust.files)
        yield from (Reached(name, path=str(file)) for file in (identity, socket) if file is not None)
