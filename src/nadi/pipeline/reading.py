"""Reading a range of an input in a host: messages → events → the fat rows of each bucket."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nadi.io.contract import Connector, Decoded, Log, Messages, SourceMapper
from nadi.kernel.contract import ARRIVAL_COLUMNS
from nadi.pipeline.bucketing import Split, Splitter
from nadi.pipeline.fatrows import BODY_ROWS, FatRow, pack, to_ipc

Ints = npt.NDArray[np.int64]
ERRORS_PER_ROW = 1_000


@dataclass(frozen=True, slots=True)
class Range:
    """Positions [start, end) of a partition: piece `split` of what the cut takes of it; `high` is the running maximum of log times before the cut."""

    ordinal: int
    partition: int
    start: int
    end: int
    split: int = 0
    high: int | None = None

    def plain(self) -> list[int | None]:
        return [self.ordinal, self.partition, self.start, self.end, self.split, self.high]


@dataclass(frozen=True, slots=True)
class Input:
    """An open input: how its messages become events and its events find their buckets. Logs have one user at a time: `lock`."""

    connector: Connector
    log: Log
    mapper: SourceMapper
    split: Splitter
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def time_column(self) -> int | None:
        """The attribute that holds the event's own time, where the source says so."""
        name = self.connector.options.get("event.time")
        return None if name is None else self.connector.schema.position(name)


@dataclass(slots=True)
class Read:
    """What a reading has met so far: the least and the greatest log time, bytes, fat rows."""

    low: int | None = None
    high: int | None = None
    bytes: int = 0
    sequence: int = field(default=0)


def read_range(source: Input, wanted: Range, state: Read) -> Iterator[FatRow]:
    """The fat rows of a range, event rows and error rows; `state` has the greatest log time and the bytes when it is over.

    Errors: those of the log.
    """
    if wanted.end <= wanted.start:
        return
    for messages in source.log.read(wanted.partition, wanted.start, wanted.end):
        if not len(messages):
            continue
        running = np.maximum.accumulate(messages.times)
        if state.high is not None:
            running = np.maximum(running, state.high)
        state.high = int(running[-1])
        least = int(messages.times.min())
        state.low = least if state.low is None else min(state.low, least)
        state.bytes += _size(messages)
        decoded = source.mapper.decode(messages)
        yield from _event_rows(source, wanted, messages, decoded, running, state)
        yield from _error_rows(wanted, messages, decoded)


def _size(messages: Messages) -> int:
    payloads = messages.payloads
    return int(payloads.nbytes) if isinstance(payloads, pa.RecordBatch) else sum(map(len, payloads))


def _event_rows(
    source: Input, wanted: Range, messages: Messages, decoded: Decoded, running: Ints, state: Read
) -> Iterator[FatRow]:
    if not decoded.batch.num_rows:
        return
    message = np.asarray(decoded.message, np.int64)
    order = running[message]
    stamps, own = _timestamps(source, decoded, order)
    split = source.split(decoded.batch, message, wanted.partition)
    positions = messages.positions[message]
    for bucket in np.unique(split.buckets):
        chosen = np.flatnonzero(split.buckets == bucket)
        for part in _at_messages(chosen, message[split.kept[chosen]]):
            batch = _arrivals(decoded.batch, split, part, order, positions, stamps)
            head = {
                "k": "events",
                "o": wanted.ordinal,
                "p": wanted.partition,
                "s": wanted.split,
                "q": state.sequence,
                "t": own,
            }
            state.sequence += 1
            yield FatRow(int(bucket), head, to_ipc(batch))


def _at_messages(chosen: Ints, message: Ints) -> Iterator[Ints]:
    """Pieces of about BODY_ROWS events; a message is never cut, for it is one chunk."""
    at = 0
    while at < len(chosen):
        end = min(at + BODY_ROWS, len(chosen))
        end = int(np.searchsorted(message, message[end - 1], side="right"))
        yield chosen[at:end]
        at = end


def _timestamps(source: Input, decoded: Decoded, order: Ints) -> tuple[Ints, bool]:
    """The events' timestamps, and whether they are their own (else order times, which later stages may raise)."""
    if decoded.timestamps is not None:
        return np.asarray(decoded.timestamps, np.int64), True
    column = source.time_column
    if column is None:
        return order, False
    values = decoded.batch.column(column)
    if not values.null_count:
        return values.to_numpy().astype(np.int64), True
    filled = values.fill_null(-1).to_numpy().astype(np.int64)
    return np.where(values.is_null().to_numpy(zero_copy_only=False), order, filled), True


def _arrivals(
    events: pa.RecordBatch, split: Split, part: Ints, order: Ints, positions: Ints, stamps: Ints
) -> pa.RecordBatch:
    """The events `part` (indices into the split) with their arrival columns."""
    rows = split.kept[part]
    whole = len(rows) == events.num_rows  # kept is ascending, so this is every event in its place
    attributes = events if whole else events.take(pa.array(rows))
    added: list[Any] = [order[rows], positions[rows], split.runs[part], stamps[rows], split.groups[part]]
    columns = [pa.array(values, f.type) for values, f in zip(added, ARRIVAL_COLUMNS, strict=True)]
    schema = pa.schema([*attributes.schema, *ARRIVAL_COLUMNS])
    return pa.RecordBatch.from_arrays([*attributes.columns, *columns], schema=schema)


def _error_rows(wanted: Range, messages: Messages, decoded: Decoded) -> Iterator[FatRow]:
    if not decoded.failures:
        return
    times = dict(zip(messages.positions.tolist(), messages.times.tolist(), strict=True))
    told = [
        [wanted.ordinal, wanted.partition, f.position, times.get(f.position, 0), f.reason, f.payload]
        for f in decoded.failures
    ]
    for at in range(0, len(told), ERRORS_PER_ROW):
        yield FatRow(0, {"k": "errors"}, pack(told[at : at + ERRORS_PER_ROW]))
