"""Java's arithmetic inside of loops: what `nadi.functions.arithmetic` does, for Numba (semantics/expressions.md#numbers).

In a loop int and long are int64, float and double float64; a float is a float64 that a 32-bit float can hold. Divisors are not 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from nadi.functions import arithmetic as java
from nadi.functions.registry import default_registry
from nadi.kernel.columns.jit import loop
from nadi.lang.tree import Type
from nadi.plan.catalog import Argument

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


def _to_double(value):  # type: ignore[no-untyped-def]
    return np.float64(value)


def _rounded(value):  # type: ignore[no-untyped-def]
    """Halves go up; what is no number stays what it is."""
    below = np.floor(value)
    return below + 1.0 if value - below >= 0.5 else below


def _exponent(value):  # type: ignore[no-untyped-def]
    if value - value != 0.0:  # infinite, or NaN
        return 1024
    found = math.frexp(value)[1] - 1
    return -1023 if value == 0.0 or found < -1022 else found


def _greater(one, other):  # type: ignore[no-untyped-def]
    if one != one or other != other:
        return math.nan
    if one == other:  # 0.0 and -0.0
        return one if math.copysign(1.0, one) > 0 else other
    return max(one, other)


def _lesser(one, other):  # type: ignore[no-untyped-def]
    if one != one or other != other:
        return math.nan
    if one == other:
        return other if math.copysign(1.0, one) > 0 else one
    return min(one, other)


def _defined(value):  # type: ignore[no-untyped-def]
    """The one NaN for all."""
    return value if value == value else math.nan


def _power(base, exponent):  # type: ignore[no-untyped-def]
    """As C, but for what Java calls NaN."""
    if exponent != exponent or (abs(base) == 1.0 and exponent - exponent != 0.0):
        return math.nan
    made = math.pow(base, exponent)
    return made if made == made else math.nan


_OWN = {
    "rounded": _rounded,
    "exponent": _exponent,
    "greater": _greater,
    "lesser": _lesser,
    "defined": _defined,
}
"""The same text for both."""

_LIBRARY = (
    "acos",
    "asin",
    "atan",
    "atan2",
    "copysign",
    "cos",
    "cosh",
    "exp",
    "log",
    "log10",
    "sin",
    "sinh",
    "tan",
    "tanh",
)


def _of_rows(name: str, count: int = 1) -> Callable[..., object]:
    """A function of doubles as rows have it."""
    entry = default_registry().function(f"math:{name}")
    assert entry is not None  # it is built in
    return entry.make((Argument(Type.DOUBLE),) * count, Type.DOUBLE)


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
    "to_double": float,
    "inf": math.inf,
    "ceil": _of_rows("ceil"),
    "floor": _of_rows("floor"),
    "power": _of_rows("power", 2),
    **_OWN,
    **{name: getattr(math, name) for name in _LIBRARY},
    **{name: _of_rows(name) for name in ["acos", "asin", "cos", "cosh", "exp", "log10", "sin", "sinh", "sqrt", "tan"]},
    "log": _of_rows("ln"),
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
    "to_double": loop(_to_double),
    "inf": math.inf,
    "ceil": np.ceil,
    "floor": np.floor,
    "power": loop(_power),
    "sqrt": math.sqrt,
    **{name: loop(function) for name, function in _OWN.items()},
    **{name: getattr(math, name) for name in _LIBRARY},
}
"""The same, compiled."""
