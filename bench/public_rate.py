"""The suite `pipeline` with `--against`: throughput of `nadi run` of two checkouts, in turn, from file to file and from Kafka to Kafka.

Nothing of the node's inside is read: how fast it is, is seen from when its rows are there (`bench.growth`). Every row of every run is compared with numpy's.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.analysis import spread
from bench.apps import on_files
from bench.checkouts import OTHER, THIS, Checkout
from bench.checks import WrongOutputError, compare, expected, parse
from bench.children import ChildFailedError
from bench.delivery import DeliverySetting, fill, topic_in
from bench.events import KEYS, Events, Ints
from bench.growth import FileGrowth, Point, batch_events, line_ends, points, steady_rate
from bench.live import WITHIN, Course, Say
from bench.public_latency import in_turn
from bench.publicnode import Ended, PublicNode, check_end

MEDIA = ("files", "kafka")
APPS = ("filter", "window", "pattern", "identity")
STARTS_WITHIN = 240.0  # seconds until there is a first row
RUN_WITHIN = 900.0
QUIET = 5.0  # seconds without a row after which all are there

Run = Callable[[Checkout, str], dict[str, Any]]
"""The figures of one run of a side; its name is also that of its folder."""


@dataclass(frozen=True, slots=True)
class PublicRateSetting:
    """`events` are in the file `source`; `repeat` runs of each side; one over files is ended `at_most` seconds behind its first row (0: at its
    end)."""

    folder: Path
    source: Path
    events: Events
    checkouts: tuple[Checkout, ...]
    repeat: int
    at_most: float
    master: str
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, str]:
        """Settings with batches of which there are enough."""
        return {"nadi.batch.events": str(batch_events(len(self.events))), **self.conf}


def measure_files(app: str, setting: PublicRateSetting, say: Say) -> dict[str, Any]:
    """From file to file. Errors: ChildFailedError, WrongOutputError."""

    def one(checkout: Checkout, name: str) -> dict[str, Any]:
        folder = setting.folder / name
        folder.mkdir(parents=True)
        target, text = folder / "out.jsonl", folder / f"{name}.siddhi"
        text.write_text(on_files(app, setting.source, target))
        options: dict[str, Any] = {"master": setting.master, "conf": setting.settings, "until_end": True}
        with PublicNode(checkout, folder / "node", [text], **options) as node, FileGrowth(target) as growth:
            node.until(lambda: growth.samples or None, STARTS_WITHIN, "first row")
            started = node.seconds()

            def late() -> bool:
                return bool(setting.at_most) and node.seconds() - started > setting.at_most

            def show() -> None:
                say(f"{name}: {node.seconds() - started:.0f} s, {growth.samples[-1][1] / 1e6:,.0f} MB out")

            ended = _to_the_end(node, late, show)
        told = check_end(name, ended, f"{app}-throughput", node.lines, None)
        data = target.read_bytes()
        found, _ = parse(data.splitlines())
        check = compare(expected(app, setting.events.first(told.taken)), found)
        times, sizes = zip(*growth.samples, strict=True)
        rows = np.searchsorted(line_ends(data), sizes, side="right")
        return _figures(points(times, rows, found["ts"], setting.events.ts), told.taken, check, started)

    return _both(f"{app}, files", setting, one, say)


def _to_the_end(node: PublicNode, late: Callable[[], bool], show: Callable[[], object]) -> dict[str, Ended]:
    """Until the node has ended by itself, or has had its time."""
    limit, told = time.monotonic() + RUN_WITHIN, time.monotonic()
    while True:
        try:
            node.check()
        except ChildFailedError:
            return node.wait(1.0)  # says how it ended; raises where an app failed
        if late() or time.monotonic() > limit:
            return node.stop()
        if time.monotonic() - told > 1.0:
            told = time.monotonic()
            show()
        time.sleep(0.05)


# ---- Kafka ---------------------------------------------------------------------------------------------------------


def fill_topic(setting: PublicRateSetting, servers: str, say: Say) -> str:
    """Write the events into a topic, partitioned by key; -> its name."""
    written = DeliverySetting(setting.folder, servers, KEYS, len(setting.events), 1, setting.master)
    topic = topic_in(written)
    _make(servers, {topic: written.partitions}, {"retention.ms": "-1"})  # the messages have times of long ago
    fill(written, say)
    return topic


def _make(servers: str, counts: Mapping[str, int], config: Mapping[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": servers})  # has to live until it has the answers
    made = admin.create_topics([NewTopic(n, c, replication_factor=1, config=dict(config)) for n, c in counts.items()])
    for done in made.values():
        done.result(WITHIN)


def measure_topics(app: str, setting: PublicRateSetting, servers: str, source: str, say: Say) -> dict[str, Any]:
    """From topic to topic. Errors: ChildFailedError, WrongOutputError."""

    def one(checkout: Checkout, name: str) -> dict[str, Any]:
        folder = setting.folder / name
        folder.mkdir(parents=True)
        course = Course(servers, source, f"rate.{name}.out")
        _make(servers, {course.target: 1}, {"message.timestamp.type": "LogAppendTime", "retention.ms": "-1"})
        text = folder / f"{name}.siddhi"
        text.write_text(course.text(app, name))
        with (
            PublicNode(checkout, folder / "node", [text], master=setting.master, conf=setting.settings) as node,
            Target(course) as target,
        ):
            node.until(lambda: target.end() or None, STARTS_WITHIN, "first row")
            started = node.seconds()

            def show() -> None:
                say(f"{name}: {node.seconds() - started:.0f} s, {target.end():,} messages out")

            node.until(lambda: target.quiet() or None, RUN_WITHIN, "end of its rows", show)
            told = check_end(name, node.stop(), name, node.lines, len(setting.events))
            payloads, appended = target.rows()
        found, origin = parse(payloads)
        check = compare(expected(app, setting.events), found)
        moments, last = np.unique(appended[origin][::-1], return_index=True)
        rows = len(origin) - last
        return _figures(
            points((moments / 1000).tolist(), rows, found["ts"], setting.events.ts), told.taken, check, started
        )

    return _both(f"{app}, kafka", setting, one, say)


class Target:
    """The topic that a run writes to."""

    def __init__(self, course: Course) -> None:
        config = {"bootstrap.servers": course.servers, "group.id": "bench-rate", "isolation.level": "read_committed"}
        self._consumer = Consumer({**config, "enable.auto.commit": False, "enable.partition.eof": True})
        self._place = TopicPartition(course.target, 0, 0)
        self._seen = (-1, 0.0)

    def __enter__(self) -> Target:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def end(self) -> int:
        """The offset behind the last message that readers may see."""
        return int(self._consumer.get_watermark_offsets(self._place, WITHIN, cached=False)[1])

    def quiet(self) -> bool:
        """Whether nothing has come for a while; looks when it is asked."""
        end, now = self.end(), time.monotonic()
        if end != self._seen[0]:
            self._seen = (end, now)
        return now - self._seen[1] > QUIET

    def rows(self) -> tuple[list[bytes], Ints]:
        """All committed messages, and when each was appended (ms). Errors: ChildFailedError."""
        payloads: list[bytes] = []
        times: list[int] = []
        self._consumer.assign([self._place])
        while True:
            first = self._consumer.poll(WITHIN)
            if first is None:
                raise ChildFailedError("the broker is silent")
            for one in (first, *self._consumer.consume(10_000, 0)):
                if one.error() is None:
                    payloads.append(one.value())
                    times.append(one.timestamp()[1])
                elif one.error().name() == "_PARTITION_EOF":
                    return payloads, np.array(times, np.int64)
                else:
                    raise KafkaException(one.error())


# ---- both ----------------------------------------------------------------------------------------------------------


def _figures(found: Sequence[Point], taken: int, check: Mapping[str, Any], started: float) -> dict[str, Any]:
    rate = steady_rate(found, taken)
    if not rate:
        raise WrongOutputError(f"{len(found)} looks at the output are too few for a rate: give more --events")
    return {"events_per_s": rate, "events": taken, "looks": len(found), "check": check, "first_row_s": started}


def _both(label: str, setting: PublicRateSetting, one: Run, say: Say) -> dict[str, Any]:
    runs: dict[str, list[dict[str, Any]]] = {c.label: [] for c in setting.checkouts}
    for turn in range(setting.repeat):
        for checkout in in_turn(setting.checkouts, turn):
            name = f"{label.replace(', ', '-')}-{checkout.label}-{turn}"
            say(f"{name}: starting nadi run")
            before = os.getloadavg()[0]
            try:
                figures = one(checkout, name)
            except WrongOutputError as reason:
                raise WrongOutputError(f"{name}: {reason}") from None
            runs[checkout.label].append({**figures, "load": (before, os.getloadavg()[0])})
            say(f"{name}: {figures['events_per_s']:,.0f} events/s")
            shutil.rmtree(setting.folder / name, ignore_errors=True)
    return {"runs": runs, **rate_comparison(runs)}


def rate_comparison(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Spreads over the runs of each side, and the ratio of the medians: more than 1, this checkout is faster."""
    sides = {label: spread([run["events_per_s"] for run in made]) for label, made in runs.items()}
    base = sides[OTHER].median if OTHER in sides else 0.0
    return {"sides": sides, "ratio": round(sides[THIS].median / base, 3) if base else None}
