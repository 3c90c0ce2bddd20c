"""The lane: how the Java connector asks hosts and the coordinator, over Unix sockets. The server, a client, and what the requests and answers hold.

Big endian:

    request   u32 length | u64 id | u8 operation | payload      length counts what follows it
    answer    u32 length | u64 id | u8 status    | payload      the id of its request

Status 0 is the last frame of an answer, 2 says that more follow, 1 that the request failed: the payload is the text of the failure. A text
inside a payload is `u16 length | UTF-8`. One request at a time per connection.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from nadi.errors import NadiError
from nadi.io.readiness import readable
from nadi.pipeline.hosting.protocol import Part, exactly

_HEAD = struct.Struct("!IQB")
_AFTER_LENGTH = _HEAD.size - 4
_TEXT = struct.Struct("!H")
_LONG = struct.Struct("!q")
_COUNT = struct.Struct("!I")
_ROW = struct.Struct("!iiI")
_HOST = struct.Struct("!i")
_JOIN_BELOW = 128 * 1024
_ACCEPTS_AGAIN = 0.1  # seconds
COORDINATOR = "coordinator.lane"
"""The socket of the node's coordinator, in the folder of the hosts that are on its machine."""
LONGEST = 2**31 - 64
"""Bytes of a payload, at most: Java holds it in one array. Who has more sends several frames."""

RECEIPT = -1
"""The host of a row that is a receipt."""


class Op(IntEnum):
    """The operations. READ, WRITE and BEAT are a host's, NODE is the node's (`nadi.pipeline.nodesocket`), the others the coordinator's. WAKE comes from a
    host: what it told as pending of the app that the payload names (UTF-8) has ended. HELLO does, too: it is not answered, the connection stands as long as
    the host lives. BEAT asks a host whether it is able to answer; the answer is empty."""

    LATEST = ord("L")
    PLAN = ord("P")
    COMMIT = ord("C")
    READ = ord("R")
    WRITE = ord("W")
    WAKE = ord("N")
    HELLO = ord("H")
    BEAT = ord("B")
    NODE = ord("A")


_LAST, _FAILED, _MORE = 0, 1, 2


class Request:
    """What is asked: the operation and its payload."""

    __slots__ = ("_connection", "op", "payload")

    def __init__(self, op: Op, payload: memoryview, connection: socket.socket) -> None:
        self.op = op
        self.payload = payload
        self._connection = connection

    def fileno(self) -> int:
        """For `select`: readable as soon as who asks is gone."""
        return self._connection.fileno()

    def gone(self) -> bool:
        """Whether who asks has closed the connection: nobody waits for the answer any more."""
        try:
            return self._connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True


Handler = Callable[[Request], Part | Iterable[Part]]
"""Answers a request: with the payload of the only frame, or with those of several, each of which is sent as soon as it is there."""


def failure_text(reason: BaseException) -> str:
    """How a failure is told to Java, whose exception has this message; `nadi.pipeline.query.named_failure` finds a condition in it.

    >>> from nadi.errors import error
    >>> failure_text(error("HOST_UNAVAILABLE", reason="it sleeps", log="h.log")).partition(" an ")[0]
    'nadi.errors.exceptions.ConnectionUnavailableException: [HOST_UNAVAILABLE]'
    >>> failure_text(KeyError("x"))
    "KeyError: 'x'"
    """
    if isinstance(reason, NadiError):
        return f"nadi.errors.exceptions.{type(reason).__name__}: {reason}"
    return f"{type(reason).__name__}: {reason}"


class LaneServer:
    """Answers at a Unix socket, a thread for each connection, from its making to `close`. A file that is at the path already is replaced.

    What a handler raises becomes a failed answer, also after frames that were sent; `unnamed` is told of what has no condition.
    """

    def __init__(
        self,
        path: Path,
        handler: Handler,
        unnamed: Callable[[BaseException], None] = traceback.print_exception,
    ) -> None:
        self.path = path
        self._handler = handler
        self._unnamed = unnamed
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._closed = False
        self._ended, self._end = socket.socketpair()
        self._listening = self._listen()
        self._thread = threading.Thread(target=self._accept, name=f"lane {path.name}", daemon=True)
        self._thread.start()

    def _listen(self) -> socket.socket:
        self.path.unlink(missing_ok=True)
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.bind(str(self.path))
        self.path.chmod(0o600)
        made.listen(128)
        return made

    def _admit(self, connection: socket.socket) -> bool:
        """Whether who has connected may ask: the permissions of the file have said so. Errors: OSError."""
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, reason: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the socket and end the connections. Handlers that run go on; their answers go nowhere."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for connection in self._open:
                with contextlib.suppress(OSError):  # the other side was quicker
                    connection.shutdown(socket.SHUT_RDWR)
        self._end.close()
        self._thread.join()
        self.path.unlink(missing_ok=True)
        self._ended.close()
        self._listening.close()

    def _accept(self) -> None:
        while True:
            ready = readable([self._listening, self._ended])
            if self._ended in ready:
                return
            try:
                connection, _ = self._listening.accept()
            except OSError as reason:  # too many open files: those who wait are served when some are closed
                self._unnamed(reason)
                readable([self._ended], _ACCEPTS_AGAIN)
                continue
            with self._lock:
                if self._closed:
                    connection.close()
                    return
                self._open.add(connection)
            threading.Thread(target=self._converse, args=(connection,), daemon=True).start()

    def _converse(self, connection: socket.socket) -> None:
        try:
            with contextlib.suppress(OSError):  # the other side is gone: so is the need for an answer
                if not self._admit(connection):
                    return
                while (asked := _receive(connection)) is not None:
                    number, op, payload = asked
                    self._answer(connection, number, op, payload)
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def _answer(self, connection: socket.socket, number: int, op: int, payload: memoryview) -> None:
        def reply(status: int, part: Part) -> None:
            try:
                _send(connection, number, status, part)
            except OSError as reason:
                raise _Gone from reason

        try:
            answer = self._handler(Request(Op(op), payload, connection))
            if isinstance(answer, (bytes, bytearray, memoryview)):
                reply(_LAST, answer)
                return
            for part in answer:
                reply(_MORE, part)
        except _Gone:
            raise
        except Exception as reason:
            if not isinstance(reason, NadiError):
                self._unnamed(reason)
            reply(_FAILED, failure_text(reason).encode())
        else:
            reply(_LAST, b"")


class LaneFailure(Exception):
    """A failed answer; the message is its text."""


class LaneClient:
    """One connection to a server, for whoever is not the connector. With `within`, each call of the system that takes more seconds than that fails
    (TimeoutError, an OSError); the connection is not to be used any more then."""

    def __init__(self, path: Path, within: float | None = None) -> None:
        self._number = 0
        self._connection = _connected(path, within)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, reason: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def tell(self, op: Op, payload: Part = b"") -> None:
        """Send what is not answered; nothing may follow it. Errors: OSError."""
        self._number += 1
        _send(self._connection, self._number, op, payload)

    def ask(self, op: Op, payload: Part = b"") -> bytes:
        """The payload of the answer, that of all its frames. Errors: LaneFailure, OSError."""
        return b"".join(self.frames(op, payload))

    def frames(self, op: Op, payload: Part = b"") -> Iterator[memoryview]:
        """The payloads of the answer, frame by frame; to be read to the end. Errors: LaneFailure, OSError."""
        self.tell(op, payload)
        while True:
            answered = _receive(self._connection)
            if answered is None:
                raise ConnectionError("the server closed the connection")
            number, status, part = answered
            if number != self._number:
                raise ConnectionError(f"an answer to request {number} came for request {self._number}")
            if status == _FAILED:
                raise LaneFailure(str(part, "utf-8"))
            yield part
            if status == _LAST:
                return


def _connected(path: Path, within: float | None) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.settimeout(within)
    try:
        made.connect(str(path))
    except OSError:
        made.close()
        raise
    return made


class _Gone(ConnectionError):
    """Who has asked is gone: not a failure of the handler, whose own connections may break, too."""


def _send(connection: socket.socket, number: int, kind: int, payload: Part) -> None:
    """Write one frame, a request or a part of an answer. Errors: OSError, ValueError for a payload that is too long."""
    if len(payload) > LONGEST:
        raise ValueError(f"a payload of {len(payload)} bytes is longer than {LONGEST}")
    head = _HEAD.pack(_AFTER_LENGTH + len(payload), number, kind)
    if len(payload) < _JOIN_BELOW:
        connection.sendall(head + payload)
    else:
        connection.sendall(head)
        connection.sendall(payload)


def _receive(connection: socket.socket) -> tuple[int, int, memoryview] | None:
    """(id, operation or status, payload) of the next frame; None where the other side has closed. Errors: OSError."""
    head = exactly(connection, _HEAD.size)
    if head is None:
        return None
    length, number, kind = _HEAD.unpack(head)
    if length < _AFTER_LENGTH:
        raise ConnectionError(f"a frame of {length} bytes has no room for its head")
    size = length - _AFTER_LENGTH
    payload = exactly(connection, size) if size else memoryview(b"")
    if payload is None:
        raise ConnectionError("a frame was cut short")
    return number, kind, payload


class Partition(NamedTuple):
    """A source task of a batch: the host that it asks, what it asks, and the machine where it had best run ("" for any)."""

    host: int
    place: str
    request: Part


class Row(NamedTuple):
    """A row of a batch: the label that Spark repartitions by, the host it goes to (RECEIPT: to none, it is a receipt), and what it holds."""

    bk: int
    host: int
    body: Part


def encode_latest(query: str, start: int) -> bytes:
    """What LATEST asks: a query that stands at batch `start`.

    >>> decode_latest(encode_latest("prices", 7))
    ('prices', 7)
    """
    return _text(query) + _LONG.pack(start)


def decode_latest(payload: Part) -> tuple[str, int]:
    """(query, batch where it stands)."""
    query, at = _text_at(payload, 0)
    return query, _LONG.unpack_from(payload, at)[0]


def encode_number(batch: int) -> bytes:
    """What LATEST is answered: the batch up to which there is something to do; the start, if there is nothing.

    >>> decode_number(encode_number(8))
    8
    """
    return _LONG.pack(batch)


def decode_number(payload: Part) -> int:
    """The batch of an answer to LATEST."""
    return int(_LONG.unpack(payload)[0])


def encode_plan(query: str, start: int, end: int) -> bytes:
    """What PLAN asks: the tasks of the batch that leads from `start` to `end`.

    >>> decode_plan(encode_plan("prices", 7, 8))
    ('prices', 7, 8)
    """
    return _text(query) + _LONG.pack(start) + _LONG.pack(end)


def decode_plan(payload: Part) -> tuple[str, int, int]:
    """(query, start, end)."""
    query, at = _text_at(payload, 0)
    return query, _LONG.unpack_from(payload, at)[0], _LONG.unpack_from(payload, at + _LONG.size)[0]


def encode_partitions(partitions: Iterable[Partition]) -> bytes:
    """What PLAN is answered.

    >>> [(p.host, p.place, bytes(p.request)) for p in decode_partitions(encode_partitions([Partition(1, "", b"do")]))]
    [(1, '', b'do')]
    """
    parts: list[Part] = [b""]
    for host, place, request in partitions:
        parts += (_HOST.pack(host), _text(place), _COUNT.pack(len(request)), request)
    parts[0] = _COUNT.pack((len(parts) - 1) // 4)
    return b"".join(parts)


def decode_partitions(payload: Part) -> list[Partition]:
    """The tasks of an answer to PLAN; requests are views of the payload."""
    (count,) = _COUNT.unpack_from(payload)
    at = _COUNT.size
    found = []
    for _ in range(count):
        (host,) = _HOST.unpack_from(payload, at)
        place, at = _text_at(payload, at + _HOST.size)
        request, at = _bytes_at(payload, at)
        found.append(Partition(host, place, request))
    return found


def encode_commit(query: str, batch: int, receipts: Iterable[Part]) -> bytes:
    """What COMMIT asks; it is answered with nothing. `batch` is Spark's number of the batch.

    >>> query, batch, receipts = decode_commit(encode_commit("prices", 3, [b"one", b""]))
    >>> query, batch, [bytes(r) for r in receipts]
    ('prices', 3, [b'one', b''])
    """
    return _text(query) + _LONG.pack(batch) + encode_bodies(receipts)


def decode_commit(payload: Part) -> tuple[str, int, list[memoryview]]:
    """(query, batch, receipts), which are views of the payload."""
    query, at = _text_at(payload, 0)
    return query, _LONG.unpack_from(payload, at)[0], decode_bodies(memoryview(payload)[at + _LONG.size :])


def encode_hello(host: int, pid: int) -> bytes:
    """What HELLO tells: the number of a host, and its process id.

    >>> decode_hello(encode_hello(1, 4711))
    (1, 4711)
    """
    return _HOST.pack(host) + _LONG.pack(pid)


def decode_hello(payload: Part) -> tuple[int, int]:
    """(number of the host, its process id)."""
    return _HOST.unpack_from(payload)[0], _LONG.unpack_from(payload, _HOST.size)[0]


def encode_rows(rows: Iterable[Row]) -> bytes:
    """A frame of what READ is answered. What READ asks is the request of the partition, as the coordinator has made it.

    >>> [(r.bk, r.host, bytes(r.body)) for r in decode_rows(encode_rows([Row(5, 1, b"fat"), Row(0, RECEIPT, b"done")]))]
    [(5, 1, b'fat'), (0, -1, b'done')]
    """
    parts: list[Part] = []
    for bk, host, body in rows:
        parts += (_ROW.pack(bk, host, len(body)), body)
    return b"".join(parts)


def decode_rows(payload: Part) -> list[Row]:
    """The rows of a frame; bodies are views of the payload."""
    view = memoryview(payload)
    found, at = [], 0
    while at < len(view):
        bk, host, size = _ROW.unpack_from(view, at)
        at += _ROW.size
        found.append(Row(bk, host, _cut(view, at, size)))
        at += size
    return found


def encode_bodies(bodies: Iterable[Part]) -> bytes:
    """What WRITE asks: the bodies of rows. It is answered with a receipt.

    >>> [bytes(b) for b in decode_bodies(encode_bodies([b"a", b"bc"]))]
    [b'a', b'bc']
    """
    parts: list[Part] = [b""]
    for body in bodies:
        parts += (_COUNT.pack(len(body)), body)
    parts[0] = _COUNT.pack((len(parts) - 1) // 2)
    return b"".join(parts)


def decode_bodies(payload: Part) -> list[memoryview]:
    """The bodies that WRITE asks with, as views of the payload."""
    (count,) = _COUNT.unpack_from(payload)
    at = _COUNT.size
    found = []
    for _ in range(count):
        body, at = _bytes_at(payload, at)
        found.append(body)
    return found


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _TEXT.pack(len(encoded)) + encoded


def _text_at(payload: Part, at: int) -> tuple[str, int]:
    """(text, where it ends)."""
    (size,) = _TEXT.unpack_from(payload, at)
    at += _TEXT.size
    return str(_cut(memoryview(payload), at, size), "utf-8"), at + size


def _bytes_at(payload: Part, at: int) -> tuple[memoryview, int]:
    """(bytes, where they end)."""
    (size,) = _COUNT.unpack_from(payload, at)
    at += _COUNT.size
    return _cut(memoryview(payload), at, size), at + size


def _cut(view: memoryview, at: int, size: int) -> memoryview:
    if at + size > len(view):
        raise ValueError(f"{size} bytes should follow at {at} of {len(view)}")
    return view[at : at + size]
