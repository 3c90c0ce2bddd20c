"""A server, in a thread of its own, for messages that are posted: small, bounded, and with next to nothing between the socket and who takes the message.

`nadi.io.httpserver` serves applications; this one serves sources, where a request is a message and an answer has one line.

server = PostServer("127.0.0.1", 8006, Limits(), largest=7_000_000)
server.endpoints["/orders"] = endpoint
server.start()
server.stop()       # takes no new connections, finishes what runs
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable

from nadi.errors import error
from nadi.io.listeners import Limits, listening_socket
from nadi.io.postanswer import FULL, Answer, rendered
from nadi.io.postconnection import Connection, Endpoint, Exchange

STOP_WITHIN = 15.0  # seconds that running requests have when the server stops
HANDSHAKE_WITHIN = 10.0  # seconds
TURNS = 5  # of the loop, in which what was cut off is closed
BACKLOG = 4096  # connections that the system keeps until they are taken
AT_ONCE = 64  # of them, between two looks at those that are there
PAUSE = 1.0  # seconds
LAST_WORDS = 1.0  # seconds that those have for a request who came just before the end


class PostServer:
    """See the module's text. Port 0 is one that the system chooses when it starts."""

    def __init__(self, host: str, port: int, limits: Limits, largest: int, tls: ssl.SSLContext | None = None) -> None:
        self.endpoints: dict[str, Endpoint] = {}
        self.limits = limits
        self.waiting = 0
        self.ending = False
        self.quiet = 0  # ms that may pass between two requests, of the most patient endpoint; 0: none has said
        self._where = (host, port)
        self._largest = largest
        self._tls = tls
        self._most = limits.make_room()
        self._connections: set[Connection] = set()
        self._greetings: set[asyncio.Task[None]] = set()
        self._socket: socket.socket | None = None
        self._empty: asyncio.Event
        self._ended: asyncio.Event
        self._loop: asyncio.AbstractEventLoop
        self._settled = threading.Event()

    @property
    def port(self) -> int:
        """The port it listens on, or will."""
        return self._where[1]

    def start(self) -> None:
        """Listen, where it does not yet. Errors: SERVER_NOT_STARTED."""
        if self._socket is not None:
            return
        listening = listening_socket(*self._where, BACKLOG)
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        try:
            self._runner.get_loop()  # here, so that who starts the server hears where there is none to be had
        except OSError as reason:
            listening.close()
            where = f"the http server on {self._where[0]}:{self._where[1]}"
            raise error("SERVER_NOT_STARTED", server=where, reason=reason) from reason
        self._socket = listening
        self._where = (self._where[0], listening.getsockname()[1])
        self._thread = threading.Thread(target=self._run, name=f"posts-{self.port}", daemon=True)
        self._thread.start()
        self._settled.wait()

    def stop(self) -> None:
        """Take no new connections, finish what runs."""
        if self._socket is None:
            return
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    def call(self, told: Callable[..., object], *given: object) -> None:
        """Have something called in the loop. From any thread; nothing happens where the loop has ended: its clients have gone."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(told, *given)

    def soon(self, told: Callable[[], object]) -> None:
        """Have something called after what the loop is about. In the loop only."""
        self._loop.call_soon(told)

    def answer(self, exchanges: Iterable[tuple[Exchange, Answer]]) -> None:
        """Answer requests, in the loop."""
        told: dict[Connection, None] = {}
        for exchange, answer in exchanges:
            self.waiting -= exchange.size
            exchange.answer, exchange.body = answer, b""
            if exchange.connection is not None:
                told[exchange.connection] = None
        for connection in told:
            connection.flush()

    # ---- for connections

    def closed(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if self.ending and not self._connections:
            self._empty.set()

    def endpoint(self, path: str) -> Endpoint | None:
        return self.endpoints.get(path)

    def idle(self) -> float:
        """Seconds that may pass between two requests of a connection."""
        return LAST_WORDS if self.ending else (self.quiet or self.limits.idle) / 1000

    # ---- its thread

    def _run(self) -> None:
        with self._runner:
            self._runner.run(self._serve())

    async def _serve(self) -> None:
        assert self._socket is not None
        self._loop, self._ended, self._empty = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        self._socket.setblocking(False)
        self._listen()
        self._settled.set()
        await self._ended.wait()
        self.ending = True
        self._loop.remove_reader(self._socket)
        for connection in tuple(self._connections):
            connection.end()
        self._accept()
        self._socket.close()
        await asyncio.sleep(0)  # a task that is cancelled before it has begun would leave its socket open
        if self._tls is not None:  # without it they are there in a moment
            for greeting in tuple(self._greetings):
                greeting.cancel()
        await self._emptied()
        for connection in tuple(self._connections):
            connection.abort()
        for _ in range(TURNS):
            await asyncio.sleep(0)

    async def _emptied(self) -> None:
        """Wait until all connections have ended, but not for ever."""
        if self._connections:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_WITHIN):
                    await self._empty.wait()

    def _listen(self) -> None:
        assert self._socket is not None
        if not self.ending:
            self._loop.add_reader(self._socket, self._accept)

    def _accept(self) -> None:
        """Take what has come. Connections are counted from here on: one that is slow to agree on TLS is one, too."""
        assert self._socket is not None
        for _ in range(AT_ONCE):
            try:
                taken, _address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # the process has no file left: somebody has to go first
                self._loop.remove_reader(self._socket)
                self._loop.call_later(PAUSE, self._listen)
                return
            taken.setblocking(False)
            if len(self._connections) >= self._most:
                self._turn_away(taken)
                continue
            connection = Connection(self, self._largest)
            self._connections.add(connection)
            greeting = self._loop.create_task(self._greet(taken, connection))
            self._greetings.add(greeting)
            greeting.add_done_callback(self._greetings.discard)

    async def _greet(self, taken: socket.socket, connection: Connection) -> None:
        """Connect a socket."""
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection,
                taken,
                ssl=self._tls,
                ssl_handshake_timeout=None if self._tls is None else HANDSHAKE_WITHIN,
            )
        except (OSError, asyncio.CancelledError):  # ssl's errors and those of time are OSErrors: no TLS, or too slow
            self.closed(connection)
        else:
            if not connection.connected:  # it has gone in the middle of agreeing on TLS
                self.closed(connection)

    def _turn_away(self, taken: socket.socket) -> None:
        """Without TLS, with a word; it goes into the socket's buffer, or nowhere."""
        with taken, contextlib.suppress(OSError):
            if self._tls is None:
                taken.send(rendered(FULL, True, False, int(time.time())))
