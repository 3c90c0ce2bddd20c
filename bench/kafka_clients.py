"""Kafka's source and sink alone, with messages as objects and in loops: microseconds of processor time per message.

    python bench/kafka_clients.py [--messages 300000] [--repeat 3]

Runs of both ways in turn, in one process, against a broker of its own. *caller* is the thread that reads or writes, *process* all threads of it, librdkafka's
own included. Sizes are those of the suite `kafka`. What is read is compared with what was written.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.delivery import kafka
from nadi.io import kafkalibrary
from nadi.io.block import Block
from nadi.io.contract import Connector, Delivery, Place
from nadi.io.registry import open_log, open_sink
from nadi.kernel.contract import OUTPUT_COLUMNS
from nadi.lang.tree import Annotation, Element, Type
from nadi.plan.nodes import Column, Schema

TRANSACTION = 50_000
PAYLOAD = b'{"ts":1700000000000,"sym":"k%05d","price":55.25,"vol":%08d}'
WAYS = ("objects", "loops")
Used = tuple[float, float, float]  # seconds: caller, process, wall


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--messages", type=int, default=300_000)
    parser.add_argument("--repeat", type=int, default=3)
    asked = parser.parse_args()
    payloads = [PAYLOAD % (n % 1_000, n) for n in range(asked.messages)]
    print(f"{asked.messages:,} messages of {len(payloads[0])} bytes")
    with tempfile.TemporaryDirectory() as folder, kafka(Path(folder) / "kafka") as servers:
        _fill(servers, payloads)
        for what, run in (("read", _reads(servers, payloads)), ("write", _writes(servers, payloads, Path(folder)))):
            found: dict[str, list[Used]] = {way: [] for way in WAYS}
            for turn in range(asked.repeat + 1):
                for way in WAYS:
                    with _only(way):
                        used = run(f"{way}{turn}")
                    if turn:  # the first one compiles, connects and fills caches
                        found[way].append(used)
            for way in WAYS:
                each = (1e6 * statistics.median(column) / asked.messages for column in zip(*found[way], strict=True))
                print(
                    f"{what:6}{way:8}"
                    + "  ".join(f"{n} {us:.2f} µs" for n, us in zip(("caller", "process", "wall"), each))
                )


@contextmanager
def _only(way: str) -> Iterator[None]:
    if way == "loops":
        assert kafkalibrary.library() is not None, "loops are not possible here"
        yield
        return
    with mock.patch.object(kafkalibrary, "library", return_value=None):
        yield


def _fill(servers: str, payloads: list[bytes]) -> None:
    client = AdminClient({"bootstrap.servers": servers})
    for made in client.create_topics([NewTopic("in", 1), NewTopic("out", 1)]).values():
        made.result()
    producer = Producer({"bootstrap.servers": servers, "queue.buffering.max.messages": len(payloads) + 1})
    for payload in payloads:
        producer.produce("in", payload)
    assert producer.flush(60) == 0


def _connector(options: dict[str, str]) -> Connector:
    nested = Annotation("map", (Element("type", "json"),))
    return Connector("S", Schema((Column("n", Type.LONG),)), "kafka", options, nested, 0)


def _timed(work: Callable[[], object]) -> Used:
    before = time.thread_time(), time.process_time(), time.perf_counter()
    work()
    after = time.thread_time(), time.process_time(), time.perf_counter()
    return after[0] - before[0], after[1] - before[1], after[2] - before[2]


def _reads(servers: str, payloads: list[bytes]) -> Callable[[str], Used]:
    options = {"topic.list": "in", "bootstrap.servers": servers}

    def run(_name: str) -> Used:
        log = open_log(_connector(options), Place("bench", Path("/nowhere")))
        assert log.end(0) == len(payloads)
        for _piece in log.read(0, 0, 1):
            pass  # it is connected
        pieces: list[object] = []
        used = _timed(lambda: pieces.extend(piece.payloads for piece in log.read(0, 0, len(payloads))))
        log.close()
        assert [one for piece in pieces for one in piece] == payloads  # type: ignore[attr-defined]
        return used

    return run


def _writes(servers: str, payloads: list[bytes], folder: Path) -> Callable[[str], Used]:
    deliveries = [_delivery(cut, payloads) for cut in range(len(payloads) // TRANSACTION)]
    first = _delivery(0, payloads[:1])

    def run(name: str) -> Used:
        target = open_sink(_connector({"topic": "out", "bootstrap.servers": servers}), Place(name, folder / name))
        target.write(first)
        used = _timed(lambda: [target.write(each) for each in deliveries])
        target.close()
        return used

    return run


def _delivery(cut: int, payloads: list[bytes]) -> Delivery:
    part = payloads[cut * TRANSACTION : (cut + 1) * TRANSACTION]
    numbers = np.arange(cut * TRANSACTION, cut * TRANSACTION + len(part))
    columns = [
        pa.array(numbers if c.type == pa.int64() else np.zeros(len(part), np.int16), c.type) for c in OUTPUT_COLUMNS
    ]
    schema = pa.schema([pa.field("n", pa.int64()), *OUTPUT_COLUMNS])
    batch = pa.RecordBatch.from_arrays([pa.array(numbers), *columns], schema=schema)
    return Delivery(0, cut + 1, batch, Block.of(part), list(range(len(part))))


if __name__ == "__main__":
    main()
