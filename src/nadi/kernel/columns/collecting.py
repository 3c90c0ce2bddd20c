"""The batch windows of `unique`: the first or the latest event of each key, until a batch ends (semantics/windows.md#unique-windows).

A stage: what the end of a batch lets go on is one chunk, in the order in which keys were first seen, and behind it stands the operator of the window `batch`.
By key `place` is its place in the batch, from 1; 0 where it is in none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from nadi.kernel.columns.arithmetic import COMPILED
from nadi.kernel.columns.contract import Input
from nadi.kernel.columns.endings import NEVER
from nadi.kernel.columns.filtering import Filtering
from nadi.kernel.columns.groups import Groups
from nadi.kernel.columns.jit import loop
from nadi.kernel.columns.keytable import longer
from nadi.kernel.columns.limiting import Numbers
from nadi.kernel.columns.placedrows import PlacedRows
from nadi.kernel.columns.slotrows import SlotRows
from nadi.kernel.columns.stretch import Array, Longs, Stretch
from nadi.kernel.columns.wholerows import looked_at
from nadi.plan.nodes import Attr, Const, Query, SingleInput

_BOUNDARY, _PHASE, _PHASED, _HELD = range(4)
_NONE = np.zeros(0, np.int64)
_remainder: Any = COMPILED["remainder"]


class Collecting(PlacedRows):
    """`unique:lengthBatch`, `unique:timeBatch` and those that begin with `first`; outside of partitions."""

    letters = frozenset({"g", "n"})

    def __init__(self, query: Query, given: Input) -> None:
        assert isinstance(query.input, SingleInput)
        window = query.input.window
        assert window is not None  # as operators says
        self.element = self._element = window.id
        self._source = query.input.source
        self._first = "first" in window.name
        self._timed = window.name.endswith("imeBatch")
        self._numbers = [a.value for a in window.args[1:] if isinstance(a, Const) and isinstance(a.value, int)]
        by = tuple(a.position for a in window.args[:1] if isinstance(a, Attr))
        self._keys = Groups(window.id, by, tuple(given.types[p] for p in by), {"place": "int64"})
        self._rows = SlotRows(given.types, looked_at(query))
        self._state = Numbers(window.id, NEVER, 0, 0, 0)
        self._filter = Filtering(all_of(query, given), replace(given, behind=())) if given.filters else None
        self._reset()

    def __len__(self) -> int:
        return self._state.held[_HELD]

    # ---- a batch

    def process(self, given: Mapping[str, Stretch], until: int) -> Stretch | None:
        """The events of the batches that end."""
        events = given.get(self._source)
        if events is not None and self._filter is not None:
            events = self._filter.process(given, until)
        due = self.next_timer()
        if events is None and (due is None or due > until):
            return None
        n = 0 if events is None else len(events)
        ids = np.zeros(0, np.int32) if events is None else self._keys.numbers(events)
        self._make_room(n)
        place, at, moment = (np.empty(len(self) + n, np.int64) for _ in range(3))
        state = np.array(self._state.held, np.int64)
        shared = self._keys.arrays["place"], self._keys.touched, self._current, self._members, state, place, at, moment
        now = _NONE if events is None else events.now
        if self._timed:
            start = self._numbers[1] if len(self._numbers) > 1 else -1
            k = _by_time(ids, now, until, self._first, self._numbers[0], len(self._numbers) > 1, start, *shared)
        else:
            k = _by_length(ids, now, self._first, self._numbers[0], *shared)
        self._state.held = state.tolist()
        return self._gone_on(events, ids, place[:k], at[:k], moment[:k])

    def _make_room(self, more: int) -> None:
        if self._loaded:
            self._put_together()
        room = len(self._keys.touched)
        self._rows.room(room)
        if len(self._members) < len(self) + more:
            self._members = longer(self._members, 2 * (len(self) + more))
        if len(self._current) < room:
            self._current = np.full(room, -1, np.int64)

    def _put_together(self) -> None:
        super()._put_together()
        self._state.held[_HELD] = len(self._members)

    def _gone_on(self, events: Stretch | None, ids: Array, place: Longs, at: Longs, moment: Longs) -> Stretch | None:
        """What goes on; what waits is kept."""
        numbers = self._rows.numbers(events)
        found = None
        if len(place):
            columns, ts = self._rows.picked(numbers, place)
            found = Stretch(columns, ts, moment, at)
        fresh = np.unique(ids)
        fresh = fresh[self._current[fresh] >= 0]
        self._rows.put(fresh, numbers, self._current[fresh])
        self._current[fresh] = -1
        if self._keys.may_sweep:
            self._keys.sweep(_NONE)
        self._rows.sweep(self._members[: len(self)])
        return found

    def next_timer(self) -> int | None:
        """When the batch that is open ends by itself."""
        return self._state.held[_BOUNDARY] if self._timed and self._state.held[_BOUNDARY] != NEVER else None


def all_of(query: Query, given: Input) -> Query:
    """A query that selects what comes as it comes."""
    values = tuple(Attr(0, position, kind) for position, kind in enumerate(given.types))
    selection = replace(query.selection, values=values, aggregates=(), group_by=(), having=None)
    return replace(query, selection=selection)


@loop
def _add(g, i, first, held, places, touched, current, members):  # type: ignore[no-untyped-def]
    """Takes event i of key g into the batch; -> how many keys it has."""
    if places[g] == 0:
        members[held] = g
        held += 1
        places[g] = held
        current[g] = i
        touched[g] = True
    elif not first:
        current[g] = i
        touched[g] = True
    return held


@loop
def _end(k, chunk, now, held, places, touched, current, members, place, at, moment):  # type: ignore[no-untyped-def]
    """Lets the batch go on; -> how many have."""
    for q in range(held):
        h = members[q]
        place[k] = current[h] if current[h] >= 0 else -1 - h
        at[k] = chunk
        moment[k] = now
        k += 1
        places[h] = 0
        current[h] = -1
        touched[h] = True
    return k


@loop
def _by_length(ids, now, first, length, places, touched, current, members, state, place, at, moment):  # type: ignore[no-untyped-def]
    k, chunk, held = 0, 0, state[3]
    for i in range(len(ids)):
        held = _add(ids[i], i, first, held, places, touched, current, members)
        if held == length:
            k = _end(k, chunk, now[i], held, places, touched, current, members, place, at, moment)
            chunk += 1
            held = 0
    state[3] = held
    return k


@loop
def _by_time(ids, now, until, first, time, starts, start, places, touched, current, members, state, place, at, moment):  # type: ignore[no-untyped-def]
    k, chunk, held, n = 0, 0, state[3], len(ids)
    boundary, phase = state[0], state[1]
    for i in range(n + 1):
        if boundary <= (now[i] if i < n else until):
            k = _end(k, chunk, boundary, held, places, touched, current, members, place, at, moment)
            chunk += 1
            held = 0
            boundary = NEVER
        if i == n:
            break
        if boundary == NEVER:
            if state[2] == 0:
                state[2] = 1
                phase = now[i] + time
                if starts:
                    phase -= _remainder(now[i] - start, time)
            boundary = phase if now[i] < phase else phase + ((now[i] - phase) // time + 1) * time
        held = _add(ids[i], i, first, held, places, touched, current, members)
    state[0] = boundary
    state[1] = phase
    state[3] = held
    return k
