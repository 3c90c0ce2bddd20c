"""Sends events to a Kafka topic at a steady rate: `python -m bench.latency_load ORDER` (a JSON file, `Order`).

Runs in a process of its own, so that it does not share an interpreter with what it measures. An event's `ts` is the time of its sending (µs), all of
them different, so that each row can be traced to the event that made it. When a message was appended, the broker says. A thread reads the output
topic, committed rows only, and notes when each one was here: that is what a user sees. Until the first row is here only a few events are sent, so
that no backlog grows while Spark starts.

Lines on standard output are JSON: `{"at": "sending"|"sent"|"done", …}`. Anything on the standard input, or its end, says that all rows are out.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from bench.events import Events, make_events, message
from bench.load import FEW, FIRST_WITHIN, QUIET, TELL_EVERY, tell

TICK = 0.005  # seconds between two bursts: each is a request per partition, which the broker pays for
WITHIN = 30.0  # seconds that the broker has for what was sent


class Order(msgspec.Struct, frozen=True):
    """`rate` events a second; `warm` seconds from the first row on, then `seconds` that count; files go to `folder`. All rows are here when none came for
    `quiet` seconds."""

    servers: str
    source: str
    target: str
    partitions: int
    rate: int
    warm: float
    seconds: float
    folder: str
    quiet: float = QUIET


class Heard:
    """The rows that have become visible: (when, µs; payload, append time in ms), read by a thread of its own."""

    def __init__(self, order: Order) -> None:
        config = {"bootstrap.servers": order.servers, "group.id": "bench-latency", "isolation.level": "read_committed"}
        self._consumer = Consumer({**config, "enable.auto.commit": False, "fetch.wait.max.ms": 20})
        self._consumer.assign([TopicPartition(order.target, 0, 0)])
        self._over = threading.Event()
        self.rows: list[tuple[int, bytes, int]] = []
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while not self._over.is_set():
            first = self._consumer.poll(0.1)
            if first is None:
                continue
            now = time.time_ns() // 1000
            for found in (first, *self._consumer.consume(10_000, 0)):
                if _is_row(found):
                    self.rows.append((now, found.value(), found.timestamp()[1]))

    def until_quiet(self, seconds: float) -> None:
        """Wait until nothing has come for so long."""
        count, since = -1, time.monotonic()
        while time.monotonic() - since < seconds:
            if len(self.rows) != count:
                count, since = len(self.rows), time.monotonic()
            time.sleep(0.05)

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self._consumer.close()


def _is_row(found: Message) -> bool:
    """Errors: KafkaException."""
    if found.error() is None:
        return True
    if found.error().code() == KafkaError._PARTITION_EOF:
        return False
    raise KafkaException(found.error())


class Pace:
    """How many events are due: `rate` a second since `begin`, after `before` of them. Times are in seconds.

    >>> pace = Pace(100.0, 5_000)
    >>> pace.due(100.01), pace.faster(100.01, 50, 10_000).due(100.02)
    (50, 150)
    """

    def __init__(self, begin: float, rate: int, before: int = 0) -> None:
        self._begin, self._rate, self._before = begin, rate, before

    def due(self, now: float) -> int:
        return self._before + round((now - self._begin) * self._rate)

    def faster(self, now: float, sent: int, rate: int) -> Pace:
        return Pace(now, rate, sent)


class Sender:
    """Sends event after event, each stamped with a time (µs) that no other has."""

    def __init__(self, order: Order) -> None:
        # idempotent, so that a request that is sent again does not change the order
        config = {"bootstrap.servers": order.servers, "linger.ms": 1, "enable.idempotence": True}
        self._producer = Producer({**config, "queue.buffering.max.messages": 1_000_000})
        self._order = order
        self.bound = int(FEW * FIRST_WITHIN + order.rate * (order.warm + order.seconds + 1))
        made = make_events(0, self.bound)
        self._columns = made.key.tolist(), made.cents.tolist(), made.vol.tolist()
        self.stamps: list[int] = []

    def send_until(self, due: int) -> None:
        """Send the events before number `due` that were not sent yet."""
        keys, cents, vols = self._columns
        last = self.stamps[-1] if self.stamps else 0
        for i in range(len(self.stamps), min(due, self.bound)):
            last = max(time.time_ns() // 1000, last + 1)
            payload = message(last, keys[i], cents[i], vols[i])
            self._producer.produce(self._order.source, payload, partition=keys[i] % self._order.partitions)
            self.stamps.append(last)
        self._producer.poll(0)

    def flush(self) -> None:
        """Errors: TimeoutError."""
        if self._producer.flush(WITHIN):
            raise TimeoutError("the broker does not take the events")


def run(order: Order, over: Callable[[], object]) -> None:
    """One run; `over` returns when all rows are out."""
    heard, sender = Heard(order), Sender(order)
    pace, measuring, until, told, late = Pace(time.monotonic(), FEW), False, float("inf"), 0.0, 0.0
    counted, begun = (0, 0), time.monotonic()
    while (now := time.monotonic()) < until:
        due = pace.due(now)
        late = max(late, (due - len(sender.stamps)) / order.rate) if measuring else 0.0
        sender.send_until(due)
        if heard.rows and until == float("inf"):
            pace, until = pace.faster(now, len(sender.stamps), order.rate), now + order.warm + order.seconds
            low = time.time_ns() // 1000 + int(order.warm * 1e6)
            counted = (low, low + int(order.seconds * 1e6))
        measuring = until - now < order.seconds
        if not heard.rows and now - begun > FIRST_WITHIN:
            break
        if now - told > TELL_EVERY:
            told = now
            phase = "starting" if until == float("inf") else "measuring" if measuring else "warming up"
            left = min(until - now, order.warm + order.seconds)
            tell("sending", sent=len(sender.stamps), got=len(heard.rows), phase=phase, left=left)
        time.sleep(max(0.0, TICK - (time.monotonic() - now)))
    sender.flush()
    tell("sent", sent=len(sender.stamps), got=len(heard.rows))
    over()
    heard.until_quiet(order.quiet)
    heard.close()
    _save(Path(order.folder), sender.stamps, heard.rows)
    tell("done", sent=len(sender.stamps), got=len(heard.rows), counted=counted, late=late)


def _save(folder: Path, stamps: list[int], rows: list[tuple[int, bytes, int]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "sent.npy", np.array(stamps, np.int64))
    np.save(folder / "came.npy", np.array([came for came, _, _ in rows], np.int64))
    np.save(folder / "appended.npy", np.array([appended for _, _, appended in rows], np.int64))
    (folder / "came.jsonl").write_bytes(b"".join(payload + b"\n" for _, payload, _ in rows))


def sent_events(folder: Path) -> Events:
    """The events that a run has sent."""
    stamps = np.load(folder / "sent.npy")
    made = make_events(0, len(stamps))
    return Events(stamps, made.key, made.cents, made.vol)


def main() -> None:
    run(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Order), lambda: sys.stdin.buffer.read(1))


if __name__ == "__main__":
    main()
