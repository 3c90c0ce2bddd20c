"""Partial matches, and where they wait.

A partial match is a plain list, so that a `Map` cell can keep it: `[id, timestamp, expired, slots, places]`. `slots` has one entry per element of the
pattern: None, or the list of bound events. `places` says in which lists the match waits, and
where in them: one number per list, sequence number × (number of places) + place. A match that waits nowhere is forgotten.

Element k has two places: `2k` its new matches, `2k + 1` its pending ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nadi.kernel.rows.events import Event
from nadi.kernel.rows.state import Cells, Map

Partial = list[Any]
ID, TS, EXPIRED, SLOTS, PLACES = range(5)
EMPTY_TS = -1
"""The timestamp of a match that has bound nothing yet."""

CELLS = {"partials": Map, "flags": Map}
_MIXED = 1 << 62
"""Later than any time: of matches in no known order."""


class Waiting:
    """All partial matches of one flow key, by place.

    A live view of the cells: everything in it follows from them. It holds good as long as the cells are the same object.
    """

    __slots__ = ("_count", "_next_id", "_next_number", "_start", "_top", "_width", "cells", "flags", "kept", "lists")

    def __init__(self, cells: Cells, elements: int, start: int | None = None) -> None:
        """`start` is the slot whose event `within` counts from, if its order is to be followed (`in_order`)."""
        self.cells = cells
        self.kept: Map = cells["partials"]
        self.flags: Map = cells["flags"]
        self.lists: list[dict[int, Partial]] = [{} for _ in range(2 * elements)]
        self._width = elements
        self._count = 2 * elements
        self._next_id = self._next_number = 0
        self._start = start
        # of the places of new matches the greatest time of a first event, or that they are in no order
        self._top = [_MIXED] * elements if start is not None else []
        if len(self.kept):
            self._recall()

    def _recall(self) -> None:
        """Fill the lists from the cells (after a load), each in its order."""
        placed: list[tuple[int, Partial]] = []
        count = len(self.lists)
        for partial in self.kept.values():
            slots = partial[SLOTS]
            partial[SLOTS] = [None if bound is None else [Event(*event) for event in bound] for bound in slots]
            placed.extend((code, partial) for code in partial[PLACES])
            self._next_id = max(self._next_id, partial[ID] + 1)
        for code, partial in sorted(placed, key=lambda entry: entry[0]):
            number, place = divmod(code, count)
            if self._start is not None and place % 2 == 0:
                self._follow(place, self._start, partial)
            self.lists[place][partial[ID]] = partial
            self._next_number = number + 1

    def fresh(self) -> Partial:
        """A match that has bound nothing. It is kept once it is put somewhere."""
        return self._make(EMPTY_TS, [None] * self._width)

    def copy(self, partial: Partial, first: int) -> Partial:
        """A copy whose slots from `first` on are empty."""
        slots = [None if bound is None else list(bound) for bound in partial[SLOTS][:first]] if first else []
        slots.extend([None] * (self._width - first))
        return self._make(partial[TS], slots)

    def _make(self, ts: int, slots: list[list[Event] | None]) -> Partial:
        made: Partial = [self._next_id, ts, False, slots, []]
        self._next_id += 1
        return made

    def put(self, place: int, partial: Partial) -> None:
        """Let a match wait at the end of a place; it stays where it is if it waits there."""
        number = partial[ID]
        if self._start is not None and place % 2 == 0:
            self._follow(place, self._start, partial)
        if number in self.lists[place]:
            return
        self.lists[place][number] = partial
        partial[PLACES].append(self._next_number * self._count + place)
        self._next_number += 1
        self.kept.set(number, partial)

    def hop(self, place: int, after: int, partial: Partial) -> None:
        """Let a match that waits at one place wait at the end of another one instead."""
        number = partial[ID]
        if self._start is not None and after % 2 == 0:
            self._follow(after, self._start, partial)
        left = self.lists[place]
        left.pop(number, None)
        if not left:
            left.clear()  # gives its memory back, which a dict that was emptied one by one does not
        self.lists[after][number] = partial
        self._change(place, after, partial)
        self.kept.touch(number)

    def _change(self, place: int, after: int, partial: Partial) -> None:
        codes: list[int] = partial[PLACES]
        code = self._next_number * self._count + after
        self._next_number += 1
        if len(codes) == 1:
            codes[0] = code
        else:  # it waits in other elements, too
            self._leave(place, codes)
            codes.append(code)

    def _follow(self, place: int, start: int, partial: Partial) -> None:
        bound, top = partial[SLOTS][start], self._top
        first = bound[0][1] if bound else _MIXED
        if self.lists[place] and first < top[place // 2]:
            first = _MIXED
        top[place // 2] = first

    def in_order(self, place: int, limit: int) -> bool:
        """Whether new matches are known to be ordered by the time of their first event, none of them beyond `limit`."""
        return self._start is not None and self._top[place // 2] <= limit

    def take(self, place: int, partial: Partial) -> None:
        """Let a match no longer wait at a place; nothing happens if it does not."""
        number = partial[ID]
        if self.lists[place].pop(number, None) is None:
            return
        codes: list[int] = partial[PLACES]
        if len(codes) == 1:
            codes.clear()
            self.kept.pop(number)
        else:
            self._leave(place, codes)
            self.kept.touch(number)

    def _leave(self, place: int, codes: list[int]) -> None:
        for i, code in enumerate(codes):
            if code % self._count == place:
                del codes[i]
                return

    def changed(self, partial: Partial) -> None:
        """A waiting match was changed in place."""
        if partial[PLACES]:
            self.kept.touch(partial[ID])

    def clear(self, place: int) -> None:
        for partial in self.at(place):
            self.take(place, partial)

    def at(self, place: int) -> Iterable[Partial]:
        """Who waits at a place, in order, as it is now: the place may change while one goes through it."""
        return tuple(self.lists[place].values())

    def move(self, element: int) -> None:
        """New matches of an element become pending ones: by timestamp, stable, empty ones last."""
        new = self.lists[2 * element]
        if not new:
            return
        moving = list(new.values())
        if len(moving) > 1:
            moving.sort(key=_by_time)
        new.clear()
        place = 2 * element + 1
        pending, kept = self.lists[place], self.kept
        for partial in moving:
            number = partial[ID]
            if number in pending:  # a half-complete `and` of a sequence was reached once more by the same match
                self._leave(2 * element, partial[PLACES])
            else:
                self._change(2 * element, place, partial)
                pending[number] = partial
            kept.touch(number)


def _by_time(partial: Partial) -> tuple[bool, int]:
    return partial[TS] == EMPTY_TS, partial[TS]
