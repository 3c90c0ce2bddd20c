"""The waiting matches of a chain, under one flow key: a cell of the state.

A match is the tuple of its slots, each None or the tuple of one event; it is never changed, only replaced by a longer one under a number of its own.
Element k of the chain has a place for the matches that wait for its event; they stand there by number, the order in which they came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import Any

from nadi.kernel.rows.events import Event, event_of

Match = tuple[tuple[Event] | None, ...]

_EARLIEST, _UNORDERED = -(1 << 63), 1 << 63
_NOBODY: list[int] = []
"""What is gone from every key that has not changed: stays empty, so that millions of them need no list each."""


class Place:
    """Where matches wait for one element.

    Numbers below `moved` are pending, the others new: they become pending, ordered by the time of their last event, with the next event that is offered.
    `newest` is the time of the last event of the newest one, `top` the latest first event; both are _UNORDERED once times did not ascend.
    """

    __slots__ = ("held", "moved", "newest", "top")

    def __init__(self) -> None:
        self.held: dict[int, Match] = {}
        self.moved = 0
        self.newest = self.top = _EARLIEST

    def follow(self, match: Match, last: int) -> None:
        """Note the times of a match that comes; `last` is the slot it bound last."""
        ts, start = match[last][0][1], match[0][0][1]  # type: ignore[index]  # both are bound
        if not self.held:
            self.newest = self.top = _EARLIEST
        self.newest = ts if ts >= self.newest else _UNORDERED
        self.top = start if start >= self.top else _UNORDERED

    @property
    def has_new(self) -> bool:
        return self.newest != _EARLIEST


class Matches:
    """`starts` counts the matches that have bound nothing yet; None before the chain has begun."""

    __slots__ = ("_changed", "_gone", "_known", "_next", "_noted", "places", "starts")

    def __init__(self, elements: int, changed: Callable[[], None]) -> None:
        self.starts: int | None = None
        self.places = tuple(Place() for _ in range(elements - 1))
        self._next = 0
        self._known = 0  # numbers from here on are new to the next delta
        self._gone = _NOBODY  # who was taken of those that the last delta knew
        self._noted = False
        self._changed = changed

    def note(self) -> None:
        """Say that something changed."""
        if not self._noted:
            self._noted = True
            self._changed()

    def start(self, count: int) -> None:
        """Let this many matches have bound nothing."""
        self.starts = count
        self.note()

    def put(self, element: int, match: Match) -> None:
        """Let a match wait for the event of an element, behind the others."""
        place = self.places[element - 1]
        place.follow(match, element - 1)
        place.held[self._next] = match
        self._next += 1
        if not self._noted:
            self.note()

    def take(self, place: Place, numbers: Iterable[int]) -> None:
        """Let matches no longer wait."""
        held, known = place.held, self._known
        for number in numbers:
            del held[number]
            if number < known:
                if self._gone is _NOBODY:
                    self._gone = []
                self._gone.append(number)
        if not held:
            held.clear()  # gives its memory back, which a dict that was emptied one by one does not
        if not self._noted:
            self.note()

    def move(self, place: Place, element: int) -> None:
        """New matches become pending: by the time of their last event, stable."""
        if place.newest == _UNORDERED:
            new = [n for n in place.held if n >= place.moved]
            matches = [place.held[n] for n in new]
            self.take(place, new)
            place.newest = _EARLIEST
            for match in sorted(matches, key=lambda m: m[element - 1][0][1]):  # type: ignore[index]  # it is bound
                self.put(element, match)
        place.moved = self._next
        place.newest = _EARLIEST
        if not self._noted:
            self.note()

    def expire(self, now: int, within: int) -> int:
        """Drop the matches whose first event is more than `within` away; at how many places there were some.

        Of the pending ones those up to the first that is not late, of the new ones all (language text §9.3).
        """
        places = 0
        for place in self.places:
            if not place.held:
                continue
            ascending = place.top <= now + within
            late = _leading(place, now - within) if ascending else _late(place, now, within)
            if late:
                self.take(place, late)
                places += 1
        return places

    # ---- a cell

    def __len__(self) -> int:
        return sum(len(place.held) for place in self.places)

    def changed(self) -> bool:
        """Whether it is otherwise than the last delta left it."""
        return self._noted

    def content(self) -> list[Any]:
        return self._written(0, whole=True)

    def change(self) -> list[Any]:
        return self._written(self._known, whole=False)

    def _written(self, since: int, whole: bool) -> list[Any]:
        """`["p", whole, starts, next number, gone, [[moved, [[number, [kind, ts, values…]…]…]]…]]`, a place each."""
        places = []
        for place in self.places:
            added = list(takewhile(lambda n: n >= since, reversed(place.held)))
            entries = [[n, *([e[0], e[1], *e[2]] for (e,) in filter(None, place.held[n]))] for n in reversed(added)]
            places.append([place.moved, entries])
        return ["p", whole, self.starts, self._next, [] if whole else self._gone, places]

    def settle(self) -> None:
        """From here on the next delta is noted."""
        self._noted = False
        self._known = self._next
        self._gone = _NOBODY

    def apply(self, change: list[Any]) -> None:
        _tag, whole, self.starts, self._next, gone, places = change
        for place in self.places:
            if whole:
                place.held.clear()
            for number in gone:
                place.held.pop(number, None)
        for place, (moved, entries) in zip(self.places, places):
            if moved != place.moved:
                place.moved, place.newest = moved, _EARLIEST
            for number, *events in entries:
                match = tuple((event_of((kind, ts, tuple(row))),) for kind, ts, *row in events)
                place.follow(match, len(match) - 1)
                if number < moved:
                    place.newest = _EARLIEST
                place.held[number] = match + (None,) * (len(self.places) + 1 - len(match))


def _leading(place: Place, earliest: int) -> list[int]:
    """The matches at the front whose first event is earlier than that: all such, as first events ascend."""
    late = []
    for number, match in place.held.items():
        if match[0][0][1] >= earliest:  # type: ignore[index]  # it is bound
            break
        late.append(number)
    return late


def _late(place: Place, now: int, within: int) -> list[int]:
    late = []
    moved, pending = place.moved, True
    for number, match in place.held.items():
        is_late = abs(match[0][0][1] - now) > within  # type: ignore[index]  # it is bound
        if is_late and (pending or number >= moved):
            late.append(number)
        elif not is_late and number < moved:
            pending = False
    return late
