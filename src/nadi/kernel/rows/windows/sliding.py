"""Sliding windows: length, time, timeLength, externalTime, delay (semantics/windows.md#sliding-windows).

They hold (timestamp, row) in a queue, oldest first.
"""

from __future__ import annotations

from collections.abc import Iterable

from nadi.errors import error
from nadi.functions.arithmetic import told
from nadi.kernel.rows.events import CURRENT, Chunk, Event
from nadi.kernel.rows.flow import Timer
from nadi.kernel.rows.state import Cells, Deque, Value
from nadi.kernel.rows.windows.contract import Setup, current, expired, reset


class LengthWindow:
    """`length(n)`: if full, the oldest leaves before the new one: [X?, C]. With n = 0: [C, X, R]."""

    def __init__(self, setup: Setup) -> None:
        self._flow, self._emit = setup.flow, setup.emit
        self._length: int = setup.constant(0)
        self._state = setup.element(held=Deque)

    def begin(self) -> None:
        """Nothing starts by itself."""

    def process(self, chunk: Chunk) -> None:
        now, length = self._flow.now, self._length
        held: Deque = self._state.at(self._flow.key)["held"]
        out: Chunk = []
        for event in chunk:
            kind, ts, row = event
            if kind != CURRENT:
                continue
            if length == 0:
                out += (event, expired((ts, row), now), reset(now))
                continue
            if len(held) >= length:
                out.append(expired(held.popleft(), now))
            out.append(event)
            held.append((ts, row))
        if out:
            self._emit(out)

    def queue(self) -> Deque:
        """What `content` shows, as it is held."""
        held: Deque = self._state.at(self._flow.key)["held"]
        return held

    def content(self) -> Iterable[Event]:
        return map(current, self._state.at(self._flow.key)["held"])


class TimeWindow:
    """`time(t)` and, with a length, `timeLength(t, n)`: what is as old as t leaves before the new event, stamped now.

    Cells: `held`, and `last`, the greatest timestamp for which a timer was set: one per distinct increasing timestamp.
    """

    def __init__(self, setup: Setup) -> None:
        self._flow, self._emit = setup.flow, setup.emit
        self._time: int = setup.constant(0)
        self._length: int | None = setup.constant(1)
        self._state = setup.element(held=Deque, last=Value)
        self._timer = setup.flow.timers.timer(setup.call.id, self._due)

    def begin(self) -> None:
        """Nothing starts by itself."""

    def process(self, chunk: Chunk) -> None:
        cells, length = self._state.at(self._flow.key), self._length
        held: Deque = cells["held"]
        out: Chunk = []
        for event in chunk:
            kind, ts, row = event
            if kind != CURRENT:
                continue
            self._expire(held, out)
            if length is not None and len(held) >= length:
                if length == 0:
                    out.append(event)
                    continue
                out.append(expired(held.popleft(), self._flow.now))
            out.append(event)
            held.append((ts, row))
            _wake(self._timer, cells, ts, self._time)
        if out:
            self._emit(out)

    def _due(self, due: int) -> None:
        out: Chunk = []
        self._expire(self._state.at(self._flow.key)["held"], out)
        if out:
            self._emit(out)

    def _expire(self, held: Deque, out: Chunk) -> None:
        now = self._flow.now
        before = now - self._time
        items = held.items
        while items and items[0][0] <= before:
            out.append(expired(held.popleft(), now))

    def queue(self) -> Deque:
        """What `content` shows, as it is held."""
        held: Deque = self._state.at(self._flow.key)["held"]
        return held

    def content(self) -> Iterable[Event]:
        return map(current, self._state.at(self._flow.key)["held"])


class DelayWindow:
    """`delay(t)`: holds C back and releases it as C at its timestamp + t, stamped now. Nothing expires."""

    def __init__(self, setup: Setup) -> None:
        self._flow, self._emit = setup.flow, setup.emit
        self._time: int = setup.constant(0)
        self._state = setup.element(held=Deque, last=Value)
        self._timer = setup.flow.timers.timer(setup.call.id, self._due)

    def begin(self) -> None:
        """Nothing starts by itself."""

    def process(self, chunk: Chunk) -> None:
        cells = self._state.at(self._flow.key)
        held: Deque = cells["held"]
        out: Chunk = []
        for kind, ts, row in chunk:
            if kind != CURRENT:
                continue
            self._release(held, out)
            held.append((ts, row))
            _wake(self._timer, cells, ts, self._time)
        if out:
            self._emit(out)

    def _due(self, due: int) -> None:
        out: Chunk = []
        self._release(self._state.at(self._flow.key)["held"], out)
        if out:
            self._emit(out)

    def _release(self, held: Deque, out: Chunk) -> None:
        now = self._flow.now
        while len(held) and held[0][0] + self._time <= now:
            out.append(Event(CURRENT, now, held.popleft()[1]))

    def content(self) -> Iterable[Event]:
        return map(current, self._state.at(self._flow.key)["held"])


class ExternalTimeWindow:
    """`externalTime(tsAttr, t)`: the attribute is the clock. On each C those that are t older leave, in order of arrival, stamped with its value."""

    def __init__(self, setup: Setup) -> None:
        self._flow, self._emit = setup.flow, setup.emit
        self._position = setup.position(0) or 0
        self._time: int = setup.constant(1)
        self._state = setup.element(held=Deque)

    def begin(self) -> None:
        """Nothing starts by itself."""

    def process(self, chunk: Chunk) -> None:
        held: Deque = self._state.at(self._flow.key)["held"]
        out: Chunk = []
        for event in chunk:
            if event.kind != CURRENT:
                continue
            clock = time_of(event, self._position, "externalTime")
            while len(held) and held[0][1][self._position] + self._time <= clock:
                out.append(expired(held.popleft(), clock))
            out.append(event)
            held.append((event.ts, event.row))
        if out:
            self._emit(out)

    def queue(self) -> Deque:
        """What `content` shows, as it is held."""
        held: Deque = self._state.at(self._flow.key)["held"]
        return held

    def content(self) -> Iterable[Event]:
        return map(current, self._state.at(self._flow.key)["held"])


def time_of(event: Event, position: int, window: str) -> int:
    """The time attribute of an event.

    Raises:
        ClassCastException, SiddhiAppRuntimeException: it is no long, or null.
    """
    value = event.row[position]
    if type(value) is int:
        return value
    if value is None:
        raise error("NULL_VALUE", where=f"the time attribute of the window '{window}'")
    raise error(
        "CLASS_CAST", where=f"the time attribute of the window '{window}'", reason=f"{told(value)} is not a long"
    )


def _wake(timer: Timer, cells: Cells, ts: int, time: int) -> None:
    last: Value = cells["last"]
    latest = last.get()
    if latest is None or latest < ts:
        last.set(ts)
        timer.at(ts + time)
