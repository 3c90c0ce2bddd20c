"""Values as events hold them: what a caller gives for an attribute, as Siddhi would see it."""

from __future__ import annotations

import struct
from itertools import zip_longest

from nadi.lang.tree import Type
from nadi.plan.nodes import Schema

_FLOAT = struct.Struct("f")


def float32(value: float) -> float:
    """A float rounded to 32 bits; what is too large becomes infinite.

    >>> float32(55.6)
    55.599998474121094
    """
    try:
        return float(_FLOAT.unpack(_FLOAT.pack(value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


class Double(float):
    """A 64-bit value on purpose: given for a `float` attribute it is kept as it is, as Siddhi keeps a Java Double there."""

    __slots__ = ()


def row_of(schema: Schema, values: list[object] | tuple[object, ...]) -> tuple[object, ...]:
    """Values as a row: floats of `float` attributes are rounded to 32 bits, everything else is kept (Siddhi does not convert either).

    Missing values are null, further ones are left out.

    >>> from nadi.plan.nodes import Column
    >>> row_of(Schema((Column("a", Type.FLOAT), Column("b", Type.LONG))), [0.1, 5])
    (0.10000000149011612, 5)
    """
    return tuple(_held(value, column.type) for value, column in zip_longest(values[: len(schema)], schema.columns))


def _held(value: object, kind: Type) -> object:
    if isinstance(value, Double):
        return float(value)
    return float32(value) if kind is Type.FLOAT and isinstance(value, float) else value
