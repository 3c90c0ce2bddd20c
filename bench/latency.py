"""The suite `latency`: from Kafka to Kafka at a steady rate, from the append of an event to that of the row which it completes.

Both times are the broker's (`LogAppendTime`), so no clocks are compared. A row that is appended is seen by readers of committed rows only when
its transaction is closed: *seen* is when such a reader, in the process of the load, had it. Every row is compared with numpy's before a figure
counts.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench import timed
from bench.analysis import batch_summary, figures, percentiles, read_notes, timeline
from bench.apps import app_text
from bench.checks import Rows, WrongOutputError, check_live, parse, size
from bench.children import Child, ChildFailedError
from bench.events import Ints
from bench.latency_load import Order, sent_events
from bench.load import FIRST_WITHIN
from bench.measure import profile_text
from bench.node import Batch, Plan, Task, spark_only
from bench.processors import Used, processor_seconds, shares

APPS = ("filter", "pattern")
PARTITIONS = 2
WITHIN = 60.0  # seconds that the broker has for an answer
PROCESSED_WITHIN = 240.0
GOALS = {"p50": 150.0, "p99": 250.0}  # ms, of the pattern, from append to append
WARM, SECONDS = 30.0, 30.0

Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class LatencySetting:
    """`rate` events/s, `warm` seconds of it that do not count and `seconds` that do; `conf` are settings of Spark and nadi."""

    folder: Path
    servers: str
    rate: int
    warm: float
    seconds: float
    profile: bool
    master: str
    conf: dict[str, str]

    def topic(self, app: str, way: str) -> str:
        return f"latency.{app}.{way}"


def text_of(app: str, setting: LatencySetting) -> str:
    """The app from topic to topic."""
    server = f"bootstrap.servers='{setting.servers}'"
    source = f"type='kafka', topic.list='{setting.topic(app, 'in')}', {server}"
    return app_text(app, f"{app}-latency", source, f"type='kafka', topic='{setting.topic(app, 'out')}', {server}")


def measure_latency(app: str, setting: LatencySetting, say: Say) -> dict[str, Any]:
    """The figures of one app. Errors: ChildFailedError, WrongOutputError (figures of wrong results are not given)."""
    folder = setting.folder / app
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    make_topics(app, setting)
    plan = folder / "plan.json"
    task = Task(text_of(app, setting), False, conf=setting.conf)
    plan.write_bytes(msgspec.json.encode(Plan(str(folder / "state"), [task], setting.master, spark_only(setting.conf))))
    environment = {timed.NOTES: str(folder / "notes"), timed.PROFILE: "1" if setting.profile else ""}
    say(f"{app}: starting a node")
    load_before = os.getloadavg()[0]
    node = Child("bench.node", plan, folder / "node.log", environment)
    try:
        node.until("ready", 120, _quiet)
        node.until("starting", 60, _quiet)
        loaded = _run_load(app, setting, folder, node, say)
        node.say("stop")
        ended = node.until("ended", 240, _quiet)
    finally:
        node.end()
    say(f"{app}: checking what came out")
    return {"load": (load_before, os.getloadavg()[0]), **results(app, setting, folder, loaded, ended)}


def make_topics(app: str, setting: LatencySetting) -> None:
    """Input and output; both are stamped by the broker."""
    config = {"message.timestamp.type": "LogAppendTime"}
    counts = {setting.topic(app, "in"): PARTITIONS, setting.topic(app, "out"): 1}  # one keeps the order
    admin = AdminClient({"bootstrap.servers": setting.servers})  # has to live until it has the answers
    made = admin.create_topics([NewTopic(n, c, replication_factor=1, config=config) for n, c in counts.items()])
    for done in made.values():
        done.result(WITHIN)


def _quiet(_told: dict[str, Any]) -> None:
    """Nothing to show yet."""


def _run_load(app: str, setting: LatencySetting, folder: Path, node: Child, say: Say) -> dict[str, Any]:
    topics = {"source": setting.topic(app, "in"), "target": setting.topic(app, "out"), "partitions": PARTITIONS}
    bounds = {"rate": setting.rate, "warm": setting.warm, "seconds": setting.seconds}
    path = folder / "load.json"
    used: list[tuple[float, Used]] = []
    path.write_bytes(msgspec.json.encode(Order(setting.servers, folder=str(folder / "load"), **topics, **bounds)))

    def show(told: dict[str, Any]) -> None:
        if told["at"] == "sending":
            if told["phase"] == "measuring":
                used.append((time.monotonic(), processor_seconds(setting.folder)))
            say(f"{app}: {told['phase']}, {told['left']:.0f} s left, {told['sent']:,} sent, {told['got']:,} came")

    load = Child("bench.latency_load", path, folder / "load.log", {})
    try:
        sent = load.until("sent", FIRST_WITHIN + setting.warm + setting.seconds + 60, show)["sent"]
        limit = time.monotonic() + PROCESSED_WITHIN
        while (taken := node.until("running", 30, _quiet)["in"]) < sent:
            say(f"{app}: {taken:,} of {sent:,} processed")
            if time.monotonic() > limit:
                late = f"{PROCESSED_WITHIN:.0f} s after the last"
                raise ChildFailedError(f"{app}: {taken:,} of {sent:,} events processed {late}")
        load.say("all rows are out")
        (since, before), (until, after) = used[0], used[-1]
        cores = shares(before, after, until - since) if until > since else {}
        return {**load.until("done", 60, _quiet), "cores": cores}
    finally:
        load.end()


# ---- results -------------------------------------------------------------------------------------------------------


def results(
    app: str, setting: LatencySetting, folder: Path, loaded: dict[str, Any], ended: dict[str, Any]
) -> dict[str, Any]:
    """Figures of a run that is over. Errors: WrongOutputError."""
    if ended["state"] != "stopped" or ended["errors"] or ended["restarts"]:
        trouble = f"{ended['errors']} in the error store, {ended['restarts']} restarts. {ended['error']}"
        raise WrongOutputError(f"{app}: the app {ended['state']}, {trouble}")
    low, high = loaded["counted"]
    sent = sent_events(folder / "load")
    found, origin = parse((folder / "load" / "came.jsonl").read_bytes().splitlines())
    try:
        check = check_live(app, sent, found)
    except WrongOutputError as reason:
        raise WrongOutputError(f"{app}: {reason}") from None
    appended = np.load(folder / "load" / "appended.npy")[origin] * 1000
    came = np.load(folder / "load" / "came.npy")[origin]
    inputs = append_times(setting, app, len(sent))
    append, seen = latencies(found, (sent.ts, inputs), appended, came, (low, high))
    notes = read_notes(folder / "notes")
    batches = figures(msgspec.convert(ended.pop("batches"), list[Batch]), notes)
    chosen = [b for b in batches if b.begin + b.ms > low / 1000 and b.begin < high / 1000]
    counted = int(((sent.ts >= low) & (sent.ts < high)).sum())
    told = {
        "append_ms": percentiles(append),
        "seen_ms": percentiles(seen),
        "rows": len(append),
        "offered_per_s": counted / setting.seconds,
        "load_late_s": loaded["late"],
        "cores": loaded["cores"],
        "check": check,
        **batch_summary(chosen),
        "timeline_ms": timeline(chosen, notes),
        "latencies_us": append.tolist(),
        "all_batches": batches,
    }
    return {**told, "profile": profile_text(folder / "notes")} if setting.profile else told


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


def append_times(setting: LatencySetting, app: str, count: int) -> Ints:
    """When each event was appended to the input topic (µs), in the order of sending. Errors: ChildFailedError."""
    topic = setting.topic(app, "in")
    consumer = Consumer({"bootstrap.servers": setting.servers, "group.id": "bench-in", "enable.auto.commit": False})
    stamps, times = np.zeros(count, np.int64), np.zeros(count, np.int64)
    at = 0
    decode = msgspec.json.Decoder().decode
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
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
