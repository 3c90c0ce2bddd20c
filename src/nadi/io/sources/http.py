"""`@source(type='http')`: a server that takes one message per POST, appends it to the journal, and only then says 202.

| answer | when |
|---|---|
| 202 | the message is on the disk; it will be processed |
| 400 | the mapper can make no event of it, or it is no HTTP; nothing was kept; the body says why, as JSON |
| 401 404 405 413 415 | credentials, path, method, size (7 MB), a Content-Encoding |
| 408 431 501 | it did not come in time, its head is too long, a Transfer-Encoding other than chunked |
| 422 | its `Idempotency-Key` was given to another message before |
| 503 | the journal is away, the source is stopping, too much waits, or the app is too far behind; `Retry-After` says when to come back |

A message that got 503 because the journal went away in the middle may have been kept all the same: a client that gives it an `Idempotency-Key` sends it again,
and it counts once (`nadi.io.journalseen`). Sources with the same host and port share one server.
"""

from __future__ import annotations

import ssl
import threading
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

from nadi.errors import NadiError, Span, error, placed
from nadi.io.contract import Connector, Ingress, Log, Place
from nadi.io.journal import EVENT_BYTES, open_journal, required
from nadi.io.journallog import RETENTION_MS, open_journal_log
from nadi.io.journalseen import Rules, remember
from nadi.io.listeners import Limits, Listening
from nadi.io.namedfiles import check_named
from nadi.io.natsclient import shared
from nadi.io.postserver import PostServer
from nadi.io.reach import Reached
from nadi.io.refused import note
from nadi.io.registry import SourceKind, make_source_mapper
from nadi.io.seen import Bounds
from nadi.io.sources.http_endpoint import HttpEndpoint, login
from nadi.io.tls import KeyStore
from nadi.plan.connectortraits import Divided, ListensAt, SourceTraits
from nadi.plan.options import HOURS, Option, integer

LISTENS = ListensAt("receiver.url", "http://127.0.0.1:9763/{app}/{stream}")

MISSED = 60_000  # ms after which a number of a producer is missing, though a later one has come


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
    url = connector.options.get(LISTENS.option, LISTENS.at(place.app, connector.stream))
    try:
        parts = urlsplit(url)
        secure = parts.scheme == "https"
        port = (443 if secure else 80) if parts.port is None else parts.port
        host = parts.hostname if parts.scheme in ("http", "https") else None
    except ValueError:  # no port, or no address in [brackets]
        host = None
    if not host:
        raise _invalid(connector, LISTENS.option, url, "http://host:port/path or https://host:port/path")
    return Address(host, port, unquote(parts.path) or "/", secure, _store(connector) if secure else None)


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


def _idle(connector: Connector, usual: int) -> int:
    """How long clients may be silent, ms. Errors: OPTION_INVALID."""
    name = "socket.idle.timeout"
    idle = integer(connector.options, name, usual)
    if idle <= 0:
        raise _invalid(connector, name, str(idle), "a number of ms above 0")
    return idle


def _bounds(connector: Connector) -> Bounds | None:
    """What is remembered of marked messages, None where the source does not look at marks. Errors: OPTION_INVALID."""
    hours = integer(connector.options, "idempotency.hours", 24)
    keys = integer(connector.options, "idempotency.keys", Bounds().keys)
    if hours < 0:
        raise _invalid(connector, "idempotency.hours", str(hours), "a number of hours; 0: keys are not looked at")
    if keys <= 0:
        raise _invalid(connector, "idempotency.keys", str(keys), "a number of keys above 0")
    return Bounds(hours * 3_600_000, keys) if hours else None


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
            check_named(_where(connector), "https.keystore.file", str(self._address.store.file), place.reach.files)
        journal = open_journal(place.journal, place.identity, place.listening.limits.behind)
        mapper = make_source_mapper(connector)
        login(connector)
        idle = _idle(connector, place.listening.limits.idle)
        bounds = _bounds(connector)
        if bounds is not None:
            rules = Rules(f"http source of {connector.stream}", bounds, MISSED)
            remember(journal, shared(required(place.journal)), connector.ordinal, rules)
        with _LOCK:
            self._shared = _server_of(self._address, place.listening)
            server, refused = self._shared.server, partial(note, place.state)
            self._endpoint = HttpEndpoint(connector, journal, mapper, server, bounds is not None, refused)
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
    return open_journal_log(place.journal, place.identity, connector.ordinal, hours * 3_600_000)


def _ingress(connector: Connector, place: Place) -> Ingress:
    return HttpIngress(connector, place)


def _check_address(connector: Connector, _span: Span) -> None:
    address(connector, Place("", Path()))


def _check_login(connector: Connector, _span: Span) -> None:
    login(connector)


def _check_idle(connector: Connector, _span: Span) -> None:
    _idle(connector, Limits().idle)


def _check_bounds(connector: Connector, _span: Span) -> None:
    _bounds(connector)


def _reaches(connector: Connector) -> tuple[Reached, ...]:
    found = address(connector, Place("", Path())).store
    return () if found is None else (Reached("https.keystore.file", named=str(found.file)),)


def _read(connector: Connector) -> None:
    """Look into the key store. Errors: CERTIFICATE_UNUSABLE, KEY_STORE_OF_JAVA."""
    store = address(connector, Place("", Path())).store
    try:
        if store is not None:
            store.context()
    except NadiError as reason:
        raise placed(reason, connector.place("https.keystore.file")) from None


KIND = SourceKind(
    (
        Option(LISTENS.option, default=LISTENS.url, doc="where it listens; `http://127.0.0.1:9763/<app>/<stream>`"),
        Option("basic.auth.enabled", kind="bool", doc="`true`: ask for user and password"),
        Option("basic.auth.username", doc="the user", secret=True),
        Option(
            "basic.auth.password",
            doc="the password; keep it out of the text: `'${PASSWORD}'`, and `--env PASSWORD`",
            secret=True,
        ),
        Option(
            "https.keystore.file",
            doc=(
                "with `https://…`: a key store in PKCS#12 with the key and its certificates. Without it the "
                "source shows the certificate of its node"
            ),
        ),
        Option("https.keystore.password", doc="its password; take it from the environment", secret=True),
        Option(
            "https.cert.password",
            doc=(
                "Siddhi's, for a key with a password of its own, which PKCS#12 does not have; nadi takes it "
                "in place of a missing `https.keystore.password`"
            ),
            secret=True,
        ),
        Option("tls.store.type", doc="`PKCS12` only"),
        Option(
            "socket.idle.timeout",
            kind="int",
            doc=(
                "how long a connection may say nothing between two requests, ms; 120000. Of the sources of a "
                "port the longest counts"
            ),
        ),
        Option(
            "journal.retention.hours",
            kind="int",
            least=0,
            most=HOURS,
            doc=(
                "how long the journal keeps what is processed; 24. What [revisions "
                "need](revisions.md#how-long-inputs-must-keep-messages) stays longer"
            ),
            default="24",
        ),
        Option(
            "idempotency.hours",
            kind="int",
            least=0,
            most=HOURS,
            doc=(
                "how long a [key](#messages-that-are-sent-again) is remembered; 24. With `0` the source does "
                "not look at keys and producers"
            ),
            default="24",
        ),
        Option("idempotency.keys", kind="int", doc="how many keys are remembered at most; 1000000"),
        Option("worker.count", kind="int", doc="Siddhi's, without effect: one loop serves all connections"),
    ),
    _open,
    _ingress,
    begins=lambda _source: "with the first message that it takes",
    checks=(_check_address, _check_login, _check_idle, _check_bounds),
    address=address,
    reaches=_reaches,
    reads=_read,
    traits=SourceTraits(
        endless=True,
        divided=Divided.SENT,
        centres=False,
        owned=True,
        listens=LISTENS,
        journal=True,
        parted=False,
        local=False,
        header=False,
        topics=None,
        moved="",
    ),
    loops=(),
)
