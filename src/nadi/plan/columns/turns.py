"""With which arrival the events of a stream come, where it is known before they do; and which queries get an arrival in turn.

On rows an arrival is handed from query to query, depth first (`nadi.plan.columns.tableuse.turns`). A query on columns takes a batch as a whole, so that what it
does to a table, or puts beside the rows of others, must be put in that order afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from nadi.plan.columns.mixedapps import hands_on
from nadi.plan.nodes import App, InsertIntoStream, Query, StateInput
from nadi.plan.streams import producers
from nadi.plan.walk import read


def stream_of(query: Query, app: App) -> str | None:
    """The one stream whose events a query takes."""
    found = [source for source in dict.fromkeys(read(query).values()) if source not in app.tables]
    return found[0] if len(found) == 1 else None


def by_arrival(stream: str, app: App) -> bool:
    """Whether the chunks of a stream are known by the arrivals that they come with."""
    feeding = producers(app.elements)
    waiting, seen = [stream], set()
    while waiting:
        makers = feeding.get(waiting.pop(), ())
        if len(makers) > 1:
            return False
        for query in makers:
            source = stream_of(query, app)
            if source is None or not gives_by_arrival(query):
                return False
            if query.id not in seen:  # queries may feed each other
                seen.add(query.id)
                waiting.append(source)
    return True


def gives_by_arrival(query: Query) -> bool:
    """Whether the rows of a query come with the events that it reads; `output first` drops some of them, and keeps none back."""
    first = query.rate is not None and query.rate.kind == "first"
    return hands_on(replace(query, rate=None) if first else query)


def alternating(query: Query, app: App) -> tuple[Query, ...]:
    """The queries that an arrival comes to in parts, in turn with a query: a partition gives on one run of a key after the other, a pattern one match."""
    feeding = producers(app.elements)
    found: dict[str, Query] = {}
    for one in _up(query, feeding):
        if one.partition is not None:
            inside = [other for other in app.queries if other.partition == one.partition]
            found |= {other.id: other for other in (*inside, *_below(inside, app))}
        elif isinstance(one.input, StateInput):
            found |= {other.id: other for other in _below([one], app)}
    return tuple(other for other in found.values() if other.id != query.id)


def unmerged(query: Query, makers: Iterable[Query], app: App) -> Iterator[str]:
    """Why the rows of a query cannot be put in order with those of others that insert into the same stream."""
    target = query.output.target if isinstance(query.output, InsertIntoStream) else ""
    aggregated = (aggregation.input.source for aggregation in app.aggregations.values())
    if target in aggregated or any(target in read(other).values() for other in app.queries):
        yield f"'{target}' is read"
    source = stream_of(query, app)
    if source is None or not by_arrival(source, app) or not gives_by_arrival(query):
        yield f"only rows know with which arrival those of {query.name} come"
    turns = {other.id for other in alternating(query, app)}
    if any(maker.id in turns for maker in makers):
        yield "one partition or pattern gives them on in turn"


def _up(query: Query, feeding: dict[str, list[Query]]) -> Iterator[Query]:
    """A query, and those that feed it."""
    waiting, seen = [query], {query.id}
    while waiting:
        one = waiting.pop()
        yield one
        above = [maker for source in read(one).values() for maker in feeding.get(source, ())]
        waiting += [maker for maker in above if maker.id not in seen]
        seen |= {maker.id for maker in above}


def _below(queries: Iterable[Query], app: App) -> Iterator[Query]:
    """Those that some queries feed."""
    waiting, seen = list(queries), set()
    while waiting:
        output = waiting.pop().output
        if not isinstance(output, InsertIntoStream):
            continue
        for query in app.queries:
            if query.id not in seen and output.target in read(query).values():
                seen.add(query.id)
                waiting.append(query)
                yield query
