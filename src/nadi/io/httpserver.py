"""An HTTP server in a thread of its own, for any ASGI application: the REST APIs are served by it.

server = HttpServer(application, "127.0.0.1", 9090)
server.start()
server.stop()       # takes no new connections, finishes what runs
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from nadi.errors import error

STOP_WITHIN = 15  # seconds that running requests have when the server stops
HEAD_WITHIN = 20.0  # seconds that the head of a request, or the first one of a connection, may take to come
CONNECTIONS = 2_000  # at a time; others hear 503
BACKLOG = 1024  # connections that the system keeps until they are taken

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class _Bounded(H11Protocol):
    """Gives the head of a request a time: uvicorn itself waits for ever for one that does not come, or not as a whole."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._late = self.loop.call_later(HEAD_WITHIN, self._expire)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        self._settle()
        super().connection_lost(exc)

    def _look(self) -> None:
        """A head is waited for unless a request is under way; time that has begun goes on."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._settle()
        elif self._late is None and not self.transport.is_closing():
            self._late = self.loop.call_later(HEAD_WITHIN, self._expire)

    def _settle(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _expire(self) -> None:
        self._late = None
        if self.transport.get_protocol() is self:  # a WebSocket has another one
            self.transport.abort()


class _Uvicorn(uvicorn.Server):
    """Sleeps until there is a request or the end; uvicorn's own loop looks ten times a second whether it is to end."""

    _ended: asyncio.Event | None = None
    _loop: asyncio.AbstractEventLoop

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.settled = threading.Event()  # it listens, or never will

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.settled.set()

    async def main_loop(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        if not self.should_exit:
            await self._ended.wait()

    def end(self) -> None:
        """Take no new connections and end. From any thread."""
        self.should_exit = True
        if self._ended is not None:
            self._loop.call_soon_threadsafe(self._ended.set)


class HttpServer:
    """See the module's text. Port 0 is one that the system chooses when it starts."""

    def __init__(self, application: Application, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
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
        self._server = _Uvicorn(config)

    @property
    def port(self) -> int:
        """The port it listens on, or will."""
        port: int = self._where[1] if self._socket is None else self._socket.getsockname()[1]
        return port

    def start(self) -> None:
        """Listen, where it does not yet. Errors: SERVER_NOT_STARTED."""
        if self._socket is not None:
            return
        host, port = self._where
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._socket = socket.create_server((host, port), family=family, backlog=BACKLOG)
        except OSError as reason:
            raise error("SERVER_NOT_STARTED", server=f"the http server on {host}:{port}", reason=reason) from reason
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
        try:
            self._server.run([self._socket])
        except (Exception, SystemExit) as reason:  # uvicorn ends the process where it cannot listen
            self._reason = repr(reason)
        finally:
            self._server.settled.set()
