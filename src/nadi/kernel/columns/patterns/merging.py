"""The events of the streams that a pattern reads, in the order in which they came, as one stretch."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa

from nadi.kernel.columns.jit import loop
from nadi.kernel.columns.patterns.sources import Sources
from nadi.kernel.columns.stretch import DTYPES, Array, Column, Longs, Stretch
from nadi.lang.tree import Type

_SMALL = 1024
_ORIGIN = np.zeros(_SMALL, np.int8)


def merged(given: Mapping[str, Stretch], sources: Sources, wanted: Collection[int]) -> tuple[Stretch, Array]:
    """All events in order, and of which source each is.

    The columns of all sources stand beside each other; those that are not `wanted` are empty. What a column says of the events of other sources means nothing.
    """
    if len(sources.names) == 1:
        stretch = given[sources.names[0]]
        return stretch, _zeros(len(stretch))
    parts = [(number, given[name]) for number, name in enumerate(sources.names) if name in given]
    chunk = np.concatenate([part.chunk for _number, part in parts])
    order = np.argsort(chunk, kind="stable")  # a chunk is of one source
    origin = np.concatenate([np.full(len(part), number, np.int8) for number, part in parts])[order]
    columns: list[Column] = []
    for number, name in enumerate(sources.names):
        end = sources.starts[number + 1] if number + 1 < len(sources.names) else len(sources.types)
        at = np.flatnonzero(origin == number)
        for column in range(sources.starts[number], end):
            kind = sources.types[column]
            if column in wanted and name in given:
                columns.append(_spread(given[name].columns[column - sources.starts[number]], kind, at, len(order)))
            else:
                columns.append(_nothing(kind, len(order) if column in wanted else 0))
    group = None
    if parts[0][1].group is not None:
        group = _joined([part.group for _number, part in parts if part.group is not None], order)
    ts, now = (_joined([getattr(part, name) for _number, part in parts], order) for name in ("ts", "now"))
    came = np.concatenate([part.chunk if part.origin is None else part.origin for _number, part in parts])
    return Stretch(tuple(columns), ts, now, chunk[order], group, came[order]), origin


def _joined(arrays: list[Longs], order: Longs) -> Longs:
    return np.concatenate(arrays)[order]


def _spread(column: Column, kind: Type, at: Longs, size: int) -> Column:
    """The values of a source at the places of its events."""
    if kind is Type.STRING:
        rows = np.zeros(size, np.int64)
        rows[at] = np.arange(column.size)
        mine = np.zeros(size, np.bool_)
        mine[at] = True
        return Column(column.array().take(pa.array(rows, mask=~mine)))
    values, nulls = np.zeros(size, DTYPES[kind]), np.ones(size, np.bool_)
    values[at] = column.values()
    nulls[at] = column.nulls()[: column.size]
    return Column(None, values, nulls)


def _nothing(kind: Type, size: int) -> Column:
    if kind is Type.STRING:
        return Column(pa.nulls(size, pa.string()))
    return Column(None, np.zeros(size, DTYPES[kind]), np.ones(size, np.bool_))


def _zeros(size: int) -> Array:
    """Of at least so many events: never to be written."""
    global _ORIGIN  # noqa: PLW0603  # grows with the largest batch
    if len(_ORIGIN) < size:
        _ORIGIN = np.zeros(max(size, 2 * len(_ORIGIN)), np.int8)
    return _ORIGIN


@loop
def without_nulls(ids, nulls, made):  # type: ignore[no-untyped-def]
    """Ids, -1 where there is null."""
    for i in range(len(ids)):
        made[i] = -1 if nulls[i] else ids[i]
