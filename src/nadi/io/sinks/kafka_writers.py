"""Handing rows to a producer: as Python objects, or in a loop. Messages are the same, and so is what is said of those that are not taken."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Producer

from nadi.io.block import Block
from nadi.io.contract import Delivery
from nadi.io.kafkalibrary import Library
from nadi.io.sinks.numbers import COUNT, GROUP, NUMBER, PRODUCER, TextOption, headers, number_columns, numbers

FULL_WAIT = 0.1
"""Seconds that a producer with a full queue is waited for at a time."""
ANY = -1
"""The partition of rows for which the client is to choose one."""
WRONG = -2
"""The partition of rows whose attributes make no number of one."""
LAST_PARTITION = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Rows:
    """Payloads of a delivery, by whom, and where they go. `keys` are UTF-8."""

    delivery: Delivery
    made_by: str
    keys: pa.StringArray | None
    partitions: npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Stop:
    """The first payload that a producer did not take, and why."""

    index: int
    error: KafkaError


class Writer(Protocol):
    """Hands rows to one producer."""

    def write(self, rows: Rows, skipped: Collection[int], at: int) -> Stop | None:
        """Hand on the payloads from number `at` on, without those skipped, until one is not taken."""
        ...

    def close(self) -> None:
        """Give up what is kept beside the producer."""
        ...


class ObjectWriter:
    """One call of confluent_kafka per message."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self._topic = topic

    def write(self, rows: Rows, skipped: Collection[int], at: int) -> Stop | None:
        payloads = [*rows.delivery.payloads]
        keys: Sequence[str | None] = rows.keys.to_pylist() if rows.keys is not None else [None] * len(payloads)
        partitions, of = rows.partitions.tolist(), numbers(rows.delivery)
        for i in range(at, len(payloads)):
            if i in skipped:
                continue
            about = headers(rows.made_by, of[i])
            try:
                while not self._taken(payloads[i], keys[i], partitions[i], about):
                    self._producer.poll(FULL_WAIT)
            except KafkaException as reason:
                return Stop(i, reason.args[0])
        return None

    def _taken(self, payload: bytes, key: str | None, partition: int, about: dict[str, str]) -> bool:
        try:
            self._producer.produce(self._topic, payload, key, partition, headers=about)
        except BufferError:
            return False
        return True

    def close(self) -> None:
        return


class LoopWriter:
    """One loop over librdkafka; it copies what it is given. No delivery report is asked for: a transaction says whether all is written."""

    def __init__(self, producer: Producer, library: Library, topic: int) -> None:
        self._producer = producer
        self._library = library
        self._topic = topic

    def write(self, rows: Rows, skipped: Collection[int], at: int) -> Stop | None:
        from nadi.io import kafkaloops  # loads Numba

        handle = self._library.handle(self._producer)
        assert handle is not None, "it had one when this was made"
        fields = _Fields(rows, self._topic, skipped)
        while True:
            at, code = kafkaloops.produce(handle, at, *fields.arguments)
            if not code:
                return None
            if code != KafkaError._QUEUE_FULL:
                return Stop(at, KafkaError(code, f"Unable to produce message: {KafkaError(code).str()}"))
            self._producer.poll(FULL_WAIT)

    def close(self) -> None:
        self._library.close_topic(self._topic)


class _Fields:
    """Rows as arrays and addresses for the loop, and what they point to."""

    def __init__(self, rows: Rows, topic: int, skipped: Collection[int]) -> None:
        from nadi.io import kafkaloops

        values = Block.of(rows.delivery.payloads)
        keys = None if rows.keys is None else _block(rows.keys)
        names = {
            place: np.frombuffer(name.encode() + b"\0", np.uint8)
            for place, name in (
                (kafkaloops.IN_PRODUCER, PRODUCER),
                (kafkaloops.IN_GROUP, GROUP),
                (kafkaloops.IN_NUMBER, NUMBER),
                (kafkaloops.IN_COUNT, COUNT),
            )
        }
        made_by = np.frombuffer(rows.made_by.encode() + b"\0", np.uint8)
        message = np.zeros((kafkaloops.PARTS, kafkaloops.WORDS), np.int64)
        message[kafkaloops.IN_TOPIC, :2] = kafkaloops.TOPIC, topic
        message[kafkaloops.IN_FLAGS, :2] = kafkaloops.FLAGS, kafkaloops.COPY
        message[kafkaloops.IN_PARTITION, 0] = kafkaloops.PARTITION
        message[kafkaloops.IN_VALUE, 0] = kafkaloops.VALUE
        message[kafkaloops.IN_KEY, 0] = kafkaloops.KEY
        for place, name in names.items():
            message[place, :2] = kafkaloops.HEADER, name.ctypes.data
        message[kafkaloops.IN_PRODUCER, 2:4] = made_by.ctypes.data, len(rows.made_by.encode())
        skips = np.zeros(len(values), np.bool_)
        skips[list(skipped)] = True
        nothing = np.zeros(0, np.int64)
        self._kept = (values, keys, names, made_by)  # what there are addresses of
        self.arguments = (
            message.reshape(-1),
            np.zeros(3 * kafkaloops.DIGITS, np.uint8),
            values.data.ctypes.data,
            _plain(values.starts),
            _plain(values.ends),
            0 if keys is None else keys.data.ctypes.data,
            nothing if keys is None else keys.starts,
            nothing if keys is None else keys.ends,
            rows.partitions.astype(np.int64),
            *number_columns(rows.delivery),
            skips,
        )


def loop_writer(producer: Producer, topic: str, library: Library) -> LoopWriter | None:
    """A writer that needs no objects; None where the producer's handle is not found."""
    found = library.topic(producer, topic)
    return None if found is None else LoopWriter(producer, library, found)


def partitions(option: TextOption | None, delivery: Delivery) -> npt.NDArray[np.int32]:
    """The partition of each payload, as an option says; WRONG where it says none."""
    if option is None:
        return np.full(len(delivery.payloads), ANY, np.int32)
    texts = option.texts(delivery).dictionary_encode()
    found: npt.NDArray[np.int32] = np.array([partition_of(text) for text in texts.dictionary.to_pylist()], np.int32)
    chosen: npt.NDArray[np.int32] = found[texts.indices.to_numpy()]
    return chosen


def partition_of(text: str) -> int:
    """The number of a partition; WRONG for a text that is none.

    >>> partition_of("3"), partition_of("-1") == ANY, partition_of("null") == WRONG, partition_of("99999999999") == WRONG
    (3, True, True, True)
    """
    number = int(text) if len(text) < 12 and text.removeprefix("-").isdecimal() else WRONG
    return number if ANY <= number <= LAST_PARTITION else WRONG


def _block(texts: pa.StringArray) -> Block:
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    data = texts.buffers()[2]
    # a loop takes the address 0 for "no keys": of no bytes there must be one, too
    return Block(np.frombuffer(data if data else b"\0", np.uint8), offsets[:-1].copy(), offsets[1:].copy())


def _plain(places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """As the loop is compiled for: one behind the other, and not marked as read-only."""
    return np.require(places, np.int64, ["C", "W"])
