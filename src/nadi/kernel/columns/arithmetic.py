"""Java's arithmetic inside of loops: what `nadi.functions.arithmetic` does, for Numba (language text §4).

In a loop int and long are int64, float and double float64; a float is a float64 that a 32-bit float can hold. Divisors are not 0.
"""

from __future__ import annotations

import math

import numpy as np

from nadi.functions import arithmetic as java
from nadi.kernel.columns.jit import loop

_LONG_MIN, _LONG_MAX = java.LONG_MIN, java.LONG_MAX


@loop
def _wrap_int(value):  # type: ignore[no-untyped-def]
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000


@loop
def _wrap_long(value):  # type: ignore[no-untyped-def]
    return value  # an int64 wraps by itself


@loop
def _to_float(value):  # type: ignore[no-untyped-def]
    return np.float64(np.float32(value))


@loop
def _divide(left, right):  # type: ignore[no-untyped-def]
    if right == -1:
        return -left  # the least value divided by -1 would trap
    quotient = left // right
    return quotient + 1 if quotient < 0 and quotient * right != left else quotient


@loop
def _remainder(left, right):  # type: ignore[no-untyped-def]
    if right == -1:
        return 0
    rest = left % right
    return rest - right if rest != 0 and (left < 0) != (right < 0) else rest


@loop
def _remainder_floats(left, right):  # type: ignore[no-untyped-def]
    return np.fmod(left, right)  # as C's: NaN where the dividend is infinite; Numba does not know math.fmod


@loop
def _float_to_int(value):  # type: ignore[no-untyped-def]
    if value != value:
        return 0
    if value <= -2147483648.0:
        return -2147483648
    return 2147483647 if value >= 2147483647.0 else int(value)


@loop
def _float_to_long(value):  # type: ignore[no-untyped-def]
    if value != value:
        return 0
    if value <= -9223372036854775808.0:
        return _LONG_MIN
    return _LONG_MAX if value >= 9223372036854775808.0 else int(value)


PLAIN: dict[str, object] = {
    "wrap_int": java.wrap_int,
    "wrap_long": java.wrap_long,
    "to_float": java.to_float32,
    "divide": java.divide_ints,
    "remainder": java.remainder_ints,
    "remainder_floats": java.remainder_floats,
    "float_to_int": java.float_to_int,
    "float_to_long": java.float_to_long,
    "nan": math.nan,
    "sqrt": math.sqrt,
}
"""What generated loops refer to, as Python."""

COMPILED: dict[str, object] = {
    "wrap_int": _wrap_int,
    "wrap_long": _wrap_long,
    "to_float": _to_float,
    "divide": _divide,
    "remainder": _remainder,
    "remainder_floats": _remainder_floats,
    "float_to_int": _float_to_int,
    "float_to_long": _float_to_long,
    "nan": math.nan,
    "sqrt": math.sqrt,
}
"""The same, compiled."""
