"""The waiting matches of a chain, under one flow key: a cell of the state.

A match is the tuple of its slots, each None or the tuple of one event; it is never changed, only replaced by a longer one under a number of its own.
Element k of the chain has a place for the matches that wait for its event; they stand there by number, the order in which they came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice, takewhile
from typing import Any

from nadi.kernel.rows.cells import Change
from nadi.kernel.rows.events import Event, event_of

Match = tuple[tuple[Event] | None, ...]
Numbered = tuple[int, Match]

_EARLIEST, _UNORDERED = -(1 << 63), 1 << 63
_SAME = -1
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

    __slots__ = ("_before", "_changed", "_gone", "_known", "_next", "places", "starts")

    def __init__(self, elements: int, changed: Callable[[], None]) -> None:
        self.starts: int | None = None
        self.places = tuple([Place() for _ in range(elements - 1)])
        self._next = 0
        self._known = 0  # numbers from here on are new to the next delta
        self._gone = _NOBODY  # who was taken of those that the last delta knew
        self._before = _SAME  # how many there were after the last delta, once something changed
        self._changed = changed

    def note(self) -> None:
        """Say that something is about to change."""
        if self._before == _SAME:
            self._before = len(self)
            self._changed()

    def start(self, count: int) -> None:
        """Let this many matches have bound nothing."""
        self.note()
        self.starts = count

    def put(self, element: int, match: Match) -> None:
        """Let a match wait for the event of an element, behind the others."""
        if self._before == _SAME:
            self.note()
        place = self.places[element - 1]
        place.follow(match, element - 1)
        place.held[self._next] = match
        self._next += 1

    def take(self, place: Place, numbers: Iterable[int]) -> None:
        """Let matches no longer wait."""
        if self._before == _SAME:
            self.note()
        held, known = place.held, self._known
        for number in numbers:
            del held[number]
            if number < known:
                if self._gone is _NOBODY:
                    self._gone = []
                self._gone.append(number)
        if not held:
            held.clear()  # gives its memory back, which a dict that was emptied one by one does not

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
        if self._before == _SAME:
            self.note()

    def expire(self, now: int, within: int) -> int:
        """Drop the matches whose first event is more than `within` away; at how many places there were some.

        Of the pending ones those up to the first that is not late, of the new ones all (semantics/patterns.md#within).
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

    def content(self) -> Change:
        return self._written([list(place.held.items()) for place in self.places], [])

    def contents(self, most: int) -> Iterator[Change]:
        nothing: list[list[Numbered]] = [[] for _ in self.places]
        yield self._written(nothing, [])
        for number, place in enumerate(self.places):
            left = iter(place.held.items())
            while part := list(islice(left, most)):
                yield self._written([*nothing[:number], part, *nothing[number + 1 :]], [])

    def halves(self, change: Change) -> list[Change]:
        *head, held = change
        if sum(map(len, held)) < 2:
            return [change]
        cuts = [len(some) // 2 for some in held]
        return [
            (*head, tuple([some[:cut] for some, cut in zip(held, cuts)])),
            (*head, tuple([some[cut:] for some, cut in zip(held, cuts)])),
        ]

    def _written(self, held: list[list[Numbered]], gone: list[int]) -> Change:
        """`("c", starts, next number, gone, [moved…], (held…))`, the last two with an entry per place."""
        return "c", self.starts, self._next, gone, [place.moved for place in self.places], tuple(held)

    def grown(self) -> int:
        return len(self) - self._before if self._before != _SAME else 0

    def take_change(self) -> Change | None:
        if self._before == _SAME:
            return None
        since, held = self._known, []
        for place in self.places:
            added = list(takewhile(lambda n: n >= since, reversed(place.held)))
            held.append([(n, place.held[n]) for n in reversed(added)])
        change = self._written(held, self._gone)
        self.settle()
        return change

    def settle(self) -> None:
        self._before = _SAME
        self._known = self._next
        self._gone = _NOBODY

    def apply(self, change: Change) -> None:
        _letter, self.starts, self._next, gone, moved, held = change if change[0] == "c" else self._of_version_1(change)
        self._known = self._next
        for number in gone:
            for place in self.places:
                place.held.pop(number, None)
        for last, (place, until, entries) in enumerate(zip(self.places, moved, held)):
            if until != place.moved:
                place.moved, place.newest = until, _EARLIEST
            for number, slots in entries:
                match = tuple([None if bound is None else (event_of(bound[0]),) for bound in slots])
                place.follow(match, last)
                if number < until:
                    place.newest = _EARLIEST
                place.held[number] = match

    def _of_version_1(self, change: Change) -> Change:
        """Of `["p", whole, starts, next number, gone, [[moved, [[number, [kind, ts, values…]…]…]]…]]`, which had only slots that are bound."""
        _letter, whole, starts, following, gone, places = change
        for place in self.places if whole else ():
            place.held.clear()
        width = len(self.places) + 1
        held = [[(n, _slots(events, width)) for n, *events in entries] for _moved, entries in places]
        return "c", starts, following, gone, [moved for moved, _entries in places], held


def _slots(events: list[Any], width: int) -> list[Any]:
    return [*(((kind, ts, tuple(row)),) for kind, ts, *row in events), *[None] * (width - len(events))]


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
