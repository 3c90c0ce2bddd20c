"""Columns as a record batch, by Arrow's C data interface: all at once, where an Arrow array for each takes longer than a loop over a thousand rows.

What Arrow is given is one block of words: the ArrowArray of the batch, pointers to those of its columns, these, and three buffers for each. The block, and what
holds the buffers, live until Arrow lets go of the batch: it then calls `_let_go`.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from functools import cache
from typing import Any

import pyarrow as pa
from numba import types

from nadi.kernel.columns.jit import PLAIN, callback, locked, part
from nadi.kernel.columns.memory import HEAD, peek, poke, release
from nadi.kernel.columns.stretch import Array, Column, place_of

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
def _described(block, words, rows, columns, letting_go, holder):  # type: ignore[no-untyped-def]
    """Writes the structs of a batch. `words` are the buffers of its columns."""
    pointers = block + 8 * (HEAD + 1)
    child = pointers + 8 * columns
    poke(block + 8 * HEAD, 0)
    _struct(block, rows, 1, columns, block + 8 * HEAD, pointers, letting_go, holder)
    for c in range(columns):
        buffers = words + 24 * c
        poke(pointers + 8 * c, child)
        _struct(child, rows, 3 if peek(buffers + 16) != 0 else 2, 0, buffers, 0, letting_go, 0)
        child += 8 * HEAD
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


def batch_of(schema: pa.Schema, rows: int, columns: Sequence[Column], marks: Sequence[Array]) -> pa.RecordBatch:
    """A batch with some rows of columns and behind them of arrays without nulls. What is given must not change any more."""
    words: list[int] = []
    holder: list[object] = [columns]
    for column in columns:
        values, texts, held = column.place()
        words += (0, values, texts)
        holder.append(held)
    for mark in marks:
        values, texts, held = place_of(mark)
        words += (0, values, texts)
        holder.append(held)
    buffers = array("q", words)
    count = len(columns) + len(marks)
    block = array("q", bytes(8 * (HEAD + 1 + (HEAD + 1) * count)))
    holder += (buffers, block)
    at = block.buffer_info()[0]
    _described(at, buffers.buffer_info()[0], rows, count, _letting_go()[0], id(holder))
    for number, column in enumerate(columns):
        if not words[3 * number + 1]:  # only Arrow's array of it will do
            column.array()._export_to_c(at + 8 * (HEAD + 1 + count + HEAD * number))
    return pa.RecordBatch._import_from_c(at, schema)
