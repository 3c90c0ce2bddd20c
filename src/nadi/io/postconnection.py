"""A connection of a client that posts messages: HTTP/1.1 is read, bounded in bytes and time, and answered in the order of the requests.

What is not over in time, or is no HTTP, ends the connection. A request that is refused before its body has come is answered at once where the body is large;
what the client goes on sending is then read and forgotten for a while, since a client that is still sending sees no answer on a connection that was cut.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Protocol
from urllib.parse import unquote

import httptools

from nadi.io.listeners import Limits
from nadi.io.postanswer import (
    BUSY,
    ENCODED,
    FAILED,
    HEAD_BYTES,
    LATE,
    NO_HOST,
    NOT_CHUNKED,
    NOT_POST,
    TOO_LONG,
    Answer,
    Header,
    rendered,
    too_large,
)

FORGOTTEN = 1024 * 1024  # bytes of a refused body that are read before the answer; of a larger one, after it
LINGER = 30.0  # seconds that a client may go on sending after it was refused
OVERHEAD = 512  # bytes that a request takes beside its body, about
PIPELINED = 128  # requests of a connection that are not answered yet; then no more is read


class Exchange:
    """A request, and its answer once there is one. `connection` is None when the client has gone."""

    __slots__ = ("answer", "body", "closes", "connection", "headless", "properties", "size")

    def __init__(self, connection: Connection, closes: bool, bodiless: bool) -> None:
        self.connection: Connection | None = connection
        self.closes = closes
        self.headless = bodiless
        self.body = b""
        self.properties: Mapping[str, str] = {}
        self.size = OVERHEAD
        self.answer: Answer | None = None


class Endpoint(Protocol):
    """Who takes the messages of a path. Called in the server's loop only, and never waits."""

    def refusal(self, headers: Sequence[Header]) -> Answer | None:
        """Why no message with such headers is taken, None where one is."""
        ...

    def take(self, exchange: Exchange, headers: Sequence[Header]) -> None:
        """Take a message. The answer is given later, by `PostServer.answer`."""
        ...


class Owner(Protocol):
    """What a connection needs of its server."""

    limits: Limits
    waiting: int
    """Bytes that have come and are not answered yet."""
    ending: bool

    def closed(self, connection: Connection) -> None: ...
    def endpoint(self, path: str) -> Endpoint | None: ...
    def idle(self) -> float: ...


class _Phase(Enum):
    NEW = "before it is connected"
    IDLE = "between two requests"
    HEAD = "the head of a request"
    BODY = "the body of a request"
    REFUSED = "after a request that was refused while it came"
    OVER = "the end"


class Connection(asyncio.Protocol):
    """See the module's text."""

    __slots__ = (
        "_closing",
        "_deadline",
        "_endpoint",
        "_exchange",
        "_exchanges",
        "_fresh",
        "_headers",
        "_held",
        "_largest",
        "_loop",
        "_owner",
        "_parser",
        "_parts",
        "_paused",
        "_phase",
        "_refusal",
        "_size",
        "_stalled",
        "_timer",
        "_transport",
        "_upgrading",
        "_url",
        "_watched",
        "_writable",
    )

    def __init__(self, owner: Owner, largest: int) -> None:
        self._owner = owner
        self._largest = largest
        self._loop = asyncio.get_running_loop()
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._exchanges: deque[Exchange] = deque()
        self._phase = self._watched = _Phase.NEW
        self._deadline = 0.0  # 0: none
        self._timer: asyncio.TimerHandle | None = None
        self._stalled = 0  # bytes that have come since the last progress
        self._closing = self._paused = False
        self._fresh = True  # nothing has come yet
        self._transport: asyncio.Transport  # from when it is connected
        self._writable = True
        self._held = 0  # bytes of a body that is coming, as far as they are kept
        self._forget()

    def _forget(self) -> None:
        """Begin with the next request."""
        self._url = b""
        self._headers: list[Header] = []
        self._exchange: Exchange | None = None
        self._endpoint: Endpoint | None = None
        self._refusal: Answer | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._upgrading = False

    # ---- what the transport tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._phase = self._watched = _Phase.IDLE
        self._wait_until(self._owner.idle())

    def data_received(self, data: bytes) -> None:
        if self._closing or self._parser is None:
            return  # it is read, and forgotten
        self._stalled += len(data)
        self._fresh = False
        try:
            while data and not self._closing:
                data = self._feed(data)
        except httptools.HttpParserCallbackError:
            self._refuse(FAILED)
            raise
        except httptools.HttpParserError as reason:
            self._refuse(Answer(400, f"this is no HTTP: {reason}"))
        if self._stalled > HEAD_BYTES and self._phase in (_Phase.HEAD, _Phase.BODY) and not self._closing:
            self._refuse(TOO_LONG)
        if self._phase is not self._watched or self._phase is _Phase.IDLE:
            self._watch()
        if len(self._exchanges) > PIPELINED:
            self._pause()

    def _feed(self, data: bytes) -> bytes:
        """Read requests; -> what is to be read again."""
        assert self._parser is not None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as reason:
            rest = data[reason.args[0] :]
            if not self._upgrading:
                self._end(_Phase.OVER)  # a tunnel was asked for: what comes is no request
                return b""
            # Another protocol is offered, and declined: the request goes on in this one. The parser would not read its body.
            head = [b"%s %s HTTP/1.1" % (self._parser.get_method(), self._url)]
            head += [b"%s: %s" % (name, value) for name, value in self._headers if name != b"upgrade"]
            self._parser = httptools.HttpRequestParser(self)
            self._forget()
            return b"\r\n".join([*head, b"", b""]) + rest
        return b""

    def eof_received(self) -> bool:
        if self._exchanges and self._transport.can_write_eof():
            self._closing = True  # it may still read the answers
            return True
        return False

    def pause_writing(self) -> None:
        """It does not read its answers."""
        self._writable = False
        self._pause()
        self._wait_until(self._owner.idle())

    def resume_writing(self) -> None:
        self._writable = True
        self._watch()
        self._resume()

    def connection_lost(self, reason: Exception | None) -> None:
        self._release()
        for exchange in self._exchanges:
            exchange.connection = None
        self._exchanges.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._parser = self._timer = None  # it holds this connection
        self._owner.closed(self)

    # ---- what the parser tells

    def on_message_begin(self) -> None:
        if not self._closing:
            self._phase = _Phase.HEAD

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._phase is _Phase.HEAD:  # after the body there may be more
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        if self._closing:
            return
        self._stalled = 0
        self._phase = _Phase.BODY
        method = self._parser.get_method()
        self._upgrading = self._parser.should_upgrade() and method != b"CONNECT"
        if self._upgrading:
            return
        self._exchange = Exchange(self, not self._parser.should_keep_alive(), method == b"HEAD")
        found = dict(self._headers)
        self._refusal = self._refused(method, found)
        if self._refusal is None:
            if found.get(b"expect", b"").lower() == b"100-continue" and not self._exchanges:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        elif _length(found) > FORGOTTEN:
            self._refuse(self._refusal)

    def on_body(self, part: bytes) -> None:
        if self._closing:
            return
        self._stalled = 0
        self._size += len(part)
        if self._refusal is None:
            self._held += len(part)
            self._owner.waiting += len(part)
            self._parts.append(part)
            if self._size > self._largest:
                self._refusal = too_large(self._largest)
            elif self._owner.waiting > self._owner.limits.waiting:
                self._refusal = BUSY
        if self._refusal is not None:
            self._parts.clear()
            self._release()
            if self._size > FORGOTTEN:
                self._refuse(self._refusal)

    def on_message_complete(self) -> None:
        exchange, endpoint, refusal = self._exchange, self._endpoint, self._refusal
        if exchange is None or self._closing:
            return
        self._stalled = 0
        self._phase = _Phase.IDLE
        self._exchanges.append(exchange)
        if refusal is None and endpoint is not None:
            exchange.body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            exchange.size = self._held + OVERHEAD
            self._owner.waiting += OVERHEAD
            self._held = 0  # it is the exchange's now
            headers = self._headers
            self._forget()
            endpoint.take(exchange, headers)
            return
        exchange.answer = refusal
        self._forget()
        self.flush()

    def _refused(self, method: bytes, headers: Mapping[bytes, bytes]) -> Answer | None:
        """Why a request with this head is not taken."""
        assert self._parser is not None
        if b"host" not in headers and self._parser.get_http_version() == "1.1":
            return NO_HOST
        path = path_of(self._url)
        self._endpoint = self._owner.endpoint(path)
        if self._endpoint is None:
            return Answer(404, f"there is no source at {path}")
        if method != b"POST":
            return NOT_POST
        if b"transfer-encoding" in headers and self._says_more(b"transfer-encoding", b"chunked"):
            return NOT_CHUNKED
        if b"content-encoding" in headers and self._says_more(b"content-encoding", b"identity"):
            return ENCODED
        refusal = self._endpoint.refusal(self._headers)
        if refusal is None and _length(headers) > self._largest:
            return too_large(self._largest)
        if refusal is None and self._owner.waiting + OVERHEAD > self._owner.limits.waiting:
            return BUSY
        return refusal

    def _says_more(self, name: bytes, known: bytes) -> bool:
        """Whether a header that may be there several times has another value than the known one."""
        return any(n == name and v.strip().lower() != known for n, v in self._headers)

    def _release(self) -> None:
        """The body that is coming is not kept."""
        self._owner.waiting -= self._held
        self._held = 0

    # ---- answers

    def flush(self) -> None:
        """Send the answers that are there, in the order of the requests."""
        if self._parser is None or not self._exchanges:
            return
        second = int(time.time())
        out = []
        while self._exchanges and (answer := self._exchanges[0].answer) is not None:
            exchange = self._exchanges.popleft()
            last = exchange.closes or (self._owner.ending and not self._exchanges and self._phase is _Phase.IDLE)
            out.append(rendered(answer, last, exchange.headless, second))
            if last:
                self._closing = True
                for late in self._exchanges:  # they come after the end
                    late.connection = None
                self._exchanges.clear()
        if out:
            self._transport.write(b"".join(out))
        if self._exchanges:
            return
        if self._closing:
            self._finish()
        elif self._phase is _Phase.IDLE:
            self._watch()
        self._resume()

    def end(self) -> None:
        """End as soon as what is under way is answered. Who has just come has some time for a request: it may be on its way already."""
        if self._exchanges or self._phase is not _Phase.IDLE:
            return
        if self._fresh:
            self._watch()
        else:
            self._transport.close()

    @property
    def connected(self) -> bool:
        """Whether it is, or was."""
        return self._phase is not _Phase.NEW

    def abort(self) -> None:
        """End now."""
        if self._phase is not _Phase.NEW:
            self._transport.abort()

    def _refuse(self, answer: Answer) -> None:
        """Answer the request that is coming, and read no further one."""
        exchange = self._exchange or Exchange(self, True, False)
        exchange.closes, exchange.answer = True, answer
        self._exchanges.append(exchange)
        self._release()
        self._forget()
        self._end(_Phase.REFUSED)

    def _end(self, phase: _Phase) -> None:
        """Read no further request, and end when all before is answered."""
        self._closing = True
        self._phase, self._deadline = phase, 0.0
        if self._exchanges:
            self.flush()
        else:
            self._finish()

    def _finish(self) -> None:
        """All is answered. A client that is in the middle of a request goes on sending until it hears that there is an answer."""
        if self._phase is not _Phase.REFUSED:
            self._transport.close()
            return
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._wait_until(LINGER)

    # ---- time

    def _watch(self) -> None:
        """Note until when what began has to be over."""
        self._watched = self._phase
        if self._phase is _Phase.HEAD:
            self._wait_until(self._owner.limits.head / 1000)
        elif self._phase is _Phase.BODY:
            self._wait_until(self._owner.limits.body / 1000)
        elif self._phase is _Phase.IDLE:
            if self._exchanges:
                self._deadline = 0.0  # it is the client that waits
            else:
                self._wait_until(self._owner.idle())

    def _wait_until(self, seconds: float) -> None:
        self._deadline = self._loop.time() + seconds
        if self._timer is None or self._timer.when() > self._deadline:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(self._deadline, self._rang)

    def _rang(self) -> None:
        self._timer = None
        if not self._deadline:
            return
        if self._deadline > self._loop.time():  # it was put off
            self._timer = self._loop.call_at(self._deadline, self._rang)
        elif self._phase in (_Phase.HEAD, _Phase.BODY) and not self._closing:
            self._refuse(LATE)
        else:
            self._transport.abort()

    def _pause(self) -> None:
        if not self._paused and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._paused and self._writable and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()


def path_of(url: bytes) -> str:
    """The path of a request's target.

    >>> path_of(b"/orders?x=1"), path_of(b"http://host:8006/a%20b"), path_of(b"*")
    ('/orders', '/a b', '*')
    """
    if not url.startswith(b"/"):
        _scheme, found, rest = url.partition(b"://")
        if found:
            url = b"/" + rest.partition(b"/")[2]
    path = url.partition(b"?")[0].decode("latin-1")
    return unquote(path) if "%" in path else path


def _length(headers: Mapping[bytes, bytes]) -> int:
    """How long a body says to be; the parser has checked that it is a number."""
    return int(headers.get(b"content-length", b"0"))
