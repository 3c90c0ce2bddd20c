"""The keys of a partition for an output rate: the ticks of each, which begin with its first event, whatever becomes of that.

Only keys of which rows wait are in the heap of what is due next: `tick` tells their next tick, 0 where nothing waits.
"""

from __future__ import annotations

import numpy as np

from nadi.kernel.columns.groups import Groups, by_turn
from nadi.kernel.columns.heaps import heap
from nadi.kernel.columns.jit import loop
from nadi.kernel.columns.keygroups import groups_of
from nadi.kernel.columns.stretch import Array, Bools, Longs, Stretch
from nadi.lang.tree import Type
from nadi.plan.nodes import Rate

NEVER = 2**63 - 1
ENDS = ("ends_now", "ends_turn", "ends_key")
"""What a loop notes of each chunk that a tick lets go on: its clock, its turn (that of all keys with the same clock), its key."""


class KeyTicks:
    """`keys` are those of a partition, with arrays of their own (`more`). Without a period there are no ticks, and keys may be forgotten."""

    def __init__(self, rate: Rate, kind: Type, more: dict[str, str], sharded: bool, letter: str) -> None:
        self.every = rate.every or 0
        self._sharded = sharded
        ticks = {"start": "int64", "begun": "bool", "tick": "int64"} if self.every else {}
        self.keys = Groups(rate.id, (0,), (kind,), {**ticks, **more}, sharded, letter=letter, optional=True)
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self.keys.clear()
        self.heap = heap(_NONE, _NONE, _NONE, 1)
        self.loaded = False

    def numbers(self, given: Stretch, position: int) -> Array:
        """The key of each event."""
        return self.keys.numbers(Stretch((given.columns[position],), given.ts, given.now, given.chunk))

    def came(self, given: Stretch, position: int) -> None:
        """Let the keys begin that events bring."""
        if not self.every:
            return
        nulls = given.nulls(position)[: len(given)]
        if nulls.any():
            given = given.take(np.flatnonzero(~nulls))
        if len(given):
            arrays = self.keys.arrays
            ids = self.numbers(given, position)
            _begin(ids, given.now, arrays["begun"], arrays["start"], self.keys.touched)

    def wake(self) -> None:
        """The heap with room for all keys, made anew after a load."""
        room = len(self.keys.touched)
        if self.every and (self.loaded or len(self.heap[0]) < room):
            tick = self.keys.arrays["tick"]
            waiting = np.flatnonzero(tick)
            self.heap = heap(tick[waiting], np.zeros(len(waiting), np.int64), waiting, room)
            self.loaded = False

    def next(self) -> int | None:
        """The next tick at which something goes on."""
        self.wake()
        return int(self.heap[0][0]) if self.heap[3][0] else None

    def check(self, waits: Bools) -> None:
        """Raises ValueError where a key has a tick at which nothing would go on, or none although rows wait; `waits` tells of which keys some do."""
        if self.every and ((self.keys.arrays["tick"] != 0) != waits).any():
            raise ValueError("a key has a tick and no rows, or rows and no tick")

    def in_order(self, of: Longs, now: Longs, turn: Longs, key: Longs) -> tuple[Longs, Longs, Longs, Longs | None]:
        """Rows in the order in which timers of keys fire: their places, clocks, chunks and key-groups.

        `of` is the number of each one's chunk, the others tell of chunks.
        """
        place = np.empty(len(turn), np.int64)
        place[by_turn(self.keys, turn, key)] = np.arange(len(turn))
        rows: Longs = np.argsort(place[of], kind="stable")
        chunks = of[rows]
        group = groups_of(self.keys.keys, key).astype(np.int64)[chunks] if self._sharded else None
        return rows, now[chunks], place[chunks], group


_NONE = np.zeros(0, np.int64)


@loop
def _begin(ids, now, begun, start, touched):  # type: ignore[no-untyped-def]
    for i in range(len(ids)):
        p = ids[i]
        if not begun[p]:
            begun[p] = True
            start[p] = now[i]
            touched[p] = True
