"""The `unique:*` windows: like the windows of the same name, with one event per key (semantics/windows.md#unique-windows).

Parameters are those of Siddhi's extension `unique`. Keys are texts (`key_of`). Batch windows are the plain ones with another way to collect.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from nadi.kernel.rows.events import CURRENT, Chunk, Event
from nadi.kernel.rows.keyedqueue import CELLS, KeyedQueue
from nadi.kernel.rows.state import Map, Value
from nadi.kernel.rows.windows.batches import LengthBatchWindow
from nadi.kernel.rows.windows.collectors import first, key_of, latest
from nadi.kernel.rows.windows.contract import Setup, current, expired, reset
from nadi.kernel.rows.windows.externalbatch import ExternalTimeBatchWindow
from nadi.kernel.rows.windows.timebatch import TimeBatchWindow


class UniqueEverWindow:
    """`unique:ever(k, …)`: the latest event of each key, for ever. The one that it replaces leaves before it.

    Cell: `held` key → event, the latest at the end.
    """

    def __init__(self, setup: Setup) -> None:
        self._flow, self._emit = setup.flow, setup.emit
        self._key = key_of(setup, len(setup.call.args))
        self._state = setup.element(held=Map)

    def begin(self) -> None:
        """Nothing starts by itself."""

    def process(self, chunk: Chunk) -> None:
        now = self._flow.now
        held: Map = self._state.at(self._flow.key)["held"]
        out: Chunk = []
        for event in chunk:
            kind, ts, row = event
            if kind != CURRENT:
                continue
            key = self._key(row, ts)
            if (before := held.pop(key)) is not None:
                out.append(expired(before, now))
            held.set(key, (ts, row))
            out.append(event)
        if out:
            self._emit(out)

    def content(self) -> Iterable[Event]:
        return map(current, self._state.at(self._flow.key)["held"].values())


class UniqueFirstWindow:
    """`unique:first(k, …)`: the first event of each key passes, the others do not. Nothing leaves.

    Cell: `seen` key → event, or True where nobody looks into the window.
    """

    def __init__(self, setup: Setup) -> None:
        self._flow, self._emit = setup.flow, setup.emit
        self._key = key_of(setup, len(setup.call.args))
        self._searched = setup.searched
        self._state = setup.element(seen=Map)

    def begin(self) -> None:
        """Nothing starts by itself."""

    def process(self, chunk: Chunk) -> None:
        seen: Map = self._state.at(self._flow.key)["seen"]
        out: Chunk = []
        for event in chunk:
            kind, ts, row = event
            if kind != CURRENT:
                continue
            key = self._key(row, ts)
            if key not in seen:
                seen.set(key, (ts, row) if self._searched else True)
                out.append(event)
        if out:
            self._emit(out)

    def content(self) -> Iterable[Event]:
        return (current(held) for held in self._state.at(self._flow.key)["seen"].values() if held is not True)


class UniqueLengthWindow:
    """`unique:length(k, n)`: the older event of a key leaves before the new one, else the oldest if n are held. With n = 0: [C, X, R]."""

    def __init__(self, setup: Setup) -> None:
        self._flow, self._emit = setup.flow, setup.emit
        self._key = key_of(setup, 1)
        self._length: int = setup.constant(1)
        self._state = setup.element(**CELLS)

    def begin(self) -> None:
        """Nothing starts by itself."""

    def process(self, chunk: Chunk) -> None:
        now, length = self._flow.now, self._length
        queue = KeyedQueue(self._state.at(self._flow.key))
        out: Chunk = []
        for event in chunk:
            kind, ts, row = event
            if kind != CURRENT:
                continue
            if length == 0:
                out += (event, expired((ts, row), now), reset(now))
                continue
            if (before := queue.put(self._key(row, ts), ts, row)) is not None:
                out.append(expired(before, now))
            elif len(queue) > length:
                out.append(expired(queue.popleft(), now))
            out.append(event)
        if out:
            self._emit(out)

    def content(self) -> Iterable[Event]:
        return map(current, KeyedQueue(self._state.at(self._flow.key)).events())


class UniqueTimeWindow:
    """`unique:time(k, t)`: what is as old as t leaves, then the older event of the key, then the new one comes. X are stamped now.

    Cells: those of the queue, and `last`, the greatest timestamp for which a timer was set.
    """

    def __init__(self, setup: Setup) -> None:
        self._flow, self._emit = setup.flow, setup.emit
        self._key = key_of(setup, 1)
        self._time: int = setup.constant(1)
        self._state = setup.element(**CELLS, last=Value)
        self._timer = setup.flow.timers.timer(setup.call.id, self._due)

    def begin(self) -> None:
        """Nothing starts by itself."""

    def process(self, chunk: Chunk) -> None:
        cells, now = self._state.at(self._flow.key), self._flow.now
        queue, last = KeyedQueue(cells), cells["last"]
        out: Chunk = []
        for event in chunk:
            kind, ts, row = event
            if kind != CURRENT:
                continue
            self._expire(queue, out)
            if (before := queue.put(self._key(row, ts), ts, row)) is not None:
                out.append(expired(before, now))
            out.append(event)
            if last.get() is None or last.get() < ts:
                last.set(ts)
                self._timer.at(ts + self._time)
        if out:
            self._emit(out)

    def _due(self, due: int) -> None:
        out: Chunk = []
        self._expire(KeyedQueue(self._state.at(self._flow.key)), out)
        if out:
            self._emit(out)

    def _expire(self, queue: KeyedQueue, out: Chunk) -> None:
        now = self._flow.now
        while (oldest := queue.oldest()) is not None and oldest[0] + self._time <= now:
            out.append(expired(queue.popleft(), now))

    def content(self) -> Iterable[Event]:
        return map(current, KeyedQueue(self._state.at(self._flow.key)).events())


# ---- batches -------------------------------------------------------------------------------------------------------


def unique_length_batch(setup: Setup) -> LengthBatchWindow:
    """`unique:lengthBatch(k, n)`: flushes when events of n keys are held, the latest of each."""
    return LengthBatchWindow(_keyless(setup), latest(key_of(setup, 1)))


def first_length_batch(setup: Setup) -> LengthBatchWindow:
    """`unique:firstLengthBatch(k, n)`: flushes when events of n keys are held, the first of each."""
    return LengthBatchWindow(_keyless(setup), first(key_of(setup, 1)))


def unique_time_batch(setup: Setup) -> TimeBatchWindow:
    """`unique:timeBatch(k, t [, start.time])`: the latest event of each key."""
    return TimeBatchWindow(_keyless(setup), latest(key_of(setup, 1)))


def first_time_batch(setup: Setup) -> TimeBatchWindow:
    """`unique:firstTimeBatch(k, t [, start.time])`: the first event of each key."""
    return TimeBatchWindow(_keyless(setup), first(key_of(setup, 1)))


def unique_time_length_batch(setup: Setup) -> TimeBatchWindow:
    """`unique:timeLengthBatch(k, t [, start.time], n)`: the latest event of each key; flushes at the boundary, or before it with the n-th key."""
    length: int = setup.constant(len(setup.call.args) - 1)
    without = replace(setup, call=replace(setup.call, args=setup.call.args[1:-1]))
    return TimeBatchWindow(without, latest(key_of(setup, 1)), length)


def unique_external_time_batch(setup: Setup) -> ExternalTimeBatchWindow:
    """`unique:externalTimeBatch(k, tsAttr, t [, start.time [, timeout [, replaceTs]]])`: the latest event of each key."""
    return ExternalTimeBatchWindow(_keyless(setup), latest(key_of(setup, 1)))


def _keyless(setup: Setup) -> Setup:
    """What the plain window is made from: without the first argument."""
    return replace(setup, call=replace(setup.call, args=setup.call.args[1:]))
