"""Events of a simulation, and the order in which those of several sources come."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import islice, takewhile
from operator import attrgetter
from typing import Any, NamedTuple

UNSET = -1
"""A bound that is none."""


class Event(NamedTuple):
    """`timestamp` is its own time, ms; `values` are of the types of the stream's attributes."""

    timestamp: int
    app: str
    stream: str
    values: tuple[Any, ...]


def merged(sources: Iterable[Iterable[Event]], end: int = UNSET, count: int = UNSET) -> Iterator[Event]:
    """The events of all sources: always the one with the least timestamp of those that come next, of the first source where several have it.

    A source that is exhausted, or has come behind `end` (ms), does not end the others; after `count` events all are.

    >>> a, b = ([Event(t, "A", s, ()) for t in times] for s, times in (("S", (1, 4)), ("T", (2, 3, 9))))
    >>> [(e.timestamp, e.stream) for e in merged([a, b], end=8)]
    [(1, 'S'), (2, 'T'), (3, 'T'), (4, 'S')]
    """
    bounded = [
        source if end == UNSET else takewhile(lambda event: event.timestamp <= end, source) for source in sources
    ]
    ordered = heapq.merge(*bounded, key=attrgetter("timestamp"))
    return ordered if count == UNSET else islice(ordered, count)
