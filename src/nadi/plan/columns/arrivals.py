"""Streams whose chunks are those of the app's inputs: the columns kernel can put the events of several such streams in the order in which they came."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from nadi.plan.columns.tableuse import touched
from nadi.plan.columns.windowsupport import shows_expired
from nadi.plan.nodes import App, JoinInput, Query, SingleInput
from nadi.plan.streams import producers
from nadi.plan.walk import read
from nadi.plan.windowtraits import BATCHES, SLIDING, UNIQUE_BATCHES, UNORDERED


def unmerged(sources: Collection[str], app: App) -> Iterator[str]:
    """Why the events of some streams cannot be put in order."""
    if len(sources) < 2:
        return
    seen: dict[str, str] = {}
    for source in sources:
        inputs = inputs_of(source, app)
        if inputs is None:
            yield f"it reads '{source}', which a query makes in chunks of its own, and other streams, with which it would have to be merged in order"
            continue
        for name in sorted(inputs & seen.keys()):
            yield f"it reads '{seen[name]}' and '{source}', both of which are made of '{name}'"
        seen |= dict.fromkeys(inputs, source)


def inputs_of(source: str, app: App) -> frozenset[str] | None:
    """The inputs from which a stream is made, at most one chunk of it for each of theirs; None where its chunks are others."""
    return _inputs(source, app, producers(app.elements), frozenset())


def _inputs(source: str, app: App, feeding: Mapping[str, list[Query]], above: frozenset[str]) -> frozenset[str] | None:
    makers = feeding.get(source, [])
    if not makers:
        return frozenset({source})
    if source in above or len(makers) > 1 or not _keeps_chunks(makers[0], app):
        return None
    found: frozenset[str] = frozenset()
    for key in dict.fromkeys(read(makers[0]).values()):
        one = _inputs(key, app, feeding, above | {source})
        if one is None or found & one:
            return None
        found |= one
    return found


def _keeps_chunks(query: Query, app: App) -> bool:
    """Whether what a query makes of a chunk is a chunk, at the same time."""
    if query.partition is not None or query.rate is not None or shows_expired(query) or touched(query, app):
        return False
    match query.input:
        case SingleInput(window=window):
            return window is None or window.has(SLIDING | UNORDERED)
        case JoinInput(left=left, right=right):
            windows = [side.input.window for side in (left, right)]
            cuts = any(
                window is not None and window.has(BATCHES | UNIQUE_BATCHES) and window.args for window in windows
            )
            return left.input.source != right.input.source and not cuts
        case _:
            return False
