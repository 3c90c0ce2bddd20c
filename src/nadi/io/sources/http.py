"""`@source(type='http')`: a server that takes one message per POST, appends it to the journal, and only then says 202.

| answer | when |
|---|---|
| 202 | the message is on the disk; it will be processed |
| 400 | the mapper can make no event of it, or it is no HTTP; nothing was kept; the body says why, as JSON |
| 401 404 405 413 415 | credentials, path, method, size (7 MB), a Content-Encoding |
| 408 431 501 | it did not come in time, its head is too long, a Transfer-Encoding other than chunked |
| 503 | the journal is away, the source is stopping, or too much waits; `Retry-After` says when to come back |

A message that got 503 because the journal went away in the middle may have been kept all the same. Sources with the same host and port share one server.
"""

from __future__ import annotations

import ssl
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from nadi.errors import error
from nadi.io.contract import Connector, Ingress, Log, Place
from nadi.io.journal import EVENT_BYTES, open_journal
from nadi.io.journallog import RETENTION_MS, open_journal_log
from nadi.io.listeners import Limits, Listening
from nadi.io.namedfiles import check_named
from nadi.io.options import Option, integer
from nadi.io.postserver import PostServer
from nadi.io.registry import SourceKind, make_source_mapper
from nadi.io.sources.http_endpoint import HttpEndpoint, login
from nadi.io.tls import KeyStore


@dataclass(frozen=True, slots=True)
class Address:
    """Where a source listens. `store` is the key store of one that speaks TLS, None for the node's own certificate."""

    host: str
    port: int
    path: str
    secure: bool = False
    store: KeyStore | None = None

    def context(self, listening: Listening) -> ssl.SSLContext | None:
        """What its server needs for TLS. Errors: those of a key store, NOT_SUPPORTED where there is no certificate."""
        if not self.secure:
            return None
        if self.store is not None:
            return self.store.context()
        if listening.certificate is None:
            raise error(
                "NOT_SUPPORTED", what="https without a node", alternative="name a key store: https.keystore.file"
            )
        return listening.certificate.tls().context()


def address(connector: Connector, place: Place) -> Address:
    """Where a source listens: `receiver.url`, by default http://127.0.0.1:9763/<app>/<stream>. Errors: OPTION_INVALID."""
    url = connector.options.get("receiver.url", f"http://127.0.0.1:9763/{place.app}/{connector.stream}")
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    try:
        port = (443 if secure else 80) if parts.port is None else parts.port
    except ValueError:
        port = -1
    if parts.scheme not in ("http", "https") or not parts.hostname or port < 0:
        raise _invalid(connector, "receiver.url", url, "http://host:port/path or https://host:port/path")
    return Address(parts.hostname, port, unquote(parts.path) or "/", secure, _store(connector) if secure else None)


def _store(connector: Connector) -> KeyStore | None:
    options = connector.options
    file = options.get("https.keystore.file")
    if not file:
        return None
    kind = options.get("tls.store.type", "PKCS12")
    if kind.upper() != "PKCS12":
        raise _invalid(
            connector, "tls.store.type", kind, "PKCS12; keytool -importkeystore … -deststoretype PKCS12 converts"
        )
    return KeyStore(Path(file), options.get("https.keystore.password") or options.get("https.cert.password", ""))


def _idle(connector: Connector, limits: Limits) -> int:
    """How long clients may be silent, ms. Errors: OPTION_INVALID."""
    name = "socket.idle.timeout"
    idle = integer(connector.options, name, limits.idle)
    if idle <= 0:
        raise _invalid(connector, name, str(idle), "a number of ms above 0")
    return idle


def _invalid(connector: Connector, name: str, value: str, wanted: str) -> Exception:
    return error("OPTION_INVALID", where=_where(connector), name=name, value=value, wanted=wanted)


def _where(connector: Connector) -> str:
    return f"@source of {connector.stream} (http)"


class _Server:
    """The server of a port, and what all of its sources have in common."""

    def __init__(self, common: Address, listening: Listening) -> None:
        self.common = common
        self.server = PostServer(common.host, common.port, listening.limits, EVENT_BYTES, common.context(listening))
        self.endpoints: dict[str, HttpEndpoint] = {}

    def add(self, path: str, endpoint: HttpEndpoint, idle: int) -> None:
        """Have a path answered; `idle` is how long its clients may be silent, ms. Errors: SERVER_NOT_STARTED, where another source has it."""
        taken = self.endpoints.get(path)
        if taken is not None and not taken.stopping:
            raise _not_started(path, f"another source has the path on port {self.server.port}")
        self.endpoints[path] = self.server.endpoints[path] = endpoint
        self.server.quiet = max(self.server.quiet, idle)

    def over(self) -> bool:
        return all(endpoint.stopping for endpoint in self.endpoints.values())


_SERVERS: dict[tuple[str, int], _Server] = {}
_LOCK = threading.Lock()


class HttpIngress:
    """The ingress of one http source.

    Its path is known to the server of its port from when it is made until the last source of the port has stopped: a client that comes too early or too
    late hears that nobody takes its message now (503, or no answer), never that there is no such source (404), which would be final.
    """

    def __init__(self, connector: Connector, place: Place) -> None:
        """Errors: OPTION_INVALID, OPTION_MISSING, FILE_NOT_ALLOWED, SERVER_NOT_STARTED, those of a key store."""
        self._address = address(connector, place)
        if self._address.store is not None:
            check_named(_where(connector), "https.keystore.file", str(self._address.store.file), place.files)
        journal = open_journal(place.journal, place.app)
        mapper = make_source_mapper(connector)
        login(connector)
        idle = _idle(connector, place.listening.limits)
        with _LOCK:
            self._shared = _server_of(self._address, place.listening)
            self._endpoint = HttpEndpoint(connector, journal, mapper, self._shared.server)
            self._shared.add(self._address.path, self._endpoint, idle)
            _SERVERS[self._key] = self._shared

    @property
    def _key(self) -> tuple[str, int]:
        return self._address.host, self._address.port

    @property
    def url(self) -> str:
        """Where it listens; with the port that was chosen where the url's was 0."""
        host = "127.0.0.1" if self._address.host == "0.0.0.0" else self._address.host
        scheme = "https" if self._address.secure else "http"
        return f"{scheme}://{host}:{self._shared.server.port}{self._address.path}"

    def start(self) -> None:
        with _LOCK:
            self._shared.server.start()

    def stop(self) -> None:
        with _LOCK:
            self._endpoint.stopping = True
            if self._shared.over() and _SERVERS.get(self._key) is self._shared:
                _SERVERS.pop(self._key)
                self._shared.server.stop()


def _server_of(wanted: Address, listening: Listening) -> _Server:
    """The server of a port. Errors: SERVER_NOT_STARTED, where it speaks otherwise; those of a key store."""
    common = replace(wanted, path="")
    found = _SERVERS.get((wanted.host, wanted.port))
    if found is None:
        return _Server(common, listening)
    if found.common != common:
        raise _not_started(wanted.path, f"port {wanted.port} has a source with other settings of https")
    return found


def _not_started(path: str, reason: str) -> Exception:
    return error("SERVER_NOT_STARTED", server=f"the http source {path}", reason=reason)


def _open(connector: Connector, place: Place) -> Log:
    address(connector, place)
    hours = integer(connector.options, "journal.retention.hours", RETENTION_MS // 3_600_000)
    return open_journal_log(place.journal, place.app, connector.ordinal, hours * 3_600_000)


def _ingress(connector: Connector, place: Place) -> Ingress:
    return HttpIngress(connector, place)


KIND = SourceKind(
    (
        Option("receiver.url"),
        Option("basic.auth.enabled", kind="bool"),
        Option("basic.auth.username"),
        Option("basic.auth.password"),
        Option("https.keystore.file"),
        Option("https.keystore.password"),
        Option("https.cert.password"),  # Siddhi's, of the key in a store of Java's; in PKCS#12 it is that of the store
        Option("tls.store.type"),
        Option("socket.idle.timeout", kind="int"),
        Option("journal.retention.hours", kind="int"),
        Option("worker.count", kind="int"),  # Siddhi's; one loop takes all connections here
    ),
    _open,
    _ingress,
    begins=lambda _source: "with the first message that it takes",
)
