"""`timeBatch(t [, start.time] [, stream.current.event])` (semantics/windows.md#timebatch)."""

from __future__ import annotations

from collections.abc import Iterable

from nadi.kernel.rows.events import CURRENT, Chunk, Event
from nadi.kernel.rows.periods import end_after, next_end
from nadi.kernel.rows.state import Cells, Deque, Value
from nadi.kernel.rows.windows.batches import begin_first, first_cells, flush, hoards
from nadi.kernel.rows.windows.collectors import ALL, Collector
from nadi.kernel.rows.windows.contract import Setup, current, expired, reset


class TimeBatchWindow:
    """Cells per key: `batch`, `previous`, and `boundary`, the next one while a timer is set for it, None while nothing is held.

    The phase (first boundary) is one for the window, whatever the partition key: it lies under the flow key "". Boundaries at which nothing
    could come out are passed over: the timer stops when the window is empty and starts again, in phase, with the next event.

    `collector` tells which events of a period are held. With `length` a batch that holds so many goes out at once, and what comes until the boundary, where
    nothing is emitted then, is passed over (as in Siddhi's extension `unique`); cell `full` says so.
    """

    def __init__(self, setup: Setup, collector: Collector = ALL, length: int | None = None) -> None:
        self._flow, self._emit = setup.flow, setup.emit
        self._collector, self._length = collector, length
        self._time: int = setup.constant(0)
        second = setup.constant(1)
        self._start: int | None = None if isinstance(second, bool) else second
        self._streams: bool = setup.constant(2, second is True)
        self._expires = setup.keeps_expired
        self._keeps = setup.keeps_expired or setup.searched
        self._hoards = hoards(setup, collector)
        self._state = setup.element(
            batch=collector.cell, previous=Deque, boundary=Value, full=Value, **first_cells(setup.flow)
        )
        self._phase = setup.flow.store.element(f"{setup.call.id}/phase", {"first": Value})
        self._timer = setup.flow.timers.timer(setup.call.id, self._due)
        if self._hoards:
            self.queue = self._previous  # where joins look rows up: there may be many

    def begin(self) -> None:
        """No batch has ended yet."""
        begin_first(self._state, self._flow)

    def process(self, chunk: Chunk) -> None:
        arrived = [e for e in chunk if e.kind == CURRENT]
        if not arrived:
            return
        cells = self._state.at(self._flow.key)
        if cells["boundary"].get() is None:
            self._set(cells, self._next_boundary())
        late = self._flow.now >= cells["boundary"].get()
        if late:
            self._set(cells, cells["boundary"].get() + self._time)
        if self._streams:
            cells["batch"].extend((e.ts, e.row) for e in arrived)
            if self._hoards:
                cells["previous"].extend((e.ts, e.row) for e in arrived)
            out = [*arrived, *self._flush_streamed(cells)] if late else arrived
        else:
            out = self._collect(cells, arrived, late)
        if out:
            self._emit(out)

    def _collect(self, cells: Cells, arrived: Chunk, late: bool) -> Chunk:
        """A timer that is late finds its work done: the event that came first is part of the batch."""
        if cells["full"].get():
            if late:
                cells["full"].set(None)
            return []
        batch, collector, full = cells["batch"], self._collector, False
        for event in arrived:
            collector.add(batch, (event.ts, event.row))
            if self._length is not None and len(batch) == self._length:
                cells["full"].set(True)
                full = True
                break
        return self._flush(cells) if late or full else []

    def _flush(self, cells: Cells) -> Chunk:
        return flush(cells, self._flow, self._expires, self._keeps, self._hoards, self._collector)

    def _due(self, due: int) -> None:
        """A long gap takes several timers; each flushes one batch."""
        cells = self._state.at(self._flow.key)
        boundary = cells["boundary"].get()
        if boundary is None or self._flow.now < boundary:
            return
        if cells["full"].get():
            cells["full"].set(None)
            out: Chunk = []
        elif self._streams:
            out = self._flush_streamed(cells)
        else:
            out = self._flush(cells)
        if len(cells["batch"]) or (len(cells["previous"]) and not self._hoards):
            self._set(cells, boundary + self._time)
        else:
            cells["boundary"].set(None)
        if out:
            self._emit(out)

    def _flush_streamed(self, cells: Cells) -> Chunk:
        """[X(batch), R]: C have passed already, or stand in front, where the first of them came before a late timer."""
        batch: Deque = cells["batch"]
        now = self._flow.now
        out = [expired(held, now) for held in batch] if self._expires else []
        if len(batch):
            out.append(reset(now))
        batch.clear()
        return out

    # ---- boundaries

    def _set(self, cells: Cells, boundary: int) -> None:
        cells["boundary"].set(boundary)
        self._timer.at(boundary)

    def _next_boundary(self) -> int:
        """The first boundary that has not been: after now, or now where an event comes while timers fire, before that of the window would have."""
        now, time = self._flow.now, self._time
        phase: Value = self._phase.at("")["first"]
        if phase.get() is None:
            phase.set(end_after(now, now if self._start is None else self._start, time))
        first: int = phase.get()
        passed = self._flow.timers.ran_until(self._timer)
        return first if passed < first else next_end(first, passed, time)

    def _previous(self) -> Deque:
        previous: Deque = self._state.at(self._flow.key)["previous"]
        return previous

    def content(self) -> Iterable[Event]:
        cells = self._state.at(self._flow.key)
        return map(current, cells["batch"] if self._streams and not self._hoards else cells["previous"])
