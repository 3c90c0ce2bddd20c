"""A connection between two nodes: frames with lengths, and a sign of life from both ends.

A frame is the length of its body (4 bytes), its kind (1 byte), and the body. An end that has nothing to say says ALIVE, three times in `silence` ms. Who
hears nothing for `silence` ms while it waits takes the connection for broken: so a cable that was pulled and a process that stands still are noticed.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Iterator
from enum import IntEnum

from nadi.eventsync.contract import SessionOver
from nadi.eventsync.counters import Counters

HEAD = struct.Struct("!IB")
NUMBER = struct.Struct("!Q")
STEP = 256 * 1024  # bytes that are to come within `silence`
LARGEST = 65 * 1024 * 1024  # bytes of a body: the largest record of a writer, and its number
SMALL = 64 * 1024
BUFFER = 4 * 1024 * 1024  # bytes on their way out before who writes waits
SHARE = 3
_LOG = logging.getLogger(__name__)


class Kind(IntEnum):
    """What a frame is. `docs/internals/eventsync.md` has the bodies."""

    ALIVE = 0
    HELLO = 1
    WELCOME = 2
    REFUSED = 3
    TROUBLE = 4
    # the first connection, from the active node
    RECORD = 10
    CONFIRM = 11
    ABANDON = 12
    BEAT = 13
    EQUAL = 14
    HAND_OVER = 15
    # ... and from the passive one
    LOGGED = 20
    PROMISED = 21
    IS_EQUAL = 22
    TAKEN_OVER = 23
    # the second connection, from the active node
    BULK = 30
    OBJECT = 31
    PART = 32
    STANDING_OF = 33
    PIECE = 34
    END = 35
    KEPT = 36
    WHOLE = 37
    # ... and from the passive one
    STORED = 40
    STANDING = 41
    SURPLUS = 42
    RESTORED = 43
    IS_WHOLE = 44


_LARGE = frozenset({Kind.RECORD, Kind.SURPLUS})
_MIDDLE = frozenset(
    {Kind.HELLO, Kind.WELCOME, Kind.IS_WHOLE, Kind.CONFIRM, Kind.ABANDON, Kind.PART, Kind.PIECE, Kind.STANDING}
)
_BOUNDS = {kind: LARGEST if kind in _LARGE else 4 * STEP if kind in _MIDDLE else SMALL for kind in Kind}


class Wire:
    """Errors of all methods: SessionOver."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, silence: int, counters: Counters
    ) -> None:
        self._reader, self._writer = reader, writer
        self._silence = silence / 1000
        self._counters = counters
        self._has_said = False
        self._pinger = asyncio.get_running_loop().create_task(self._ping())
        writer.transport.set_write_buffer_limits(BUFFER)

    def say(self, kind: Kind, *body: bytes) -> None:
        """Into the buffer; `drained` waits until there is room in it."""
        length = sum(map(len, body))
        *short, last = (HEAD.pack(length, kind), *body)
        if length > SMALL:  # too long to be copied
            self._writer.write(b"".join(short))
            self._writer.write(last)
        else:
            self._writer.write(b"".join((*short, last)))
        self._has_said = True
        self._counters.sent_bytes += HEAD.size + length

    async def drained(self) -> None:
        try:
            await self._writer.drain()
        except OSError as reason:
            raise SessionOver(f"the connection broke: {reason!r}") from reason

    async def receive(self) -> tuple[Kind, bytes]:
        """The next frame that says more than that its sender is alive."""
        while True:
            length, number = HEAD.unpack(await self._exactly(HEAD.size))
            kind = _KINDS.get(number)
            if kind is None or length > _BOUNDS[kind]:
                raise SessionOver(f"the partner sent a frame of kind {number} and {length:,} bytes")
            body = await self._exactly(length)
            self._counters.received_bytes += HEAD.size + length
            if kind != Kind.ALIVE:
                return kind, body

    async def _exactly(self, length: int) -> bytes:
        if length <= STEP:
            return await self._step(length)
        data = bytearray()
        while len(data) < length:
            data += await self._step(min(STEP, length - len(data)))
        return bytes(data)

    async def _step(self, length: int) -> bytes:
        try:
            async with asyncio.timeout(self._silence):
                return await self._reader.readexactly(length)
        except TimeoutError as reason:
            raise SessionOver(f"the partner said nothing for {self._silence:g} s") from reason
        except (OSError, EOFError) as reason:
            raise SessionOver(f"the connection broke: {reason!r}") from reason

    async def _ping(self) -> None:
        while not self._writer.is_closing():
            await asyncio.sleep(self._silence / SHARE)
            if not self._has_said:
                self.say(Kind.ALIVE)
            self._has_said = False

    @property
    def is_over(self) -> bool:
        """Whether either end has ended it, as far as that is known here."""
        return self._reader.at_eof() or self._writer.is_closing()

    async def close(self, within: float = 1.0) -> None:
        """What was said is sent, if the other end takes it within so many seconds."""
        self._pinger.cancel()
        self._writer.close()
        try:
            async with asyncio.timeout(within):
                await self._writer.wait_closed()
        except (OSError, TimeoutError) as reason:
            _LOG.debug("a connection did not end in order: %r", reason)
        finally:
            self._writer.transport.abort()

    def abort(self) -> None:
        """At once."""
        self._pinger.cancel()
        self._writer.transport.abort()


_KINDS = {int(kind): kind for kind in Kind}
_MORE, _LAST = b"\x01", b"\x00"


def parts_of(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The bodies of the frames in which something long is sent, each of a mark and a part."""
    for start in range(0, max(1, len(data)), STEP):
        yield (_MORE if start + STEP < len(data) else _LAST), data[start : start + STEP]


class Joined:
    """Puts together what `parts_of` has parted."""

    def __init__(self) -> None:
        self._data = bytearray()

    def add(self, body: bytes) -> bytes | None:
        """The whole, when this is its last part. Errors: SessionOver."""
        if body[:1] not in (_MORE, _LAST) or len(self._data) + len(body) > LARGEST:
            raise SessionOver("the partner sent parts that do not fit together")
        self._data += body[1:]
        if body[:1] == _MORE:
            return None
        whole, self._data = bytes(self._data), bytearray()
        return whole


def numbers(body: bytes) -> list[int]:
    """The numbers that a body consists of. Errors: SessionOver."""
    if len(body) % NUMBER.size:
        raise SessionOver(f"the partner sent {len(body)} bytes where numbers were due")
    return [found for (found,) in NUMBER.iter_unpack(body)]


def number_body(*given: int) -> bytes:
    return struct.pack(f"!{len(given)}Q", *given)
