"""Output rates that look at the group of each row: first and last of each group, snapshots without a window (semantics/selection.md#output-rates).

Behind the columns of a row stand those of its keys: that of the partition, then those of `group by`. They are looked at here, and left out of what goes on.
"""

from __future__ import annotations

import numpy as np

from nadi.kernel.columns.groups import Groups
from nadi.kernel.columns.jit import loop
from nadi.kernel.columns.keytable import longer
from nadi.kernel.columns.limiting import Numbers
from nadi.kernel.columns.placedrows import PlacedRows
from nadi.kernel.columns.slotrows import SlotRows
from nadi.kernel.columns.stretch import Array, Longs, Stretch
from nadi.lang.tree import Type
from nadi.plan.nodes import Rate

_NONE = np.zeros(0, np.int64)


def _groups(
    rate: Rate, types: tuple[Type, ...], keys: tuple[Type, ...], arrays: dict[str, str], sharded: bool
) -> Groups:
    by = tuple(range(len(types), len(types) + len(keys)))
    return Groups(rate.id, by, keys, arrays, sharded)


def _without_keys(rows: Stretch, width: int) -> Stretch:
    return Stretch(rows.columns[:width], rows.ts, rows.now, rows.chunk, rows.group, rows.origin)


class OneOfKeys:
    """`first every n events`, `first every t`, of each key; also `last every n events` of a partition. Nothing is held but counts, or when one has passed.

    Without `group by` only the first row of a chunk is considered where a time is asked for. A key that no row of the last t had is as if it were new.
    """

    def __init__(
        self, rate: Rate, types: tuple[Type, ...], keys: tuple[Type, ...], grouped: bool, sharded: bool
    ) -> None:
        self._width, self._grouped = len(types), grouped
        self._count, self._every = rate.events or 1, rate.every
        self._last = rate.kind == "last"
        arrays = {"seen": "int64"} if rate.every is None else {"passed": "int64", "begun": "bool"}
        self._keys = _groups(rate, types, keys, arrays, sharded)
        self.changes, self.contents = self._keys.changes, self._keys.contents
        self.apply, self.clear = self._keys.apply, self._keys.clear
        self.size = self._keys.size

    def begin(self, now: int) -> None:
        """It starts with the first row."""

    def process(self, rows: Stretch | None, until: int) -> Stretch | None:
        """The rows that pass."""
        if rows is None:
            return None
        keys = self._keys
        ids, chosen = keys.numbers(rows), np.empty(len(rows), np.int64)
        if self._every is None:
            count = _one_of_count(ids, self._count, self._last, keys.arrays["seen"], keys.touched, chosen)
        else:
            passed = keys.arrays["passed"], keys.arrays["begun"]
            count = _first_of_time(ids, rows.now, rows.chunk, self._grouped, self._every, *passed, keys.touched, chosen)
        if keys.may_sweep:
            self._forget(int(rows.now[-1]))
        return _without_keys(rows.take(chosen[:count]), self._width) if count else None

    def _forget(self, now: int) -> None:
        """Keys that are as if they were new."""
        arrays = self._keys.arrays
        if self._every is not None:
            old = (arrays["passed"] + self._every <= now) & ~self._keys.touched
            arrays["passed"][old] = 0
            arrays["begun"][old] = False
        self._keys.sweep(_NONE)

    def next_timer(self) -> int | None:
        """Nothing comes out by itself."""
        return None


class LastOfGroups(PlacedRows):
    """`last every n events`, `last every t` and `snapshot every t`: the last row of each group, groups in the order in which they came.

    By group `place` is its place in this order, from 1. A snapshot goes on holding what it has shown.
    """

    def __init__(self, rate: Rate, types: tuple[Type, ...], keys: tuple[Type, ...]) -> None:
        self._width = len(types)
        self._count, self._every = rate.events or 0, rate.every or 0
        self._keeps = rate.kind == "snapshot"
        self._element = rate.id
        self._keys = _groups(rate, types, keys, {"place": "int64"}, sharded=False)
        self._rows = SlotRows(types)
        self._state = Numbers(rate.id, 0, 0, 0)  # rows counted; when the app began, when what is held goes on
        self._reset()

    def _reset(self) -> None:
        super()._reset()
        self._held = 0

    def begin(self, now: int) -> None:
        """Ticks count from here on."""
        self._state.held[1] = now

    # ---- a batch

    def process(self, rows: Stretch | None, until: int) -> Stretch | None:
        """The rows that go on."""
        due = self.next_timer()
        if rows is None and (due is None or due > until):
            return None
        n = 0 if rows is None else len(rows)
        ids = self._numbered(rows)
        if self._loaded:
            self._put_together()
        self._rows.room(len(self._keys.touched))
        held = self._held
        if len(self._members) < held + n:
            self._members = longer(self._members, 2 * (held + n))
        if len(self._current) < len(self._keys.touched):
            self._current = np.full(len(self._keys.touched), -1, np.int64)
        now = _NONE if rows is None else rows.now
        ticks = (
            (until - min(int(now[0]) if n else until, until if due is None else due)) // self._every + 2
            if self._every
            else 1
        )
        room = (held + n) * (ticks if self._keeps else 1)
        place, at, moment = (np.empty(room, np.int64) for _ in range(3))
        state = np.array([*self._state.held, held], np.int64)
        arrays = self._keys.arrays["place"], self._keys.touched, self._current, self._members, state, place, at, moment
        counted = self._count > 0
        k = (
            _last_of_count(ids, self._count, *arrays)
            if counted
            else _last_of_time(ids, now, self._every, self._keeps, until, *arrays)
        )
        *self._state.held, self._held = state.tolist()
        return self._gone_on(rows, ids, place[:k], at[:k], moment[:k])

    def _numbered(self, rows: Stretch | None) -> Array:
        if rows is None:
            return np.zeros(0, np.int32)
        return self._keys.numbers(rows) if self._keys.grouped else np.zeros(len(rows), np.int32)

    def _gone_on(self, rows: Stretch | None, ids: Array, place: Longs, at: Longs, moment: Longs) -> Stretch | None:
        """What goes on; what is still held is kept."""
        numbers = self._rows.numbers(None if rows is None else _without_keys(rows, self._width))
        found = None
        if len(place):
            columns, ts = self._rows.picked(numbers, place)
            if self._count:
                assert rows is not None  # a row completes what is counted
                origin = None if rows.origin is None else rows.origin[at]
                found = Stretch(columns, ts, rows.now[at], rows.chunk[at], None, origin)
            else:
                found = Stretch(columns, ts, moment, at)
        fresh = np.unique(ids)
        fresh = fresh[self._current[fresh] >= 0]
        self._rows.put(fresh, numbers, self._current[fresh])
        self._current[fresh] = -1
        if self._keys.may_sweep:
            self._keys.sweep(_NONE)
        self._rows.sweep(self._members[: self._held])
        return found

    def next_timer(self) -> int | None:
        """The tick at which what is held goes on."""
        if self._loaded:
            self._put_together()
        return self._state.held[2] if self._every and self._held else None

    def size(self) -> int:
        """Rows that are held."""
        return self._held

    def _put_together(self) -> None:
        super()._put_together()
        self._held = len(self._members)


@loop
def _one_of_count(ids, count, last, seen, touched, chosen):  # type: ignore[no-untyped-def]
    k = 0
    for i in range(len(ids)):
        g = ids[i]
        number = seen[g] + 1
        if number == (count if last else 1):
            chosen[k] = i
            k += 1
        seen[g] = 0 if number == count and (count > 1 or last) else min(number, count + 1)
        touched[g] = True
    return k


@loop
def _first_of_time(ids, now, chunk, grouped, every, passed, begun, touched, chosen):  # type: ignore[no-untyped-def]
    k = 0
    for i in range(len(ids)):
        if not grouped and i > 0 and chunk[i] == chunk[i - 1]:
            continue
        g = ids[i]
        if not begun[g] or passed[g] + every <= now[i]:
            begun[g] = True
            passed[g] = now[i]
            touched[g] = True
            chosen[k] = i
            k += 1
    return k


@loop
def _last_of_count(ids, count, places, touched, current, members, state, place, at, moment):  # type: ignore[no-untyped-def]
    k, held = 0, state[3]
    for i in range(len(ids)):
        g = ids[i]
        if places[g] == 0:
            members[held] = g
            held += 1
            places[g] = held
        current[g] = i
        touched[g] = True
        state[0] += 1
        if state[0] == count:
            state[0] = 0
            for q in range(held):
                h = members[q]
                place[k] = current[h] if current[h] >= 0 else -1 - h
                at[k] = i
                k += 1
                places[h] = 0
                current[h] = -1
                touched[h] = True
            held = 0
    state[3] = held
    return k


@loop
def _last_of_time(ids, now, every, keeps, until, places, touched, current, members, state, place, at, moment):  # type: ignore[no-untyped-def]
    k, held, chunk, start, due = 0, state[3], 0, state[1], state[2]
    n = len(ids)
    for i in range(n + 1):
        tick = start + ((now[i] - start) // every + 1) * every if i < n else until + 1
        while held > 0 and due < tick:
            for q in range(held):
                h = members[q]
                place[k] = current[h] if current[h] >= 0 else -1 - h
                at[k] = chunk
                moment[k] = due
                k += 1
                if not keeps:
                    places[h] = 0
                    current[h] = -1
                    touched[h] = True
            chunk += 1
            due += every
            if not keeps:
                held = 0
        if i == n:
            break
        if held == 0:
            due = tick
        g = ids[i]
        if places[g] == 0:
            members[held] = g
            held += 1
            places[g] = held
        current[g] = i
        touched[g] = True
    state[2] = due
    state[3] = held
    return k
