"""One attribute of the events of a stretch: as Arrow array, as numpy values with nulls, or as what lies at known addresses; each is made of the other when
it is asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nadi.kernel.columns.memory import address_of, values_at
from nadi.lang.tree import Type

Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Array = npt.NDArray[Any]
Lies = tuple[np.dtype[Any] | None, int, int]
"""How values lie in memory: their type (None: texts), where the first one is (of texts: where the place of the first one is, int32), where the bytes of texts
are."""

DTYPES: dict[Type, str] = {
    Type.INT: "int32",
    Type.LONG: "int64",
    Type.FLOAT: "float32",
    Type.DOUBLE: "float64",
    Type.BOOL: "bool",
}
_PAIRS = (
    ("i2", pa.int16()),
    ("i4", pa.int32()),
    ("i8", pa.int64()),
    ("f4", pa.float32()),
    ("f8", pa.float64()),
)
_ARROW: dict[str, pa.DataType] = {np.dtype(name).char: kind for name, kind in _PAIRS}
_DTYPES: dict[pa.DataType, np.dtype[Any]] = {kind: np.dtype(name) for name, kind in _PAIRS}
_TEXT = pa.string()
_LONG, _INT, _BYTE, _BOOL = np.dtype(np.int64), np.dtype(np.int32), np.dtype(np.uint8), np.dtype(np.bool_)
_NO_BYTES = np.zeros(1, np.uint8)
_NO_BYTES.flags.writeable = False  # as what Arrow has: a loop is compiled for that
_NO_TEXTS = (np.zeros(1, np.int32), _NO_BYTES)


class Column:
    """One attribute of a stretch, as Arrow array or as numpy values with nulls; each is made of the other when it is asked for.

    Strings are Arrow arrays always. Neither form is ever written to. Addresses hold as long as the column.
    """

    __slots__ = ("_array", "_nulls", "_values", "size")

    def __init__(self, array: pa.Array | None, values: Array | None = None, nulls: Bools | None = None) -> None:
        self._array: Any = array
        self._values = values
        self._nulls = nulls
        self.size: int = len(array) if array is not None else len(values)  # type: ignore[arg-type]  # one of them is given

    def values(self) -> Array:
        """The values as numpy array; what stands at a null means nothing."""
        if self._values is None:
            self._values = values_of(self._array)
        return self._values

    def values_at(self, dtype: np.dtype[Any]) -> int:
        """Where the values lie, which are of such a type."""
        return address_of(self.values(), dtype)

    def nulls(self) -> Bools:
        """Which values are null; may be longer than the column."""
        if self._nulls is None:
            array = self._array
            self._nulls = none(self.size) if array is None or not array.null_count else ~_bits(array, 0)
        return self._nulls

    def nulls_at(self) -> int:
        """Where that lies."""
        return address_of(self.nulls(), _BOOL)

    def has_nulls(self) -> bool:
        """Whether a value is null."""
        if self._nulls is None:
            return self._array is not None and self._array.null_count > 0
        return self._nulls is not _NONES[-1] and bool(self._nulls[: self.size].any())

    def array(self) -> pa.Array:
        """The Arrow array."""
        if self._array is None:
            self._array = _array_of(self.values(), self._nulls)
        return self._array

    def texts(self) -> tuple[Array, Array]:
        """Of a column of strings without nulls: where each begins and the last ends (int32), in the bytes of all."""
        return texts_in(self.array())

    def lies(self) -> Lies | None:
        """Where its values lie, if none of them is null."""
        if not self.size or self.has_nulls():
            return None
        if self._values is None and self._array.type == _TEXT:
            ends, data = texts_in(self._array)
            return None, address_of(ends, _INT), address_of(data, _BYTE)
        values = self.values()
        if not values.flags.c_contiguous:
            values = self._values = np.ascontiguousarray(values)
        return values.dtype, address_of(values, values.dtype), 0

    def take(self, source: Longs) -> Column:
        """The values at some places, in their order."""
        if self._values is None and self._array.type == _TEXT:
            return Column(self._array.take(pa.array(source)))
        return Column(
            None, picked_at(self.values(), source), picked_at(self.nulls(), source) if self.has_nulls() else None
        )

    def part(self, start: int, stop: int) -> Column:
        """The values from a place to another."""
        if self._array is not None:
            return Column(self._array.slice(start, stop - start))
        return Column(None, self.values()[start:stop], None if self._nulls is None else self._nulls[start:stop])


class PlacedColumn(Column):
    """Numbers, bools or texts, none of them null, of which one knows where they lie, in what `holder` keeps: arrays of them are made when somebody asks."""

    __slots__ = ("_holder", "_lies")

    def __init__(self, holder: object, size: int, lies: Lies) -> None:
        self._holder = holder
        self._lies = lies
        self._values = None
        self._nulls = None
        self.size = size

    def __getattr__(self, name: str) -> Any:
        if name != "_array":
            raise AttributeError(name)
        dtype, at, texts = self._lies
        kind = _TEXT if dtype is None else _ARROW.get(dtype.char)
        if kind is None:
            self._array = pa.array(self.values())
            return self._array
        if dtype is None:
            ends = values_at(at, _INT, self.size + 1, self._holder)
            data = pa.foreign_buffer(texts, int(ends[-1]), self._holder)
            self._array = pa.Array.from_buffers(kind, self.size, [None, pa.py_buffer(ends), data], 0)
        else:
            data = pa.foreign_buffer(at, dtype.itemsize * self.size, self._holder)
            self._array = pa.Array.from_buffers(kind, self.size, [None, data], 0)
        return self._array

    def values(self) -> Array:
        if self._values is None:
            dtype, at, _texts = self._lies
            self._values = values_at(at, dtype, self.size, self._holder) if dtype else super().values()
        return self._values

    def values_at(self, dtype: np.dtype[Any]) -> int:
        return self._lies[1] if self._lies[0] == dtype else super().values_at(dtype)

    def nulls(self) -> Bools:
        return none(self.size)

    def has_nulls(self) -> bool:
        return False

    def lies(self) -> Lies | None:
        return self._lies


class BatchColumn(Column):
    """Any other column of a record batch: Arrow's array of it is made when somebody asks for that."""

    __slots__ = ("_at", "_batch")

    def __init__(self, batch: pa.RecordBatch, at: int) -> None:
        self._batch = batch
        self._at = at
        self._values = None
        self._nulls = None
        self.size = batch.num_rows

    def __getattr__(self, name: str) -> Any:
        if name != "_array":
            raise AttributeError(name)
        self._array = found = self._batch.column(self._at)
        return found


def columns_of(batch: pa.RecordBatch, count: int) -> tuple[Column, ...]:
    """The first columns of a batch."""
    return tuple(Column(batch.column(at)) for at in range(count))


def none(size: int) -> Bools:
    """An array that says of at least so many values that they are not null; shared, never to be written. It stays where it is."""
    if len(_NONES[-1]) < size:
        _NONES.append(np.zeros(max(size, 2 * len(_NONES[-1])), np.bool_))
        _NONE_AT.append(address_of(_NONES[-1], _BOOL))
    return _NONES[-1]


_NONES = [np.zeros(1024, np.bool_)]
_NONE_AT = [address_of(_NONES[0], _BOOL)]


def none_at(size: int) -> int:
    """Where that lies."""
    if len(_NONES[-1]) < size:
        none(size)
    return _NONE_AT[-1]


def counted_at(size: int) -> int:
    """Where the numbers from 0 lie, at least so many of them; shared, never to be written. They stay where they are."""
    if len(_COUNTS[-1]) < size:
        _COUNTS.append(np.arange(max(size, 2 * len(_COUNTS[-1]))))
        _COUNTS_AT.append(address_of(_COUNTS[-1], _LONG))
    return _COUNTS_AT[-1]


_COUNTS = [np.arange(1024)]
_COUNTS_AT = [address_of(_COUNTS[0], _LONG)]


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
