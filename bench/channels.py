"""Channels alone, without Spark: rows a second through one channel, and how long a small cut takes from the producer to the reader.

    python bench/channels.py [--rows 2000000] [--cut 50000] [--parts 2] [--hops 200] [--only nats|kafka] [--json FILE]

A producer gives cuts of so many rows as its hosts and its coordinator do: batches, then the progress record. A reader in another thread is woken, looks, and
reads as a host does, into events. *rows/s* is from the first cut to the last row read; *alone* is what writing takes when nobody reads, and reading when all is
there. A *hop* is a cut of 10 rows: from before it is written to when its rows are read, the reader having slept. A *word* is the progress record of a producer
that has nothing to say. Servers are those of a node (NATS, synced) and of the examples (Kafka). The load before a run is printed. What is read is compared with
what was written.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.delivery import kafka
from nadi.channels.options import Channel, Reading
from nadi.channels.sink import ChannelSink
from nadi.channels.source import ChannelLog, ChannelMapper
from nadi.channels.transport import open_transport
from nadi.io.contract import Connector, Delivery, Place
from nadi.io.natsserver import NatsServer
from nadi.kernel.contract import OUTPUT_COLUMNS
from nadi.lang.tree import Annotation, Type
from nadi.plan.nodes import Column, Schema

SCHEMA = Schema(
    (Column("sym", Type.STRING), Column("price", Type.DOUBLE), Column("vol", Type.LONG), Column("n", Type.INT))
)
KEYS = 1_000
HOP_ROWS = 10
WORDS = 300
SLEEP = 0.02  # seconds between two hops


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--cut", type=int, default=50_000, help="rows of a cut")
    parser.add_argument("--parts", type=int, default=2)
    parser.add_argument("--hops", type=int, default=200)
    parser.add_argument("--only", choices=("nats", "kafka"), action="append")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    told: dict[str, Any] = {"rows": asked.rows, "cut": asked.cut, "parts": asked.parts, "load": os.getloadavg()[0]}
    print(f"load before: {told['load']:.1f}; {asked.rows:,} rows, {asked.cut:,} a cut, {asked.parts} parts")
    with tempfile.TemporaryDirectory() as folder:
        for transport in asked.only or ("nats", "kafka"):
            with _server(transport, Path(folder) / transport) as address:
                told[transport] = found = _measured(transport, address, asked)
            print(
                f"{transport}: {found['rows_s']:,.0f} rows/s; alone: writing {found['writing_s']:,.0f}, reading {found['reading_s']:,.0f}; "
                f"a hop takes {found['hop_ms']['median']:.1f} ms, p99 {found['hop_ms']['p99']:.1f} ms; "
                f"a word of a silent producer {found['word_ms']:.1f} ms, of these {found['word_processor_us']:.0f} µs of the producer's processor"
            )
    if asked.json:
        asked.json.write_text(json.dumps(told, indent=1))


@contextlib.contextmanager
def _server(transport: str, folder: Path) -> Iterator[str]:
    if transport == "nats":
        with NatsServer(folder) as server:
            yield server.url
    else:
        with kafka(folder) as servers:
            yield servers


def _measured(transport: str, address: str, asked: argparse.Namespace) -> dict[str, Any]:
    cuts = [_delivery(n, asked.cut) for n in range(1, asked.rows // asked.cut + 1)]
    warm = Ends(transport, address, "warm", asked.parts)
    warm.give_all(cuts[:2])
    warm.read_all(2 * asked.cut)
    warm.close()

    both = Ends(transport, address, "both", asked.parts)
    begin = time.perf_counter()
    writer = threading.Thread(target=both.give_all, args=(cuts,))
    writer.start()
    both.read_all(asked.rows, both.woken)
    through = time.perf_counter() - begin
    writer.join()
    both.close()

    alone = Ends(transport, address, "alone", asked.parts)
    writing = _seconds(lambda: alone.give_all(cuts))
    reading = _seconds(lambda: alone.read_all(asked.rows))
    alone.close()

    hops = Ends(transport, address, "hops", asked.parts)
    times = hops.hops(asked.hops)
    hops.close()

    quiet = Ends(transport, address, "quiet", asked.parts)
    wall, processor = quiet.words(WORDS)
    quiet.close()
    return {
        "word_ms": wall,
        "word_processor_us": processor,
        "rows_s": asked.rows / through,
        "writing_s": asked.rows / writing,
        "reading_s": asked.rows / reading,
        "hop_ms": {"median": statistics.median(times), "p99": float(np.percentile(times, 99))},
    }


class Ends:
    """A producer and a reader of a channel of its own."""

    def __init__(self, transport: str, address: str, name: str, parts: int) -> None:
        options = {"transport": transport, "name": name, "partitions": str(parts), "bootstrap.servers": address}
        channel = Channel(transport, name, parts, address, options)
        connector = Connector("S", SCHEMA, "channel", {**options, "key": "sym"}, Annotation("map"), 0)
        self._sink = ChannelSink(connector, Place("P-1", Path()), open_transport(channel))
        self._sink.begin(1, (0, 0))
        self._log = ChannelLog(Reading(channel, tuple(range(parts)), ("P-1",)), open_transport(channel))
        self._mapper = ChannelMapper(connector)
        self._rung = threading.Event()
        self._ends = [0] * parts
        self._log.wake(self._rung.set)

    def give_all(self, cuts: list[Delivery]) -> None:
        for cut in cuts:
            self.give(cut)

    def give(self, cut: Delivery) -> None:
        self._sink.announce(cut.cut, cut.clock, [self._sink.write(cut)])

    def woken(self) -> None:
        """Wait until there may be something."""
        self._rung.wait(1.0)
        self._rung.clear()

    def read(self) -> tuple[int, int]:
        """What there is now: rows, and the sum of the numbers in them."""
        rows = total = 0
        for part, start in enumerate(self._ends):
            end = self._log.end(part)
            for messages in self._log.read(part, start, end):
                decoded = self._mapper.decode(messages)
                rows += decoded.batch.num_rows
                total += int(decoded.batch.column(3).to_numpy().sum(dtype=np.int64))
            self._ends[part] = end
            self._log.acknowledge(part, end)
        return rows, total

    def read_all(self, wanted: int, wait: Callable[[], None] = lambda: None) -> None:
        rows = total = 0
        while rows < wanted:
            wait()
            more, summed = self.read()
            rows, total = rows + more, total + summed
        assert (rows, total) == (wanted, wanted * (wanted - 1) // 2), "not what was written"

    def hops(self, count: int) -> list[float]:
        """ms from before a small cut is written to when it is read."""
        times: list[float] = []
        for n in range(1, count + 1):
            cut = _delivery(n, HOP_ROWS)
            self.read()
            self._rung.clear()
            time.sleep(SLEEP)  # a reader that sleeps is what a hop meets
            begin = time.perf_counter()
            thread = threading.Thread(target=self.give, args=(cut,))
            thread.start()
            found = 0
            while found < HOP_ROWS:
                self.woken()
                found += self.read()[0]
            times.append((time.perf_counter() - begin) * 1_000)
            thread.join()
        return times[count // 10 :]  # the first ones connect and join

    def words(self, count: int) -> tuple[float, float]:
        """(ms, µs of this process' processor time) for each word of a producer that has nothing to say."""
        self._sink.idle(1)
        begin, used = time.perf_counter(), time.process_time()
        for n in range(count):
            self._sink.idle(1_000 * (n + 1))
        return (time.perf_counter() - begin) * 1e3 / count, (time.process_time() - used) * 1e6 / count

    def close(self) -> None:
        self._log.close()
        self._sink.close()


def _delivery(cut: int, size: int) -> Delivery:
    first = (cut - 1) * size
    numbers = np.arange(first, first + size, dtype=np.int64)
    symbols = pa.array([f"k{n:05d}" for n in range(KEYS)])
    attributes = [
        symbols.take(pa.array(numbers * 7 % KEYS)),
        pa.array(numbers * 0.25),
        pa.array(numbers * 3),
        pa.array(numbers.astype(np.int32)),
    ]
    marks = [numbers, numbers, numbers // 100, np.zeros(size, np.int16)]
    kinds = (pa.string(), pa.float64(), pa.int64(), pa.int32())
    schema = pa.schema([*(pa.field(c.name, k) for c, k in zip(SCHEMA.columns, kinds, strict=True)), *OUTPUT_COLUMNS])
    batch = pa.RecordBatch.from_arrays([*attributes, *map(pa.array, marks)], schema=schema)
    return Delivery(0, cut, batch, [], [], numbers // 100, int(numbers[-1]) // 100 + 1, 1)


def _seconds(action: Callable[[], None]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
