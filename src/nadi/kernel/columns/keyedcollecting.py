"""The batch windows of `unique` in a partition: the first or the latest event of each *unit*, a key of the window in a key of the partition, its *home*.

Each home has a batch of its own, whose units are linked in the order in which they were first seen: `place` has their numbers, and is state; the links are
not. Batches of a time end for all homes at once, and come in the order of the homes' texts, as their timers would on rows; `due` is when those of a unit end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow.compute as pc

from nadi.kernel.columns.arithmetic import COMPILED
from nadi.kernel.columns.bounds import check_numbers
from nadi.kernel.columns.collecting import all_of
from nadi.kernel.columns.contract import Input
from nadi.kernel.columns.endings import NEVER
from nadi.kernel.columns.filtering import Filtering, taking_part
from nadi.kernel.columns.flat import BLOCK_BYTES, Block
from nadi.kernel.columns.groups import Groups
from nadi.kernel.columns.homes import Homes
from nadi.kernel.columns.jit import loop
from nadi.kernel.columns.keygroups import groups_of
from nadi.kernel.columns.keytable import longer
from nadi.kernel.columns.limiting import Numbers
from nadi.kernel.columns.slotrows import SlotRows
from nadi.kernel.columns.stretch import Array, Longs, Stretch
from nadi.kernel.columns.wholerows import looked_at
from nadi.plan.nodes import Attr, Const, Query, SingleInput

_BOUNDARY, _PHASE, _PHASED = range(3)
_NEXT, _HELD, _OPEN, _ROWS, _ENDS = range(5)
_NONE = np.zeros(0, np.int64)
_NO_IDS = np.zeros(0, np.int32)
_remainder: Any = COMPILED["remainder"]


class KeyedCollecting:
    """`unique:lengthBatch`, `unique:timeBatch` and those that begin with `first`, in a partition."""

    letters = frozenset({"g", "n"})

    def __init__(self, query: Query, given: Input) -> None:
        assert isinstance(query.input, SingleInput)
        window = query.input.window
        assert window is not None  # as operators says
        assert given.key is not None
        self.element = window.id
        self._key, self._sharded = given.key, given.sharded
        self._first = "first" in window.name
        self._timed = window.name.endswith("imeBatch")
        self._numbers = [a.value for a in window.args[1:] if isinstance(a, Const) and isinstance(a.value, int)]
        by = (given.key, *(a.position for a in window.args[:1] if isinstance(a, Attr)))
        arrays = {"place": "int64", "due": "int64"}
        self._units = Groups(window.id, by, tuple(given.types[p] for p in by), arrays, given.sharded, parts=True)
        self._homes = Homes(self._units, given.key, given.types[given.key], given.sharded)
        self._rows = SlotRows(given.types, looked_at(query) | {given.key})
        self._clock = Numbers(window.id, NEVER, 0, 0)
        self._filter = Filtering(all_of(query, given), replace(given, behind=())) if given.filters else None
        self._reset()

    def _reset(self) -> None:
        self._counts = np.zeros(5, np.int64)
        self._current = np.full(1, -1, np.int64)  # by unit, the place of its event among those at hand
        self._following = np.zeros(1, np.int64)  # by unit, the next one of its home, plus 1
        self._heads, self._tails, self._sizes = (np.zeros(1, np.int64) for _ in range(3))  # by home
        self._open = np.zeros(0, np.int64)  # the homes that have a batch
        self._loaded = False

    def clear(self) -> None:
        """Forget all."""
        self._units.clear()
        self._homes.clear()
        self._rows.clear()
        self._clock.clear()
        self._reset()

    def __len__(self) -> int:
        return int((self._units.arrays["place"] > 0).sum())

    # ---- a batch

    def process(self, given: Mapping[str, Stretch], until: int) -> Stretch | None:
        """The events of the batches that end."""
        events = None
        if given:
            events = taking_part(given, self._key) if self._filter is None else self._filter.process(given, until)
        due = self.next_timer()
        if events is None and (due is None or due > until):
            return None
        n = 0 if events is None else len(events)
        units = _NO_IDS if events is None else self._units.numbers(events)
        homes = _NO_IDS if events is None else self._homes.numbers(events, units)
        self._make_room(n)
        room = int(self._counts[_HELD]) + n
        place, of, ends_now, ends_turn, ends_home = (np.empty(room, np.int64) for _ in range(5))
        made = place, of, ends_now, ends_turn, ends_home
        arrays = self._units.arrays
        by_unit = arrays["place"], arrays["due"], self._units.touched, self._current, self._following
        shared = by_unit, (self._heads, self._tails, self._sizes, self._open), self._counts, made
        now = _NONE if events is None else events.now
        if self._timed:
            clock = np.array(self._clock.held, np.int64)
            time, starts = self._numbers[0], len(self._numbers) > 1
            start = self._numbers[1] if starts else -1
            _by_time(units, homes, now, until, self._first, time, starts, start, clock, *shared)
            self._clock.held = clock.tolist()
        else:
            _by_length(units, homes, now, self._first, self._numbers[0], *shared)
        return self._gone_on(events, units, *made)

    def _make_room(self, more: int) -> None:
        self._put_together()
        units, homes = len(self._units.touched), len(self._homes.groups.touched)
        self._rows.room(units)
        if len(self._current) < units:
            self._current = np.full(units, -1, np.int64)
            self._following = longer(self._following, units)
        if len(self._heads) < homes:
            self._heads, self._tails, self._sizes = (longer(a, homes) for a in (self._heads, self._tails, self._sizes))
        if len(self._open) < self._counts[_OPEN] + more:
            self._open = longer(self._open, 2 * (int(self._counts[_OPEN]) + more))

    def _put_together(self) -> None:
        """After a load: the links, and when the batches end."""
        if not self._loaded:
            return
        self._loaded = False
        places = self._units.arrays["place"]
        held = np.flatnonzero(places)
        held = held[np.argsort(places[held], kind="stable")]
        self._homes.find(held)
        self._following = np.zeros(len(self._units.touched), np.int64)
        self._current = np.full(len(self._following), -1, np.int64)
        homes = len(self._homes.groups.touched)
        self._heads, self._tails, self._sizes = (np.zeros(homes, np.int64) for _ in range(3))
        self._open = np.zeros(len(held), np.int64)
        self._counts[:] = 0
        batches = self._heads, self._tails, self._sizes, self._open
        _link_all(held, self._homes.of, self._following, batches, self._counts)
        self._counts[_NEXT] = places[held].max() if len(held) else 0
        if self._timed and len(held):
            self._clock.held[_BOUNDARY] = int(self._units.arrays["due"][held].max())

    def _gone_on(
        self, events: Stretch | None, units: Array, place: Longs, of: Longs, now: Longs, turn: Longs, home: Longs
    ) -> Stretch | None:
        """What goes on; what waits is kept."""
        numbers = self._rows.numbers(events)
        k, ends = int(self._counts[_ROWS]), int(self._counts[_ENDS])
        found = self._made(numbers, place[:k], of[:k], now[:ends], turn[:ends], home[:ends]) if k else None
        fresh = np.unique(units)
        fresh = fresh[self._current[fresh] >= 0]
        self._rows.put(fresh, numbers, self._current[fresh])
        self._current[fresh] = -1
        if self._units.may_sweep:
            self._units.sweep(_NONE, ("place",))
        if self._homes.groups.may_sweep:
            self._homes.groups.sweep(np.flatnonzero(self._sizes))
        if self._rows.may_sweep:
            self._rows.sweep(np.flatnonzero(self._units.arrays["place"]))
        return found

    def _made(
        self, numbers: dict[str, Array], place: Longs, of: Longs, now: Longs, turn: Longs, home: Longs
    ) -> Stretch:
        """The events that go on, batch by batch, those of one time in the order of the homes' texts."""
        order = self._by_turn(turn, home) if self._timed else np.arange(len(turn))
        chunk = np.empty(len(order), np.int64)
        chunk[order] = np.arange(len(order))
        rows = np.argsort(chunk[of], kind="stable")
        columns, ts = self._rows.picked(numbers, place[rows])
        group = None
        if self._sharded:
            different, found = np.unique(home, return_inverse=True)
            group = groups_of(self._homes.groups.keys, different).astype(np.int64)[found][of[rows]]
        return Stretch(columns, ts, now[of[rows]], chunk[of[rows]], group)

    def _by_turn(self, turn: Longs, homes: Longs) -> Longs:
        different, found = np.unique(homes, return_inverse=True)
        rank = np.empty(len(different), np.int64)
        rank[pc.sort_indices(self._homes.groups.keys.array(different)).to_numpy()] = np.arange(len(different))
        return np.lexsort((rank[found], turn))

    def next_timer(self) -> int | None:
        """When the batches that are open end by themselves."""
        self._put_together()
        waits = self._timed and self._counts[_OPEN] > 0 and self._clock.held[_BOUNDARY] != NEVER
        return self._clock.held[_BOUNDARY] if waits else None

    # ---- state

    def changes(self) -> Iterator[Block]:
        """The clock, the units that were touched."""
        yield from self._clock.changes()
        ids = np.flatnonzero(self._units.touched)
        self._units.touched[ids] = False
        if len(ids):
            yield self._block(0, ids)

    def contents(self) -> Iterator[Block]:
        """The clock, the units that have an event."""
        yield from self._clock.contents()
        self._units.touched[:] = False
        most = BLOCK_BYTES // (48 + sum(array.itemsize for array in self._rows.arrays.values()))
        for group, ids in self._units.parted(np.flatnonzero(self._units.arrays["place"])):
            for start in range(0, len(ids), most):
                yield self._block(group, ids[start : start + most])

    def _block(self, group: int, ids: Longs) -> Block:
        arrays = {name: array[ids] for name, array in self._units.arrays.items()}
        told = {**self._units.named(ids), **arrays, **self._rows.told(ids[arrays["place"] > 0])}
        return Block(self.element, group, "g", told, keys=len(ids))

    def apply(self, block: Block) -> None:
        """Put back the clock or units."""
        if block.letter == "n":
            self._clock.apply(block)
            return
        ids = self._units.put(block)
        places = self._units.arrays["place"][ids]
        check_numbers(places, "'place'")
        self._rows.room(len(self._units.touched))
        self._rows.read(ids[places > 0], block.arrays)
        self._loaded = True


@loop
def _link(u, h, following, batches, counts):  # type: ignore[no-untyped-def]
    """Makes a unit the last one of the batch of its home."""
    heads, tails, sizes, opened = batches
    if sizes[h] == 0:
        heads[h] = u + 1
        opened[counts[_OPEN]] = h
        counts[_OPEN] += 1
    else:
        following[tails[h] - 1] = u + 1
    following[u] = 0
    tails[h] = u + 1
    sizes[h] += 1
    counts[_HELD] += 1


@loop
def _link_all(units, homes, following, batches, counts):  # type: ignore[no-untyped-def]
    for u in units:
        _link(u, homes[u], following, batches, counts)


@loop
def _add(u, h, i, first, units, batches, counts):  # type: ignore[no-untyped-def]
    """Takes event i of a unit into the batch of its home."""
    places, _dues, touched, current, following = units
    if places[u] == 0:
        counts[_NEXT] += 1
        places[u] = counts[_NEXT]
        _link(u, h, following, batches, counts)
    elif first:
        return
    current[u] = i
    touched[u] = True


@loop
def _end(h, now, turn, units, batches, counts, made):  # type: ignore[no-untyped-def]
    """Lets the batch of a home go on."""
    places, dues, touched, current, following = units
    heads, _tails, sizes, _opened = batches
    place, of, ends_now, ends_turn, ends_home = made
    e, k = counts[_ENDS], counts[_ROWS]
    ends_now[e] = now
    ends_turn[e] = turn
    ends_home[e] = h
    u = heads[h] - 1
    while u >= 0:
        place[k] = current[u] if current[u] >= 0 else -1 - u
        of[k] = e
        k += 1
        places[u] = 0
        dues[u] = 0
        current[u] = -1
        touched[u] = True
        u = following[u] - 1
    counts[_HELD] -= sizes[h]
    heads[h] = sizes[h] = 0
    counts[_ROWS] = k
    counts[_ENDS] = e + 1


@loop
def _by_length(ids, homes, now, first, length, units, batches, counts, made):  # type: ignore[no-untyped-def]
    counts[_ROWS] = counts[_ENDS] = 0
    sizes = batches[2]
    for i in range(len(ids)):
        h = homes[i]
        counts[_OPEN] = 0  # nobody asks which homes have a batch
        _add(ids[i], h, i, first, units, batches, counts)
        if sizes[h] == length:
            _end(h, now[i], 0, units, batches, counts, made)


@loop
def _by_time(ids, homes, now, until, first, time, starts, start, clock, units, batches, counts, made):  # type: ignore[no-untyped-def]
    counts[_ROWS] = counts[_ENDS] = 0
    _places, dues, opened = units[0], units[1], batches[3]
    turn, n = 0, len(ids)
    for i in range(n + 1):
        if clock[_BOUNDARY] <= (now[i] if i < n else until):
            for q in range(counts[_OPEN]):
                _end(opened[q], clock[_BOUNDARY], turn, units, batches, counts, made)
            turn += 1
            counts[_OPEN] = 0
            clock[_BOUNDARY] = NEVER
        if i == n:
            break
        if clock[_BOUNDARY] == NEVER:
            if clock[_PHASED] == 0:
                clock[_PHASED] = 1
                clock[_PHASE] = now[i] + time
                if starts:
                    clock[_PHASE] -= _remainder(now[i] - start, time)
            phase = clock[_PHASE]
            clock[_BOUNDARY] = phase if now[i] < phase else phase + ((now[i] - phase) // time + 1) * time
        _add(ids[i], homes[i], i, first, units, batches, counts)
        dues[ids[i]] = clock[_BOUNDARY]
