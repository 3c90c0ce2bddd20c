"""What the passive node has in its log and not yet in its services: which records are settled, and which may be written next. Pure.

A record is *settled* when the active node has confirmed it. Settled records of a lane are written in their order. One that is not settled holds up those behind
it in its lane, as it may have been written before them. That another record for the same place was confirmed says that this one never was.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from nadi.eventsync.places import weight_of
from nadi.eventsync.segments import Span


@dataclass(slots=True, eq=False)
class Held:
    """A record in the log. `presumed`: nobody has said what became of it, and a take-over has settled it."""

    number: int
    span: Span
    lane: Hashable
    place: Hashable | None
    settled: bool = False
    presumed: bool = False

    @property
    def weight(self) -> int:
        return weight_of(self.span.length)


class Backlog:
    """In the order of the log."""

    def __init__(self) -> None:
        self._held: dict[int, Held] = {}
        self._lanes: dict[Hashable, deque[Held]] = {}
        self._open: dict[Hashable, list[Held]] = {}  # what is not settled, by its place
        self._segments: Counter[int] = Counter()
        self.weight = 0
        self.done = 0  # the weight of all that is not held any more

    def __len__(self) -> int:
        return len(self._held)

    def add(self, held: Held) -> None:
        """A record is in the log."""
        self._held[held.number] = held
        self._lanes.setdefault(held.lane, deque()).append(held)
        self._segments[held.span.segment] += 1
        self.weight += held.weight
        if held.place is not None:
            self._open.setdefault(held.place, []).append(held)

    def confirm(self, numbers: Iterable[int]) -> set[Hashable]:
        """The active node has these. -> the lanes in which something may be written now. Numbers that are not held mean nothing."""
        lanes = set()
        for number in numbers:
            held = self._held.get(number)
            if held is not None and not held.settled:
                held.settled = True
                lanes.add(held.lane)
                self._replace(held)
        return lanes

    def abandon(self, numbers: Iterable[int]) -> set[Hashable]:
        """The active node will never have these. -> as `confirm`."""
        lanes = set()
        for number in numbers:
            held = self._held.get(number)
            if held is not None and not held.settled:
                lanes.add(held.lane)
                self._close(held)
                self._drop(held)
        return lanes

    def done_with(self, numbers: Iterable[int]) -> None:
        """These are in their service."""
        for number in numbers:
            held = self._held.get(number)
            if held is not None:
                if not held.settled:  # its mark was lost with the end of the log
                    self._close(held)
                self._drop(held)

    def settle(self) -> None:
        """Nobody will say any more what became of the rest: all is to be written but what a later record for the same place replaces."""
        for held in [each for each in self._held.values() if not each.settled]:
            if held.place is None or self._open[held.place][-1] is held:
                held.settled = held.presumed = True
                self._replace(held)

    def next_of(self, lane: Hashable) -> Held | None:
        """What is to be written next in a lane; None where that is nothing, or not settled."""
        waiting = self._lanes.get(lane)
        while waiting and self._held.get(waiting[0].number) is not waiting[0]:
            waiting.popleft()
        if not waiting:
            self._lanes.pop(lane, None)
            return None
        return waiting[0] if waiting[0].settled else None

    def all(self) -> list[Held]:
        """What is held, in the order of the log."""
        return list(self._held.values())

    def lanes(self) -> list[Hashable]:
        """Those in which something is held."""
        return list(self._lanes)

    def oldest(self, last: int) -> int:
        """The first segment that is still needed; `last` is the newest."""
        return min(self._segments, default=last)

    def _replace(self, held: Held) -> None:
        """It is settled: what was before it for its place never came to be."""
        if held.place is None:
            return
        others = self._open.pop(held.place)
        at = others.index(held)
        for other in others[:at]:
            self._drop(other)
        if later := others[at + 1 :]:
            self._open[held.place] = later

    def _close(self, held: Held) -> None:
        if held.place is not None:
            others = self._open[held.place]
            others.remove(held)
            if not others:
                del self._open[held.place]

    def _drop(self, held: Held) -> None:
        del self._held[held.number]
        self._segments[held.span.segment] -= 1
        if not self._segments[held.span.segment]:
            del self._segments[held.span.segment]
        self.weight -= held.weight
        self.done += held.weight
