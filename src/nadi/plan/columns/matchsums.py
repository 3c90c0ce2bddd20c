"""Aggregators and groups over matches: such a query is two, one that gives the attributes of matches, and one that sums them up as it would a stream's.

Each match is a chunk of its own for the selection (semantics/patterns.md#results), whatever it is delivered with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from nadi.plan.chains import least_events
from nadi.plan.nodes import App, Attr, Column, Expr, Partition, Query, Schema, SingleInput, StateInput, ValueKey
from nadi.plan.walk import inside, read, replaced


@dataclass(frozen=True, slots=True)
class Halves:
    """`matches` gives what the summing query reads; `key` is the column that has the key of their partition, None outside of partitions."""

    matches: Query
    summing: Query
    key: int | None


def sums(query: Query) -> bool:
    """Whether a query sums up matches."""
    selection = query.selection
    return isinstance(query.input, StateInput) and bool(selection.aggregates or selection.group_by)


def halves_of(query: Query, app: App) -> Halves:
    """The two queries that one is which sums up matches."""
    selection = query.selection
    looked = (selection.values, selection.having, selection.group_by, selection.aggregates)
    found = [part for part in inside(looked) if isinstance(part, Attr) and part.slot >= 0]
    key = _key(query, app)
    attributes = tuple(dict.fromkeys(_plain(a) for a in (*(() if key is None else (key,)), *found)))
    schema = Schema(tuple(Column(f"a{i}", a.type) for i, a in enumerate(attributes)))

    def column(leaf: Expr) -> Expr:
        if isinstance(leaf, Attr) and leaf.slot >= 0:
            return replace(leaf, slot=0, position=attributes.index(_plain(leaf)), index=None)
        return leaf

    given = replace(selection, values=attributes, schema=schema, aggregates=(), group_by=(), having=None)
    summed = replace(
        selection,
        values=tuple(replaced(value, column) for value in selection.values),
        aggregates=tuple(replace(a, args=tuple(replaced(e, column) for e in a.args)) for a in selection.aggregates),
        group_by=tuple(replaced(e, column) for e in selection.group_by),
        having=None if selection.having is None else replaced(selection.having, column),
    )
    return Halves(
        replace(query, selection=given),
        replace(query, selection=summed, input=SingleInput("", (), schema)),
        None if key is None else 0,
    )


def _plain(attribute: Attr) -> Attr:
    """An attribute whatever it is called."""
    return replace(attribute, name="")


def _key(query: Query, app: App) -> Attr | None:
    """The key of the partition, as an event has it that each match has; None where none of them has one that is an attribute."""
    partition = next((e for e in app.elements if isinstance(e, Partition) and e.id == query.partition), None)
    if partition is None or not isinstance(query.input, StateInput):
        return None
    keys = {key.stream: key.value for key in partition.keys if isinstance(key, ValueKey)}
    sources, certain = read(query), [slot for slot, count in least_events(query.input.root).items() if count]
    found = [(slot, key) for slot in certain if isinstance(key := keys.get(sources[slot]), Attr)]
    return replace(found[-1][1], slot=found[-1][0]) if found else None
