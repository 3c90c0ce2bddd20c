"""Whose state an element is."""

from __future__ import annotations

from nadi.plan.nodes import App, InsertIntoStream


class Owners:
    """The queries of an app by the ids of their elements, and tables by their own; the numbers of an output are its maker's, where only one query makes it."""

    def __init__(self, app: App) -> None:
        self._queries = frozenset(query.id for query in app.queries) | {t.id for t in app.tables.values()}
        makers: dict[str, list[str]] = {}
        for query in app.queries:
            if isinstance(query.output, InsertIntoStream):
                makers.setdefault(f"{query.output.target}/output", []).append(query.id)
        self._known: dict[str, str | None] = {out: ids[0] if len(ids) == 1 else None for out, ids in makers.items()}

    def of(self, element: str) -> str | None:
        """The query (or table) of an element, None where it belongs to none."""
        if element not in self._known:
            head = element
            while head and head not in self._queries:
                head = head.rpartition("/")[0]
            self._known[element] = head or None
        return self._known[element]
