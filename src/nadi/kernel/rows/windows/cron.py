"""`cron('expr')` (semantics/windows.md#cron)."""

from __future__ import annotations

from collections.abc import Iterable

from nadi.kernel.rows.events import CURRENT, Chunk, Event
from nadi.kernel.rows.state import Cells, Deque, Value
from nadi.kernel.rows.windows.contract import Setup, current, expired
from nadi.plan.cron import next_fire


class CronWindow:
    """At each fire of the arrival clock, if events came since the last one: [X(previous), C(batch)], without R.

    Cells: `batch`, `previous`, and `waits`, whether the timer is set: it is only while there is a batch.

    Raises:
        INVALID_CRON: when it is made.
    """

    def __init__(self, setup: Setup) -> None:
        self._flow, self._emit = setup.flow, setup.emit
        self._expression: str = setup.constant(0)
        next_fire(self._expression, 0)  # one that is none is refused with the app, not with its first event
        self._state = setup.element(batch=Deque, previous=Deque, waits=Value)
        self._timer = setup.flow.arrivals.timer(setup.call.id, self._due)

    def begin(self) -> None:
        """Nothing starts by itself."""

    def process(self, chunk: Chunk) -> None:
        cells = self._state.at(self._flow.key)
        cells["batch"].extend((e.ts, e.row) for e in chunk if e.kind == CURRENT)
        if len(cells["batch"]) and not cells["waits"].get():
            self._wait(cells)

    def _wait(self, cells: Cells) -> None:
        due = next_fire(self._expression, self._flow.arrival_now)
        if due is not None:
            cells["waits"].set(True)
            self._timer.at(due)

    def _due(self, due: int) -> None:
        cells, now = self._state.at(self._flow.key), self._flow.now
        batch, previous = cells["batch"], cells["previous"]
        cells["waits"].set(False)
        out = [*(expired(held, now) for held in previous), *map(current, batch)]
        previous.replace(batch)
        batch.clear()
        if out:
            self._emit(out)

    def content(self) -> Iterable[Event]:
        return map(current, self._state.at(self._flow.key)["previous"])
