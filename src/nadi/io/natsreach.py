"""What the URL of a NATS server names: the server, certificates and keys, the identity of a node's own server, the socket of an event sync."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from nadi.errors import NadiError, placed
from nadi.io.addresses import NATS, SERVERS, servers
from nadi.io.contract import Connector
from nadi.io.natsidentity import parted
from nadi.io.natstrust import trust_of
from nadi.io.reach import Reached
from nadi.replica.address import replica_of

PORT = 4222
DEFAULT_URL = f"nats://localhost:{PORT}"
"""The server of a connector that names none."""


def reaches(connector: Connector) -> tuple[Reached, ...]:
    """Of a connector with one server, or one cluster of them. Errors: INVALID_SETTING."""
    named = _reached(connector, lambda text: [text])
    return named or servers("url", DEFAULT_URL, NATS, PORT)


def reaches_of_centres(connector: Connector) -> tuple[Reached, ...]:
    """Likewise of one with a server in each centre."""
    return _reached(connector, lambda text: text.split(","))


def read(connector: Connector) -> None:
    """Look into the certificates and keys that the URL names. Errors: CERTIFICATE_UNUSABLE, with its place."""
    _read(connector, lambda text: [text])


def read_of_centres(connector: Connector) -> None:
    """Likewise of a server in each centre."""
    _read(connector, lambda text: text.split(","))


def _read(connector: Connector, urls: Callable[[str], Sequence[str]]) -> None:
    for name in SERVERS:
        for trust in map(trust_of, urls(connector.options.get(name, ""))):
            try:
                if trust is not None:
                    trust.check()
            except NadiError as reason:
                raise placed(reason, connector.place(name)) from None


def _reached(connector: Connector, urls: Callable[[str], Sequence[str]]) -> tuple[Reached, ...]:
    found: list[Reached] = []
    for name in SERVERS:
        text = connector.options.get(name, "")
        found += _of(name, urls(text), trusted=True)
        found += (one for url in urls(text) for one in servers(name, url.partition("?")[0], NATS, PORT))
    return tuple(found)


def reaches_of_channel(connector: Connector) -> tuple[Reached, ...]:
    """Likewise of a channel. The certificates in its URL are the manager's word, who has written the partial app."""
    return tuple(one for name in SERVERS for one in _of(name, [connector.options.get(name, "")], trusted=False))


def _of(name: str, urls: Sequence[str], trusted: bool) -> Iterator[Reached]:
    for url in urls:
        trust, identity, socket = trust_of(url), parted(url)[1], replica_of(url)[1]
        if trust is not None and trusted:
            yield from (Reached(name, trusted=str(file)) for file in trust.files)
        yield from (Reached(name, path=str(file)) for file in (identity, socket) if file is not None)
