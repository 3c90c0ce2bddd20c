"""From topic to topic at a steady rate: the topics of a run, its load, and the latencies of rows that were compared with numpy's.

Both times are the broker's (`LogAppendTime`), so no clocks are compared. A row that is appended is seen by readers of committed rows only when
its transaction is closed: *seen* is when such a reader, in the process of the load, had it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.analysis import percentiles
from bench.apps import app_text
from bench.checks import Rows, WrongOutputError, check_live, parse, size
from bench.children import ChildFailedError
from bench.events import Ints
from bench.latency_load import Order, sent_events

PARTITIONS = 2
WITHIN = 60.0  # seconds that the broker has for an answer
WARM, SECONDS = 30.0, 30.0

Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Course:
    """Where the events of a run come from and where its rows go."""

    servers: str
    source: str
    target: str

    def text(self, app: str, name: str) -> str:
        """An app of `bench.apps` from topic to topic."""
        server = f"bootstrap.servers='{self.servers}'"
        source = f"type='kafka', topic.list='{self.source}', {server}"
        return app_text(app, name, source, f"type='kafka', topic='{self.target}', {server}")

    def order(self, rate: int, warm: float, seconds: float, folder: Path, quiet: float) -> Order:
        """What the load has to do."""
        return Order(self.servers, self.source, self.target, PARTITIONS, rate, warm, seconds, str(folder), quiet)


def make_topics(course: Course) -> None:
    """Input and output; both are stamped by the broker."""
    config = {"message.timestamp.type": "LogAppendTime"}
    counts = {course.source: PARTITIONS, course.target: 1}  # one keeps the order
    admin = AdminClient({"bootstrap.servers": course.servers})  # has to live until it has the answers
    made = admin.create_topics([NewTopic(n, c, replication_factor=1, config=config) for n, c in counts.items()])
    for done in made.values():
        done.result(WITHIN)


def append_times(course: Course, count: int) -> Ints:
    """When each event was appended to the input topic (µs), in the order of sending. Errors: ChildFailedError."""
    consumer = Consumer({"bootstrap.servers": course.servers, "group.id": "bench-in", "enable.auto.commit": False})
    stamps, times = np.zeros(count, np.int64), np.zeros(count, np.int64)
    at = 0
    decode = msgspec.json.Decoder().decode
    try:
        consumer.assign([TopicPartition(course.source, partition, 0) for partition in range(PARTITIONS)])
        while at < count:
            first = consumer.poll(WITHIN)  # `consume` alone would wait for all it is asked for
            if first is None:
                raise ChildFailedError("the broker is silent")
            for one in (first, *consumer.consume(10_000, 0)):
                if one.error() is not None:
                    raise KafkaException(one.error())
                stamps[at], times[at] = decode(one.value())["event"]["ts"], one.timestamp()[1]
                at += 1
    finally:
        consumer.close()
    return times[np.argsort(stamps)] * 1000


def latencies(
    found: Rows, sent: tuple[Ints, Ints], appended: Ints, came: Ints, counted: tuple[int, int]
) -> tuple[Ints, Ints]:
    """(append to append, append to seen) in µs of the rows whose event was sent in the range that counts.

    `sent` are the stamps of all events, ascending, and when each was appended (µs).
    """
    nothing = np.zeros(0, np.int64)
    if not size(found):
        return nothing, nothing
    stamps, inputs = sent
    inside = (found["ts"] >= counted[0]) & (found["ts"] < counted[1])
    begin = inputs[np.searchsorted(stamps, found["ts"][inside])]
    return appended[inside] - begin, came[inside] - begin


def live_figures(app: str, course: Course, folder: Path, loaded: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The latencies of a run whose load has left its files in `folder` and said `loaded` at its end. Errors: WrongOutputError."""
    low, high = loaded["counted"]
    sent = sent_events(folder)
    found, origin = parse((folder / "came.jsonl").read_bytes().splitlines())
    try:
        check = check_live(app, sent, found)
    except WrongOutputError as reason:
        raise WrongOutputError(f"{app}: {reason}") from None
    appended = np.load(folder / "appended.npy")[origin] * 1000
    came = np.load(folder / "came.npy")[origin]
    append, seen = latencies(found, (sent.ts, append_times(course, len(sent))), appended, came, (low, high))
    counted = int(((sent.ts >= low) & (sent.ts < high)).sum())
    return {
        "append_ms": percentiles(append),
        "seen_ms": percentiles(seen),
        "rows": len(append),
        "sent": len(sent),
        "offered_per_s": counted / seconds,
        "load_late_s": loaded["late"],
        "check": check,
        "latencies_us": append.tolist(),
    }
