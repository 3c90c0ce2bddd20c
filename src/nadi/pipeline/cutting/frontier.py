"""How far a cut may go where the writers of inputs say how far they have come (`nadi.io.contract.ClockedLog`). Pure.

Arrivals are in the order (order time, input, partition, position). What is still to come from a partition at clock C has at least the order time C. So
everything up to (C, place) is known, where C is the least clock, and place the first partition that has it: no more may be taken, or it would depend on who is
late. That goes for inputs beside them, too, whose writers say nothing: a message that is later than the frontier waits for it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from nadi.pipeline.cutting.cuts import Place, Waiting

TimeAt = Callable[[Place, int, int], int | None]
"""(partition, position, end) → log time of the first message in [position, end), None where there is none."""
LaterThan = Callable[[Place, int, int], int | None]
"""(partition, time, end) → position of the first message before `end` that is later, `end` where there is none."""


@dataclass(frozen=True, slots=True)
class Frontier:
    """Everything up to `place` at order time `time` (ms) is known; after that, nothing is."""

    time: int
    place: Place

    def time_of(self, place: Place) -> int:
        """Up to which order time a partition may be taken.

        >>> frontier = Frontier(100, (0, 1))
        >>> [frontier.time_of((0, p)) for p in range(3)]
        [100, 100, 99]
        """
        return self.time if place <= self.place else self.time - 1


def frontier_of(clocks: Mapping[Place, int | None]) -> Frontier | None:
    """The frontier of partitions with these clocks (None: nothing comes any more); None where nothing bounds a cut.

    >>> frontier_of({(0, 0): 120, (0, 1): 100, (1, 0): None, (1, 1): 100})
    Frontier(time=100, place=(0, 1))
    """
    known = [(clock, place) for place, clock in clocks.items() if clock is not None]
    return Frontier(*min(known)) if known else None


def within(
    waiting: Sequence[Waiting], frontier: Frontier, clocks: Mapping[Place, int | None], later_than: LaterThan
) -> list[Waiting]:
    """What waits, without what lies behind the frontier; partitions without a clock keep all."""
    found = []
    for w in waiting:
        if w.place in clocks and w.end > w.start:
            told = later_than(w.place, frontier.time_of(w.place), w.end)
            w = w if told is None else replace(w, end=max(w.start, told))
        found.append(w)
    return found


def beside(waiting: Waiting, frontier: Frontier, wall: int, most: int, time_at: TimeAt) -> Waiting:
    """What waits in a partition without a clock, without what lies behind the frontier.

    Only the next `most` messages are looked at. Times after `wall`, the machine's clock (ms), are wrong, and nothing waits for them; times within a partition
    are taken to ascend.

    >>> times = [100, 110, 120, 130]
    >>> look = lambda _place, position, end: times[position] if position < end else None
    >>> [beside(Waiting((0, 0), 0, 4), Frontier(time, (1, 0)), 150, 10, look).end for time in (90, 110, 115, 130)]
    [0, 2, 2, 4]
    >>> beside(Waiting((0, 0), 0, 4), Frontier(90, (1, 0)), 95, 10, look).end
    4
    """
    time, stop = frontier.time_of(waiting.place), min(waiting.end, waiting.start + most)

    def is_later(position: int) -> bool:
        found = time_at(waiting.place, position, stop)
        return found is None or found > time

    if stop == waiting.start or not is_later(stop - 1):
        return waiting
    first = bisect_left(range(waiting.start, stop), True, key=is_later) + waiting.start
    found = time_at(waiting.place, first, stop)
    return waiting if found is None or found > wall else replace(waiting, end=first)
