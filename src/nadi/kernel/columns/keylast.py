"""`output last every …` and `output snapshot every …` in a partition: the last row of each key, of each group in it (semantics/selection.md#output-rates).

By group `place` is its place in the order in which the groups of its key came, from 1; 0 where none is held. A snapshot goes on holding what it has shown.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nadi.kernel.columns.bounds import check_numbers, check_places, values
from nadi.kernel.columns.flat import BLOCK_BYTES, Block
from nadi.kernel.columns.groups import Groups
from nadi.kernel.columns.heaps import pop, push
from nadi.kernel.columns.jit import loop
from nadi.kernel.columns.keytable import check_beginnings, longer
from nadi.kernel.columns.keyticks import NEVER, KeyTicks
from nadi.kernel.columns.slotrows import SlotRows
from nadi.kernel.columns.stretch import Array, Column, Longs, Stretch
from nadi.lang.tree import Type
from nadi.plan.nodes import Rate


class LastOfKeys:
    """See the module's text. The rows of a key's groups are linked: `following` by group, `first`, `last` and `number` (how many) by key, are no state."""

    def __init__(self, rate: Rate, types: tuple[Type, ...], keys: tuple[Type, ...], sharded: bool) -> None:
        self._element, self._width = rate.id, len(types)
        self._count, self._every = rate.events or 0, rate.every or 0
        self._keeps, self._apart = rate.kind == "snapshot", len(keys) > 1
        self._ticks = KeyTicks(rate, keys[0], {"seen": "int64"} if self._count else {}, sharded, "k")
        by = tuple(range(len(types), len(types) + len(keys)))
        self._groups = Groups(rate.id, by, keys, {"place": "int64"}, sharded)
        self._rows = SlotRows(types)
        self._reset()

    def _reset(self) -> None:
        self._by_key = {name: np.zeros(1, np.int64) for name in ("first", "last", "number")}
        self._owner, self._following = np.zeros(1, np.int64), np.zeros(1, np.int64)
        self._current = np.full(1, -1, np.int64)  # by group, the place of its row among those at hand
        self._held = 0  # groups
        self._loaded = False

    def clear(self) -> None:
        """Forget all."""
        self._ticks.clear()
        self._groups.clear()
        self._rows.clear()
        self._reset()

    def begin(self, now: int) -> None:
        """Each key begins by itself."""

    def came(self, given: Stretch, position: int) -> None:
        """Events came, whose keys begin with them."""
        self._ticks.came(given, position)

    # ---- a batch

    def process(self, rows: Stretch | None, until: int) -> Stretch | None:
        """The rows that go on."""
        due = self.next_timer()
        if rows is None and (due is None or due > until):
            return None
        groups = _NO_KEYS if rows is None else self._groups.numbers(rows)
        keys = _NO_KEYS if rows is None else self._ticks.numbers(rows, self._width)
        self._room()
        if self._loaded:
            self._link()
        self._ticks.wake()
        found = self._counted(rows, groups, keys) if self._count else self._ticked(rows, groups, keys, until)
        if self._groups.may_sweep:
            self._groups.sweep(_NONE)
        if self._count and self._ticks.keys.may_sweep:
            self._ticks.keys.sweep(_NONE)
        if self._rows.may_sweep:
            self._rows.sweep(np.flatnonzero(self._groups.arrays["place"]))
        return found

    def _room(self) -> None:
        """Room for all groups and keys."""
        room = len(self._groups.touched)
        self._rows.room(room)
        if len(self._current) < room:
            before = len(self._current)
            self._current = longer(self._current, room)
            self._current[before:] = -1
            self._owner, self._following = longer(self._owner, room), longer(self._following, room)
        if len(self._by_key["first"]) < len(self._ticks.keys.touched):
            self._by_key = {name: longer(a, len(self._ticks.keys.touched)) for name, a in self._by_key.items()}

    def _link(self) -> None:
        """The links after a load, from the places of groups."""
        self._loaded = False
        place = self._groups.arrays["place"]
        held = np.flatnonzero(place)
        self._held = len(held)
        held = held[np.lexsort((place[held], self._owner[held]))]
        owner = self._owner[held]
        closes = np.append(np.diff(owner) != 0, True)[: len(held)]
        first, last, number = (self._by_key[name] for name in ("first", "last", "number"))
        number[:] = np.bincount(owner, minlength=len(number))
        last[owner[closes]] = held[closes]
        first[owner[::-1]] = held[::-1]  # the first one of each key comes last
        self._following[held[:-1]] = held[1:]

    def _linked(self) -> tuple[Array, ...]:
        by_key = self._by_key
        arrays = self._groups.arrays["place"], self._groups.touched, self._owner, self._following, self._current
        return *arrays, by_key["first"], by_key["last"], by_key["number"], self._ticks.keys.touched

    def _counted(self, rows: Stretch | None, groups: Array, keys: Array) -> Stretch | None:
        if rows is None:
            return None
        room = self._held + len(rows)
        place, of, made = np.empty(room, np.int64), np.empty(room, np.int64), np.array([0, self._held])
        _last_of_counts(groups, keys, self._count, self._ticks.keys.arrays["seen"], *self._linked(), place, of, made)
        k, self._held = made.tolist()
        columns, ts = self._gone_on(rows, groups, place[:k])
        at = of[:k]
        group, origin = (None if marks is None else marks[at] for marks in (rows.group, rows.origin))
        return Stretch(columns, ts, rows.now[at], rows.chunk[at], group, origin) if k else None

    def _ticked(self, rows: Stretch | None, groups: Array, keys: Array, until: int) -> Stretch | None:
        now, ticks, room = _NONE if rows is None else rows.now, self._ticks, self._held
        room += len(now)
        if self._keeps:
            due = ticks.next()
            begin = min(int(now[0]) if len(now) else until, until if due is None else due)
            room *= (until - begin) // self._every + 2
        place, of, *ends = (np.empty(room, np.int64) for _ in range(5))
        made = np.array([0, self._held, 0])
        arrays = ticks.keys.arrays["start"], ticks.keys.arrays["tick"], *ticks.heap, place, of, *ends, made
        _last_of_ticks(groups, keys, now, self._every, self._keeps, until, *self._linked(), *arrays)
        k, self._held, chunks = made.tolist()
        moved, clock, chunk, group = ticks.in_order(of[:k], *(marks[:chunks] for marks in ends))
        columns, ts = self._gone_on(rows, groups, place[moved])
        return Stretch(columns, ts, clock, chunk, group) if k else None

    def _gone_on(self, rows: Stretch | None, groups: Array, place: Longs) -> tuple[tuple[Column, ...], Longs]:
        """The columns and timestamps of what goes on; what is still held is kept."""
        numbers = self._rows.numbers(rows)
        found = self._rows.picked(numbers, place)
        fresh = np.unique(groups)
        fresh = fresh[self._current[fresh] >= 0]
        self._rows.put(fresh, numbers, self._current[fresh])
        self._current[fresh] = -1
        return found

    def next_timer(self) -> int | None:
        """The tick at which rows go on."""
        return self._ticks.next()

    # ---- state

    def changes(self) -> Iterator[Block]:
        """The keys and the groups that were touched."""
        yield from self._ticks.keys.changes()
        ids = np.flatnonzero(self._groups.touched)
        self._groups.touched[ids] = False
        if len(ids):
            yield self._block(0, ids)

    def contents(self) -> Iterator[Block]:
        """All keys, the groups that are held."""
        yield from self._ticks.keys.contents()
        self._groups.touched[:] = False
        most = BLOCK_BYTES // (48 + sum(array.itemsize for array in self._rows.arrays.values()))
        for group, ids in self._groups.parted(np.flatnonzero(self._groups.arrays["place"])):
            for start in range(0, len(ids), most):
                yield self._block(group, ids[start : start + most])

    def _block(self, group: int, ids: Longs) -> Block:
        place = self._groups.arrays["place"][ids]
        owners = np.where(place > 0, self._owner[ids], -1)
        told = {**self._groups.named(ids), "place": place, **self._rows.told(ids[place > 0])}
        return Block(self._element, group, "g", {**told, **self._ticks.keys.told("owner", owners)}, keys=len(ids))

    def apply(self, block: Block) -> None:
        """Put back keys or groups."""
        if block.letter == "k":
            self._ticks.keys.apply(block)
            self._ticks.loaded = True
            return
        ids = self._groups.numbers_of(block).astype(np.int64)
        place = values(block.arrays, "place", np.int64, len(ids))
        owners = values({"owner": self._ticks.keys.read("owner", block.arrays)}, "owner", np.int32, len(ids))
        check_numbers(place, "'place'")
        held, mine = ids[place > 0], owners[place > 0]
        check_places(mine, self._ticks.keys.room, "the key of a row")
        if self._apart:
            check_beginnings(self._ticks.keys.keys.packed(mine), self._groups.keys.packed(held))
        if "prefix" in self._groups.arrays:
            _starts, lengths, _texts = self._ticks.keys.keys.spelled()
            self._groups.arrays["prefix"][held] = lengths[mine]
        self._groups.arrays["place"][ids] = place
        self._room()
        self._owner[ids] = owners
        self._rows.read(held, block.arrays)
        self._loaded = True

    def check(self) -> None:
        """Keys of which rows wait have a tick, others none. Raises ValueError where that is not so."""
        held = np.flatnonzero(self._groups.arrays["place"])
        self._ticks.check(np.bincount(self._owner[held], minlength=self._ticks.keys.room) > 0)

    def size(self) -> int:
        """Rows that are held."""
        return int(np.count_nonzero(self._groups.arrays["place"]))


_NO_KEYS = np.zeros(0, np.int32)
_NONE = np.zeros(0, np.int64)


@loop
def _append(g, p, places, touched, owner, following, first, last, number):  # type: ignore[no-untyped-def]
    """Put a group behind those of its key, unless it is there; -> whether it was not."""
    touched[g] = True
    if places[g] > 0:
        return 0
    owner[g] = p
    if number[p] == 0:
        first[p] = g
    else:
        following[last[p]] = g
    last[p] = g
    number[p] += 1
    places[g] = number[p]
    return 1


@loop
def _put_out(p, keeps, chunk, k, places, touched, following, current, first, number, place, of):  # type: ignore[no-untyped-def]
    """Let the rows of a key go on; -> how many have."""
    g = first[p]
    for _ in range(number[p]):
        place[k] = current[g] if current[g] >= 0 else -1 - g
        of[k] = chunk
        k += 1
        if not keeps:
            places[g] = 0
            current[g] = -1
            touched[g] = True
        g = following[g]
    if not keeps:
        number[p] = 0
    return k


@loop
def _last_of_counts(  # type: ignore[no-untyped-def]
    ids, keys, count, seen, places, touched, owner, following, current, first, last, number, told, place, of, made
):
    k, held = 0, made[1]
    for i in range(len(ids)):
        g, p = ids[i], keys[i]
        held += _append(g, p, places, touched, owner, following, first, last, number)
        current[g] = i
        told[p] = True
        seen[p] += 1
        if seen[p] == count:
            seen[p] = 0
            held -= number[p]
            k = _put_out(p, False, i, k, places, touched, following, current, first, number, place, of)
    made[0], made[1] = k, held


@loop
def _last_of_ticks(  # type: ignore[no-untyped-def]
    ids,
    keys,
    now,
    every,
    keeps,
    until,
    places,
    touched,
    owner,
    following,
    current,
    first,
    last,
    number,
    told,
    start,
    tick,
    due,
    due_rank,
    due_key,
    due_size,
    place,
    of,
    ends_now,
    ends_turn,
    ends_key,
    made,
):
    k, held, e, turn, fired, n = 0, made[1], 0, 0, NEVER, len(ids)
    for i in range(n + 1):
        limit = now[i] if i < n else until
        while due_size[0] > 0 and due[0] <= limit:
            f, p = due[0], due_key[0]
            pop(due, due_rank, due_key, due_size)
            if f != fired:
                fired = f
                turn += 1
            ends_now[e], ends_turn[e], ends_key[e] = f, turn, p
            if not keeps:
                held -= number[p]
            k = _put_out(p, keeps, e, k, places, touched, following, current, first, number, place, of)
            e += 1
            tick[p] = f + every if keeps else 0
            told[p] = True
            if keeps:
                push(due, due_rank, due_key, due_size, tick[p], 0, p)
        if i == n:
            break
        g, p = ids[i], keys[i]
        if number[p] == 0:
            tick[p] = start[p] + ((now[i] - start[p]) // every + 1) * every
            told[p] = True
            push(due, due_rank, due_key, due_size, tick[p], 0, p)
        held += _append(g, p, places, touched, owner, following, first, last, number)
        current[g] = i
    made[0], made[1], made[2] = k, held, e
