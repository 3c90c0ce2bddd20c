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
from numba.np.arrayobj import populate_array

from nadi.kernel.columns.jit import PLAIN

HEAD = 10
"""Words of an ArrowArray: length, nulls, offset, buffers, children, then pointers: buffers, children, dictionary, release, private data."""

_WORD = ir.IntType(64)


@intrinsic
def _compiled_peek(context, address):  # type: ignore[no-untyped-def]
    def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.load(builder.inttoptr(arguments[0], _WORD.as_pointer()))

    return types.int64(types.int64), code


@intrinsic
def _compiled_poke(context, address, value):  # type: ignore[no-untyped-def]
    def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        builder.store(arguments[1], builder.inttoptr(arguments[0], _WORD.as_pointer()))
        return context.get_dummy_value()

    return types.none(types.int64, types.int64), code


@intrinsic
def _compiled_lying(context, address, size, dtype):  # type: ignore[no-untyped-def]
    kind = types.Array(dtype.dtype, 1, "C")

    def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        made = context.make_array(kind)(context, builder)
        bytes_each = context.get_abi_sizeof(context.get_data_type(kind.dtype))
        each = context.get_constant(types.intp, bytes_each)
        data = builder.inttoptr(arguments[0], made.data.type)
        populate_array(made, data=data, shape=[arguments[1]], strides=[each], itemsize=each, meminfo=None)  # type: ignore[no-untyped-call]
        return made._getvalue()

    return kind(types.int64, types.int64, dtype), code


@intrinsic
def _compiled_release(context, address):  # type: ignore[no-untyped-def]
    def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        struct = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        function = builder.load(builder.gep(builder.bitcast(struct, _WORD.as_pointer()), [_WORD(8)]))
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer()])
        builder.call(builder.inttoptr(function, kind.as_pointer()), [struct])
        return context.get_dummy_value()

    return types.none(types.int64), code


def plain_peek(address: int) -> int:
    """`peek` for loops that run as Python."""
    return ctypes.c_int64.from_address(int(address)).value


def _plain_poke(address: int, value: int) -> None:
    ctypes.c_int64.from_address(int(address)).value = int(value)


def plain_lying(address: int, size: int, dtype: Any) -> Any:
    """`lying` for loops that run as Python."""
    kind = np.dtype(dtype)
    return np.frombuffer((ctypes.c_char * (int(size) * kind.itemsize)).from_address(int(address)), kind)


def _plain_release(address: int) -> None:
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(plain_peek(address + 64))(int(address))


peek: Any = plain_peek if PLAIN else _compiled_peek
"""`peek(address)`: the int64 that lies there."""

poke: Any = _plain_poke if PLAIN else _compiled_poke
"""`poke(address, value)`: put an int64 there."""

lying: Any = plain_lying if PLAIN else _compiled_lying
"""`lying(address, size, dtype)`: the array of so many values that lies there. Nobody counts who holds it."""

release: Any = _plain_release if PLAIN else _compiled_release
"""`release(address)`: let an exported ArrowArray go."""


def values_at(address: int, dtype: np.dtype[Any], size: int, holder: object) -> Any:
    """The values that lie somewhere, as a numpy array that keeps what holds them alive."""
    return np.frombuffer(pa.foreign_buffer(address, size * dtype.itemsize, holder), dtype, size)


def address_of(values: Any, dtype: np.dtype[Any]) -> int:
    """Where the values of an array lie, one behind the other; it must be one of that type, as nobody looks at it again."""
    if values.dtype != dtype:
        raise TypeError(f"an array of {values.dtype} where {dtype} is wanted")
    found: int = pa.py_buffer(values).address
    return found
