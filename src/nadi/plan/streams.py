"""Which streams are fed from outside."""

from __future__ import annotations

from collections.abc import Sequence

from nadi.plan.annotations import found
from nadi.plan.nodes import App, InsertIntoStream, Partition, Query
from nadi.plan.walk import read

_Graph = dict[str, set[str]]


def queries_of(elements: Sequence[Query | Partition]) -> tuple[Query, ...]:
    """The queries of some elements, those in partitions included."""
    return tuple(q for e in elements for q in (e.queries if isinstance(e, Partition) else (e,)))


def producers(elements: Sequence[Query | Partition]) -> dict[str, list[Query]]:
    """The queries that insert into a stream or named window, by its key."""
    made: dict[str, list[Query]] = {}
    for query in queries_of(elements):
        if isinstance(query.output, InsertIntoStream):
            made.setdefault(query.output.target, []).append(query)
    return made


def input_streams(app: App, elements: Sequence[Query | Partition] | None = None) -> tuple[str, ...]:
    """Keys of the streams that are fed from outside, in the order of the definitions.

    These are the streams with an @source and, of those that the elements (default: all) read, the ones that no query feeds, or only
    queries that live on the stream itself. Triggers, fault and inner streams are none.
    """
    part = app.elements if elements is None else elements
    sources = _sources(producers(part))
    targets = _targets(sources)
    reading = {s for q in queries_of(part) for s in read(q).values()}
    return tuple(
        key
        for key, stream in app.streams.items()
        if (found(stream.annotations, "source") and (elements is None or key in reading))
        or (key in reading and _comes_from_outside(app, sources, targets, key))
    )


def _comes_from_outside(app: App, sources: _Graph, targets: _Graph, key: str) -> bool:
    stream = app.streams[key]
    if key in app.triggers or stream.partition is not None or key.startswith("!"):
        return False
    above = _reached(key, sources)
    # what feeds it is fed by it: somebody must begin
    return not above or (stream.defined and above <= _reached(key, targets))


def _sources(feeding: dict[str, list[Query]]) -> _Graph:
    return {key: {s for q in queries for s in read(q).values()} for key, queries in feeding.items()}


def _targets(sources: _Graph) -> _Graph:
    targets: _Graph = {}
    for key, above in sources.items():
        for source in above:
            targets.setdefault(source, set()).add(key)
    return targets


def _reached(key: str, steps: _Graph) -> set[str]:
    """All streams that are one or more steps away."""
    seen: set[str] = set()
    waiting = [key]
    while waiting:
        found_now = steps.get(waiting.pop(), set()) - seen
        seen |= found_now
        waiting.extend(found_now)
    return seen
