"""Columns as a record batch, by Arrow's C data interface: all at once, where an Arrow array for each takes longer than a loop over a thousand rows.

What Arrow is given is one block of words: the ArrowArray of the batch, pointers to those of its columns, these, and three buffers for each. The block, and what
holds the buffers, live until Arrow lets go of the batch: it then calls `_let_go`.
"""

from __future__ import annotations

import ctypes
from array import array
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numba import types

from nadi.kernel.arrow import arrow_schema
from nadi.kernel.columns.jit import PLAIN, callback, locked, part
from nadi.kernel.columns.memory import HEAD, lying, peek, poke, release
from nadi.kernel.columns.places import FIRST, LIES, ROW, TEXTS, VALUES
from nadi.kernel.columns.stretch import DTYPES, Stretch
from nadi.kernel.contract import OUTPUT_COLUMNS
from nadi.lang.tree import Type
from nadi.plan.nodes import Schema

_RELEASE, _PRIVATE = 64, 72  # in an ArrowArray

_is_up: Any = types.ExternalFunction("Py_IsInitialized", types.int32())
_ensure: Any = types.ExternalFunction("PyGILState_Ensure", types.int32())
_leave: Any = types.ExternalFunction("PyGILState_Release", types.void(types.int32))
_hold: Any = types.ExternalFunction("Py_IncRef", types.void(types.int64))
_drop: Any = types.ExternalFunction("Py_DecRef", types.void(types.int64))
if PLAIN:
    _python = ctypes.PyDLL(None)
    _is_up, _ensure, _leave = _python.Py_IsInitialized, _python.PyGILState_Ensure, _python.PyGILState_Release
    _hold, _drop = (ctypes.PYFUNCTYPE(None, ctypes.c_int64)((n, _python)) for n in ("Py_IncRef", "Py_DecRef"))


def _let_go(struct):  # type: ignore[no-untyped-def]
    """Arrow does not need an array any more: those in it go, too, and what held it. Any thread may call this."""
    children = peek(struct + 48)
    for c in range(peek(struct + 32)):
        child = peek(children + 8 * c)
        if peek(child + _RELEASE) != 0:
            release(child)
    holder = peek(struct + _PRIVATE)
    poke(struct + _RELEASE, 0)
    if holder != 0 and _is_up() != 0:
        state = _ensure()
        _drop(holder)
        _leave(state)


@cache
def _letting_go() -> tuple[int, Any]:
    """The address of `_let_go` as a function of C, and what keeps it there."""
    return callback(_let_go)


@locked
def _described(block, table, rows, columns, first, numbers, chunks, groups, letting_go, holder):  # type: ignore[no-untyped-def]
    """Writes the structs of a batch: columns that lie where a table says, and the marks of output rows. Where each is a chunk of its own it numbers them,
    too, from `first` on."""
    if numbers == chunks:
        made = lying(numbers, rows, np.int64)
        for i in range(rows):
            made[i] = first + i
    count = columns + 4
    pointers = block + 8 * (HEAD + 1)
    child = pointers + 8 * count
    buffers = child + 8 * HEAD * count
    poke(block + 8 * HEAD, 0)
    _struct(block, rows, 1, count, block + 8 * HEAD, pointers, letting_go, holder)
    for c in range(count):
        row = table + 8 * ROW * (FIRST + c)
        values, texts, wide = 0, 0, 2
        if c < columns:
            values, texts = peek(row + 8 * VALUES), peek(row + 8 * TEXTS)
            wide = 3 if peek(row + 8 * LIES) < 0 else 2
        elif c == columns:
            values = numbers
        elif c == columns + 1:
            values = chunks
        elif c == columns + 2:
            values = peek(table + 8 * VALUES)
        else:
            values = groups
        poke(pointers + 8 * c, child)
        poke(buffers, 0)
        poke(buffers + 8, values)
        poke(buffers + 16, texts)
        _struct(child, rows, wide, 0, buffers, 0, letting_go, 0)
        child += 8 * HEAD
        buffers += 24
    _hold(holder)


@part
def _struct(at, rows, count, columns, buffers, pointers, letting_go, holder):  # type: ignore[no-untyped-def]
    poke(at, rows)
    poke(at + 8, 0)
    poke(at + 16, 0)
    poke(at + 24, count)
    poke(at + 32, columns)
    poke(at + 40, buffers)
    poke(at + 48, pointers)
    poke(at + 56, 0)
    poke(at + _RELEASE, letting_go)
    poke(at + _PRIVATE, holder)


class Importer:
    """Makes the batches of an output stream: its columns, and behind them the marks of `nadi.kernel.contract.OUTPUT_COLUMNS`."""

    def __init__(self, schema: Schema) -> None:
        self._schema = pa.schema([*arrow_schema(schema), *OUTPUT_COLUMNS])
        self._columns = len(schema)
        kinds = enumerate(schema.types)
        self._lying = tuple(n for n, kind in kinds if kind is Type.STRING or DTYPES.get(kind, "bool") != "bool")
        self._others = tuple(
            n for n in range(len(schema)) if n not in self._lying
        )  # only Arrow's arrays of them will do
        self._let_go = _letting_go()[0]
        self._blank = array("q", bytes(8 * (HEAD + 1 + (HEAD + 4) * len(self._schema))))

    def batch(self, made: Stretch, rows: int, marks: tuple[int, int, int, int], held: object) -> pa.RecordBatch:
        """The rows of a stretch. Nothing of it must change any more.

        Args:
            marks: the first number; where the numbers, those of the chunks and the key-groups lie, in what is held. Where the numbers are those of the chunks,
                they are yet to be written.
        """
        table, missing = made.lying(self._lying)
        block = self._blank[:]
        holder = (made, held, block)
        at = block.buffer_info()[0]
        _described(at, table, rows, self._columns, *marks, self._let_go, id(holder))
        for number in (*missing, *self._others):
            child = at + 8 * (HEAD + 1 + len(self._schema) + HEAD * number)
            made.columns[number].array()._export_to_c(child)
        return pa.RecordBatch._import_from_c(at, self._schema)
