"""An HTTP server in a thread of its own, for any ASGI application: the http source and the REST APIs are served by it.

server = HttpServer(application, "127.0.0.1", 9090)
server.start()
server.stop()       # takes no new connections, finishes what runs
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from nadi.errors import error

STOP_WITHIN = 15  # seconds that running requests have when the server stops
BACKLOG = 1024  # connections that the system keeps until they are taken

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Tls:
    """A certificate chain and its key, files in PEM."""

    certificate: Path
    key: Path


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

    def __init__(self, application: Application, host: str, port: int, tls: Tls | None = None) -> None:
        self._where = (host, port)
        self._socket: socket.socket | None = None
        self._reason = "its thread ended"
        config = uvicorn.Config(
            application,
            log_config=None,
            access_log=False,
            interface="asgi3",
            proxy_headers=False,
            lifespan="off",
            ws="none",
            server_header=False,
            date_header=False,  # uvicorn's own is kept up by its loop
            timeout_graceful_shutdown=STOP_WITHIN,
            ssl_certfile=None if tls is None else tls.certificate,
            ssl_keyfile=None if tls is None else str(tls.key),
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
        except (Exception, SystemExit) as reason:  # uvicorn ends the process where it cannot read a certificate
            self._reason = repr(reason)
        finally:
            self._server.settled.set()
