"""Which query of an app is which of another version of it: queries may have been added, removed, reordered and renamed in between.

A name given by @info is the query. Where none was given, or one is gone while a new one came, the query is known by what it does; unnamed queries at last
by what they read and where they write. A query is never taken for one that reads something else.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from nadi.plan.annotations import first
from nadi.plan.elements import canonical, of_query
from nadi.plan.nodes import App, Partition, Query, StateInput
from nadi.plan.walk import read

_MEANINGLESS = frozenset({"id", "position", "schema", "schemas", "reference"})
"""Fields that follow from where something stands, or from the names and types beside them; and e1 of `e1=S`, which may be called otherwise."""


@dataclass(frozen=True, slots=True)
class Matches:
    """Ids of the new app to those of the old one; what has no partner is not there."""

    queries: dict[str, str]
    partitions: dict[str, str]


def by_name(shape: object, partition: str | None) -> str:
    """A shape with attributes by name, wherever they stand, and inner streams whatever the partition's id is."""
    text = canonical(shape, without=_MEANINGLESS)
    return text if partition is None else text.replace(f"@{partition}", "@")


def given_name(query: Query | Partition) -> str | None:
    """The name that @info gives."""
    info = first(query.annotations, "info")
    return (info.get("name") or None) if info is not None else None


def sources(query: Query) -> tuple[str, ...]:
    """What a query reads: one stream, the two sides of a join, the streams of a pattern."""
    found = tuple(source for _slot, source in sorted(read(query).items()))
    if isinstance(query.input, StateInput):  # which element reads which is a part of its shape
        found = tuple(sorted(set(found)))
    return found if query.partition is None else tuple(s.replace(f"@{query.partition}", "@") for s in found)


def match(old: App, new: App) -> Matches:
    """Find for the queries and partitions of the new app their partners in the old one."""
    left, right = list(old.queries), list(new.queries)
    found: dict[str, str] = {}

    def pair(key: Callable[[App, Query], Hashable | None]) -> None:
        """Those whose keys are equal, in the order of the texts."""
        waiting: dict[Hashable, list[Query]] = defaultdict(list)
        for query in left:
            if (what := key(old, query)) is not None:
                waiting[what].append(query)
        for query in tuple(right):
            what = key(new, query)
            if what is not None and waiting[what]:
                partner = waiting[what].pop(0)
                found[query.id] = partner.id
                left.remove(partner)
                right.remove(query)

    pair(lambda _app, query: _named(query))
    pair(lambda _app, query: (_place(query), _deeds(query)))
    pair(lambda app, query: _unnamed(query, (_target(query), _state(app, query))))
    pair(lambda _app, query: _unnamed(query, (_target(query),)))
    return _with_partitions(old, new, found)


def _place(query: Query) -> tuple[Hashable, ...]:
    return (query.partition is not None, sources(query))


def _named(query: Query) -> Hashable | None:
    name = given_name(query)
    return None if name is None else (name, *_place(query))


def _unnamed(query: Query, more: tuple[Hashable, ...]) -> Hashable | None:
    return None if given_name(query) is not None else (*_place(query), *more)


def _deeds(query: Query) -> str:
    return by_name((query.input, query.selection, query.output, query.rate), query.partition)


def _target(query: Query) -> str:
    target = getattr(query.output, "target", "")
    return target if query.partition is None else target.replace(f"@{query.partition}", "@")


def _state(app: App, query: Query) -> tuple[str, ...]:
    return tuple(by_name(e.shape, query.partition) for e in of_query(app, query))


def _with_partitions(old: App, new: App, queries: dict[str, str]) -> Matches:
    """Partitions are those of their queries: the partner is the one that most of them came from."""
    home = {q.id: q.partition for q in old.queries}
    free = {e.id for e in old.elements if isinstance(e, Partition)}
    partitions: dict[str, str] = {}
    for element in new.elements:
        if isinstance(element, Partition):
            votes = Counter(home[queries[q.id]] for q in element.queries if q.id in queries)
            chosen = next((p for p, _votes in votes.most_common() if p in free), None)
            if chosen is not None:
                free.remove(chosen)
                partitions[element.id] = chosen
    kept = {
        q.id: queries[q.id]
        for q in new.queries
        if q.id in queries and (q.partition is None or partitions.get(q.partition) == home[queries[q.id]])
    }
    return Matches(kept, partitions)
