"""Which queries give other results when the brokers of several data centres bring the same messages in another order.

A source with several centres takes each message once, as soon as one of them brings it. So the messages of one publisher come in their order as long as no
centre loses any, and those of different publishers as it happens: two clusters that read the same centres may see them differently. What keeps state sees
the order; what does not gives the same rows, in another order.
"""

from __future__ import annotations

from collections.abc import Mapping

from nadi.plan.annotations import found
from nadi.plan.connectortraits import ConnectorCatalog
from nadi.plan.elements import of_query
from nadi.plan.nodes import App, Query, Stream
from nadi.plan.streams import queries_of
from nadi.plan.walk import read, searched


def interleaved(app: App, types: ConnectorCatalog) -> dict[str, tuple[str, ...]]:
    """The streams with several centres on whose order the results of a query depend, by the id of the query; queries that depend on none are left out."""
    stems = {key: {key} for key, stream in app.streams.items() if _has_centres(stream, types)}
    if not stems:
        return {}
    ordered: dict[str, set[str]] = {}  # the same, where it is not only the order of the rows that depends on it
    told: dict[str, set[str]] = {}
    queries = queries_of(app.elements)
    size = -1
    while size != (size := sum(map(len, (*stems.values(), *ordered.values(), *told.values())))):
        for aggregation in app.aggregations.values():
            whole = stems.get(aggregation.input.source, set())
            stems.setdefault(aggregation.name, set()).update(whole)
            ordered.setdefault(aggregation.name, set()).update(whole)
        for query in queries:
            given = {*read(query).values(), *searched(query)}
            whole = _all(stems, given)
            found_now = whole if _sees_order(app, query, given) else _all(ordered, given)
            told.setdefault(query.id, set()).update(found_now)
            target = getattr(query.output, "target", "")
            for key in (target, *(f"!{key}" for key in read(query).values())):
                stems.setdefault(key, set()).update(whole)
                ordered.setdefault(key, set()).update(found_now)
    return {name: tuple(sorted(streams)) for name, streams in told.items() if streams}


def _has_centres(stream: Stream, types: ConnectorCatalog) -> bool:
    known = [types.source_traits((a.get("type") or "").lower()) for a in found(stream.annotations, "source")]
    return any(traits is not None and traits.centres for traits in known)


def _all(of: Mapping[str, set[str]], keys: set[str]) -> set[str]:
    return set().union(*(of.get(key, ()) for key in keys))


def _sees_order(app: App, query: Query, given: set[str]) -> bool:
    """Whether a query keeps something between events, or meets what others have kept."""
    kept = {*app.tables, *app.windows, *app.aggregations}
    return bool(list(of_query(app, query)) or given & kept or getattr(query.output, "target", "") in kept)
