"""An HTTP server in a thread of its own, for any ASGI application: the REST APIs are served by it.

server = HttpServer(application, "127.0.0.1", 9090)
server.start()
server.stop()       # takes no new connections, finishes what runs
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from functools import partial
from typing import Any

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from nadi.errors import error
from nadi.framestack import with_room
from nadi.io.listeners import listening_socket

STOP_WITHIN = 15  # seconds that running requests have when the server stops
HEAD_WITHIN = 20.0  # seconds that the head of a request, or the first one of a connection, may take to come
WRITE_WITHIN = 30.0  # seconds that a client may take to read what it was answered
HANDSHAKE_WITHIN = 10.0  # seconds for TLS, when a connection begins and when it ends
HEAD = 64 * 1024  # bytes that the head of a request may have, about: the parser has no bound itself
CONNECTIONS = 2_000  # at a time; others hear 503
BACKLOG = 1024  # connections that the system keeps until they are taken
TURNS = 4  # of the loop: one that was accepted is known, one that was closed is gone

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class _Bounded(HttpToolsProtocol):
    """Gives the head of a request a time and a size: uvicorn itself waits for ever for one that does not come, or not as a whole, and takes all of it.

    Gives a client a time to read its answers, too, also where the connection is to be closed behind them. The parser takes nothing that others could read in
    another way: of what else there is, it is told here.
    """

    _late: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _in_head = False
    _head = 0  # bytes that have come of a head that is not whole

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.parser = httptools.HttpRequestParser(self)  # without the leniency that uvicorn asks it for
        # to be told of bytes that wait, and not of 64 KB; 0 would be reached by none, over TLS
        transport.set_write_buffer_limits(high=1, low=0)
        self._late = self.loop.call_later(HEAD_WITHIN, self._expire)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._head = self._head + len(data) if self._in_head else 0
        if self._head > HEAD and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")
        self._look()

    def on_message_begin(self) -> None:
        self._in_head = True
        super().on_message_begin()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(WRITE_WITHIN, self.transport.abort)

    def resume_writing(self) -> None:
        self._read_all()
        super().resume_writing()

    def on_headers_complete(self) -> None:
        self._in_head = False  # what comes now is a body, also where it has been answered already
        if doubt := _doubtful(self.headers, self.parser.get_http_version()):
            raise httptools.HttpParserError(doubt)
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        self._settle()
        self._read_all()
        super().connection_lost(exc)

    def _read_all(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _look(self) -> None:
        """Time that has begun goes on."""
        if not self._is_awaited():
            self._settle()
        elif self._late is None and not self.transport.is_closing():
            self._late = self.loop.call_later(HEAD_WITHIN, self._expire)

    def _is_awaited(self) -> bool:
        """A head is waited for unless a request is under way."""
        return self.cycle is None or self.cycle.response_complete

    def _settle(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _expire(self) -> None:
        self._late = None
        if self.transport.get_protocol() is self:  # a WebSocket has another one
            self.transport.abort()


def _doubtful(headers: Sequence[tuple[bytes, bytes]], version: str) -> str:
    """What servers before this one could read in another way, "" where there is nothing: where a body ends, and whom a request is for.

    >>> _doubtful([(b"host", b"a")], "1.1"), _doubtful([(b"host", b"a"), (b"host", b"b")], "1.1")
    ('', 'more than one Host')
    >>> _doubtful([(b"transfer-encoding", b"gzip, chunked"), (b"host", b"a")], "1.1")
    'a Transfer-Encoding other than chunked'
    """
    hosts = sum(name == b"host" for name, _value in headers)
    codings = [value.strip().lower() for name, value in headers if name == b"transfer-encoding"]
    if hosts > 1:
        return "more than one Host"
    if not hosts and version == "1.1":
        return "no Host"
    if codings and version != "1.1":
        return "a Transfer-Encoding in HTTP/1.0"
    return "a Transfer-Encoding other than chunked" if codings not in ([], [b"chunked"]) else ""


class _Uvicorn(uvicorn.Server):
    """Sleeps until there is a request or the end; uvicorn's own loop looks ten times a second whether it is to end."""

    _ended: asyncio.Event | None = None
    _loop: asyncio.AbstractEventLoop

    def __init__(self, config: uvicorn.Config, ended: Callable[[], Awaitable[None]] | None) -> None:
        super().__init__(config)
        self._last = ended
        self.settled = threading.Event()  # it listens, or never will

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        loop = asyncio.get_running_loop()
        if self.config.is_ssl:  # uvicorn has no words for it; the loop is this server's own
            loop.create_server = partial(  # type: ignore[method-assign]
                loop.create_server, ssl_handshake_timeout=HANDSHAKE_WITHIN, ssl_shutdown_timeout=HANDSHAKE_WITHIN
            )
        await super().startup(sockets)
        self.settled.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            if await self._is_used(sockets or []):
                await super().shutdown(sockets)
        finally:
            if self._last is not None:
                await self._last()

    async def _is_used(self, sockets: list[socket.socket]) -> bool:
        """Whether a request is under way once nothing listens and idle connections are closed: uvicorn would wait for a tenth of a second to see."""
        for server in self.servers:
            server.close()
        for one in sockets:
            one.close()
        state = self.server_state
        for _ in range(TURNS):
            for connection in list(state.connections):
                connection.shutdown()
            await asyncio.sleep(0)
        return bool(state.connections or state.tasks)

    async def main_loop(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        if not self.should_exit:
            await self._ended.wait()

    def end(self) -> None:
        """Take no new connections and end. From any thread."""
        self.should_exit = True
        if self._ended is not None:
            with contextlib.suppress(RuntimeError):  # its loop has ended by itself
                self._loop.call_soon_threadsafe(self._ended.set)


class HttpServer:
    """See the module's text. Port 0 is one that the system chooses when it starts. `ended` is awaited in its loop, after the last request."""

    def __init__(
        self,
        application: Application,
        host: str,
        port: int,
        tls: ssl.SSLContext | None = None,
        ended: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._where = (host, port)
        self._socket: socket.socket | None = None
        self._reason = "its thread ended"
        config = uvicorn.Config(
            application,
            http=_Bounded,
            log_config=None,
            access_log=False,
            interface="asgi3",
            proxy_headers=False,
            lifespan="off",
            ws="none",
            server_header=False,
            date_header=False,  # uvicorn's own is kept up by its loop
            timeout_graceful_shutdown=STOP_WITHIN,
            limit_concurrency=CONNECTIONS,
            ssl_context_factory=None if tls is None else lambda _config, _default: tls,
        )
        self._server = _Uvicorn(config, ended)

    @property
    def port(self) -> int:
        """The port it listens on, or will."""
        port: int = self._where[1] if self._socket is None else self._socket.getsockname()[1]
        return port

    def start(self) -> None:
        """Listen, where it does not yet. Errors: SERVER_NOT_STARTED."""
        if self._socket is not None:
            return
        self._socket = listening_socket(*self._where, BACKLOG)
        self._thread = threading.Thread(target=self._serve, name=f"http-{self.port}", daemon=True)
        self._thread.start()
        self._server.settled.wait()
        if not self._server.started:
            self._socket.close()
            raise error("SERVER_NOT_STARTED", server=f"the http server on port {self.port}", reason=self._reason)

    def stop(self) -> None:
        """Take no new connections, finish what runs."""
        if self._socket is None:
            return
        self._server.end()
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        assert self._socket is not None
        sockets = [self._socket]
        try:
            with_room(lambda: self._server.run(sockets))
        except (Exception, SystemExit) as reason:  # uvicorn ends the process where it cannot listen
            self._reason = repr(reason)
        finally:
            self._server.settled.set()
