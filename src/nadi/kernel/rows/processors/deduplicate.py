"""`unique:deduplicate(k, t)` (semantics/windows.md#deduplicate)."""

from __future__ import annotations

from nadi.functions.arithmetic import java_text
from nadi.kernel.rows.events import RESET, Chunk
from nadi.kernel.rows.keyedqueue import CELLS, KeyedQueue
from nadi.kernel.rows.processors.contract import Setup
from nadi.kernel.rows.state import Value


class Deduplicate:
    """Drops an event if one of its key has passed and is at most t older, by timestamps. A dropped event does not lengthen the wait.

    Cells: those of a keyed queue with the timestamps of what has passed, and `last`, the greatest timestamp for which a timer was set. A key is forgotten
    when the clock has left its t behind.
    """

    def __init__(self, setup: Setup) -> None:
        self._flow, self._emit = setup.flow, setup.emit
        self._key, self._kind = setup.value(0), setup.step.args[0].type
        self._time: int = setup.constant(1)
        self._state = setup.element(**CELLS, last=Value)
        self._timer = setup.timer(self._due)

    def process(self, chunk: Chunk) -> None:
        cells = self._state.at(self._flow.key)
        queue, last = KeyedQueue(cells), cells["last"]
        out: Chunk = []
        for event in chunk:
            kind, ts, row = event
            if kind >= RESET:
                out.append(event)
                continue
            key = java_text(self._key(row, ts), self._kind)
            passed = queue.get(key)
            if passed is not None and ts - passed[0] <= self._time:
                continue
            queue.put(key, ts, ())
            out.append(event)
            if last.get() is None or last.get() < ts:
                last.set(ts)
                self._timer.at(ts + self._time + 1)
        if out:
            self._emit(out)

    def _due(self, due: int) -> None:
        queue, now = KeyedQueue(self._state.at(self._flow.key)), self._flow.now
        while (oldest := queue.oldest()) is not None and oldest[0] + self._time < now:
            queue.popleft()
