"""Sets of small numbers as the bits of a word."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from nadi.kernel.columns.jit import PLAIN, part


@intrinsic
def _zeros_below(_typing: Any, bits: Any) -> Any:
    """One instruction of the processor; six comparisons took the loop of a pattern a fifth of its time."""

    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(bits), code


def _compiled_lowest(bits):  # type: ignore[no-untyped-def]
    return _zeros_below(bits)  # type: ignore[call-arg]  # Numba adds the first one


def _plain_lowest(bits):  # type: ignore[no-untyped-def]
    return (int(bits) & -int(bits)).bit_length() - 1


lowest: Any = part(_plain_lowest if PLAIN else _compiled_lowest)
"""`lowest(bits)`: which is the lowest bit of an int64 that is set; there must be one."""
