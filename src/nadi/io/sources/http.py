"""`@source(type='http')`: a server that takes one message per POST, appends it to the journal, and only then says 202.

| answer | when |
|---|---|
| 202 | the message is on the disk; it will be processed |
| 400 | the mapper can make no event of it; nothing was kept; the body says why, as JSON |
| 401 404 405 413 | credentials, path, method, size (7 MB) |
| 503 | the journal is away or the source is stopping; `Retry-After` says when to come back |

A message that got 503 because the journal went away in the middle may have been kept all the same.

Sources with the same host and port share one server. Requests that arrive while an append is under way are checked and appended together. The
mapper runs only to check; the journal keeps the body as it came, with the headers that the mapping reads (`trp:name`).
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache
from urllib.parse import urlsplit

import numpy as np

from nadi.errors import NadiError, error
from nadi.io.contract import Connector, Ingress, Log, Messages, Place, SourceMapper
from nadi.io.httpserver import HttpServer, Receive, Scope, Send
from nadi.io.journal import EVENT_BYTES, Event, Journal, open_journal
from nadi.io.journallog import RETENTION_MS, open_journal_log
from nadi.io.options import Option, flag, integer
from nadi.io.registry import SourceKind, make_source_mapper
from nadi.io.sources.properties import transport_names

BATCH = 2_000  # requests checked in one go
DRAINED = 64 * 1024 * 1024  # a client that is still sending sees the answer only if what it sends is read
RETRY_AFTER = "1"


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    reason: str = ""
    headers: tuple[tuple[bytes, bytes], ...] = ()


ACCEPTED = Answer(202)
STOPPING = Answer(503, "the source is stopping", ((b"retry-after", RETRY_AFTER.encode()),))
TOO_LARGE = Answer(413, f"a message may have {EVENT_BYTES} bytes")


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int
    path: str


def address(connector: Connector, place: Place) -> Address:
    """Where a source listens: `receiver.url`, by default http://127.0.0.1:9763/<app>/<stream>. Errors: OPTION_INVALID, NOT_SUPPORTED."""
    url = connector.options.get("receiver.url", f"http://127.0.0.1:9763/{place.app}/{connector.stream}")
    parts = urlsplit(url)
    if parts.scheme == "https":
        raise error(
            "NOT_SUPPORTED", what="https sources", alternative="put a proxy that ends TLS in front of an http source"
        )
    try:
        port = 80 if parts.port is None else parts.port
    except ValueError:
        port = -1
    if parts.scheme != "http" or not parts.hostname or port < 0:
        where = f"@source of {connector.stream} (http)"
        raise error("OPTION_INVALID", where=where, name="receiver.url", value=url, wanted="http://host:port/path")
    return Address(parts.hostname, port, parts.path or "/")


@dataclass(slots=True)
class _Request:
    body: bytes
    properties: Mapping[str, str]
    answer: asyncio.Future[Answer]


class _Endpoint:
    """One source: checks bodies in batches and appends them. Used in the server's loop only."""

    def __init__(self, connector: Connector, journal: Journal, mapper: SourceMapper) -> None:
        self._ordinal = connector.ordinal
        self._journal = journal
        self._mapper = mapper
        self._kept = tuple((name.lower().encode(), name) for name in transport_names(connector))
        self._login = _login(connector.options)
        self._waiting: list[_Request] = []
        self._task: asyncio.Task[None] | None = None
        self.stopping = False

    async def handle(self, headers: Sequence[tuple[bytes, bytes]], receive: Receive) -> Answer:
        if self._login and not any(n == b"authorization" and hmac.compare_digest(v, self._login) for n, v in headers):
            return Answer(401, "credentials are needed", ((b"www-authenticate", b'Basic realm="nadi"'),))
        body = await _body(receive)
        if body is None:
            return TOO_LARGE
        if self.stopping:
            return STOPPING
        found = {text: v.decode("latin-1") for raw, text in self._kept for n, v in headers if n == raw}
        request = _Request(body, found, asyncio.get_running_loop().create_future())
        self._waiting.append(request)
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        return await request.answer

    async def _work(self) -> None:
        while self._waiting:
            taken, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
            try:
                await self._accept(taken)
            except Exception as reason:
                for request in taken:
                    if not request.answer.done():
                        request.answer.set_result(_answer(reason))
        self._task = None

    async def _accept(self, taken: Sequence[_Request]) -> None:
        now = int(time.time() * 1000)
        good: list[_Request] = []
        reasons = _check(self._mapper, taken, now)
        for i, request in enumerate(taken):
            if i in reasons:
                request.answer.set_result(Answer(400, reasons[i]))
            else:
                good.append(request)
        if not good:
            return
        events: list[Event] = [(now, r.body, r.properties) for r in good]
        await asyncio.wrap_future(self._journal.submit(self._ordinal, events))
        for request in good:
            if not request.answer.done():  # its client may have gone
                request.answer.set_result(ACCEPTED)


def _check(mapper: SourceMapper, taken: Sequence[_Request], now: int) -> dict[int, str]:
    """Why no events can be made of a request, by its index."""
    count = len(taken)
    properties = [r.properties for r in taken] if any(r.properties for r in taken) else ()
    messages = Messages(
        np.arange(count, dtype=np.int64), np.full(count, now, np.int64), [r.body for r in taken], properties=properties
    )
    return {f.position: f.reason for f in reversed(mapper.decode(messages).failures)}


def _answer(reason: Exception) -> Answer:
    if not isinstance(reason, NadiError):
        return Answer(500, f"{type(reason).__name__}: {reason}")
    if reason.condition == "MESSAGE_TOO_LARGE":
        return TOO_LARGE
    return Answer(503, reason.diagnostic.message, STOPPING.headers)


async def _body(receive: Receive) -> bytes | None:
    """The whole body; None where it is too large."""
    event = await receive()
    body: bytes = event.get("body", b"")
    parts, size = [body], len(body)
    while event.get("more_body"):
        event = await receive()
        part: bytes = event.get("body", b"")
        size += len(part)
        if size <= EVENT_BYTES:
            parts.append(part)
        elif size > DRAINED:
            return None
    if size > EVENT_BYTES:
        return None
    return body if len(parts) == 1 else b"".join(parts)


@lru_cache(maxsize=1)
def _date(second: int) -> bytes:
    return formatdate(second, usegmt=True).encode()


def _login(options: Mapping[str, str]) -> bytes:
    """The value of the header `Authorization` that is asked for, b"" for none."""
    if not flag(options, "basic.auth.enabled", False):
        return b""
    pair = f"{options.get('basic.auth.username', '')}:{options.get('basic.auth.password', '')}"
    return b"Basic " + base64.b64encode(pair.encode())


class _Server:
    """One listening socket and the sources behind it, by path."""

    def __init__(self, host: str, port: int) -> None:
        self.endpoints: dict[str, _Endpoint] = {}
        self._server = HttpServer(self._app, host, port)

    @property
    def port(self) -> int:
        """The port it listens on, or will."""
        return self._server.port

    def start(self) -> None:
        """Listen, where it does not yet. Errors: SERVER_NOT_STARTED."""
        self._server.start()

    def stop(self) -> None:
        """Take no new connections, finish what runs."""
        self._server.stop()

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self.endpoints.get(scope["path"])
        if endpoint is None:
            answer = Answer(404, f"there is no source at {scope['path']}")
        elif scope["method"] != "POST":
            answer = Answer(405, "messages come as POST", ((b"allow", b"POST"),))
        else:
            answer = await endpoint.handle(scope["headers"], receive)
        body = json.dumps({"error": answer.reason}).encode() if answer.reason else b""
        headers = [(b"date", _date(int(time.time()))), (b"content-length", str(len(body)).encode()), *answer.headers]
        if body:
            headers.append((b"content-type", b"application/json"))
        if answer.status == 413:
            headers.append((b"connection", b"close"))  # the rest of the body is not read
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


_SERVERS: dict[tuple[str, int], _Server] = {}
_LOCK = threading.Lock()


class HttpIngress:
    """The ingress of one http source.

    Its path is known to the server of its port from when it is made until the last source of the port has stopped: a client that comes too early or too
    late hears that nobody takes its message now (503, or no answer), never that there is no such source (404), which would be final.
    """

    def __init__(self, connector: Connector, place: Place) -> None:
        self._address = address(connector, place)
        self._endpoint = _Endpoint(connector, open_journal(place.journal, place.app), make_source_mapper(connector))
        path = self._address.path
        with _LOCK:
            self._server = _SERVERS.setdefault(self._key, _Server(*self._key))
            taken = self._server.endpoints.get(path)
            if taken is not None and not taken.stopping:
                reason = f"another source has the path on port {self._server.port}"
                raise error("SERVER_NOT_STARTED", server=f"the http source {path}", reason=reason)
            self._server.endpoints[path] = self._endpoint

    @property
    def _key(self) -> tuple[str, int]:
        return self._address.host, self._address.port

    @property
    def url(self) -> str:
        """Where it listens; with the port that was chosen where the url's was 0."""
        host = "127.0.0.1" if self._address.host == "0.0.0.0" else self._address.host
        return f"http://{host}:{self._server.port}{self._address.path}"

    def start(self) -> None:
        with _LOCK:
            self._server.start()

    def stop(self) -> None:
        with _LOCK:
            self._endpoint.stopping = True
            if all(e.stopping for e in self._server.endpoints.values()) and _SERVERS.get(self._key) is self._server:
                _SERVERS.pop(self._key)
                self._server.stop()


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
        Option("journal.retention.hours", kind="int"),
        Option("worker.count", kind="int"),  # Siddhi's; one loop takes all connections here
        Option("socket.idle.timeout", kind="int"),  # Siddhi's; without effect
    ),
    _open,
    _ingress,
    begins=lambda _source: "with the first message that it takes",
)
