"""Rows that are typed already (parquet files, Arrow messages) → events: columns by name, cast where nothing is lost."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from nadi.io.contract import Decoded, Messages, Undecodable
from nadi.io.mappers.columns import ARROW, arrow_schema
from nadi.io.mappers.stretch import Stretch
from nadi.lang.tree import Type
from nadi.plan.nodes import Column, Schema


def fit(
    schema: Schema, rows: pa.RecordBatch, names: Mapping[str, str] | None = None
) -> tuple[pa.RecordBatch, dict[int, str]]:
    """The columns of the schema out of `rows`, and why a row cannot be one of them (by index; its values are null then).

    `names` gives the column of an attribute where it is not called the same.
    A column that is missing, or of a type that cannot become the attribute's, is the fault of every row.
    """
    faults: dict[int, str] = {}
    called = names or {}
    arrays = [_column(column, called.get(column.name, column.name), rows, faults) for column in schema.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(schema)), faults


def decode_typed(
    schema: Schema, messages: Messages, rows: pa.RecordBatch, names: Mapping[str, str] | None = None
) -> Decoded:
    """A stretch of messages that are typed rows, one event each; `names` as for `fit`."""
    batch, faults = fit(schema, rows, names)
    keep = np.ones(rows.num_rows, np.bool_)
    keep[list(faults)] = False
    found = Stretch(schema)
    found.add_batch(batch.filter(pa.array(keep)) if faults else batch, np.flatnonzero(keep))
    for i, reason in faults.items():
        found.fail(Undecodable(int(messages.positions[i]), reason, row_text(rows, i)))
    return found.finish()


def row_text(rows: pa.RecordBatch, index: int) -> bytes:
    """One row as a person can read it, for the error store; a value that Python has no form for (a time after the year 9999) as its type."""
    shown = {name: _shown(column[index]) for name, column in zip(rows.schema.names, rows.columns, strict=True)}
    return repr(shown).encode(errors="backslashreplace")


def _shown(value: pa.Scalar) -> object:
    try:
        return value.as_py()
    except (pa.ArrowException, ValueError, ArithmeticError, LookupError):
        return f"({value.type})"


def misfit(schema: Schema, rows: pa.RecordBatch, names: Mapping[str, str] | None = None) -> str:
    """Why no row can be an event, whatever is in it; "" where the columns are as the schema wants them."""
    called = names or {}
    reasons = (_misfit(c, called.get(c.name, c.name), rows.schema) for c in schema.columns)
    return next(filter(None, reasons), "")


def _misfit(column: Column, name: str, given: pa.Schema) -> str:
    position = given.get_field_index(name)
    if position < 0:
        twice = len(given.get_all_field_indices(name)) > 1
        return f"there are several columns '{name}'" if twice else f"there is no column '{name}'"
    kind = given.field(position).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    is_time = column.type is Type.LONG and (pa.types.is_timestamp(kind) or pa.types.is_date(kind))
    return "" if is_time or _allowed(kind, column.type) else f"column '{name}' is {kind}, not {column.type}"


def _column(column: Column, name: str, rows: pa.RecordBatch, faults: dict[int, str]) -> pa.Array:
    target = ARROW[column.type]
    reason = _misfit(column, name, rows.schema)
    if reason:
        return _all_wrong(rows, target, faults, reason)
    given = rows.column(rows.schema.get_field_index(name))
    if pa.types.is_dictionary(given.type):
        given = given.dictionary_decode()
    if pa.types.is_temporal(given.type) and column.type is Type.LONG:
        given = _milliseconds(given)
    try:
        return given.cast(target, safe=_is_safe(given.type, target))
    except pa.ArrowInvalid:
        return _one_by_one(column, given, target, faults)


def _milliseconds(given: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(given.type):
        return given.cast(pa.timestamp("ms", given.type.tz), safe=False).cast(pa.int64())
    if pa.types.is_date(given.type):
        return given.cast(pa.timestamp("ms")).cast(pa.int64())
    return given


def _allowed(given: pa.DataType, kind: Type) -> bool:
    if pa.types.is_null(given):
        return True
    if kind in (Type.STRING, Type.OBJECT):
        return bool(pa.types.is_string(given) or pa.types.is_large_string(given) or pa.types.is_string_view(given))
    if kind is Type.BOOL:
        return bool(pa.types.is_boolean(given))
    if kind in (Type.INT, Type.LONG):
        return bool(pa.types.is_integer(given))
    return bool(pa.types.is_integer(given) or pa.types.is_floating(given) or pa.types.is_decimal(given))


def _is_safe(given: pa.DataType, target: pa.DataType) -> bool:
    # Rounding to float or double is Siddhi's widening; only whole numbers must not lose anything.
    return not pa.types.is_floating(target)


def _one_by_one(column: Column, given: pa.Array, target: pa.DataType, faults: dict[int, str]) -> pa.Array:
    low, high = (-(2**31), 2**31 - 1) if target == pa.int32() else (-(2**63), 2**63 - 1)
    values: list[object] = given.to_pylist()
    for i, value in enumerate(values):
        if isinstance(value, int) and not low <= value <= high:
            faults.setdefault(i, f"attribute '{column.name}': {value} is out of range for {column.type}")
            values[i] = None
    return pa.array(values, target)


def _all_wrong(rows: pa.RecordBatch, target: pa.DataType, faults: dict[int, str], reason: str) -> pa.Array:
    for i in range(rows.num_rows):
        faults.setdefault(i, reason)
    return pa.nulls(rows.num_rows, target)
