"""The floor without Spark: `python -m bench.floor ORDER` (a JSON file, `FloorOrder`). The same chain as a node's, in one process and one thread.

Kafka's log, the source's mapper, the kernel, its delta appended to a file and synced, the sink's mapper and a transaction of the Kafka sink: nadi's
own parts, with nothing between them that divides work, plans it, or makes it come back after a failure. What a batch costs here is what broker, disk and
kernel cost; the rest of a node's latency is the node's. A batch begins when there is something to read, and not before `interval_ms` after the begin of the
one before.

Lines on standard output are JSON: `{"at": "running"|"ended", …}`. Anything on the standard input, or its end, ends it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import pyarrow as pa

from bench.analysis import Spread, spread
from bench.load import tell
from nadi.config.settings import KERNEL
from nadi.io.contract import Connector, Delivery, Log, Place, SourceMapper
from nadi.io.registry import connectors, make_sink_mapper, make_source_mapper, open_log, open_sink
from nadi.kernel.contract import ARRIVAL_COLUMNS, ArrivalBatch, Outputs
from nadi.kernel.keys import key_group
from nadi.pipeline import engine
from nadi.plan.nodes import App

LOOK = 0.001  # seconds between two looks for input
TELL_EVERY = 1.0
PHASES = ("read", "kernel", "delta", "write")

T = TypeVar("T")


class FloorOrder(msgspec.Struct, frozen=True):
    """The text of an app with one source and one sink, where its files go, and the least time between the begins of two batches."""

    text: str
    folder: str
    interval_ms: float


class FloorBatch(msgspec.Struct, frozen=True):
    """A batch: when it began (ms since the epoch), its events, and how long each phase took (ms; "write" only where there were rows)."""

    begin: int
    events: int
    ms: dict[str, float]


class Inputs:
    """What the app reads, and how far it has come in each partition."""

    def __init__(self, app: App, source: Connector, place: Place) -> None:
        self._log: Log = open_log(source, place)
        self._mapper: SourceMapper = make_source_mapper(source)
        self._source = source
        self._keyed = app.sharding.kind == "key"
        self._at = [self._log.beginning(p) for p in range(self._log.partitions())]

    def waiting(self) -> list[tuple[int, int]]:
        """(partition, end) of those in which there is something to read."""
        ends = [(p, self._log.end(p)) for p in range(len(self._at))]
        return [(p, end) for p, end in ends if end > self._at[p]]

    def take(self, waiting: Sequence[tuple[int, int]], clock: int) -> list[ArrivalBatch]:
        """All that waits there, as arrivals; order times are those of the log, as far as the clock."""
        made = []
        for partition, end in waiting:
            for messages in self._log.read(partition, self._at[partition], end):
                decoded = self._mapper.decode(messages)
                if decoded.failures:
                    raise ValueError(f"no event can be made of a message: {decoded.failures[0]}")
                message = np.asarray(decoded.message, np.int64)
                order = np.minimum(np.maximum.accumulate(messages.times), clock)[message]
                made.append(self._arrivals(partition, decoded.batch, order, messages.positions[message]))
            self._at[partition] = end
        return made

    def _arrivals(self, partition: int, events: pa.RecordBatch, order: Any, positions: Any) -> ArrivalBatch:
        groups = [key_group(t) for t in events.column("sym").to_pylist()] if self._keyed else [0] * events.num_rows
        added = [order, positions, np.zeros(events.num_rows, np.int32), order, groups]
        columns = [pa.array(values, f.type) for values, f in zip(added, ARRIVAL_COLUMNS, strict=True)]
        schema = pa.schema([*events.schema, *ARRIVAL_COLUMNS])
        batch = pa.RecordBatch.from_arrays([*events.columns, *columns], schema=schema)
        return ArrivalBatch(self._source.stream, self._source.ordinal, partition, batch)

    def close(self) -> None:
        self._log.close()


class Deltas:
    """A file to which each delta is appended and synced."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def keep(self, delta: bytes) -> None:
        if delta:
            os.write(self._file, len(delta).to_bytes(8, "big") + delta)
            os.fdatasync(self._file)

    def close(self) -> None:
        os.close(self._file)


class Stopwatch:
    """How long each phase of each batch took, ms."""

    def __init__(self) -> None:
        self.batches: list[FloorBatch] = []
        self._spent: dict[str, float] = {}

    def call(self, phase: str, action: Callable[[], T]) -> T:
        """The result of `action`, timed."""
        begin = time.perf_counter()
        result = action()
        self._spent[phase] = 1000 * (time.perf_counter() - begin)
        return result

    def end(self, begin: int, events: int) -> None:
        """A batch that began at `begin` (ms since the epoch) is done."""
        whole = sum(self._spent.values())
        self.batches.append(FloorBatch(begin, events, {**self._spent, "batch": whole}))
        self._spent = {}


def batch_figures(batches: Sequence[FloorBatch], low: float, high: float) -> dict[str, Spread]:
    """Events and phases of the batches that began in [low, high), ms since the epoch.

    >>> batch_figures([FloorBatch(5, 10, {"read": 1.0}), FloorBatch(9, 30, {"read": 2.0})], 6, 10)["events"]
    Spread(median=30.0, min=30.0, max=30.0, count=1)
    """
    counted = [b for b in batches if low <= b.begin < high]
    phases = {p: spread([b.ms[p] for b in counted if p in b.ms]) for p in ("batch", *PHASES)}
    return {"events": spread([b.events for b in counted]), **phases}


def run(order: FloorOrder, over: threading.Event) -> None:
    """Run the chain until it is over. Errors: ValueError for what should not be there, and those of the parts."""
    app = engine.plan_app(order.text)
    (source,), (sink,) = connectors(app, "source"), connectors(app, "sink")
    place = Place(app.name, Path(order.folder) / "state")
    inputs, deltas, watch = Inputs(app, source, place), Deltas(place.state / "deltas"), Stopwatch()
    encoder, target = make_sink_mapper(sink), open_sink(sink, place)
    kernel = engine.make_kernel(app, (sink.stream,), properties={KERNEL: "auto"})
    kernel.start(_now())
    taken, cut, told, due = 0, 0, 0.0, 0.0
    try:
        while not over.is_set():
            clock = _now()
            if time.monotonic() < due or not (waiting := inputs.waiting()):
                time.sleep(LOOK)
                continue
            begin = time.monotonic()
            due, cut = begin + order.interval_ms / 1000, cut + 1
            arrivals = watch.call("read", lambda: inputs.take(waiting, clock))  # noqa: B023 (called at once)
            outputs: Outputs = watch.call("kernel", lambda: kernel.process(arrivals, clock))  # noqa: B023
            watch.call("delta", lambda: deltas.keep(kernel.delta()))
            batch = outputs.batches.get(sink.stream)
            if batch is not None and batch.num_rows:
                payloads, firsts = encoder.encode(batch)
                delivery = Delivery(0, cut, batch, payloads, firsts)
                watch.call("write", lambda: target.commit(cut, [target.write(delivery)]))  # noqa: B023
            count = sum(a.batch.num_rows for a in arrivals)
            taken += count
            watch.end(clock, count)
            if begin - told > TELL_EVERY:
                told = begin
                tell("running", batches=cut, taken=taken)
    finally:
        inputs.close()
        target.close()
        deltas.close()
    tell("ended", taken=taken, batches_ms=msgspec.to_builtins(watch.batches))


def _now() -> int:
    return time.time_ns() // 1_000_000


def main() -> None:
    over = threading.Event()

    def listen() -> None:
        sys.stdin.buffer.read(1)
        over.set()

    threading.Thread(target=listen, daemon=True).start()
    run(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=FloorOrder), over)


if __name__ == "__main__":
    main()
