"""`throttler:timeBatch(t [, start])` and `throttler:emitOnStateChange(key, throttled)` (semantics/windows.md#throttling)."""

from __future__ import annotations

from nadi.kernel.rows.events import CURRENT, EXPIRED, RESET, Chunk, Event
from nadi.kernel.rows.periods import end_after, next_end
from nadi.kernel.rows.processors.contract import Setup
from nadi.kernel.rows.state import Cells, Deque, Map, Value


class TimeBatch:
    """C pass at once with the end of their period behind their attributes; at the end they all leave as X in one chunk.

    Cells: `held`, the events of the period, and `end`, when it ends. Periods without events need no timer: the next event finds the end of its own.
    """

    def __init__(self, setup: Setup) -> None:
        self._flow, self._emit = setup.flow, setup.emit
        self._time: int = setup.constant(0)
        self._start: int | None = setup.constant(1)
        self._state = setup.element(held=Deque, end=Value)
        self._timer = setup.timer(self._due)

    def process(self, chunk: Chunk) -> None:
        cells = self._state.at(self._flow.key)
        out: Chunk = []
        for event in chunk:
            if event.kind == CURRENT:
                end = self._end(cells)
                row = (*event.row, end)
                if not cells["held"]:
                    self._timer.at(end)
                cells["held"].append((end, row))
                out.append(Event(CURRENT, event.ts, row))
            elif event.kind >= RESET:
                out.append(event)
        if out:
            self._emit(out)

    def _end(self, cells: Cells) -> int:
        """When the period ends that now is in; the first one begins with the first event, or has the phase of `start`."""
        now, end = self._flow.now, cells["end"].get()
        if end is None:
            end = end_after(now, now if self._start is None else self._start, self._time)
        elif end <= now:
            end = next_end(end, now, self._time)
        cells["end"].set(end)
        return int(end)

    def _due(self, due: int) -> None:
        held: Deque = self._state.at(self._flow.key)["held"]
        gone = [Event(EXPIRED, end, row) for end, row in held]
        while held:
            held.popleft()
        if gone:
            self._emit(gone)


class StateChange:
    """Drops an event that is not throttled where the last one of its key was not either. As in Siddhi, those that are throttled all pass.

    The one cell has for each key whether its last event was throttled.
    """

    def __init__(self, setup: Setup) -> None:
        self._flow, self._emit = setup.flow, setup.emit
        self._key, self._throttled = setup.value(0), setup.value(1)
        self._state = setup.element(last=Map)

    def process(self, chunk: Chunk) -> None:
        last: Map = self._state.at(self._flow.key)["last"]
        out: Chunk = []
        for event in chunk:
            kind, ts, row = event
            if kind < RESET:
                key, throttled = self._key(row, ts), self._throttled(row, ts) is True
                before = last.get(key)
                if before is False and not throttled:
                    continue
                if before is not throttled:
                    last.set(key, throttled)
            out.append(event)
        if out:
            self._emit(out)
