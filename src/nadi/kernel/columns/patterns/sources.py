"""The streams that a pattern reads, with their columns beside each other, and expressions over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from nadi.kernel.columns.keying import key_of
from nadi.lang.tree import Type
from nadi.plan.nodes import OUTPUT, App, Attr, Expr, Query, StreamElement
from nadi.plan.walk import inside, replaced


@dataclass(frozen=True, slots=True)
class Sources:
    """The streams that are read. Their columns stand beside each other: those of `names[s]` from `starts[s]` on.

    `keys[s]` is the column of the partition key, none outside of partitions. It may be one behind the `widths[s]` columns of the stream (`keying`).
    """

    names: tuple[str, ...]
    starts: tuple[int, ...]
    types: tuple[Type, ...]
    keys: tuple[int, ...]
    widths: tuple[int, ...]


def sources_of(query: Query, app: App, elements: Iterable[StreamElement]) -> Sources:
    """The sources of a query, in the order in which it names them."""
    return sources_named(query, app, tuple(dict.fromkeys(e.source for e in elements)))


def sources_named(query: Query, app: App, names: tuple[str, ...]) -> Sources:
    """The streams of some names as the sources of a query."""
    types: list[Type] = []
    starts, keys, widths = [], [], []
    for name in names:
        own = app.streams[name].schema.types
        starts.append(len(types))
        widths.append(len(own))
        key = key_of(query, name, app)
        if key is not None:
            keys.append(len(types) + key.position)
        types += own if key is None or key.position < len(own) else (*own, key.type)
    return Sources(names, tuple(starts), tuple(types), tuple(keys), tuple(widths))


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
