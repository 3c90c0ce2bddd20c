"""How a batch window collects: all events, or one per key (the `unique:*` batch windows, semantics/windows.md#unique-windows)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from nadi.functions.arithmetic import java_text
from nadi.kernel.rows.events import Row
from nadi.kernel.rows.state import Cell, Deque, Map
from nadi.kernel.rows.windows.contract import Held, Setup

KeyOf = Callable[[Row, int], Any]
"""Row and timestamp → the key of an event."""


@dataclass(frozen=True, slots=True)
class Collector:
    """What a batch is kept in. `add` takes an event into the cell, `events` gives those that it holds, in the order in which they are emitted."""

    cell: type[Cell]
    add: Callable[[Any, Held], None]
    events: Callable[[Any], Iterable[Held]]


ALL = Collector(Deque, Deque.append, iter)
"""Every event, in the order of arrival."""


def latest(key: KeyOf) -> Collector:
    """The latest event of each key, at the place where the key was first seen."""

    def add(batch: Map, held: Held) -> None:
        batch.set(key(held[1], held[0]), held)

    return Collector(Map, add, Map.values)


def first(key: KeyOf) -> Collector:
    """The first event of each key."""

    def add(batch: Map, held: Held) -> None:
        found = key(held[1], held[0])
        if found not in batch:
            batch.set(found, held)

    return Collector(Map, add, Map.values)


def key_of(setup: Setup, count: int) -> KeyOf:
    """The key that the first `count` arguments of a window make: the text of the value (null is "null"), of several a tuple of texts."""
    parts = [(setup.value(n), setup.call.args[n].type) for n in range(count)]
    if len(parts) == 1:
        value, kind = parts[0]
        return lambda row, ts: java_text(value(row, ts), kind)
    return lambda row, ts: tuple(java_text(value(row, ts), kind) for value, kind in parts)
