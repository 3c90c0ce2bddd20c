"""`frequent` and `lossyFrequent`: the latest events of frequent keys (semantics/windows.md#frequent)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from nadi.functions.arithmetic import java_text
from nadi.kernel.rows.events import CURRENT, Chunk, Event, Row
from nadi.kernel.rows.state import Map, Value
from nadi.kernel.rows.windows.contract import Setup, current, expired
from nadi.plan.nodes import Attr, Expr


class FrequentWindow:
    """`frequent(n [, attrs])`, the Misra-Gries algorithm.

    Cells: `held` key → latest event, `counts` key → counter.
    """

    def __init__(self, setup: Setup) -> None:
        self._flow, self._emit = setup.flow, setup.emit
        self._most: int = setup.constant(0)
        self._key = _key(setup, 1)
        self._state = setup.element(held=Map, counts=Map)

    def begin(self) -> None:
        """Nothing starts by itself."""

    def process(self, chunk: Chunk) -> None:
        out: Chunk = []
        for event in chunk:
            if event.kind == CURRENT:
                self._arrive(event, out)
        if out:
            self._emit(out)

    def _arrive(self, event: Event, out: Chunk) -> None:
        cells = self._state.at(self._flow.key)
        held: Map = cells["held"]
        counts: Map = cells["counts"]
        key = self._key(event.row)
        if key in held:
            counts.set(key, counts.get(key) + 1)
        else:
            if len(counts) >= self._most:
                self._make_room(held, counts, out)
            if len(counts) >= self._most:
                return
            counts.set(key, 1)
        held.set(key, (event.ts, event.row))
        out.append(event)

    def _make_room(self, held: Map, counts: Map, out: Chunk) -> None:
        """Counts every key down; those that reach 0 leave, in Java's hash order."""
        for key in _hash_order(counts.keys()):
            left = counts.get(key) - 1
            if left:
                counts.set(key, left)
            else:
                counts.pop(key)
                out.append(expired(held.pop(key), self._flow.now))

    def content(self) -> Iterable[Event]:
        return _content(self._state.at(self._flow.key)["held"])


class LossyFrequentWindow:
    """`lossyFrequent(support [, error [, attrs]])`, lossy counting.

    Cells: `held` key → latest event, `counts` key → (count, bucket at entry), `total` events seen.
    """

    def __init__(self, setup: Setup) -> None:
        self._flow, self._emit = setup.flow, setup.emit
        self._support: float = setup.constant(0)
        bound = setup.constant(1)
        self._error: float = self._support / 10 if bound is None else bound
        self._width = math.ceil(1 / self._error)
        self._key = _key(setup, 2)
        self._state = setup.element(held=Map, counts=Map, total=Value)

    def begin(self) -> None:
        """Nothing starts by itself."""

    def process(self, chunk: Chunk) -> None:
        out: Chunk = []
        for event in chunk:
            if event.kind == CURRENT:
                self._arrive(event, out)
        if out:
            self._emit(out)

    def _arrive(self, event: Event, out: Chunk) -> None:
        cells = self._state.at(self._flow.key)
        counts: Map = cells["counts"]
        total = (cells["total"].get() or 0) + 1
        cells["total"].set(total)
        bucket = math.ceil(total / self._width)
        key = self._key(event.row)
        count, entry = counts.get(key, (0, bucket - 1))
        counts.set(key, (count + 1, entry))
        cells["held"].set(key, (event.ts, event.row))
        if count + 1 >= (self._support - self._error) * total:
            out.append(event)
        if total % self._width == 0:
            self._prune(cells["held"], counts, bucket, out)

    def _prune(self, held: Map, counts: Map, bucket: int, out: Chunk) -> None:
        for key in _hash_order(counts.keys()):
            count, entry = counts.get(key)
            if count + entry <= bucket:
                counts.pop(key)
                out.append(expired(held.pop(key), self._flow.now))

    def content(self) -> Iterable[Event]:
        return _content(self._state.at(self._flow.key)["held"])


def _content(held: Map) -> Iterable[Event]:
    """The events held, in Java's hash order."""
    return (current(held.get(key)) for key in _hash_order(held.keys()))


def _key(setup: Setup, start: int) -> Callable[[Row], str]:
    """The key of an event: the text of the attributes named from `start` on.

    Where none is named Siddhi takes the row that is to be put out, in which the attributes stand already and all that is computed is still null; of a
    named window, which has no query, the whole event.
    """
    named: tuple[Expr, ...] = tuple(a for a in setup.call.args[start:] if isinstance(a, Attr))
    if not named and setup.shown is not None:
        named = setup.shown
    width = len(setup.schema)
    positions = [v.position if isinstance(v, Attr) and v.position < width else None for v in named]
    columns = [None if p is None else (p, setup.schema.columns[p].type) for p in positions or range(width)]
    return lambda row: "".join("null" if c is None else java_text(row[c[0]], c[1]) for c in columns)


def _hash_order(keys: Iterable[str]) -> list[str]:
    """Keys in the order in which a Java ConcurrentHashMap that grew to hold them walks over them; equal places keep their order.

    >>> _hash_order(["b", "a"])
    ['a', 'b']
    """
    found = list(keys)
    places = 16
    while len(found) >= places * 3 // 4:
        places *= 2
    return sorted(found, key=lambda key: _spread_hash(key) & (places - 1))


def _spread_hash(text: str) -> int:
    """Java's `String.hashCode`, its upper half folded into the lower."""
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(data), 2):
        value = (value * 31 + (data[i] << 8 | data[i + 1])) & 0xFFFFFFFF
    return value ^ (value >> 16)
