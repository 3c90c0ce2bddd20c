"""The key of a partition where it is no attribute: one more column, behind those of the stream that a query reads.

It is made of an expression or of ranges (semantics/tables.md#partitions). Keys of ranges are their labels; an event takes part in each one that holds
for it, in their order, so that it is there once for each. An inner stream has the column from the query that makes it, which puts out the key of its event.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from nadi.kernel.columns.looping import LoopText
from nadi.kernel.columns.selecting import Rule, Selected, SelectionText
from nadi.kernel.columns.stretch import Array, Column, Stretch
from nadi.lang.tree import Type
from nadi.plan.nodes import (
    App,
    Attr,
    InsertIntoStream,
    Partition,
    Query,
    RangeKey,
    Schema,
    Selection,
    SingleInput,
    ValueKey,
)
from nadi.plan.nodes import Column as SchemaColumn
from nadi.plan.walk import read


def key_of(query: Query, source: str, app: App) -> Attr | None:
    """The attribute by which the partition of a query splits the events of a stream; behind those of the stream where it is made for it."""
    position = len(app.streams[source].schema) if source in app.streams else 0
    maker = _maker(query, source, app)
    if maker is not None:
        (before,) = read(maker).values()
        made = key_of(maker, before, app)
        return None if made is None else Attr(0, position, made.type)
    match _key(query, source, app):
        case ValueKey(value=Attr() as value):
            return value
        case ValueKey(value=value):
            return Attr(0, position, value.type)
        case RangeKey():
            return Attr(0, position, Type.STRING)
        case _:
            return None


def with_key(query: Query, app: App) -> Query:
    """A query that inserts into an inner stream, with the key among what it puts out; another one as it is."""
    target = query.output.target if isinstance(query.output, InsertIntoStream) else ""
    if target not in app.streams or app.streams[target].partition is None:
        return query
    assert isinstance(query.input, SingleInput)  # as islands says
    key, selection = key_of(query, query.input.source, app), query.selection
    assert key is not None
    schema = Schema((*selection.schema.columns, SchemaColumn("", key.type)))
    return replace(query, selection=replace(selection, values=(*selection.values, key), schema=schema))


def keying(query: Query, source: str, app: App) -> Keying | None:
    """What makes the key's column, None where there is no such key."""
    key = _key(query, source, app)
    types = app.streams[source].schema.types if source in app.streams else ()
    if isinstance(key, RangeKey):
        return RangeKeying(key, types)
    if key is None or isinstance(key.value, Attr):
        return None
    return ValueKeying(key, types)


def _key(query: Query, source: str, app: App) -> ValueKey | RangeKey | None:
    if query.partition is None:
        return None
    partition = next(e for e in app.elements if isinstance(e, Partition) and e.id == query.partition)
    return next((key for key in partition.keys if key.stream == source), None)


def _maker(query: Query, source: str, app: App) -> Query | None:
    """The query that makes an inner stream."""
    if query.partition is None or source not in app.streams or app.streams[source].partition is None:
        return None
    return next(q for q in app.queries if isinstance(q.output, InsertIntoStream) and q.output.target == source)


class ValueKeying:
    """The value of an expression; null where the event takes no part."""

    def __init__(self, key: ValueKey, types: tuple[Type, ...]) -> None:
        text = LoopText(types)
        self._picked = SelectionText(text, Selection((key.value,), Schema(())), Rule.EACH).picked
        self._types = types
        self._loop = text.compiled("keying")

    def process(self, stretch: Stretch) -> Stretch | None:
        """The events with their keys."""
        selected = Selected(self._picked, self._types)
        self._loop(stretch, selected.room(len(stretch)), selected.held)
        made = selected.stretch(stretch)
        assert made is not None  # each event gives a row
        return _with(stretch, made.columns[0])


class RangeKeying:
    """The labels of ranges: an event for each that holds."""

    def __init__(self, key: RangeKey, types: tuple[Type, ...]) -> None:
        self._labels = pa.array([label for label, _condition in key.ranges], pa.string())
        text = LoopText(types)
        for number, (_label, condition) in enumerate(key.ranges):
            text.writer.line(f"if {text.writer.truth(condition)}:")
            for line in ("source[k] = i", f"label[k] = {number}", "k += 1"):
                text.writer.line(f"    {line}")
        text.before.append("k = 0")
        text.after.append("made[0] = k")
        text.own |= dict.fromkeys(("source", "label", "made"), "int64[]")
        self._loop = text.compiled("ranging")

    def process(self, stretch: Stretch) -> Stretch | None:
        """The events with their keys, None where no range holds."""
        most = len(stretch) * len(self._labels)
        source, label, made = np.empty(most, np.int64), np.empty(most, np.int64), np.zeros(1, np.int64)
        own: dict[str, Array | int] = {"source": source, "label": label, "made": made}
        self._loop(stretch, own)
        k = int(made[0])
        if not k:
            return None
        every = k == len(stretch) and bool((source[:k] == np.arange(k)).all())
        return _with(stretch if every else stretch.take(source[:k]), Column(self._labels.take(pa.array(label[:k]))))


Keying = ValueKeying | RangeKeying


def _with(stretch: Stretch, key: Column) -> Stretch:
    return Stretch((*stretch.columns, key), stretch.ts, stretch.now, stretch.chunk, stretch.group, stretch.origin)
