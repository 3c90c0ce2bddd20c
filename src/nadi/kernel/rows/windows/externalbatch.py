"""`externalTimeBatch(tsAttr, t [, start | startAttr [, timeout [, replaceTs]]])` (semantics/windows.md#externaltimebatch)."""

from __future__ import annotations

from collections.abc import Iterable

from nadi.kernel.rows.events import CURRENT, Chunk, Event, Row
from nadi.kernel.rows.periods import end_after
from nadi.kernel.rows.state import Cells, Value
from nadi.kernel.rows.windows.collectors import ALL, Collector
from nadi.kernel.rows.windows.contract import Setup, current, expired, reset
from nadi.kernel.rows.windows.sliding import time_of


class ExternalTimeBatchWindow:
    """The time attribute is the clock; only `timeout` runs by the app's.

    Cells: `batch` being collected; `sent`, what the last flush emitted; `clock` = [start, end, greatest time seen] of the attribute; `timeout` = [when the
    timer is due, whether the batch was flushed by it, whether the timer is set]. `collector` tells which events of a period are held.
    """

    def __init__(self, setup: Setup, collector: Collector = ALL) -> None:
        self._flow, self._emit = setup.flow, setup.emit
        self._collector = collector
        self._position = setup.position(0) or 0
        self._time: int = setup.constant(1)
        self._start: int | None = setup.constant(2)
        self._start_position = setup.position(2)
        self._timeout: int = setup.constant(3, 0)
        self._replaces: bool = setup.constant(4, False)
        self._expires = setup.keeps_expired
        self._keeps = setup.keeps_expired or setup.searched
        self._state = setup.element(batch=collector.cell, sent=collector.cell, clock=Value, timeout=Value)
        self._timer = setup.flow.timers.timer(setup.call.id, self._due)

    def begin(self) -> None:
        """Nothing starts by itself."""

    def process(self, chunk: Chunk) -> None:
        cells = self._state.at(self._flow.key)
        made: list[Chunk] = []
        for event in chunk:
            if event.kind != CURRENT:
                continue
            time = time_of(event, self._position, "externalTimeBatch")
            if cells["clock"].get() is None:
                self._open(cells, event, time)
            start, end, greatest = cells["clock"].get()
            greatest = max(greatest, time)
            if time >= end:
                made.append(self._close(cells, greatest))
                end = end_after(greatest, start, self._time)
            cells["clock"].set((start, end, greatest))
            self._collector.add(cells["batch"], (event.ts, self._stamped(event.row, end)))
            self._keep_waking(cells)
        for out in made:
            if out:
                self._emit(out)

    def _open(self, cells: Cells, event: Event, time: int) -> None:
        """The first event fixes the phase."""
        if self._start_position is not None:
            start = time_of(event, self._start_position, "externalTimeBatch")
            end = start + self._time
        elif self._start is not None:
            start, end = self._start, end_after(time, self._start, self._time)
        else:
            start, end = time, time + self._time
        cells["clock"].set((start, end, -1))
        self._wait(cells, flushed=False)

    def _close(self, cells: Cells, greatest: int) -> Chunk:
        """An event of the next period came."""
        state = cells["timeout"].get()
        flushed = state is not None and state[1]
        out = self._append(cells, greatest) if flushed else self._flush(cells, greatest, self._keeps)
        self._wait(cells, flushed=False)
        return out

    def _stamped(self, row: Row, end: int) -> Row:
        if not self._replaces:
            return row
        return (*row[: self._position], end, *row[self._position + 1 :])

    # ---- what comes out

    def _flush(self, cells: Cells, ts: int, keeps: bool) -> Chunk:
        """[X(sent), R, C(batch)]."""
        batch, sent, events = cells["batch"], cells["sent"], self._collector.events
        out = [expired(held, ts) for held in events(sent)] if self._expires else []
        sent.clear()
        if len(batch):
            out.append(reset(ts))
            out += map(current, events(batch))
            if keeps:
                self._note(cells)
            batch.clear()
        return out

    def _append(self, cells: Cells, ts: int) -> Chunk:
        """[X(sent), R, C(sent), C(batch)]: more events of a batch that the timeout had flushed. Nothing if there are none."""
        batch, sent, events = cells["batch"], cells["sent"], self._collector.events
        if not len(batch):
            return []
        out = [expired(held, ts) for held in events(sent)] if self._expires else []
        self._note(cells)
        out.append(reset(ts))
        out += map(current, events(sent))
        batch.clear()
        return out

    def _note(self, cells: Cells) -> None:
        """The batch counts as sent; of one event per key the later one."""
        for held in self._collector.events(cells["batch"]):
            self._collector.add(cells["sent"], held)

    # ---- timeout

    def _wait(self, cells: Cells, flushed: bool) -> None:
        if self._timeout > 0:
            due = self._flow.now + self._timeout
            cells["timeout"].set((due, flushed, True))
            self._timer.at(due)

    def _keep_waking(self, cells: Cells) -> None:
        """The timer stops while there is nothing to emit; events of a flushed period set it again, to where it would be by now."""
        state = cells["timeout"].get()
        if state is None or state[2]:
            return
        due, flushed, _set = state
        due += max(0, (self._flow.now - due) // self._timeout + 1) * self._timeout
        cells["timeout"].set((due, flushed, True))
        self._timer.at(due)

    def _due(self, due: int) -> None:
        cells = self._state.at(self._flow.key)
        state = cells["timeout"].get()
        if state is None or due < state[0] or not state[2]:
            return
        greatest: int = cells["clock"].get()[2]
        out = self._flush(cells, greatest, True) if not state[1] else self._append(cells, greatest)
        if out or self._flow.playback:
            self._wait(cells, flushed=True)
        else:
            cells["timeout"].set((state[0], True, False))
        if out:
            self._emit(out)

    def content(self) -> Iterable[Event]:
        return map(current, self._collector.events(self._state.at(self._flow.key)["sent"]))
