"""What loops read and write is what objects do, to the byte and to the piece."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from log_contract import Row, rows
from sample import connector, delivery

from nadi.io import kafkalibrary
from nadi.io.block import Block
from nadi.io.contract import Delivery, Log, Place, Sink
from nadi.io.registry import open_log, open_sink
from nadi.io.sinks import kafka_writers
from nadi.io.sources import kafka_readers

WAYS = ("objects", "loops")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(kafkalibrary.library() is None, reason="loops are not compiled here"),
]


def choose(patch: pytest.MonkeyPatch, way: str) -> None:
    patch.setattr(kafkalibrary, "WORTH", 0)
    if way == "objects":
        patch.setattr(kafkalibrary, "library", lambda: None)


def topic(servers: str, partitions: int = 1) -> str:
    name = f"t{uuid4().hex[:8]}"
    client = AdminClient({"bootstrap.servers": servers})  # has to live until it has the answer
    (made,) = client.create_topics([NewTopic(name, partitions)]).values()
    made.result()
    return name


def source(servers: str, name: str) -> Log:
    return open_log(connector("kafka", {"topic.list": name, "bootstrap.servers": servers}), Place("App", Path("/")))


def sink(servers: str, name: str, state: Path, **options: str) -> Sink:
    return open_sink(connector("kafka", {"topic": name, "bootstrap.servers": servers, **options}), Place("App", state))


def fill_with_gaps(servers: str, name: str, draw: random.Random) -> None:
    """Payloads of all lengths, tombstones, and transactions that were committed or aborted."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": name})
    producer.init_transactions(20)
    for turn in range(12):
        producer.begin_transaction()
        for _ in range(draw.randint(1, 40)):
            payload = draw.choice([None, b"", bytes(draw.choice((50, 100, 250, 300))), b"line\nline"])
            producer.produce(name, payload, key="k")
        producer.abort_transaction(10) if turn % 3 == 1 else producer.commit_transaction(10)


def cut(messages: list[Row]) -> list[list[Row]]:
    """Pieces as they must be: full with 7 messages, or with the one that brings 250 bytes."""
    pieces: list[list[Row]] = []
    size = 250
    for row in messages:
        if size >= 250 or len(pieces[-1]) == 7:
            pieces.append([])
            size = 0
        pieces[-1].append(row)
        assert isinstance(row[2], bytes)
        size += len(row[2])
    return pieces


def test_pieces_are_the_same_whatever_is_asked_for_and_however_it_comes(
    kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for constant, value in (("PIECE_MESSAGES", 7), ("PIECE_BYTES", 250), ("ROOM", 64)):
        monkeypatch.setattr(kafka_readers, constant, value)
    name, draw = topic(kafka), random.Random(6)
    fill_with_gaps(kafka, name, draw)
    found = []
    for way in WAYS:
        with monkeypatch.context() as patch:
            choose(patch, way)
            log = source(kafka, name)
            end = log.end(0)
            ranges = [(0, end), *(sorted(random.Random(n).sample(range(end + 1), 2)) for n in range(30))]
            ranges += itertools.pairwise([0, *sorted(random.Random(9).sample(range(end), 20)), end])
            pieces = [list(log.read(0, start, until)) for start, until in ranges]
            log.close()
        assert {isinstance(p.payloads, Block) for all_of in pieces for p in all_of} == {way == "loops"}
        found.append([[rows(piece) for piece in all_of] for all_of in pieces])
    assert found[0] == found[1]
    assert {len(piece) for all_of in found[1] for piece in all_of} >= {1, 7}
    assert any(len(piece) < 7 for piece in found[1][0][:-1]), "no piece was cut by its bytes"
    assert found[1] == [cut([row for piece in pieces for row in piece]) for pieces in found[1]]


def test_a_piece_is_left_as_it_was_when_the_next_one_is_read(kafka: str, monkeypatch: pytest.MonkeyPatch) -> None:
    choose(monkeypatch, "loops")
    monkeypatch.setattr(kafka_readers, "PIECE_MESSAGES", 5)
    name = topic(kafka)
    producer = Producer({"bootstrap.servers": kafka})
    for n in range(20):
        producer.produce(name, str(n))
    assert producer.flush(10) == 0
    log = source(kafka, name)
    blocks = [piece.payloads for piece in log.read(0, 0, 20)]
    log.close()
    assert [int(payload) for block in blocks for payload in block] == list(range(20))
    block = blocks[0]
    assert isinstance(block, Block)
    assert block.data.tobytes() == b"0\n1\n2\n3\n4\n"  # a newline after each


@pytest.mark.parametrize("start", [0, 100], ids=["the end of the partition", "a start that is not there"])
def test_what_comes_between_messages_says_the_same(kafka: str, start: int) -> None:
    name, library = topic(kafka), kafkalibrary.library()
    assert library is not None
    told = []
    for _way in WAYS:
        settings = {"bootstrap.servers": kafka, "group.id": "x", "enable.partition.eof": True}
        reader: kafka_readers.Reader = kafka_readers.MessageReader(
            Consumer({**settings, "auto.offset.reset": "error"}), ()
        )
        if told:
            reader = reader.in_blocks(library)  # type: ignore[attr-defined]
            assert isinstance(reader, kafka_readers.BlockReader)
        reader.begin(name, 0, start)
        while not isinstance(event := reader.step(1_000), kafka_readers.Event):
            assert event is kafka_readers.Came.NOTHING
        told.append((event.error.code(), event.error.str(), event.offset))
        reader.close()
    assert told[0] == told[1]
    assert told[0][1]


def stored(servers: str, name: str, partitions: int) -> Iterator[tuple[object, ...]]:
    """All there is of the committed messages, but for their times."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "x", "enable.partition.eof": True})
    for partition in range(partitions):
        consumer.assign([TopicPartition(name, partition, 0)])
        while True:
            message = consumer.poll(10)
            assert message is not None
            if message.error() is not None:
                break
            yield partition, message.key(), message.value(), message.headers()
    consumer.close()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"key": "same"},
        {"key": "{{name}}", "partition.no": "{{size}}"},
        {"optional.configuration": "queue.buffering.max.messages:11"},
    ],
    ids=["plain", "one key", "a key and a partition each", "a queue that is full all the time"],
)
def test_messages_are_the_same(
    kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    draw, partitions = random.Random(1), 1 if "partition.no" not in options else 4
    names = ["", "é€😀", "0", *("x" * draw.randint(0, partitions - 1) for _ in range(300))]
    names = [n[: partitions - 1] if partitions > 1 else n for n in names]
    deliveries = [
        delivery(0, names, first=9_999_990_000, bucket=3, group=127),
        delivery(1, names[5:40], first=0, bucket=3, group=-1),  # sent again
        _two_rows_each(delivery(2, names[:20], first=98, bucket=3)),
    ]
    found = []
    for way in WAYS:
        with monkeypatch.context() as patch:
            choose(patch, way)
            name = topic(kafka, partitions)
            target = sink(kafka, name, tmp_path / way, **options)
            made = kafka_writers.loop_writer
            used: list[object] = []
            patch.setattr(
                "nadi.io.sinks.kafka.loop_writer", lambda *a, used=used, made=made: used.append(1) or made(*a)
            )
            for each in deliveries:
                target.write(each)
            target.close()
            assert len(used) == (way == "loops")
            found.append(list(stored(kafka, name, partitions)))
    assert found[0] == found[1]
    assert len(found[0]) == len(names) + 35 + 10


def _two_rows_each(of: Delivery) -> Delivery:
    """Half as many payloads, which lie in one piece of memory that is not to be written to."""
    payloads = Block.of(of.payloads).taken(np.arange(0, len(of.payloads), 2))
    payloads.starts.flags.writeable = False
    return Delivery(of.bucket, of.cut, of.batch, payloads, range(0, len(of.payloads), 2))


def test_what_is_compiled_ahead_is_all_that_is_needed(
    kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nadi.io import kafkaloops

    choose(monkeypatch, "loops")
    kafkaloops.warm()
    name = topic(kafka)
    for number, options in enumerate(({}, {"key": "{{name}}"})):
        target = sink(kafka, name, tmp_path / str(number), **options)
        target.write(_two_rows_each(delivery(0, ["a", "b"])))
        target.write(delivery(1, ["a", "b"]))
        target.close()
    log = source(kafka, name)
    assert [len(piece) for piece in log.read(0, 0, log.end(0))] == [6]
    log.close()
    loops = (kafkaloops.take, kafkaloops.drop, kafkaloops.produce)
    assert [len(loop.signatures) for loop in loops] == [1, 1, 1]  # type: ignore[attr-defined]


READING = """
import sys
from confluent_kafka import Consumer
from nadi.io import kafkalibrary
from nadi.io.kafkaclient import COMMON
from nadi.io.sources.kafka_readers import BlockReader, Event, MessageReader

consumer = Consumer({**COMMON, "bootstrap.servers": sys.argv[1], "group.id": "g", "enable.partition.eof": True})
reader = MessageReader(consumer, ()).in_blocks(kafkalibrary.library())
assert isinstance(reader, BlockReader)
reader.begin(sys.argv[2], 0, 0)
while not isinstance(reader.step(10), Event):  # the end of the partition
    pass
print("there", flush=True)
for _ in range(20):
    reader.step(10)
reader.close()
"""


def test_a_process_that_reads_bytes_outlives_its_broker(broker_module: Any, tmp_path: Path) -> None:
    try:
        broker = broker_module.start(tmp_path)
    except broker_module.NotPossible as reason:
        pytest.skip(str(reason))
    command = [sys.executable, "-c", READING, broker.address, topic(broker.address)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reading:
        assert reading.stdout is not None
        assert reading.stdout.readline() == "there\n"
        broker.stop()
        assert reading.wait(60) == 0
