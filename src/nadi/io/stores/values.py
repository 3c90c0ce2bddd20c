"""Values of a table: what a database cannot hold, and what it gives back as the language has it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from nadi.errors import NadiError, error
from nadi.functions.arithmetic import number_as
from nadi.functions.stores import Row
from nadi.lang.tree import Type
from nadi.plan.nodes import Column

_FLOATS = (Type.FLOAT, Type.DOUBLE)
_RANGES = {Type.INT: 2**31, Type.LONG: 2**63}


def unfit(value: object, kind: Type, dialect: str) -> str:
    """Why a database cannot take or compare a value, "" where it can.

    >>> unfit(float("nan"), Type.DOUBLE, "sqlite"), unfit(float("nan"), Type.DOUBLE, "postgresql"), unfit("a\\0", Type.STRING, "postgresql")
    ('it has no NaN', '', 'it has no character NUL')
    """
    if isinstance(value, float) and kind in _FLOATS:
        if math.isnan(value) and dialect != "postgresql":
            return "it has no NaN"
        return "it has no infinity" if math.isinf(value) and dialect == "mysql" else ""
    if isinstance(value, str):
        if "\0" in value and dialect == "postgresql":
            return "it has no character NUL"
        if any("\ud800" <= c <= "\udfff" for c in value):
            return "it has no half of a surrogate pair"
    return ""


def fitting(value: object, kind: Type) -> object:
    """A value in the type of its column, as the database gets it."""
    if type(value) is bool or value is None or kind not in (*_FLOATS, *_RANGES):
        return value
    return number_as(value, kind) if isinstance(value, (int, float)) else value


def check_row(
    table: str,
    columns: Sequence[Column],
    row: Row,
    lengths: Mapping[str, int | None],
    required: frozenset[str],
    dialect: str,
) -> NadiError | None:
    """What keeps a database from holding a row. `lengths` bound texts, `required` are the columns that take no null."""
    for column, value in zip(columns, row, strict=True):
        reason = unfit(value, column.type, dialect)
        if value is None and column.name in required:
            reason = "it takes no null"
        most = lengths.get(column.name)
        if isinstance(value, str) and most is not None and len(value) > most:
            reason = f"it takes {most:,} characters, not {len(value):,} ('field.length')"
        if reason:
            return error("VALUE_NOT_STORABLE", table=table, column=column.name, reason=reason)
    return None


def as_language(table: str, column: Column, value: Any) -> Any:
    """A value that a database gave, as the language has it: tables of others may have other types of column.

    Errors: VALUE_NOT_READABLE.
    """
    kind = column.type
    if value is None:
        return None
    try:
        if kind is Type.STRING:
            return value if type(value) is str else str(value)
        if kind is Type.BOOL:
            return bool(value)
        if kind in _FLOATS:
            return number_as(float(value), kind)
        number = int(value)
        if number == value and -_RANGES[kind] <= number < _RANGES[kind]:
            return number
    except (TypeError, ValueError, OverflowError):
        pass
    raise error("VALUE_NOT_READABLE", table=table, column=column.name, type=kind.value, found=type(value).__name__)
