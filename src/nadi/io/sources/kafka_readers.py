"""Reading one partition of a topic in pieces: as messages, which are Python objects, or in a loop, as bytes behind each other.

Pieces are cut by what the messages are, and in one way, so that they are the same at every call and with both readers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from nadi.io.block import Block
from nadi.io.contract import Messages
from nadi.io.kafkalibrary import Library

PIECE_MESSAGES = 20_000
PIECE_BYTES = 16 * 1024 * 1024
WAIT = 0.5
"""Seconds that a step waits for a first message."""
ROOM = 1024 * 1024
NOWHERE = -1


class Came(Enum):
    """What a step of a reader has found."""

    NOTHING = "no message within WAIT"
    SOME = "messages"
    FULL = "as many as a piece has"
    ALL = "the last one before the end"


@dataclass(frozen=True, slots=True)
class Event:
    """What comes between messages and is none: the end of the partition, or a problem."""

    error: KafkaError
    offset: int


class Reader(Protocol):
    """A consumer of one partition, which stands at `next` (NOWHERE while it reads). It may have fetched more than was asked for."""

    next: int

    def begin(self, topic: str, partition: int, start: int) -> None:
        """Start a read at `start`."""
        ...

    def step(self, end: int) -> Came | Event:
        """Take messages before `end` into the piece, until there is something to say. After FULL, ask for the piece."""
        ...

    def piece(self) -> Messages | None:
        """What was taken since the last piece, None if that is nothing."""
        ...

    def close(self) -> None: ...


class MessageReader:
    """Reads objects, of which all that a mapping may ask for is known."""

    def __init__(self, consumer: Consumer, names: tuple[str, ...]) -> None:
        self.next = NOWHERE
        self._consumer = consumer
        self._names = names
        self._fetched: list[Message] = []
        self._events: list[int] = []  # which of those fetched are none, from `_at` on
        self._at = 0
        self._taken: list[Message] = []
        self._size = 0

    def begin(self, topic: str, partition: int, start: int) -> None:
        if self.next != start:
            self._fetched, self._events, self._at = [], [], 0
            self._consumer.assign([TopicPartition(topic, partition, start)])
        self.next = NOWHERE
        self._taken, self._size = [], 0

    def step(self, end: int) -> Came | Event:
        if self._at == len(self._fetched):
            self._fetched, self._at = _available(self._consumer), 0
            self._events = [i for i, m in enumerate(self._fetched) if m.error() is not None]
        if not self._fetched:
            return Came.NOTHING
        if self._events and self._events[0] == self._at:
            event = self._fetched[self._events.pop(0)]
            self._at += 1
            return Event(event.error(), event.offset())
        before = self._events[0] if self._events else len(self._fetched)
        last = bisect_left(self._fetched, end, self._at, before, key=Message.offset)
        self._take(last)
        if self._at == last and (last < before or self._fetched[last - 1].offset() == end - 1):
            return Came.ALL
        full = len(self._taken) == PIECE_MESSAGES or self._size >= PIECE_BYTES
        return Came.FULL if full else Came.SOME

    def _take(self, before: int) -> None:
        """Take those that were fetched, up to number `before`, while the piece has room; the one that fills it is taken, too."""
        here = self._at
        messages = self._fetched[here : min(before, here + PIECE_MESSAGES - len(self._taken))]
        sizes = self._size + np.cumsum(np.fromiter(map(len, messages), np.int64, len(messages)))
        fitting = min(len(messages), int(np.searchsorted(sizes, PIECE_BYTES)) + 1)
        self._taken += messages[:fitting]
        self._at += fitting
        self._size = int(sizes[fitting - 1]) if fitting else self._size

    def piece(self) -> Messages | None:
        messages, count = self._taken, len(self._taken)
        self._taken, self._size = [], 0
        if not count:
            return None
        positions = np.fromiter((m.offset() for m in messages), np.int64, count)
        times = np.fromiter((m.timestamp()[1] for m in messages), np.int64, count)
        properties = [_properties(m, self._names) for m in messages] if self._names else ()
        return Messages(positions, np.maximum(times, 0), [m.value() or b"" for m in messages], properties=properties)

    def in_blocks(self, library: Library) -> Reader:
        """A reader in its place that reads bytes; itself where that cannot be. It stands nowhere."""
        queue = None if self._names else library.queue(self._consumer)
        return self if queue is None else BlockReader(self._consumer, library, queue)

    def close(self) -> None:
        self._consumer.close()


class BlockReader:
    """Reads bytes, without an object per message. Not for mappings that ask for more than the payload."""

    def __init__(self, consumer: Consumer, library: Library, queue: int) -> None:
        from nadi.io import kafkaloops  # loads Numba

        self.next = NOWHERE
        self._consumer = consumer
        self._library = library
        self._queue = queue
        self._loops = kafkaloops
        self._pointers = np.zeros(PIECE_MESSAGES, np.int64)
        self._places = np.zeros(kafkaloops.PLACES, np.int64)
        self._said = np.zeros(kafkaloops.TEXT, np.uint8)
        self._room = ROOM
        self._data: npt.NDArray[np.uint8]
        self._rows: tuple[npt.NDArray[np.int64], ...]
        self._empty()

    def begin(self, topic: str, partition: int, start: int) -> None:
        if self.next != start:
            self._loops.drop(self._pointers, self._places)
            self._consumer.assign([TopicPartition(topic, partition, start)])
        self.next = NOWHERE
        self._empty()

    def _empty(self) -> None:
        """Begin a piece in memory of its own: the one before belongs to whoever has it."""
        loops = self._loops
        self._data = np.empty(self._room, np.uint8)
        self._rows = tuple(np.empty(PIECE_MESSAGES, np.int64) for _ in range(4))
        self._places[[loops.FILLED, loops.USED, loops.SIZE]] = 0

    def step(self, end: int) -> Came | Event:
        loops, places = self._loops, self._places
        ended = loops.GROW
        while ended == loops.GROW:
            wait = int(WAIT * 1000)
            piece = (self._data, *self._rows)
            ended = loops.take(self._queue, wait, end, PIECE_BYTES, self._pointers, places, *piece, self._said)
            if ended == loops.GROW:
                self._grow(int(places[loops.CODE]))
        if ended == loops.EVENT:
            return self._event()
        told = {loops.NOTHING: Came.NOTHING, loops.MORE: Came.SOME, loops.FULL: Came.FULL, loops.DONE: Came.ALL}
        return told[ended]

    def _event(self) -> Event:
        loops, places = self._loops, self._places
        code, said = int(places[loops.CODE]), self._said[: int(places[loops.SAID])].tobytes()
        problem = KafkaError(code, said.decode("utf-8", "replace")) if said else KafkaError(code)
        return Event(problem, int(places[loops.POSITION]))

    def _grow(self, length: int) -> None:
        """Make room for one more payload."""
        used = int(self._places[self._loops.USED])
        more = np.empty(max(2 * len(self._data), used + length + 1), np.uint8)
        more[:used] = self._data[:used]
        self._data = more

    def piece(self) -> Messages | None:
        loops = self._loops
        count, used = int(self._places[loops.FILLED]), int(self._places[loops.USED])
        if not count:
            return None
        data = self._data[:used]
        starts, ends, positions, times = (row[:count] for row in self._rows)
        self._room = max(ROOM, used + used // 8)  # the next one is likely to be as large
        self._empty()
        return Messages(positions, times, Block(data, starts, ends))

    def close(self) -> None:
        self._loops.drop(self._pointers, self._places)
        self._library.close_queue(self._queue)
        self._consumer.close()


def _available(consumer: Consumer) -> list[Message]:
    """What the consumer has fetched; waits for the first message only (`consume` alone would wait for all it is asked for)."""
    first = consumer.poll(WAIT)
    return [] if first is None else [first, *consumer.consume(PIECE_MESSAGES - 1, 0)]


def _properties(message: Message, names: tuple[str, ...]) -> Mapping[str, str]:
    found: dict[str, Any] = {n: (v or b"").decode("utf-8", "replace") for n, v in message.headers() or ()}
    found |= {"topic": message.topic(), "partition": str(message.partition()), "offset": str(message.offset())}
    if message.key() is not None:
        found["key"] = bytes(message.key()).decode("utf-8", "replace")
    return {n: found[n] for n in names if n in found}
