"""Reading stretches of a partition of Kafka, one after the other: a consumer goes on where it stopped, as a jump costs it what it has fetched."""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from nadi.io.kafkaclient import WITHIN, Setting

AHEAD = 200
"""Messages that are skipped rather than jumped over."""
POLL = 0.5  # seconds

_OWN: Mapping[str, Setting] = {
    "group.id": "nadi-channel",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 20,
    "fetch.error.backoff.ms": 50,
    "fetch.queue.backoff.ms": 10,
    "queued.max.messages.kbytes": 16_384,
}


class Tape:
    """One partition, for one user at a time. Errors: KafkaException."""

    def __init__(self, config: Mapping[str, Setting], topic: str, partition: int) -> None:
        self._consumer = Consumer({**config, **_OWN})
        self._where = topic, partition
        self._next = -1

    def between(self, start: int, end: int, most: int = 1_000_000_000, marked: bool = False) -> list[Message]:
        """The messages of [start, end) that there are, at most so many. `marked`: what stands last is the mark of a transaction, which is not
        waited for: that takes twice as long as a fetch waits for more."""
        if start >= end:
            return []
        if not 0 <= start - self._next <= AHEAD or self._next < 0:
            self._consumer.assign([TopicPartition(*self._where, start)])
        self._next = -1  # unless all goes well
        found: list[Message] = []
        at, until = start, time.monotonic() + WITHIN
        while at < end and len(found) < most:
            message = self._consumer.poll(POLL)
            if message is None:
                if time.monotonic() > until:
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "nothing came"))
                continue
            problem = message.error()
            if problem is None:
                at = int(message.offset() or 0) + 1
                if start <= at - 1 < end:
                    found.append(message)
                if marked and at == end - 1:
                    break
            elif problem.code() == KafkaError._PARTITION_EOF:
                at = max(at, int(message.offset() or 0))
            else:
                raise KafkaException(problem)
        self._next = at
        return found

    def close(self) -> None:
        self._consumer.close()
