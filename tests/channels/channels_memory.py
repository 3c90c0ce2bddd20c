"""A channel in memory, and producers that fill it: what the protocol gives, without a network."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from nadi.channels.options import Channel, Reading
from nadi.channels.records import Progress, decode_progress, encode_progress
from nadi.channels.sink import ChannelSink
from nadi.channels.source import ChannelLog
from nadi.channels.transport import Bounds, Size, Told, Transport
from nadi.errors import error
from nadi.io.contract import Connector, Delivery, Place, Receipt
from nadi.kernel.contract import OUTPUT_COLUMNS
from nadi.lang.tree import Annotation, Type
from nadi.plan.nodes import Column, Schema

SCHEMA = Schema((Column("key", Type.STRING), Column("value", Type.INT)))


MakeChannel = Callable[..., Transport]
"""(name, parts) → another view of a channel on a real server."""


class MemoryChannel:
    """Implements `Transport`. Several of them may share one `log`: (place, producer, record); what stands at a place before 0 was trimmed."""

    name = "channel in memory"

    def __init__(self, shared: MemoryChannel | None = None, largest: int = 1_000_000) -> None:
        self.log: list[tuple[str, bytes]] = [] if shared is None else shared.log
        self.told: list[Told] = [] if shared is None else shared.told
        self.owners: dict[str, object] = {} if shared is None else shared.owners
        self.reads = 0
        self._largest = largest

    def create(self, bounds: Bounds) -> None: ...
    def resize(self, bounds: Bounds) -> None: ...
    def remove(self) -> None:
        self.log.clear()
        self.told.clear()

    def trim(self, needed: Sequence[tuple[str, int]]) -> None: ...

    def size(self) -> Size:
        return Size(sum(len(record) for _, record in self.log), len(self.log))

    def admit(self, size: int) -> None: ...

    def largest(self) -> int:
        return self._largest

    def write(self, producer: str, bucket: int, batches: Sequence[tuple[int, bytes]]) -> list[int]:
        places = []
        for _part, record in batches:
            self.log.append(("", record))
            places.append(len(self.log))
        return places

    def claim(self, producer: str) -> Progress | None:
        self.owners[producer] = self
        return next((p for p in reversed(self._progress()) if p.producer == producer), None)

    def _progress(self) -> list[Progress]:
        return [told.progress for told in self.told]

    def announce(self, producer: str, progress: Progress) -> None:
        if self.owners.get(producer) is not self:
            raise error("FENCED", connector=self.name, producer=producer)
        self.log.append((producer, encode_progress(progress)))
        self.told.append(Told(len(self.log), decode_progress(self.log[-1][1])))

    def tails(self) -> list[Progress]:
        return list({p.producer: p for p in self._progress()}.values())

    def news(self, after: int) -> list[Told]:
        first = bisect_right(self.told, after, key=lambda told: told.place)
        return self.told[first : first + 3]

    def before(self, producer: str, positions: Mapping[int, int]) -> int:
        low = 0
        for told in self.told:
            if told.progress.producer == producer:
                if told.progress.is_beyond(positions):
                    break
                low = told.place
        return max(0, low - 1)

    def fetch(self, producer: str, part: int, places: Sequence[int]) -> list[bytes]:
        self.reads += 1
        return [self.log[place - 1][1] for place in places]

    def listen(self, after: int, heard: Callable[[], None]) -> None: ...
    @property
    def settles(self) -> float:
        return 0.0

    def listening(self) -> bool:
        return True

    def close(self) -> None: ...


def sink_connector(parts: int = 1, **more: str) -> Connector:
    """A sink of the stream S (key string, value int)."""
    options = {"transport": "nats", "name": "C", "partitions": str(parts), "url": "memory", "group": "g", **more}
    return Connector("S", SCHEMA, "channel", options, Annotation("map"), 0)


def sink_on(channel: MemoryChannel, producer: str = "A-1", parts: int = 1, **more: str) -> ChannelSink:
    """A sink that fills it as a producer."""
    options = {name.replace("_", "."): value for name, value in more.items()}
    return ChannelSink(sink_connector(parts, producer=producer, **options), Place(producer, None), channel)  # type: ignore[arg-type]


def log_on(
    channel: MemoryChannel, producers: Sequence[str] = ("A-1",), parts: int = 1, assigned: Sequence[int] = ()
) -> ChannelLog:
    """A log that reads it."""
    wanted = tuple(assigned) or tuple(range(parts))
    return ChannelLog(Reading(Channel("nats", "C", parts), wanted, tuple(producers)), channel)


Row = tuple[str, int, int, int]
"""(key, value, order time, chunk)."""


def delivery(
    cut: int,
    rows: Sequence[Row],
    first: int = 0,
    bucket: int = 0,
    epoch: int = 1,
    clock: int | None = None,
    groups: Sequence[int] = (),
) -> Delivery:
    """Rows of a cut, numbered from `first`; rows of equal chunk that follow each other are one chunk."""
    n = len(rows)
    numbers = np.arange(first, first + n, dtype=np.int64)
    chunks = numbers.copy()
    for i in range(1, n):
        if rows[i][3] == rows[i - 1][3]:
            chunks[i] = chunks[i - 1]
    columns = [pa.array([r[0] for r in rows], pa.string()), pa.array([r[1] for r in rows], pa.int32())]
    marks = [numbers, chunks, np.array([r[2] + 5 for r in rows], np.int64), np.array(groups or [0] * n, np.int16)]
    schema = pa.schema([pa.field("key", pa.string()), pa.field("value", pa.int32()), *OUTPUT_COLUMNS])
    batch = pa.RecordBatch.from_arrays([*columns, *(pa.array(m) for m in marks)], schema=schema)
    orders = np.array([r[2] for r in rows], np.int64)
    at = clock if clock is not None else max([0, *orders.tolist()])
    return Delivery(bucket, cut, batch, [], [], orders, at, epoch)


def give(sink: ChannelSink, of: Delivery) -> Receipt:
    """A whole cut of one bucket."""
    receipt = sink.write(of)
    sink.announce(of.cut, of.clock, [receipt])
    return receipt


def all_of(log: ChannelLog) -> list[tuple[int, int, int, str, int]]:
    """All that the log has: (order time, partition, position, key, value), in the order of arrivals."""
    found = []
    for partition in range(log.partitions()):
        for messages in log.read(partition, log.beginning(partition), log.end(partition)):
            rows = messages.payloads
            assert isinstance(rows, pa.RecordBatch)
            values = zip(rows.column(0).to_pylist(), rows.column(1).to_pylist(), strict=True)
            places = zip(messages.times.tolist(), messages.positions.tolist(), strict=True)
            found += [(time, partition, position, *row) for (time, position), row in zip(places, values, strict=True)]
    return sorted(found, key=lambda r: r[:3])


CHANNELS: dict[str, MemoryChannel] = {}
"""By name, for who opens them by that."""


def open_channel(channel: Channel) -> MemoryChannel:
    """As the modules of transports have it."""
    return MemoryChannel(CHANNELS.setdefault(channel.name, MemoryChannel()))
