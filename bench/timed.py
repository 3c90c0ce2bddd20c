"""The engine and the connectors of nadi with a stopwatch around each call: what hosts of a measured node load (`NodeOptions.engine`, `.connectors`).

Nothing of the pipeline knows of it. Every call leaves a line in `<NADI_BENCH_NOTES>/<process id>.jsonl`: phase `p`, begin `t` (s since the epoch), length `d`
(s), and counts. A batch has some tens of them, some microseconds each. With NADI_BENCH_PROFILE set, cProfile runs inside the calls, too.
"""

from __future__ import annotations

import atexit
import cProfile
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nadi.io import registry
from nadi.io.block import bytes_of
from nadi.io.contract import (
    Connector,
    Decoded,
    Delivery,
    Ingress,
    Log,
    Messages,
    Place,
    Receipt,
    Sink,
    SinkMapper,
    SourceMapper,
)
from nadi.kernel.contract import Arrivals, Kernel, Outputs, Segment
from nadi.pipeline import engine
from nadi.plan.nodes import App

T = TypeVar("T")

NOTES = "NADI_BENCH_NOTES"
PROFILE = "NADI_BENCH_PROFILE"
PROFILE_EVERY = 1.0  # seconds between two writings of the profile; a host is killed, not asked to leave

plan_app = engine.plan_app
connectors = registry.connectors


class Stopwatch:
    """Writes the notes of one process."""

    def __init__(self, folder: Path, profiled: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._notes = os.open(folder / f"{os.getpid()}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._stats = folder / f"{os.getpid()}.prof"
        self._profile = cProfile.Profile() if profiled else None
        self._turn = threading.Lock()  # a profile has one thread at a time
        self._dumped = time.monotonic()
        atexit.register(os.close, self._notes)

    def note(self, phase: str, begin: float, length: float, **counts: int) -> None:
        line = msgspec.json.encode({"p": phase, "t": begin, "d": length, **counts})
        os.write(self._notes, line + b"\n")

    def call(self, phase: str, action: Callable[[], T], counts: Callable[[T], dict[str, int]] | None = None) -> T:
        """The result of `action`, timed."""
        begin, start = time.time(), time.perf_counter()
        with self._profiling():
            result = action()
        self.note(phase, begin, time.perf_counter() - start, **(counts(result) if counts else {}))
        return result

    @contextmanager
    def _profiling(self) -> Iterator[None]:
        if self._profile is None:
            yield
            return
        with self._turn:
            self._profile.enable()
            try:
                yield
            finally:
                self._profile.disable()
                if time.monotonic() - self._dumped > PROFILE_EVERY:
                    self._profile.dump_stats(self._stats)
                    self._dumped = time.monotonic()


@cache
def _stopwatch_of(_process: int) -> Stopwatch:
    return Stopwatch(Path(os.environ[NOTES]), bool(os.environ.get(PROFILE)))


def stopwatch() -> Stopwatch:
    """The stopwatch of this process; a forked one gets its own."""
    return _stopwatch_of(os.getpid())


class TimedKernel:
    """A kernel whose calls are timed."""

    def __init__(self, inner: Kernel) -> None:
        self._inner = inner
        self._process = os.getpid()

    def start(self, now: int) -> None:
        self._inner.start(now)

    def process(self, arrivals: Arrivals, until: int) -> Outputs:
        events = sum(a.batch.num_rows for a in arrivals)
        return stopwatch().call("kernel", lambda: self._inner.process(arrivals, until), lambda _: {"events": events})

    def next_timer(self) -> int | None:
        return self._inner.next_timer()

    def delta(self) -> bytes:
        return stopwatch().call("delta", self._inner.delta, lambda made: {"bytes": len(made)})

    def dump(self) -> Iterable[Segment]:
        """Timed by the piece: in a child that dumps a large state the whole is never in memory. "dump" is that of a child."""
        begin, seconds, size = time.time(), 0.0, 0
        pieces = iter(self._inner.dump())
        while True:
            start = time.perf_counter()
            piece = next(pieces, None)
            seconds += time.perf_counter() - start
            if piece is None:
                break
            size += len(piece.payload)
            yield piece
        stopwatch().note("base" if os.getpid() == self._process else "dump", begin, seconds, bytes=size)

    def load(self, state: Iterable[Segment | bytes]) -> None:
        stopwatch().call("load", lambda: self._inner.load(state))

    def size(self) -> dict[str, int]:
        return stopwatch().call("size", self._inner.size)


def make_kernel(
    app: App, outputs: tuple[str, ...], bucket: int = 0, properties: Mapping[str, str] | None = None
) -> Kernel:
    """A timed kernel without state."""
    return TimedKernel(engine.make_kernel(app, outputs, bucket, properties))


class TimedLog:
    """A log whose reading is timed: `read` what the log itself takes, `reading` that and all that is done with it meanwhile."""

    def __init__(self, inner: Log) -> None:
        self._inner = inner

    def partitions(self) -> int:
        return self._inner.partitions()

    def beginning(self, partition: int) -> int:
        return self._inner.beginning(partition)

    def end(self, partition: int) -> int:
        return self._inner.end(partition)

    def finished(self) -> bool:
        return self._inner.finished()

    def times(self, partition: int, start: int, end: int) -> npt.NDArray[np.int64] | None:
        return self._inner.times(partition, start, end)

    def read(self, partition: int, start: int, end: int) -> Iterator[Messages]:
        begin, first = time.time(), time.perf_counter()
        pieces = self._inner.read(partition, start, end)
        while (piece := stopwatch().call("read", lambda: next(pieces, None), _read)) is not None:
            yield piece
        stopwatch().note("reading", begin, time.perf_counter() - first)

    def acknowledge(self, partition: int, position: int) -> None:
        self._inner.acknowledge(partition, position)

    def __getattr__(self, name: str) -> Any:
        """What only some logs can."""
        return getattr(self._inner, name)

    def close(self) -> None:
        self._inner.close()


def _read(piece: Messages | None) -> dict[str, int]:
    if piece is None:
        return {}
    payloads = piece.payloads
    size = bytes_of(payloads)
    return {"events": len(piece), "bytes": int(size)}


class TimedSourceMapper:
    """A decoder that is timed."""

    def __init__(self, inner: SourceMapper) -> None:
        self._inner = inner

    def decode(self, messages: Messages) -> Decoded:
        return stopwatch().call("decode", lambda: self._inner.decode(messages))


class TimedSinkMapper:
    """An encoder that is timed."""

    def __init__(self, inner: SinkMapper) -> None:
        self._inner = inner

    def encode(self, batch: pa.RecordBatch) -> tuple[Sequence[bytes], Sequence[int]]:
        return stopwatch().call("encode", lambda: self._inner.encode(batch), lambda _: {"events": batch.num_rows})


class TimedSink:
    """A sink that is timed."""

    def __init__(self, inner: Sink) -> None:
        self._inner = inner

    def write(self, delivery: Delivery) -> Receipt:
        size = bytes_of(delivery.payloads)
        return stopwatch().call("write", lambda: self._inner.write(delivery), lambda _: {"bytes": size})

    def commit(self, cut: int, receipts: Sequence[Receipt]) -> None:
        stopwatch().call("commit", lambda: self._inner.commit(cut, receipts))

    def close(self) -> None:
        self._inner.close()


def open_log(connector: Connector, place: Place) -> Log:
    return TimedLog(registry.open_log(connector, place))


def open_sink(connector: Connector, place: Place) -> Sink:
    return TimedSink(registry.open_sink(connector, place))


def make_source_mapper(connector: Connector) -> SourceMapper:
    return TimedSourceMapper(registry.make_source_mapper(connector))


def make_sink_mapper(connector: Connector) -> SinkMapper:
    return TimedSinkMapper(registry.make_sink_mapper(connector))


def make_ingress(connector: Connector, place: Place) -> Ingress | None:
    return registry.make_ingress(connector, place)
