"""Asking the node's event sync, from any process of the node.

    blocking_replica(socket)     for threads that wait: one connection for all of a process
    replica_in_loop(socket)      for an event loop: one connection for each loop

Both give the same object again. A process that was forked makes a connection of its own. A connection is made when something is asked, and anew after a break.
Tickets of a connection that broke mean nothing any more: event sync has seen the end, too, and asks the service itself what became of their records.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from itertools import count
from pathlib import Path
from weakref import WeakKeyDictionary

from nadi.errors import NadiError, error
from nadi.replica.contract import Record
from nadi.replica.wire import HEAD, Kind, Misused, head, read_failure, read_head, record_body

BUFFER = 1024 * 1024  # bytes of a socket's buffer: a state of some MB goes over in a few turns
SMALL = 64 * 1024  # bytes that are copied rather than sent in two steps
_NUMBERS = count(1)  # of all connections of this process: a ticket of one is never taken for one of another


class BlockingReplica:
    """Implements `nadi.replica.contract.Replica` for threads. Of those that wait, one reads for all: no thread is made, so that processes may be forked."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()  # of what is below
        self._connection: _Connection | None = None

    def prepare(self, record: Record) -> int:
        body, number = record_body(record), next(_NUMBERS)
        connection = self._connected()
        connection.ask(number, body)
        return number

    def confirm(self, ticket: int) -> None:
        self._tell(Kind.CONFIRM, ticket)

    def abandon(self, ticket: int) -> None:
        self._tell(Kind.ABANDON, ticket)

    def close(self) -> None:
        """Let go of the connection."""
        if self._process != os.getpid():
            return
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _connected(self) -> _Connection:
        if self._process != os.getpid():
            self._begin()  # the connection is that of the process that was forked, and so is its lock
        with self._lock:
            if self._connection is None or self._connection.broken:
                self._connection = _Connection(_connect(self._path), self._path)
            return self._connection

    def _tell(self, kind: Kind, ticket: int) -> None:
        if self._process != os.getpid():
            return
        with self._lock:
            connection = self._connection
        if connection is not None and not connection.broken:
            connection.tell(kind, ticket)


class _Connection:
    """A connection that threads share."""

    def __init__(self, made: socket.socket, path: Path) -> None:
        self._socket = made
        self._path = path
        self._sending = threading.Lock()
        self._news = threading.Condition()  # of what is below
        self._answers: dict[int, NadiError | None] = {}
        self._is_read = False
        self.broken = False

    def ask(self, number: int, body: bytes) -> None:
        """Returns when the record is prepared. Errors: those of the answer; CONNECTION_UNAVAILABLE."""
        self._send(head(Kind.PREPARE, number, body), body)
        answer = self._answer(number)
        if answer is not None:
            raise answer

    def tell(self, kind: Kind, ticket: int) -> None:
        """Without an answer. If the connection breaks, event sync finds out by itself."""
        try:
            self._send(head(kind, ticket), b"")
        except NadiError:
            self.broken = True

    def close(self) -> None:
        """Whoever waits gets CONNECTION_UNAVAILABLE."""
        self.broken = True
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            self._socket.close()  # it was not connected any more
            return
        self._socket.close()

    def _send(self, start: bytes, body: bytes) -> None:
        try:
            with self._sending:
                sent = self._socket.sendmsg([start, body])
                if sent < len(start) + len(body):
                    rest = memoryview(start + body if sent < len(start) else body)
                    self._socket.sendall(rest[sent if sent < len(start) else sent - len(start) :])
        except OSError as reason:
            self.close()
            raise _away(self._path, reason) from reason

    def _answer(self, number: int) -> NadiError | None:
        with self._news:
            while number not in self._answers:
                if self.broken:
                    raise _away(self._path, "the connection broke")
                if self._is_read:
                    self._news.wait()
                else:
                    self._read_one()
            return self._answers.pop(number)

    def _read_one(self) -> None:
        """Called and left with the lock, which others have meanwhile."""
        self._is_read = True
        self._news.release()
        found, failed = None, True
        try:
            found = self._receive()
            failed = False
        except (OSError, Misused):
            self.close()
        finally:
            self._news.acquire()
            self._is_read = False
            if found is not None:
                self._answers[found[0]] = found[1]
            self.broken = self.broken or failed
            self._news.notify_all()

    def _receive(self) -> tuple[int, NadiError | None]:
        length, kind, number = read_head(self._exactly(HEAD.size))
        body = self._exactly(length)
        return number, _answer_of(kind, body)

    def _exactly(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            part = self._socket.recv(length - len(data))
            if not part:
                raise ConnectionError("the other end closed it")
            data += part
        return bytes(data)


class LoopReplica:
    """The same as `BlockingReplica`, for one event loop; `prepare` is awaited."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._making = asyncio.Lock()
        self._connection: _LoopConnection | None = None

    async def prepare(self, record: Record) -> int:
        body, number = record_body(record), next(_NUMBERS)
        connection = await self._connected()
        await connection.ask(number, body)
        return number

    def confirm(self, ticket: int) -> None:
        self._tell(Kind.CONFIRM, ticket)

    def abandon(self, ticket: int) -> None:
        self._tell(Kind.ABANDON, ticket)

    async def close(self) -> None:
        """Let go of the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _connected(self) -> _LoopConnection:
        async with self._making:
            if self._connection is None or self._connection.broken:
                try:
                    made = await asyncio.get_running_loop().run_in_executor(None, _connect, self._path)
                    self._connection = _LoopConnection(*await asyncio.open_unix_connection(sock=made), self._path)
                except OSError as reason:
                    raise _away(self._path, reason) from reason
            return self._connection

    def _tell(self, kind: Kind, ticket: int) -> None:
        if self._connection is not None and not self._connection.broken:
            self._connection.tell(kind, ticket)


class _LoopConnection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: Path) -> None:
        self._reader, self._writer, self._path = reader, writer, path
        self._asked: dict[int, asyncio.Future[NadiError | None]] = {}
        self.broken = False
        self._task = asyncio.get_running_loop().create_task(self._read())

    async def ask(self, number: int, body: bytes) -> None:
        if self.broken:
            raise _away(self._path, "the connection broke")
        asked = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            start = head(Kind.PREPARE, number, body)
            if len(body) > SMALL:
                self._writer.write(start)
                self._writer.write(body)
            else:
                self._writer.write(start + body)
            await self._writer.drain()
            answer = await asked
        except OSError as reason:
            self._break()
            raise _away(self._path, reason) from reason
        finally:
            self._asked.pop(number, None)
        if answer is not None:
            raise answer

    def tell(self, kind: Kind, ticket: int) -> None:
        self._writer.write(head(kind, ticket))

    async def close(self) -> None:
        self._writer.close()  # what was told is still sent
        await asyncio.wait([self._task])

    async def _read(self) -> None:
        try:
            while True:
                length, kind, number = read_head(await self._reader.readexactly(HEAD.size))
                answer = _answer_of(kind, await self._reader.readexactly(length))
                asked = self._asked.get(number)
                if asked is not None and not asked.done():
                    asked.set_result(answer)
        except (OSError, EOFError, Misused):
            self._writer.close()
        finally:
            self._break()

    def _break(self) -> None:
        self.broken = True
        for asked in self._asked.values():
            if not asked.done():
                asked.set_result(_away(self._path, "the connection broke"))


def _connect(path: Path) -> socket.socket:
    """Errors: CONNECTION_UNAVAILABLE."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
        made.connect(str(path))
    except OSError as reason:
        made.close()
        raise _away(path, reason) from reason
    return made


def _answer_of(kind: Kind, body: bytes) -> NadiError | None:
    if kind == Kind.FAILED:
        return read_failure(body)
    if kind != Kind.PREPARED:
        raise Misused(f"a frame of kind {kind} from event sync")
    return None


def _away(path: Path, reason: object) -> NadiError:
    return error("CONNECTION_UNAVAILABLE", connector=f"event sync at {path}", reason=reason)


_BLOCKING: dict[Path, BlockingReplica] = {}
_IN_LOOPS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Path, LoopReplica]] = WeakKeyDictionary()


def blocking_replica(path: Path) -> BlockingReplica:
    """The one of this process for a socket."""
    return _BLOCKING.setdefault(path, BlockingReplica(path))


def replica_in_loop(path: Path) -> LoopReplica:
    """The one of the running loop for a socket."""
    made = _IN_LOOPS.setdefault(asyncio.get_running_loop(), {})
    return made.setdefault(path, LoopReplica(path))
