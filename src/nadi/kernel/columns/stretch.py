"""What travels between operators: the events of one stream in one batch, as columns.

A `Stretch` has CURRENT events only, in the order in which the stream saw them. Beside its attributes it has, per event,

- `ts`, its timestamp (ms);
- `now`, the clock at which it travels (ms), which does not go back;
- `chunk`, the number of the chunk in which it travels: events of equal numbers stand beside each other. The chunks of all inputs of a batch are
  numbered together, in the order of their arrival; an operator that cuts chunks makes new numbers, which grow, too;
- `group`, the key-group in which outputs are numbered (int64), None where all are 0;
- `origin`, the number of the chunk of its input that each event comes from, None where that is `chunk`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nadi.kernel.columns.jit import loop
from nadi.kernel.columns.words import load, store
from nadi.lang.tree import Type

Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Array = npt.NDArray[Any]

DTYPES: dict[Type, str] = {
    Type.INT: "int32",
    Type.LONG: "int64",
    Type.FLOAT: "float32",
    Type.DOUBLE: "float64",
    Type.BOOL: "bool",
}
_ARROW: dict[str, pa.DataType] = {
    np.dtype(name).char: kind
    for name, kind in (("i4", pa.int32()), ("i8", pa.int64()), ("f4", pa.float32()), ("f8", pa.float64()))
}
_DTYPES: dict[pa.DataType, np.dtype[Any]] = {
    kind: np.dtype(name)
    for name, kind in (
        ("i2", pa.int16()),
        ("i4", pa.int32()),
        ("i8", pa.int64()),
        ("f4", pa.float32()),
        ("f8", pa.float64()),
    )
}
_NONE = np.zeros(1024, np.bool_)


class Column:
    """One attribute of a stretch, as Arrow array or as numpy values with nulls; each is made of the other when it is asked for.

    Strings are Arrow arrays always. Neither form is ever written to.
    """

    __slots__ = ("_array", "_nulls", "_values", "size")

    def __init__(self, array: pa.Array | None, values: Array | None = None, nulls: Bools | None = None) -> None:
        self._array = array
        self._values = values
        self._nulls = nulls
        self.size: int = len(array) if array is not None else len(values)  # type: ignore[arg-type]  # one of them is given

    def values(self) -> Array:
        """The values as numpy array; what stands at a null means nothing."""
        if self._values is None:
            self._values = values_of(self._array)
        return self._values

    def nulls(self) -> Bools:
        """Which values are null; may be longer than the column."""
        if self._nulls is None:
            array = self._array
            self._nulls = none(self.size) if array is None or not array.null_count else ~_bits(array, 0)
        return self._nulls

    def array(self) -> pa.Array:
        """The Arrow array."""
        if self._array is None:
            self._array = _array_of(self.values(), self._nulls)
        return self._array

    def take(self, source: Longs) -> Column:
        """The values at some places, in their order."""
        array = self._array
        if array is not None and (self._values is None and pa.types.is_string(array.type)):
            return Column(gathered(array, source))
        nulls = None
        if self._nulls is not None or (array is not None and array.null_count):
            nulls = self.nulls()[source]
        return Column(None, self.values().take(source), nulls)

    def part(self, start: int, stop: int) -> Column:
        """The values from a place to another."""
        if self._array is not None:
            return Column(self._array.slice(start, stop - start))
        return Column(None, self.values()[start:stop], None if self._nulls is None else self._nulls[start:stop])


class BatchColumn(Column):
    """A column of a record batch, not touched before somebody asks for it: to make an Arrow array takes as long as a loop takes for hundreds of events."""

    __slots__ = ("_at", "_batch")

    def __init__(self, batch: pa.RecordBatch, at: int, size: int) -> None:
        self._batch = batch
        self._at = at
        self._values = None
        self._nulls = None
        self.size = size

    def __getattr__(self, name: str) -> Any:
        if name != "_array":
            raise AttributeError(name)
        self._array = found = self._batch.column(self._at)
        return found


def columns_of(batch: pa.RecordBatch, count: int) -> tuple[Column, ...]:
    """The first columns of a batch."""
    size = batch.num_rows
    return tuple(BatchColumn(batch, at, size) for at in range(count))


@dataclass(frozen=True, slots=True)
class Stretch:
    """See the module's text."""

    columns: tuple[Column, ...]
    ts: Longs
    now: Longs
    chunk: Longs
    group: Longs | None = None
    origin: Longs | None = None

    def __len__(self) -> int:
        return len(self.ts)

    def take(self, source: Longs) -> Stretch:
        """The events at some places, in their order."""
        group = None if self.group is None else self.group.take(source)
        origin = None if self.origin is None else self.origin.take(source)
        columns = tuple(column.take(source) for column in self.columns)
        return Stretch(columns, self.ts.take(source), self.now.take(source), self.chunk.take(source), group, origin)

    def part(self, start: int, stop: int) -> Stretch:
        """The events from a place to another."""
        group = None if self.group is None else self.group[start:stop]
        columns = tuple(column.part(start, stop) for column in self.columns)
        return Stretch(columns, self.ts[start:stop], self.now[start:stop], self.chunk[start:stop], group)

    @property
    def alone(self) -> bool:
        """Whether each event is a chunk of its own."""
        return bool(_alone(self.chunk))


def none(size: int) -> Bools:
    """An array that says of at least so many values that they are not null; shared, never to be written."""
    global _NONE  # noqa: PLW0603  # grows with the largest batch
    if len(_NONE) < size:
        _NONE = np.zeros(max(size, 2 * len(_NONE)), np.bool_)
    return _NONE


def values_of(array: pa.Array) -> Array:
    """An Arrow array of numbers or bools as numpy array, without a copy where there need be none."""
    dtype = _DTYPES.get(array.type)
    if dtype is None:
        return _bits(array, 1)
    found, size = array.buffers()[1], len(array)
    if found is None or not size:
        return np.zeros(size, dtype)
    values = np.frombuffer(found, dtype, size, array.offset * dtype.itemsize)
    return values if values.flags.aligned else values.copy()


def _bits(array: pa.Array, buffer: int) -> Bools:
    """The bits of a buffer as bools: 0 the validity, 1 the values of a bool array."""
    found = array.buffers()[buffer]
    if found is None:
        return np.zeros(len(array), np.bool_)
    first = array.offset // 8
    bits = np.unpackbits(np.frombuffer(found, np.uint8)[first:], bitorder="little")
    start = array.offset - 8 * first
    return bits[start : start + len(array)].view(np.bool_)


def gathered(array: pa.Array, source: Longs) -> pa.Array:
    """The strings at some places, in their order."""
    if array.null_count:
        return array.take(pa.array(source))
    _validity, offsets, data = array.buffers()
    if data is None or not len(source):
        return array.take(pa.array(source))
    n = len(source)
    ends = np.frombuffer(offsets, np.int32, len(array) + 1, 4 * array.offset)
    made, texts = np.empty(n + 1, np.int32), np.empty(int(ends[-1] - ends[0]) + 8, np.uint8)
    size = _gather(ends, np.frombuffer(data, np.uint8), source, made, texts)
    while size < 0:  # places may come more than once
        texts = np.empty(-size, np.uint8)
        size = _gather(ends, np.frombuffer(data, np.uint8), source, made, texts)
    return pa.Array.from_buffers(pa.string(), n, [None, pa.py_buffer(made), pa.py_buffer(texts[:size])])


@loop
def _alone(chunk):  # type: ignore[no-untyped-def]
    same = 0
    for i in range(1, len(chunk)):
        same += chunk[i] == chunk[i - 1]
    return same == 0


@loop
def _gather(ends, data, source, made, texts):  # type: ignore[no-untyped-def]
    """-> the bytes of all texts; less than 0, so many of them, where there is no room for them."""
    total = 0
    made[0] = 0
    for k in range(len(source)):
        start, size = ends[source[k]], ends[source[k] + 1] - ends[source[k]]
        if size <= 8 and start + 8 <= len(data) and total + 8 <= len(texts):
            store(texts, total, load(data, start))  # what is too much of it is written over by the next one
        elif total + size <= len(texts):
            for j in range(size):
                texts[total + j] = data[start + j]
        total += size
        made[k + 1] = total
    return total if total <= len(texts) else -total


def _array_of(values: Array, nulls: Bools | None) -> pa.Array:
    if nulls is not None:
        nulls = nulls[: len(values)]
        if nulls.any():
            return pa.array(values, mask=nulls)
    kind = _ARROW.get(values.dtype.char)
    if kind is None:
        return pa.array(values)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def empty(types: tuple[Type, ...], grouped: bool) -> Stretch:
    """A stretch without events of a stream with such columns."""
    none_of = np.zeros(0, np.int64)
    columns = tuple(
        Column(pa.array([], pa.string())) if kind not in DTYPES else Column(None, np.zeros(0, DTYPES[kind]))
        for kind in types
    )
    return Stretch(columns, none_of, none_of, none_of, none_of if grouped else None)
