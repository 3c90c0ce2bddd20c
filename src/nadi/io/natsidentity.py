"""How an embedded NATS server and its clients know each other: by one key, which each proves to the other with TLS before a byte of NATS is said.

    <folder>/nats-<pid>-….pem    the key, and a certificate of it; whoever can read this file may speak to the server

The server takes clients with this certificate only, and clients take no server with another one. So a process of another user that listens on the port while
the server is away learns nothing and gets no events. A password would not do: a client tells it to whoever listens, and the names that a NATS server tells of
itself are told to everybody.

The URL of such a server names the file, not what is in it, so that it may stand in descriptions of apps: `tls://127.0.0.1:40123?identity=/path/of.pem`.
"""

from __future__ import annotations

import os
import ssl
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs, quote

from nadi.config.ownership import OWN_FILE
from nadi.errors import error
from nadi.io.natstrust import names_files
from nadi.replica.address import replica_of

LASTS = timedelta(days=3650)  # longer than any node runs
_NAME = "identity"
_REPLICAS = "replicas"


def make_identity(path: Path) -> None:
    """Make a key that nobody has had, in a file that nobody else can read; one that is there is replaced."""
    # With it comes half of OpenSSL, which who only speaks to a server does not need.
    from cryptography.x509 import ExtendedKeyUsage
    from cryptography.x509.oid import ExtendedKeyUsageOID

    from nadi.io.owncertificate import self_signed

    purposes = ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    key, certificate = self_signed("nadi", timedelta(days=1), LASTS, (purposes, False))
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OWN_FILE), "wb") as out:
        out.write(key + certificate)


def context(path: Path) -> ssl.SSLContext:
    """What a client proves itself with, and takes no other server by. Errors: OSError where the file is not there, or none of these."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.check_hostname = False  # it is the one certificate that counts, wherever it is
    made.load_verify_locations(path)
    made.load_cert_chain(path, password="")  # without, OpenSSL asks at the terminal
    return made


def url_of(port: int, identity: Path) -> str:
    """The URL of a server on this machine with an identity.

    >>> url_of(4222, Path("/my state/nats/a.pem"))
    'tls://127.0.0.1:4222?identity=/my%20state/nats/a.pem'
    """
    return f"tls://127.0.0.1:{port}?{_NAME}={quote(str(identity))}"


def parted(url: str) -> tuple[str, Path | None]:
    """The address of a server, and where its identity is; None where the URL names none.

    >>> parted("tls://127.0.0.1:4222?identity=/my%20state/nats/a.pem")
    ('tls://127.0.0.1:4222', PosixPath('/my state/nats/a.pem'))
    >>> parted("nats://user:secret@here:4222,nats://there:4222")
    ('nats://user:secret@here:4222,nats://there:4222', None)
    >>> parted("nats://here:4222?replica=/n/sync.sock")
    ('nats://here:4222', None)
    >>> parted("tls://here:4222?authority=/n/authority.pem")
    ('tls://here:4222', None)
    """
    url, _socket = replica_of(url)
    address, _, query = url.partition("?")
    named = parse_qs(query)
    if _NAME in named:
        return address, Path(named[_NAME][0])
    return (address, None) if _REPLICAS in named or names_files(named) else (url, None)


def replicas_of(url: str) -> int:
    """On how many servers of a cluster the journal is that has this URL. Errors: INVALID_SETTING.

    >>> replicas_of("nats://here:4222,nats://there:4222,nats://over:4222?replicas=3"), replicas_of("nats://here:4222")
    (3, 1)
    """
    found = parse_qs(url.partition("?")[2]).get(_REPLICAS, ["1"])[0]
    if found not in ("1", "2", "3", "4", "5"):
        wanted = f"a number from 1 to 5 behind '?{_REPLICAS}='"
        raise error("INVALID_SETTING", name="nadi.journal.url", value=found, wanted=wanted)
    return int(found)
