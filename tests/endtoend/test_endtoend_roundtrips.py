"""100,000 events over http, Kafka and NATS while executor host, server and node are killed with -9: none is lost, none comes twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from httpclient import Sender
from nodes import Node, events, running, until
from servers.ports import free_port
from sums import APP, Given, expected, made, per_key

from nadi.io.jetstream import Outgoing, Stream, publish_all
from nadi.io.natsclient import NatsClient
from nadi.io.natsserver import NatsServer
from nadi.io.sources.nats import stream_for

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(900)]

COUNT = 100_000
MEMORY = 1 << 30  # bytes
BATCHES = {"batch.events": 5_000, "buckets": 3, "hosts": 2}


def app(folder: Path, source: str, sink: str, every: int = 1) -> Path:
    path = folder / "sums.siddhi"
    path.write_text(APP.format(source=source, sink=sink, every=every))
    return path


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def as_event(given: Given) -> dict[str, Any]:
    return dict(zip(("k", "request", "n"), given, strict=True))


def stop(node: Node) -> None:
    """Ctrl-C; nothing of the node is left."""
    node.signal(signal.SIGINT)
    assert node.wait() == 0, node.said()
    node.gone(10)  # a host that has cleared its folder may need a moment to give its memory back


# ---- http


def test_every_acknowledged_http_event_is_in_the_result_exactly_once(tmp_path: Path):
    url = f"http://127.0.0.1:{free_port()}/in"
    out = tmp_path / "out.jsonl"
    text = app(tmp_path, f"type = 'http', receiver.url = '{url}'", f"type = 'file', file.uri = '{out}'")
    given = made(COUNT)
    requests = [[as_event(e) for e in given[i : i + 100]] for i in range(0, COUNT, 100)]
    options: dict[str, Any] = {"state": tmp_path / "state", "conf": {**BATCHES, "batch.events": 25}}  # of 100 each
    with Sender(url, requests) as sender:
        with running(text, **options) as node:
            sender.allowed = 400
            node.until(lambda: node.taken("Sums") >= 5_000)
            kill(node.host(0))
            node.until(lambda: node.taken("Sums") >= 15_000)
            sender.allowed = 700
            node.until(lambda: len(sender.acknowledged) > 420)
            kill(node.server())  # with requests under way
            node.until(lambda: len(sender.acknowledged) == 700)
            sender.allowed = len(requests)
            node.until(lambda: len(sender.acknowledged) > 720)
            before = node.taken("Sums")
            node.kill_tree()
        with running(text, **options) as node:
            node.until(lambda: len(sender.acknowledged) == len(requests))
            node.until(lambda: node.read_to("Sums") >= len(requests))
            node.until(lambda: sender.acknowledged <= {r["request"] for r in events(out)})
            stop(node)
    assert sender.refused == []
    assert 0 < before < COUNT
    rows = events(out)
    _check_numbers(rows)
    copies = Counter((row["request"], row["k"], row["n"]) for row in rows)
    assert set(copies) == {(request, k, n) for k, request, n in given}
    once = {r for r, attempts in enumerate(sender.attempts) if attempts == 1}
    assert len(once) > 900  # the kills hit a few requests only
    for (request, _, _), found in copies.items():
        assert found == 1 if request in once else found <= sender.attempts[request]


def _check_numbers(rows: Sequence[dict[str, Any]]) -> None:
    """Per key, counts go up by one and totals are the sums of what came: no result was written twice or left out."""
    for found in per_key(rows).values():
        total = 0
        for seen, row in enumerate(found, 1):
            total += row["n"]
            assert (row["seen"], row["total"]) == (seen, total)


# ---- Kafka


@pytest.fixture
def broker(broker_module: Any, tmp_path: Path) -> Iterator[Any]:
    """The address of a running broker, and what kills it with -9 and starts it again on the same port and folder."""
    try:
        started = broker_module.start(tmp_path / "kafka")
    except broker_module.NotPossible as reason:
        pytest.skip(str(reason))
    current = [started]

    def restart() -> None:
        kill(started.guard.process.pid)  # the broker dies with its guard
        started.guard.wait(60)
        current.append(broker_module.start(tmp_path / "kafka", int(started.address.split(":")[1])))

    yield started.address, restart
    for each in current:
        each.stop()


def test_kafka_to_kafka_is_exactly_once(broker: Any, tmp_path: Path):
    address, restart = broker
    topics = [NewTopic("in", num_partitions=2), NewTopic("out", num_partitions=1)]
    admin = AdminClient({"bootstrap.servers": address})  # must live as long as what it owes
    for created in admin.create_topics(topics).values():
        created.result(60)
    given = made(COUNT)
    _produce(address, given)
    servers = f"bootstrap.servers = '{address}'"
    sink = f"type = 'kafka', topic = 'out', {servers}, key = '{{{{k}}}}'"
    text = app(tmp_path, f"type = 'kafka', topic.list = 'in', {servers}", sink)
    options: dict[str, Any] = {"state": tmp_path / "state", "conf": BATCHES}
    with running(text, **options) as node:
        node.until(lambda: node.taken("Sums") >= 20_000)
        kill(node.host(0))
        node.until(lambda: node.taken("Sums") >= 40_000)
        restart()
        node.until(lambda: node.taken("Sums") >= 60_000)
        node.kill_tree()
    with running(text, **options) as node:
        node.until(lambda: node.read_to("Sums") >= COUNT)
        stop(node)
    assert per_key(_consumed(address)) == expected(given)


def _produce(address: str, given: Sequence[Given]) -> None:
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 20})
    for event in given:
        producer.produce("in", json.dumps({"event": as_event(event)}), event[0])
        producer.poll(0)
    assert producer.flush(120) == 0


def _consumed(address: str) -> list[dict[str, Any]]:
    """All committed messages of the topic `out`."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "look",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition("out", 0, 0)])
    rows = []
    try:
        while True:
            for message in consumer.consume(10_000, 1):
                if message.error() is not None:
                    assert message.error().name() == "_PARTITION_EOF"
                    return rows
                rows.append(json.loads(message.value())["event"])
    finally:
        consumer.close()


# ---- NATS


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is room. A server that syncs each of 20,000 messages waits for a disk most of the time, and what is killed with -9 loses
    nothing of a file either way."""
    shared = Path("/dev/shm")
    if not shared.is_dir() or shutil.disk_usage(shared).free < MEMORY:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        yield Path(folder)


def test_nats_to_nats_loses_and_doubles_nothing(tmp_path: Path, in_memory: Path):
    given = made(COUNT)
    with NatsServer(in_memory / "nats") as server:
        servers = f"bootstrap.servers = '{server.url}'"
        text = app(
            tmp_path,
            f"type = 'nats', destination = 'in', {servers}",
            f"type = 'nats', destination = 'out', {servers}",
            every=5,
        )
        client = NatsClient(server.url)
        for subject in ("in", "out"):
            client.call(lambda nc, subject=subject: stream_for(nc, subject))
        bodies = [json.dumps([{"event": as_event(e)} for e in given[i : i + 20]]) for i in range(0, COUNT, 20)]
        client.call(lambda nc: publish_all(nc, [Outgoing("in", body.encode(), {}) for body in bodies]), 180)
        options: dict[str, Any] = {"state": tmp_path / "state", "conf": {**BATCHES, "batch.events": 250}}
        with running(text, **options) as node:
            node.until(lambda: node.taken("Sums") >= 20_000)
            kill(node.host(0))
            node.until(lambda: node.taken("Sums") >= 40_000)
            kill(server.pid)
            node.until(lambda: node.taken("Sums") >= 60_000)
            node.kill_tree()
        with running(text, **options) as node:
            node.until(lambda: node.read_to("Sums") > len(bodies))  # its server counts from 1
            stop(node)
        until(lambda: server.pid)
        assert server.starts == 2
        rows = _stored(client)
        client.close()
    assert per_key(rows) == expected(given, every=5)


def _stored(client: NatsClient) -> list[dict[str, Any]]:
    """All messages of the subject `out`."""
    name = client.call(lambda nc: stream_for(nc, "out"))
    stream = Stream(client, name, "out")
    return [json.loads(m.data)["event"] for part in stream.read(1, stream.bounds().last + 1) for m in part]
