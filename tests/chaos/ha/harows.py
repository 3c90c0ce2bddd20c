"""The topic of the sink, read by a thread as rows come: under which number each stands, and when it was seen."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from itertools import pairwise

from confluent_kafka import Consumer, KafkaError, TopicPartition
from haapps import ROWS
from sinks import Numbered, add_message


class Rows:
    """Committed messages only. `wrong` has what kept it from reading."""

    def __init__(self, broker: str) -> None:
        self._broker = broker
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._numbered: Numbered = {}
        self._seen: list[float] = []
        self._thread = threading.Thread(target=self._run, name="rows", daemon=True)
        self.wrong: list[str] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(60)

    def numbered(self) -> Numbered:
        """Key-group -> (number, row), in the order in which they stand."""
        with self._lock:
            return {group: list(rows) for group, rows in self._numbered.items()}

    def first_after(self, moment: float) -> float | None:
        """When the first message was seen after a moment (`time.monotonic`)."""
        with self._lock:
            at = bisect_right(self._seen, moment)
            return self._seen[at] if at < len(self._seen) else None

    def longest_after(self, moment: float) -> float:
        """The longest time without a message since a moment, s."""
        with self._lock:
            seen = [moment, *self._seen[bisect_right(self._seen, moment) :]]
        return max((later - one for one, later in pairwise(seen)), default=0.0)

    def _run(self) -> None:
        settings = {"bootstrap.servers": self._broker, "group.id": "rows", "isolation.level": "read_committed"}
        consumer = Consumer({**settings, "log_level": 0})
        consumer.assign([TopicPartition(ROWS, 0, 0)])
        try:
            while not self._stopping.is_set():
                message = consumer.poll(0.5)
                if message is None:
                    continue
                failure = message.error()
                if failure is None:
                    with self._lock:
                        self._seen.append(time.monotonic())
                        headers = {name: value.decode() for name, value in message.headers() or ()}
                        add_message(self._numbered, message.value(), headers)
                elif failure.fatal() or failure.code() == KafkaError._AUTO_OFFSET_RESET:
                    self.wrong.append(f"topic: {failure}")
        except Exception as reason:  # of whatever kind: it must not be lost with the thread
            self.wrong.append(f"topic: {type(reason).__name__}: {reason}")
        finally:
            consumer.close()
