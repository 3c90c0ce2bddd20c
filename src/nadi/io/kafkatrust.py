"""How nodes know Kafka's brokers on other machines, and these know nodes: TLS with the certificates that the list of brokers names, as with NATS
(`nadi.io.natstrust`).

    ssl://a:9093,ssl://b:9093?authority=/etc/nadi/authority.pem&certificate=/etc/nadi/node.pem&key=/etc/nadi/node.key

A client takes only brokers whose certificate `authority` has signed for the name in the list. With `certificate` and `key` it proves who it is, for brokers
with `ssl.client.auth=required`. The list has names of files only: it may stand in partial apps, which other nodes run. A client reads the files once, when it
is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs

from nadi.io.natstrust import NAMES

WANTED = f"{', '.join(NAMES)} behind its '?'"
"""What a list of brokers may name besides them."""
_PROPERTIES = dict(zip(NAMES, ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location"), strict=True))


@dataclass(frozen=True, slots=True)
class Brokers:
    """The brokers as their client reads them, and its properties that keep them apart from others."""

    addresses: str
    properties: Mapping[str, str] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """The certificates and keys."""
        return tuple(Path(value) for name, value in self.properties.items() if name in _PROPERTIES.values())


def brokers_of(text: str) -> Brokers:
    """What a list of brokers says; `unknown` are names behind its `?` that mean nothing.

    >>> brokers_of("a:9092").properties
    {}
    >>> found = brokers_of("ssl://a:9093,ssl://b:9093?authority=/n/a.pem&replicas=3")
    >>> found.addresses, dict(found.properties), found.unknown
    ('ssl://a:9093,ssl://b:9093', {'security.protocol': 'ssl', 'ssl.ca.location': '/n/a.pem'}, ('replicas',))
    """
    addresses, _, query = text.partition("?")
    named = {name: values[-1] for name, values in parse_qs(query).items()}
    found = {_PROPERTIES[name]: named[name] for name in NAMES if name in named}
    if found or any(each.strip().lower().startswith("ssl://") for each in addresses.split(",")):
        found = {"security.protocol": "ssl", **found}
    return Brokers(addresses, found, tuple(name for name in named if name not in NAMES))
