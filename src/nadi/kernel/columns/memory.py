"""Memory by its address: where the buffers of a record batch lie, by Arrow's C data interface.

To make an Arrow array of each column of a batch takes longer than a loop takes for a thousand events. So a batch is exported instead: one call, and a loop
reads the addresses out of Arrow's structs. They hold as long as the batch does.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pyarrow as pa
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from nadi.kernel.columns.jit import PLAIN

HEAD = 10
"""Words of an ArrowArray: length, nulls, offset, buffers, children, then pointers: buffers, children, dictionary, release, private data."""

NULLS, VALIDITY, VALUES, TEXTS = range(4)
"""What is told of a column: how many nulls it has (less than 0: not known), and the addresses of its buffers; that of its values is the first value's."""

_WORD = ir.IntType(64)


@intrinsic
def _compiled_peek(context, address):  # type: ignore[no-untyped-def]
    def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.load(builder.inttoptr(arguments[0], _WORD.as_pointer()))

    return types.int64(types.int64), code


@intrinsic
def _compiled_pointer(context, address):  # type: ignore[no-untyped-def]
    def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), code


@intrinsic
def _compiled_release(context, address):  # type: ignore[no-untyped-def]
    def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        struct = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        function = builder.load(builder.gep(builder.bitcast(struct, _WORD.as_pointer()), [_WORD(8)]))
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer()])
        builder.call(builder.inttoptr(function, kind.as_pointer()), [struct])
        return context.get_dummy_value()

    return types.none(types.int64), code


def _plain_peek(address: int) -> int:
    return ctypes.c_int64.from_address(int(address)).value


def _plain_pointer(address: int) -> Any:
    return ctypes.c_void_p(int(address))


def _plain_release(address: int) -> None:
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_plain_peek(address + 64))(int(address))


peek: Any = _plain_peek if PLAIN else _compiled_peek
"""`peek(address)`: the int64 that lies there."""

pointer: Any = _plain_pointer if PLAIN else _compiled_pointer
"""`pointer(address)`, for `numba.carray`."""

release: Any = _plain_release if PLAIN else _compiled_release
"""`release(address)`: let an exported ArrowArray go."""


def values_at(address: int, dtype: np.dtype[Any], size: int, holder: pa.RecordBatch) -> Any:
    """The values that lie somewhere, as a numpy array that keeps what holds them alive."""
    return np.frombuffer(pa.foreign_buffer(address, size * dtype.itemsize, holder), dtype, size)
