"""Events and chunks as the rows kernel passes them from hop to hop."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

CURRENT, EXPIRED, RESET, TIMER = 0, 1, 2, 3

Row = tuple[object, ...]


class Event(NamedTuple):
    """An event: kind (CURRENT, EXPIRED, RESET, TIMER), timestamp in ms, row. RESET and TIMER have an empty row."""

    kind: int
    ts: int
    row: Row


event_of = partial(tuple.__new__, Event)
"""`event_of((kind, ts, row))` is an Event, made in half the time: for the places that each event passes."""

Chunk = list[Event]
"""Events that travel together; the chunk rule of the selector is about them."""

Group = list[Chunk]
"""Chunks that the selector sees one by one while their results are delivered together, as one chunk (joins, patterns)."""
