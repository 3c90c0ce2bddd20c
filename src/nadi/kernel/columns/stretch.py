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
from nadi.kernel.columns.memory import NULLS, TEXTS, VALUES, values_at
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
_INT, _BYTE = np.dtype(np.int32), np.dtype(np.uint8)
_NO_BYTES = np.zeros(1, np.uint8)
_NO_BYTES.flags.writeable = False  # as what Arrow has: a loop is compiled for that
_NO_TEXTS = (np.zeros(1, np.int32), _NO_BYTES)


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

    def has_nulls(self) -> bool:
        """Whether a value is null."""
        if self._nulls is None:
            return self._array is not None and self._array.null_count > 0
        return self._nulls is not _NONE and bool(self._nulls[: self.size].any())

    def array(self) -> pa.Array:
        """The Arrow array."""
        if self._array is None:
            self._array = _array_of(self.values(), self._nulls)
        return self._array

    def texts(self) -> tuple[Array, Array]:
        """Of a column of strings without nulls: where each begins and the last ends (int32), in the bytes of all."""
        return texts_in(self.array())

    def take(self, source: Longs) -> Column:
        """The values at some places, in their order."""
        array = self._array
        if array is not None and self._values is None and pa.types.is_string(array.type):
            if array.null_count:
                return Column(array.take(pa.array(source)))
            return Column(_gathered(*self.texts(), source))
        nulls = None
        if self._nulls is not None or (array is not None and array.null_count):
            nulls = picked_at(self.nulls(), source)
        return Column(None, picked_at(self.values(), source), nulls)

    def part(self, start: int, stop: int) -> Column:
        """The values from a place to another."""
        if self._array is not None:
            return Column(self._array.slice(start, stop - start))
        return Column(None, self.values()[start:stop], None if self._nulls is None else self._nulls[start:stop])


class BatchColumn(Column):
    """A column of a record batch, of which one knows where its buffers lie: Arrow's array of it is made when somebody asks for that.

    `dtype` is that of its values, None where they are not numbers; `place` as `memory` tells.
    """

    __slots__ = ("_at", "_batch", "_dtype", "_place")

    def __init__(
        self, batch: pa.RecordBatch, at: int, size: int, dtype: np.dtype[Any] | None, place: list[int]
    ) -> None:
        self._batch = batch
        self._at = at
        self._dtype = dtype
        self._place = place
        self._values = None
        self._nulls = none(size) if place[NULLS] == 0 else None
        self.size = size

    def __getattr__(self, name: str) -> Any:
        if name != "_array":
            raise AttributeError(name)
        self._array = found = self._batch.column(self._at)
        return found

    def values(self) -> Array:
        if self._values is None:
            if self._dtype is None or not self.size:
                return super().values()
            self._values = values_at(self._place[VALUES], self._dtype, self.size, self._batch)
        return self._values

    def nulls(self) -> Bools:
        return super().nulls() if self._nulls is None else self._nulls

    def take(self, source: Longs) -> Column:
        if self._place[NULLS] == 0 and self.size:  # without Arrow's array of it
            if self._dtype is not None:
                return Column(None, picked_at(self.values(), source))
            if self._place[TEXTS]:
                return Column(_gathered(*self.texts(), source))
        return super().take(source)

    def texts(self) -> tuple[Array, Array]:
        if not self.size or not self._place[TEXTS]:
            return super().texts()
        ends = values_at(self._place[VALUES], _INT, self.size + 1, self._batch)
        size = int(ends[-1])
        return ends, values_at(self._place[TEXTS], _BYTE, size, self._batch) if size else _NO_BYTES


def columns_of(batch: pa.RecordBatch, count: int) -> tuple[Column, ...]:
    """The first columns of a batch."""
    return tuple(Column(batch.column(at)) for at in range(count))


@dataclass(slots=True, eq=False)  # not frozen: that makes it three times as dear, and each batch makes some
class Stretch:
    """See the module's text. Nothing is put into it afterwards."""

    columns: tuple[Column, ...]
    ts: Longs
    now: Longs
    chunk: Longs
    group: Longs | None = None
    origin: Longs | None = None
    apart: bool = False
    """It is known that each event is a chunk of its own."""

    def __len__(self) -> int:
        return len(self.ts)

    def take(self, source: Longs) -> Stretch:
        """The events at some places, in their order."""
        columns = tuple(column.take(source) for column in self.columns)
        return self.marked(columns, source)

    def marked(self, columns: tuple[Column, ...], source: Longs, clocks: bool = True) -> Stretch:
        """Columns of what stands at some places, with the marks of those; without `clocks` nobody looks at `now`."""
        group = None if self.group is None else picked_at(self.group, source)
        origin = None if self.origin is None else picked_at(self.origin, source)
        now = picked_at(self.now, source) if clocks else self.now[: len(source)]
        return Stretch(columns, picked_at(self.ts, source), now, picked_at(self.chunk, source), group, origin)

    def part(self, start: int, stop: int) -> Stretch:
        """The events from a place to another."""
        group = None if self.group is None else self.group[start:stop]
        columns = tuple(column.part(start, stop) for column in self.columns)
        return Stretch(columns, self.ts[start:stop], self.now[start:stop], self.chunk[start:stop], group)

    @property
    def alone(self) -> bool:
        """Whether each event is a chunk of its own."""
        return self.apart or bool(_alone(self.chunk))


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


def texts_in(array: pa.Array) -> tuple[Array, Array]:
    """As `Column.texts`."""
    _validity, offsets, data = array.buffers()
    if not len(array):
        return _NO_TEXTS
    ends = np.frombuffer(offsets, np.int32, len(array) + 1, 4 * array.offset)
    return ends, _NO_BYTES if data is None or not data.size else np.frombuffer(data, np.uint8)


def picked_at(values: Array, source: Longs) -> Array:
    """The values at some places, all of which there are: numpy need not look at them first."""
    return values.take(source, mode="clip")


def _gathered(ends: Array, data: Array, source: Longs) -> pa.Array:
    """The texts at some places, in their order."""
    n = len(source)
    made, texts = np.empty(n + 1, np.int32), np.empty(int(ends[-1]) - int(ends[0]) + 8, np.uint8)
    size = _gather(ends, data, source, made, texts)
    while size < 0:  # places may come more than once
        texts = np.empty(-size, np.uint8)
        size = _gather(ends, data, source, made, texts)
    return pa.Array.from_buffers(pa.string(), n, [None, pa.py_buffer(made), pa.py_buffer(texts[:size])], 0)


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
        if np.count_nonzero(nulls):
            return pa.array(values, mask=nulls)
    kind = _ARROW.get(values.dtype.char)
    if kind is None:
        return pa.array(values)
    given = values if values.flags.c_contiguous else np.ascontiguousarray(values)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(given)])


def empty(types: tuple[Type, ...], grouped: bool) -> Stretch:
    """A stretch without events of a stream with such columns."""
    none_of = np.zeros(0, np.int64)
    columns = tuple(
        Column(pa.array([], pa.string())) if kind not in DTYPES else Column(None, np.zeros(0, DTYPES[kind]))
        for kind in types
    )
    return Stretch(columns, none_of, none_of, none_of, none_of if grouped else None)
