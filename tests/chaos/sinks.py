"""Reading the sinks back: what a receiver would have."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chaosapps import OUT
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from nodes import events

from nadi.errors import error
from nadi.io.jetstream import Stream
from nadi.io.natsclient import NatsClient
from nadi.io.sources.nats import stream_for

Numbered = dict[int, list[tuple[int, tuple[Any, ...]]]]
"""Key-group → (number, row), in the order in which they stand."""


def row_of(event: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(event[name] for name in OUT)


def add_message(rows: Numbered, body: bytes, headers: Mapping[str, str]) -> None:
    """Add the rows of a message: one event, or an array of those of a chunk."""
    told = json.loads(body)
    found = [e["event"] for e in (told if isinstance(told, list) else [told])]
    assert len(found) == int(headers["Nadi-Count"])
    first = int(headers["Nadi-Number"])
    mine = rows.setdefault(int(headers["Nadi-Group"]), [])
    mine.extend((first + i, row_of(event)) for i, event in enumerate(found))


class KafkaTopic:
    """The committed messages of the only partition of a topic, as far as they have been read."""

    WITHIN = 60.0  # seconds

    def __init__(self, address: str, topic: str) -> None:
        settings = {"isolation.level": "read_committed", "enable.partition.eof": True, "log_level": 0}
        self._settings = {"bootstrap.servers": address, "group.id": "look", **settings}
        self._consumer = Consumer(self._settings)
        self._topic, self._next = topic, 0
        self.rows: Numbered = {}

    def read(self) -> Numbered:
        """All there was at the call: who writes all the time never lets a reader see the end. Errors: CONNECTION_UNAVAILABLE."""
        until = time.monotonic() + self.WITHIN
        end = self._end()
        self._consumer.assign([TopicPartition(self._topic, 0, self._next)])  # the end is told once per assignment
        while self._next < end:
            if time.monotonic() > until:
                raise _unavailable(f"offset {self._next} of {end} after {self.WITHIN:g} s")
            message = self._consumer.poll(1)
            if message is None:
                continue
            failure = message.error()
            if failure is None:
                add_message(self.rows, message.value(), {k: v.decode() for k, v in message.headers() or ()})
                self._next = message.offset() + 1
            elif failure.code() == KafkaError._PARTITION_EOF:
                self._next = max(self._next, message.offset())  # behind markers of transactions
        return self.rows

    def _end(self) -> int:
        """The last stable offset."""
        try:
            return int(self._consumer.get_watermark_offsets(TopicPartition(self._topic, 0), timeout=10)[1])
        except KafkaException as reason:
            # One whose broker was killed may never learn the topic's partitions again (_UNKNOWN_PARTITION for minutes, while the broker serves others).
            self._consumer.close()
            self._consumer = Consumer(self._settings)
            raise _unavailable(str(reason)) from reason

    def close(self) -> None:
        self._consumer.close()


def _unavailable(reason: str) -> Exception:
    return error("CONNECTION_UNAVAILABLE", connector="the topic of the sink", reason=reason)


class NatsSubject:
    """The messages of a subject."""

    def __init__(self, url: str, subject: str) -> None:
        self._client = NatsClient(url)
        self._stream = Stream(self._client, self._client.call(lambda nc: stream_for(nc, subject)), subject)
        self._next = 1
        self.rows: Numbered = {}

    def read(self) -> Numbered:
        """All there is now. Errors: CONNECTION_UNAVAILABLE."""
        for part in self._stream.read(self._next, self._stream.bounds().last + 1):
            for message in part:
                add_message(self.rows, message.data, message.headers)
                self._next = message.sequence + 1
        return self.rows

    def close(self) -> None:
        self._client.close()


def file_rows(path: Path) -> list[tuple[Any, ...]]:
    """The rows of a file with a line per message."""
    return [row_of(event) for event in events(path)]
