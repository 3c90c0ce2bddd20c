"""Sets of small numbers as the bits of a word."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from nadi.kernel.columns.jit import PLAIN, part


def _counting(_typing: Any, bits: Any) -> Any:
    """One instruction of the processor; a search by halves takes four times as long."""

    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(bits), code


_zeros_below: Any = intrinsic(_counting)


def _compiled_lowest(bits: Any) -> Any:
    return _zeros_below(bits)


def _plain_lowest(bits: Any) -> int:
    return (int(bits) & -int(bits)).bit_length() - 1


lowest: Any = part(_plain_lowest if PLAIN else _compiled_lowest)
"""`lowest(bits)`: which is the lowest bit of an int64 that is set; there must be one."""
