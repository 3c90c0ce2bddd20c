"""The streams that a pattern reads, with their columns beside each other, and expressions over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from nadi.lang.tree import Type
from nadi.plan.matchable import partition_of
from nadi.plan.nodes import OUTPUT, App, Attr, Expr, Query, StreamElement, ValueKey
from nadi.plan.walk import inside, replaced


@dataclass(frozen=True, slots=True)
class Sources:
    """The streams that are read. Their columns stand beside each other: those of `names[s]` from `starts[s]` on.

    `keys[s]` is the column of the partition key, none outside of partitions.
    """

    names: tuple[str, ...]
    starts: tuple[int, ...]
    types: tuple[Type, ...]
    keys: tuple[int, ...]


def sources_of(query: Query, app: App, elements: Iterable[StreamElement]) -> Sources:
    """The sources of a query, in the order in which it names them."""
    return sources_named(query, app, tuple(dict.fromkeys(e.source for e in elements)))


def sources_named(query: Query, app: App, names: tuple[str, ...]) -> Sources:
    """The streams of some names as the sources of a query."""
    types: list[Type] = []
    starts = []
    for name in names:
        starts.append(len(types))
        types += app.streams[name].schema.types
    keys: tuple[int, ...] = ()
    if query.partition is not None:
        by_stream = {key.stream: key for key in partition_of(query, app).keys}
        keys = tuple(start + _position(by_stream[name]) for name, start in zip(names, starts))
    return Sources(names, tuple(starts), tuple(types), keys)


def _position(key: object) -> int:
    assert isinstance(key, ValueKey)  # as islands says
    assert isinstance(key.value, Attr)
    return key.value.position


def seen(expr: Expr, slot: int, starts: Mapping[int, int]) -> Expr:
    """An expression as the loop computes it while the event of a slot is at hand."""

    def leaf(one: Expr) -> Expr:
        if not isinstance(one, Attr) or one.slot == OUTPUT:
            return one
        if one.slot == slot:
            return replace(one, slot=0, position=starts[slot] + one.position, index=None)
        return replace(one, slot=one.slot + 1, index=None)

    return replaced(expr, leaf)


def looks_back(expr: Expr) -> bool:
    """Whether an expression, as `seen` gives it, reads another event than the one at hand."""
    return any(isinstance(part, Attr) and part.slot > 0 for part in inside(expr))
