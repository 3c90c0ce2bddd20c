"""Whose state an element is."""

from __future__ import annotations

from collections.abc import Collection

from nadi.plan.nodes import App, InsertIntoStream, Partition, Query


class Owners:
    """The queries of an app by the ids of their elements, tables and the keys of partitions with `@purge` by their own; the numbers of an output are its
    maker's: that of the first query, where several insert into it, which run together."""

    def __init__(self, app: App) -> None:
        self._queries = frozenset(query.id for query in app.queries) | {t.id for t in app.tables.values()}
        self._queries |= {keys_id(partition) for partition in purged(app)}
        self._known: dict[str, str | None] = {}
        for query in app.queries:
            if isinstance(query.output, InsertIntoStream):
                self._known.setdefault(f"{query.output.target}/output", query.id)

    def of(self, element: str) -> str | None:
        """The query (table, keys) of an element, None where it belongs to none."""
        if element not in self._known:
            head = element
            while head and head not in self._queries:
                head = head.rpartition("/")[0]
            self._known[element] = head or None
        return self._known[element]


def purged(app: App) -> tuple[Partition, ...]:
    """The partitions whose idle keys are forgotten."""
    return tuple(e for e in app.elements if isinstance(e, Partition) and e.purge_idle is not None)


def keys_id(partition: Partition) -> str:
    """The id of the element that knows the keys of a partition."""
    return f"{partition.id}/keys"


def keys_of(query: Query, app: App) -> Collection[str]:
    """The element of the keys that are purged with what a query keeps; none where none are."""
    return [keys_id(partition) for partition in purged(app) if partition.id == query.partition]
