"""The suite `delivery`: what exactly-once costs. A keyed pattern from Kafka to Kafka, with all guarantees and without any, in turn in one node.

With: transactions, row numbers in headers, state in the checkpoint. Without: `loose.py`. The rows of every run are compared with what numpy says they must be,
and with guarantees each is numbered and there once.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench import timed
from bench.analysis import batch_summary, figures, rate, read_notes, spread, steady
from bench.apps import PATTERN
from bench.checks import Rows, WrongOutputError, compare, parse, pattern_rows
from bench.children import ROOT, Child, ChildFailedError
from bench.events import PIECE, Events, make_events, message
from bench.plan import Batch, Plan, Task, spark_only

KEYS = (1_000, 100_000)
PARTITIONS = 2
BATCH_EVENTS = 50_000
INPUT = "bench.in"
MODES = {"exactly once": "bench.timed", "no guarantees": "bench.loose"}
BROKER = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC")  # those that the peers' figures were taken with
WITHIN = 60.0  # seconds that the broker has for an answer
RUN_WITHIN = 300.0

Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class DeliverySetting:
    """`repeat`: runs of each mode, after a first one of each that does not count. `conf`: settings of Spark and nadi. `partitions`: of the input."""

    folder: Path
    servers: str
    keys: int
    events: int
    repeat: int
    master: str
    conf: Mapping[str, str] = field(default_factory=dict)
    partitions: int = PARTITIONS


def app_text(setting: DeliverySetting, run: int) -> str:
    """The app of one run: its own name, so its own state and transactions, and its own output."""
    server = f"bootstrap.servers='{setting.servers}', @map(type='json')"
    out, body = PATTERN
    return (
        f"@app:name('delivery-{setting.keys}-{run}')\n@source(type='kafka', topic.list='{topic_in(setting)}', {server})\n"
        "define stream In (ts long, sym string, price double, vol int);\n"
        f"@sink(type='kafka', topic='{topic_out(setting, run)}', {server})\n{out}\n@info(name='pattern')\n{body}\n"
    )


def topic_in(setting: DeliverySetting) -> str:
    return f"{INPUT}.{setting.keys}.{setting.partitions}"


def topic_out(setting: DeliverySetting, run: int) -> str:
    return f"bench.out.{setting.keys}.{setting.partitions}.{run}"


# ---- the broker ----------------------------------------------------------------------------------------------------


@contextmanager
def kafka(folder: Path) -> Iterator[str]:
    """The broker of the example, on loopback, for the time of a block; -> its address. Errors: ChildFailedError."""
    path = ROOT / "examples" / "kafka" / "broker.py"
    spec = importlib.util.spec_from_file_location("bench_broker", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look for their module
    spec.loader.exec_module(module)
    try:
        started = module.start(folder, java_options=BROKER)
    except module.NotPossible as reason:
        raise ChildFailedError(str(reason)) from reason
    try:
        yield started.address
    finally:
        started.stop()


def make_topics(setting: DeliverySetting, runs: int) -> None:
    """The input and an output for each run. Messages have times of long ago: they are not to be deleted for that."""
    kept = {"retention.ms": "-1"}
    topics = {
        topic_in(setting): setting.partitions,
        **{topic_out(setting, run): 1 for run in range(runs)},
    }  # one keeps the order
    admin = AdminClient({"bootstrap.servers": setting.servers})  # has to live until it has the answers
    made = admin.create_topics(
        [NewTopic(name, num_partitions=count, replication_factor=1, config=kept) for name, count in topics.items()]
    )
    for done in made.values():
        done.result(WITHIN)


def fill(setting: DeliverySetting, say: Say) -> Events:
    """Write the events into the input topic, partitioned by key; -> the events."""
    # idempotent, as a first request that a new topic refuses is sent again, behind the second
    config = {"bootstrap.servers": setting.servers, "linger.ms": 50, "enable.idempotence": True}
    producer = Producer({**config, "queue.buffering.max.messages": 500_000})
    topic = topic_in(setting)
    for start in range(0, setting.events, PIECE):
        part = make_events(start, min(setting.events, start + PIECE), setting.keys)
        columns = (part.ts.tolist(), part.key.tolist(), part.cents.tolist(), part.vol.tolist())
        for ts, key, cents, vol in zip(*columns, strict=True):
            producer.produce(topic, message(ts, key, cents, vol), partition=key % setting.partitions, timestamp=ts)
        if producer.flush(WITHIN):
            raise ChildFailedError("the broker does not take the events")
        say(f"{setting.keys:,} keys: {start + len(part):,} of {setting.events:,} events written")
    return make_events(0, setting.events, setting.keys)


def payloads(setting: DeliverySetting, run: int) -> Iterator[tuple[bytes, tuple[bytes, bytes, bytes] | None]]:
    """All committed messages of an output and what numbers them: producer, key-group, number; None where it has none."""
    topic = topic_out(setting, run)
    config = {"bootstrap.servers": setting.servers, "group.id": "bench", "isolation.level": "read_committed"}
    consumer = Consumer({**config, "enable.auto.commit": False, "enable.partition.eof": True})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while True:
            found = consumer.poll(WITHIN)
            if found is None:
                raise ChildFailedError("the broker is silent")
            if found.error() is not None:
                if found.error().name() != "_PARTITION_EOF":
                    raise KafkaException(found.error())
                return
            about = dict(found.headers() or ())
            number = (about["Nadi-Producer"], about["Nadi-Group"], about["Nadi-Number"]) if about else None
            yield found.value(), number
    finally:
        consumer.close()


# ---- measuring -----------------------------------------------------------------------------------------------------


def measure_delivery(setting: DeliverySetting, say: Say) -> dict[str, Any]:
    """The figures of both modes for one number of keys. Errors: ChildFailedError, WrongOutputError."""
    folder = setting.folder
    folder.mkdir(parents=True)
    modes = [mode for _ in range(setting.repeat + 1) for mode in MODES]
    make_topics(setting, len(modes))
    events = fill(setting, say)
    tasks = [_task(setting, run, mode) for run, mode in enumerate(modes)]
    plan = folder / "plan.json"
    plan.write_bytes(msgspec.json.encode(Plan(str(folder / "state"), tasks, setting.master, spark_only(setting.conf))))
    node = Child("bench.node", plan, folder / "node.log", {timed.NOTES: str(folder / "notes"), timed.PROFILE: ""})
    ended = []
    try:
        node.until("ready", 120, say_nothing)
        for run, mode in enumerate(modes):
            ended.append(node.until("ended", RUN_WITHIN, _shower(f"{setting.keys:,} keys, {mode}, run {run}", say)))
    finally:
        node.end()
    wanted = pattern_rows(events)
    notes = read_notes(folder / "notes")
    runs: dict[str, list[dict[str, Any]]] = {mode: [] for mode in MODES}
    for run, (mode, told) in enumerate(zip(modes, ended, strict=True)):
        say(f"{setting.keys:,} keys: checking run {run}")
        check = _checked(setting, run, mode, told, wanted)
        batches = steady(figures(msgspec.convert(told.pop("batches"), list[Batch]), notes))
        if run >= len(MODES):
            runs[mode].append({"events_per_s": rate(batches), "check": check, **batch_summary(batches)})
    return {"runs": runs, **_ratio(runs)}


def _task(setting: DeliverySetting, run: int, mode: str) -> Task:
    conf = {"nadi.batch.events": str(BATCH_EVENTS), "nadi.buckets": "2", **setting.conf}
    return Task(app_text(setting, run), False, conf=conf, module=MODES[mode], events=setting.events)


def say_nothing(_told: dict[str, Any]) -> None:
    """Nothing to show yet."""


def _shower(label: str, say: Say) -> Callable[[dict[str, Any]], None]:
    def show(told: dict[str, Any]) -> None:
        if told["at"] == "running":
            say(f"{label}: batch {told['batches']}, {told['in']:,} in, {told['out']:,} out  {told['error']}")

    return show


def _checked(
    setting: DeliverySetting, run: int, mode: str, told: dict[str, Any], wanted: Rows
) -> dict[str, int | float]:
    """Errors: WrongOutputError, where a row is missing, wrong or there twice, or is not numbered though it should."""
    if told["state"] != "stopped" or told["errors"] or told["restarts"] or told["in"] != setting.events:
        raise WrongOutputError(
            f"{mode}, run {run}: the app {told['state']} after {told['in']:,} events. {told['error']}"
        )
    came = list(payloads(setting, run))
    numbers = {number for _, number in came}
    if mode == "exactly once" and (None in numbers or len(numbers) != len(came)):
        raise WrongOutputError(f"{mode}, run {run}: {len(came):,} messages have {len(numbers):,} numbers")
    found, _ = parse(payload for payload, _ in came)
    return compare(wanted, found)


def _ratio(runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Medians over the runs, and exactly once to no guarantees."""
    told = {mode: spread([run["events_per_s"] for run in ran]) for mode, ran in runs.items()}
    exact, loose = (told[mode].median for mode in MODES)
    return {"events_per_s": told, "ratio": exact / loose if loose else 0.0}
