"""Attribute types as Arrow types, and rows as record batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nadi.errors import NadiError, error
from nadi.kernel.contract import GROUP, ORDER, OUTPUT_COLUMNS, POSITION, RUN, TS, ArrivalBatch
from nadi.kernel.rows.events import CURRENT, Chunk, Row, event_of
from nadi.lang.tree import Type
from nadi.plan.nodes import Schema
from nadi.received import read_json

Longs = npt.NDArray[np.int64]
_NO_LONGS: Longs = np.zeros(0, np.int64)
ARROW_TYPES: dict[Type, pa.DataType] = {
    Type.STRING: pa.string(),
    Type.INT: pa.int32(),
    Type.LONG: pa.int64(),
    Type.FLOAT: pa.float32(),
    Type.DOUBLE: pa.float64(),
    Type.BOOL: pa.bool_(),
    Type.OBJECT: pa.string(),
}
"""Values of type `object` travel as JSON text; what JSON has no form for (a set, an exception) as a list or its text."""


def arrow_schema(schema: Schema) -> pa.Schema:
    """The attributes of a stream as Arrow fields."""
    return pa.schema([pa.field(c.name, ARROW_TYPES[c.type]) for c in schema.columns])


def _objects(schema: Schema) -> tuple[int, ...]:
    return tuple(i for i, c in enumerate(schema.columns) if c.type is Type.OBJECT)


def _plain(value: object) -> object:
    return sorted(value, key=repr) if isinstance(value, (set, frozenset)) else str(value)


_JSON = msgspec.json.Encoder(enc_hook=_plain)


def _as_json(value: object) -> str | None:
    return None if value is None else _JSON.encode(value).decode()


def _from_json(text: str | None) -> object:
    if text is None:
        return None
    try:
        return read_json(text)
    except msgspec.DecodeError:
        return text


def chunks(arrival: ArrivalBatch, schema: Schema) -> Iterator[tuple[tuple[int, int, int, int, int], int, str, Chunk]]:
    """The arrivals of a batch, in order: (place among all arrivals, key-group, input, chunk).

    The place is (order time, ordinal, partition, position, run): rows that agree in position and run are one arrival.
    """
    batch = arrival.batch
    names = batch.schema.names
    orders, positions, runs, times, groups = (
        batch.column(names.index(name)).to_pylist() for name in (ORDER, POSITION, RUN, TS, GROUP)
    )
    # events are made one by one, so that few of them live at a time: what lives costs the garbage collector's time
    events = map(event_of, zip(repeat(CURRENT), times, _rows(batch, schema)))
    key, ordinal, partition = arrival.input, arrival.ordinal, arrival.partition
    chunk: Chunk = []
    place = (0, ordinal, partition, -1, -1)
    opened = 0
    for order, position, run, group, event in zip(orders, positions, runs, groups, events):
        if chunk:
            if position == place[3] and run == place[4]:
                chunk.append(event)
                continue
            yield place, opened, key, chunk
        chunk, opened = [event], group
        place = (order, ordinal, partition, position, run)
    if chunk:
        yield place, opened, key, chunk


def _rows(batch: pa.RecordBatch, schema: Schema) -> Iterable[Row]:
    columns = [batch.column(i).to_pylist() for i in range(len(schema))]
    for i in _objects(schema):
        columns[i] = [_from_json(text) for text in columns[i]]
    return zip(*columns) if columns else repeat((), batch.num_rows)


class OutputBuffer:
    """The rows that one output stream gave during one `process`, with their numbers."""

    def __init__(self, stream: str, schema: Schema) -> None:
        self.stream = stream
        self._schema = schema
        self._arrow = pa.schema([*arrow_schema(schema), *OUTPUT_COLUMNS])
        self._clear()

    def _clear(self) -> None:
        self._rows: list[Row] = []
        self._times: list[int] = []
        self._chunks: list[tuple[int, int, int, int]] = []  # first number, rows, group, clock

    def add(self, chunk: Chunk, first: int, group: int, clock: int) -> None:
        """Append a chunk that comes out at `clock` (ms), its rows numbered from `first`."""
        rows, times = self._rows, self._times
        for _kind, ts, row in chunk:
            rows.append(row)
            times.append(ts)
        self._chunks.append((first, len(chunk), group, clock))

    def take(self) -> tuple[pa.RecordBatch | None, Longs, list[tuple[int, Row, NadiError]]]:
        """What was added, the clock of each row, and the rows left out because a value is not of its column's type (with timestamp and reason); then empty."""
        rows, times = self._rows, self._times
        if not rows:
            return None, _NO_LONGS, []
        marks, orders = self._marks(), self._orders()
        self._clear()
        try:
            return pa.RecordBatch.from_arrays([*self._attributes(rows), *marks], schema=self._arrow), orders, []
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            judged = [(row, ts, self._problem(row)) for row, ts in zip(rows, times)]
        bad = [(ts, row, problem) for row, ts, problem in judged if problem is not None]
        good = [i for i, (_row, _ts, problem) in enumerate(judged) if problem is None]
        if not good:
            return None, _NO_LONGS, bad
        kept = [*self._attributes([rows[i] for i in good]), *(mark.take(pa.array(good)) for mark in marks)]
        return pa.RecordBatch.from_arrays(kept, schema=self._arrow), orders[good], bad

    def _orders(self) -> Longs:
        """The clock of each row."""
        _firsts, lengths, _groups, clocks = np.array(self._chunks, np.int64).T
        found: Longs = np.repeat(clocks, lengths)
        return found

    def _marks(self) -> list[pa.Array]:
        """OUTPUT_COLUMNS: number, number of the row that opens the chunk, timestamp, group."""
        firsts, lengths, groups, _clocks = np.array(self._chunks, np.int64).T
        opens = np.repeat(firsts, lengths)
        within = np.arange(len(opens)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return [
            pa.array(opens + within),
            pa.array(opens),
            pa.array(self._times, pa.int64()),
            pa.array(np.repeat(groups, lengths).astype(np.int16)),
        ]

    def _attributes(self, rows: list[Row]) -> list[pa.Array]:
        columns: list[Any] = list(zip(*rows))
        for i in _objects(self._schema):
            columns[i] = [_as_json(value) for value in columns[i]]
        return [pa.array(values, field.type) for values, field in zip(columns, self._arrow)]

    def _problem(self, row: Row) -> NadiError | None:
        for value, column in zip(row, self._schema.columns):
            if column.type is Type.OBJECT:
                continue
            try:
                pa.array([value], ARROW_TYPES[column.type])
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
                return error("OUTPUT_VALUE", value=value, type=column.type, column=column.name, stream=self.stream)
        return None
