"""Numbered rows: stretches as the output batches of the contract."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from nadi.kernel.arrow import arrow_schema
from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.jit import loop
from nadi.kernel.columns.stretch import Array, Longs, Stretch
from nadi.kernel.contract import KEY_GROUPS, OUTPUT_COLUMNS
from nadi.plan.nodes import Schema


class Numbering:
    """One output stream: the next number per key-group, which is state, and its batches."""

    def __init__(self, stream: str, schema: Schema) -> None:
        self.element = f"{stream}/output"
        self._schema = pa.schema([*arrow_schema(schema), *OUTPUT_COLUMNS])
        self._next = np.zeros(KEY_GROUPS, np.int64)
        self._told = self._next.copy()

    def batch(self, made: Stretch) -> pa.RecordBatch:
        """The rows of a stretch with their numbers."""
        n = len(made.ts)
        if made.group is None and made.apart:
            first = int(self._next[0])
            self._next[0] = first + n
            numbered = chunked = _array(_LONG, np.arange(first, first + n))
            groups = _no_groups(n)
        else:
            numbers, chunks = np.empty(n, np.int64), np.empty(n, np.int64)
            if made.group is None:
                self._next[0] = _number(made.chunk, int(self._next[0]), numbers, chunks)
                groups = _no_groups(n)
            else:
                _number_groups(made.chunk, made.group, self._next, numbers, chunks)
                groups = _array(_SHORT, made.group.astype(np.int16))
            numbered, chunked = _array(_LONG, numbers), _array(_LONG, chunks)
        arrays = [column.array() for column in made.columns]
        arrays += (numbered, chunked, _array(_LONG, made.ts), groups)
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    # ---- state

    def changes(self) -> Iterable[Block]:
        changed = np.flatnonzero(self._next != self._told)
        if len(changed):
            self._told = self._next.copy()
            yield self._block(0, changed)

    def contents(self) -> Iterable[Block]:
        self._told = self._next.copy()
        for group in np.flatnonzero(self._next):
            yield self._block(int(group), np.array([group]))

    def _block(self, group: int, groups: Longs) -> Block:
        arrays: dict[str, Array] = {"group": groups.astype(np.int16), "next": self._next[groups]}
        return Block(self.element, group, "n", arrays)

    def apply(self, block: Block) -> None:
        self._next[block.arrays["group"]] = block.arrays["next"]
        self._told = self._next.copy()

    def clear(self) -> None:
        self._next[:] = 0
        self._told[:] = 0

    def size(self) -> int:
        return int(np.count_nonzero(self._next))


_LONG, _SHORT = pa.int64(), pa.int16()
_NO_GROUPS = pa.py_buffer(np.zeros(1024, np.int16))


def _array(kind: pa.DataType, values: Array) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)], 0)


def _no_groups(size: int) -> pa.Array:
    """The group 0 of so many rows."""
    global _NO_GROUPS  # noqa: PLW0603  # grows with the largest batch
    if _NO_GROUPS.size < 2 * size:
        _NO_GROUPS = pa.py_buffer(np.zeros(4 * size, np.int16))
    return pa.Array.from_buffers(_SHORT, size, [None, _NO_GROUPS], 0)


@loop
def _number(chunk: Longs, first: int, numbers: Longs, chunks: Longs) -> int:
    """-> the next number."""
    opened = first
    for i in range(len(chunk)):
        if i == 0 or chunk[i] != chunk[i - 1]:
            opened = first + i
        numbers[i] = first + i
        chunks[i] = opened
    return first + len(chunk)


@loop
def _number_groups(chunk: Longs, group: Longs, following: Longs, numbers: Longs, chunks: Longs) -> None:
    opened = 0
    for i in range(len(chunk)):
        number = following[group[i]]
        if i == 0 or chunk[i] != chunk[i - 1]:
            opened = number
        numbers[i] = number
        chunks[i] = opened
        following[group[i]] = number + 1
