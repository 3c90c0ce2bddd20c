"""`output snapshot every t` (language text §14): at each tick, what the query's result holds at that moment.

Without a window that is the last event (of each group); with one, the events in the window, aggregate columns at their latest values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nadi.kernel.rows.events import CURRENT, EXPIRED, RESET, Chunk, Event, Row
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.state import Deque, Map
from nadi.plan.nodes import Aggregate, JoinInput, Query, Rate, SingleInput
from nadi.plan.walk import inside

Emit = Callable[[Chunk], None]

_NAN = "NaN"
"""Stands for what does not equal itself."""


def windowed(query: Query) -> bool:
    """Whether the input of a query keeps events that leave again as X."""
    sides = (query.input.left.input, query.input.right.input) if isinstance(query.input, JoinInput) else (query.input,)
    return any(isinstance(side, SingleInput) and side.window is not None for side in sides)


class Snapshot:
    """Holds what a tick emits; the ticks run on the arrival clock, also in playback."""

    def __init__(self, query: Query, rate: Rate, flow: Flow, emit: Emit) -> None:
        self._flow, self._emit = flow, emit
        self._every = rate.every or 1
        self._windowed = windowed(query)
        self._grouped = bool(query.selection.group_by)
        values = query.selection.values
        self._aggregates = tuple(i for i, v in enumerate(values) if any(isinstance(p, Aggregate) for p in inside(v)))
        self._plain = tuple(i for i in range(len(values)) if i not in self._aggregates)
        self._state = flow.store.element(rate.id, {"held": Deque, "last": Map})
        self._timer = flow.arrivals.timer(rate.id, self._tick)

    def begin(self) -> None:
        self._timer.at(self._flow.arrival_now + self._every)

    def process(self, chunk: Chunk, keys: Sequence[str] | None = None) -> None:
        cells = self._state.at(self._flow.key)
        held: Deque = cells["held"]
        last: Map = cells["last"]
        for i, (kind, ts, row) in enumerate(chunk):
            key = keys[i] if keys is not None and kind < RESET else ""
            if kind == RESET:
                held.clear()
                if not self._aggregates:
                    last.clear()
            elif not self._windowed:
                if kind == CURRENT:
                    last.set(key, (ts, row))
            elif kind < RESET:
                if self._aggregates:
                    last.set(key, (ts, row))
                self._keep(held, kind, ts, row, key)

    def _keep(self, held: Deque, kind: int, ts: int, row: Row, key: str) -> None:
        if kind == CURRENT:
            held.append((key, ts, row))
        elif kind == EXPIRED:
            wanted = self._identity(row)
            at = next((i for i, (_k, _t, r) in enumerate(held) if self._identity(r) == wanted), None)
            if at == 0:
                held.popleft()
            elif at is not None:
                rest = list(held)
                del rest[at]
                held.replace(rest)

    def _identity(self, row: Row) -> Row:
        """What tells a row that leaves; NaN is itself, as in Java's `equals`."""
        return tuple(value if (value := row[i]) == value else _NAN for i in self._plain)

    def _tick(self, due: int) -> None:
        self._timer.at(due + self._every)
        cells = self._state.at(self._flow.key)
        self._emit(self._snapshot(cells["held"], cells["last"]))

    def _snapshot(self, held: Deque, last: Map) -> Chunk:
        if not self._windowed or (self._aggregates and not self._plain):
            return [Event(CURRENT, ts, row) for ts, row in last.values()]
        if not self._aggregates:
            return [Event(CURRENT, ts, row) for _key, ts, row in held]
        if not self._grouped:
            return [Event(CURRENT, ts, self._with_latest(row, last, "")) for _key, ts, row in held]
        if self._flow.compat == 4:  # a row per event; from 5.x on a row per key
            return [Event(CURRENT, ts, self._with_latest(row, last, key)) for key, ts, row in held]
        newest = {key: (ts, row) for key, ts, row in held}
        return [Event(CURRENT, ts, self._with_latest(row, last, key)) for key, (ts, row) in newest.items()]

    def _with_latest(self, row: Row, last: Map, key: str) -> Row:
        latest = last.get(key, (0, row))[1]
        return tuple(latest[i] if i in self._aggregates else value for i, value in enumerate(row))
