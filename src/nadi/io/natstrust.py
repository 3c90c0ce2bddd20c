"""How nodes know NATS servers on other machines, and these know nodes: TLS with the certificates that the URL names.

    tls://a:4222,tls://b:4222?authority=/etc/nadi/authority.pem&certificate=/etc/nadi/node.pem&key=/etc/nadi/node.key

A client takes only a server whose certificate `authority` has signed for the name in the URL. With `certificate` and `key` it proves who it is, for servers
that ask for that (`verify: true`). It says no byte of NATS before: a server needs `handshake_first: true`, and one who listens in its place hears nothing. The
files are read at each connection, so renewed ones need no restart. The URL has their names only: it may stand in partial apps, which other nodes run.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs

NAMES = ("authority", "certificate", "key")


@dataclass(frozen=True, slots=True)
class Trust:
    """The files of a URL; "" for none. Without an authority it is the system's."""

    authority: str = ""
    certificate: str = ""
    key: str = ""

    @property
    def files(self) -> tuple[Path, ...]:
        """Those that it names."""
        return tuple(Path(name) for name in (self.authority, self.certificate, self.key) if name)

    def context(self) -> ssl.SSLContext:
        """What a client needs. Errors: OSError, where a file is not there or is none of these."""
        made = ssl.create_default_context(cafile=self.authority or None)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.certificate:
            # without a password, OpenSSL asks for one at the terminal
            made.load_cert_chain(self.certificate, self.key or None, password="")
        return made

    def check(self) -> None:
        """Whether a client can use the files as they are now. Errors: CERTIFICATE_UNUSABLE."""
        from nadi.io.pemfiles import check_certificates, check_pair  # only who looks into files needs it

        if self.authority:
            check_certificates(self.authority)
        if self.certificate:
            check_pair(self.certificate, self.key or self.certificate)


def trust_of(url: str) -> Trust | None:
    """What a URL says of it; None where that is nothing.

    >>> trust_of("tls://a:4222,tls://b:4222?authority=/n/a.pem&certificate=/n/b.pem&key=/n/b.key&replicas=3")
    Trust(authority='/n/a.pem', certificate='/n/b.pem', key='/n/b.key')
    >>> trust_of("nats://a:4222") is None
    True
    """
    named = parse_qs(url.partition("?")[2])
    if not names_files(named):
        return None
    return Trust(*(named.get(name, [""])[0] for name in NAMES))


def names_files(named: Mapping[str, object]) -> bool:
    """Whether one of these parameters of a URL is about this."""
    return any(name in named for name in NAMES)
