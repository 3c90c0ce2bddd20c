"""`output snapshot every t` (semantics/selection.md#snapshots): at each tick, what the query's result holds at that moment.

Without a window that is the last event (of each group); with one, the events in the window, aggregate columns at their latest values; of aggregates alone one
row (of each group), as long as there is something in the window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from nadi.kernel.rows.events import CURRENT, EXPIRED, RESET, Chunk, Event, Row
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.state import Cells, Deque, MakesCell, Map
from nadi.plan.nodes import Aggregate, JoinInput, Query, Rate, SingleInput
from nadi.plan.walk import inside

Emit = Callable[[Chunk], None]
Held = tuple[str, int, Row]
"""An event in the window: the key of its group, its timestamp, its row."""

_NAN = "NaN"
"""Stands for what does not equal itself."""


def windowed(query: Query) -> bool:
    """Whether the input of a query keeps events that leave again as X. A join does without a window, too: its streams keep each event for a moment."""
    return isinstance(query.input, JoinInput) or (
        isinstance(query.input, SingleInput) and query.input.window is not None
    )


def learns_resets(query: Query) -> bool:
    """Whether a snapshot learns of R: as in Siddhi, not where the query groups."""
    snapshot = query.rate is not None and query.rate.kind == "snapshot"
    return snapshot and windowed(query) and not query.selection.group_by


class Snapshot:
    """Holds what a tick emits; the ticks run on the arrival clock, also in playback."""

    def __init__(self, query: Query, rate: Rate, flow: Flow, emit: Emit) -> None:
        self._flow, self._emit = flow, emit
        self._every = rate.every or 1
        self._content = content_of(query, flow.compat)
        self._state = flow.store.element(rate.id, self._content.cells)
        self._timer = flow.arrivals.timer(rate.id, self._tick)

    def begin(self) -> None:
        self._timer.at(self._flow.arrival_now + self._every)

    def process(self, chunk: Chunk, keys: Sequence[str] | None = None) -> None:
        cells = self._state.at(self._flow.key)
        for i, event in enumerate(chunk):
            self._content.take(cells, event, keys[i] if keys is not None else "")

    def _tick(self, due: int) -> None:
        self._timer.at(due + self._every)
        self._emit(self._content.shown(self._state.at(self._flow.key)))


# ---- what a query holds ----------------------------------------------------------------------------------------------


class Content(Protocol):
    """`take` learns of an event and the key of its group; `shown` says what a tick emits. What is held are cells of a flow key."""

    cells: Mapping[str, MakesCell]

    def take(self, cells: Cells, event: Event, key: str) -> None: ...
    def shown(self, cells: Cells) -> Chunk: ...


def content_of(query: Query, compat: int) -> Content:
    """What a snapshot of a query shows."""
    values = query.selection.values
    aggregates = tuple(i for i, v in enumerate(values) if any(isinstance(p, Aggregate) for p in inside(v)))
    grouped = bool(query.selection.group_by)
    if not windowed(query):
        return LastRows()
    if not aggregates:
        return Rows(range(len(values)))
    if len(aggregates) < len(values):
        return SummedRows(len(values), aggregates, once=grouped and compat > 4)
    return GroupSums() if grouped else Sums()


class LastRows:
    """Without a window: the last event, of each group."""

    cells: Mapping[str, MakesCell] = {"last": Map}

    def take(self, cells: Cells, event: Event, key: str) -> None:
        """C count."""
        if event.kind == CURRENT:
            cells["last"].set(key, (event.ts, event.row))

    def shown(self, cells: Cells) -> Chunk:
        """As they were."""
        return [Event(CURRENT, ts, row) for ts, row in cells["last"].values()]


class Rows:
    """The events in the window. An X takes away the oldest row that is equal in some columns, R takes all away."""

    cells: Mapping[str, MakesCell] = {"held": Deque}

    def __init__(self, compared: Sequence[int]) -> None:
        self._compared = tuple(compared)

    def take(self, cells: Cells, event: Event, key: str) -> None:
        """What comes and what leaves."""
        held: Deque = cells["held"]
        if event.kind == CURRENT:
            held.append((key, event.ts, event.row))
        elif event.kind == EXPIRED:
            self._leaves(held, event.row)
        elif event.kind == RESET:
            held.clear()

    def shown(self, cells: Cells) -> Chunk:
        """The rows as they came."""
        return [Event(CURRENT, ts, row) for _key, ts, row in cells["held"]]

    def _leaves(self, held: Deque, row: Row) -> bool:
        """Whether there was such a row."""
        wanted = self._identity(row)
        at = next((i for i, (_k, _t, r) in enumerate(held) if self._identity(r) == wanted), None)
        if at == 0:
            held.popleft()
        elif at is not None:
            rest = list(held)
            del rest[at]
            held.replace(rest)
        return at is not None

    def _identity(self, row: Row) -> Row:
        """What tells a row that leaves; NaN is itself, as in Java's `equals`."""
        return tuple(value if (value := row[i]) == value else _NAN for i in self._compared)


class SummedRows(Rows):
    """The events in the window, with the aggregates as they are now. `once`: of each group only the event that came first."""

    cells: Mapping[str, MakesCell] = {"held": Deque, "last": Map}

    def __init__(self, size: int, aggregates: tuple[int, ...], once: bool) -> None:
        super().__init__([i for i in range(size) if i not in aggregates])
        self._aggregates, self._once = frozenset(aggregates), once

    def take(self, cells: Cells, event: Event, key: str) -> None:
        """The aggregates of an event are those of its group from then on, unless it is an X that takes nothing away."""
        last: Map = cells["last"]
        if event.kind == EXPIRED:
            if self._leaves(cells["held"], event.row):
                last.set(key, (event.ts, event.row))
            return
        super().take(cells, event, key)
        if event.kind == CURRENT:
            last.set(key, (event.ts, event.row))
        elif event.kind == RESET:
            last.clear()

    def shown(self, cells: Cells) -> Chunk:
        """The rows with the aggregates of their groups."""
        rows: Iterable[Held] = cells["held"]
        if self._once:
            first: dict[str, Held] = {}
            for held in rows:
                first.setdefault(held[0], held)
            rows = first.values()
        return [Event(CURRENT, ts, self._with_latest(row, cells["last"], key)) for key, ts, row in rows]

    def _with_latest(self, row: Row, last: Map, key: str) -> Row:
        latest = last.get(key, (0, row))[1]
        return tuple(latest[i] if i in self._aggregates else value for i, value in enumerate(row))


class Sums:
    """Aggregates alone, without groups: those of the last C. Once an event has left, nothing is shown until the next C comes, as in Siddhi."""

    cells: Mapping[str, MakesCell] = {"last": Map}

    def take(self, cells: Cells, event: Event, key: str) -> None:
        """C is shown, X and R end that."""
        if event.kind == CURRENT:
            cells["last"].set(key, (event.ts, event.row))
        elif event.kind in (EXPIRED, RESET):
            cells["last"].clear()

    def shown(self, cells: Cells) -> Chunk:
        """One row or none."""
        return [Event(CURRENT, ts, row) for ts, row in cells["last"].values()]


class GroupSums:
    """Aggregates alone, of each group that has events in the window: those of its last event, which comes out as X if it was one.

    A tick forgets the groups of which as many events have left as came.
    """

    cells: Mapping[str, MakesCell] = {"groups": Map}

    def take(self, cells: Cells, event: Event, key: str) -> None:
        """C and X count."""
        if event.kind in (CURRENT, EXPIRED):
            groups: Map = cells["groups"]
            count = groups.get(key, (0,))[0] + (1 if event.kind == CURRENT else -1)
            groups.set(key, (count, event.kind, event.ts, event.row))

    def shown(self, cells: Cells) -> Chunk:
        """The last events, groups in the order in which they came."""
        groups: Map = cells["groups"]
        for key in [key for key, (count, *_event) in groups.items() if count <= 0]:
            groups.pop(key)
        return [Event(kind, ts, row) for _count, kind, ts, row in groups.values()]
