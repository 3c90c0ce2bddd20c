"""Which queries touch which tables, and in which turn queries get what comes of one arrival."""

from __future__ import annotations

from nadi.plan.nodes import (
    App,
    DeleteFromTable,
    InsertIntoStream,
    InsertIntoTable,
    Query,
    UpdateOrInsertTable,
    UpdateTable,
)
from nadi.plan.walk import read, searched


def writes(query: Query) -> str | None:
    """The table that a query changes."""
    output = query.output
    if isinstance(output, (InsertIntoTable, UpdateTable, UpdateOrInsertTable, DeleteFromTable)):
        return output.target
    return None


def reads(query: Query, app: App) -> frozenset[str]:
    """The tables that a query joins or looks into."""
    return frozenset((set(read(query).values()) | searched(query)) & app.tables.keys())


def changes(query: Query, app: App) -> bool:
    """Whether a query changes a table by what it finds there."""
    return writes(query) in reads(query, app)


def touched(query: Query, app: App) -> frozenset[str]:
    """The tables that a query reads or changes."""
    target = writes(query)
    return reads(query, app) | ({target} if target is not None else frozenset())


def writers(app: App) -> dict[str, list[Query]]:
    """The queries that change a table, by its name."""
    found: dict[str, list[Query]] = {}
    for query in app.queries:
        if (target := writes(query)) is not None:
            found.setdefault(target, []).append(query)
    return found


def turns(app: App) -> dict[str, int]:
    """The place of each query among all that get what comes of one arrival: depth first, each stream in the order of the queries that read it."""
    readers: dict[str, list[Query]] = {}
    for query in app.queries:
        for source in dict.fromkeys(read(query).values()):
            readers.setdefault(source, []).append(query)
    made = {q.output.target for q in app.queries if isinstance(q.output, InsertIntoStream)}
    found: dict[str, int] = {}
    for root in (*(key for key in app.streams if key not in made), *app.streams):  # the latter for what feeds itself
        waiting = [iter(readers.get(root, ()))]
        while waiting:
            following = next(waiting[-1], None)
            if following is None:
                waiting.pop()
            elif following.id not in found:
                found[following.id] = len(found)
                target = following.output.target if isinstance(following.output, InsertIntoStream) else ""
                waiting.append(iter(readers.get(target, ())))
    return found
