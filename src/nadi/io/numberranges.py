"""Which of a publisher's numbers were taken, where they may come late, twice, or through several brokers in different orders."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

MOST = 1_000
"""Gaps that are remembered of an incarnation; of more, the first ones count as taken."""


@dataclass(slots=True)
class Gap:
    """Numbers [first, end) that were not taken, though a later one was, at the time `since` (ms); `told` is whether somebody was told."""

    first: int
    end: int
    since: int
    told: bool = False


class NumberRanges:
    """All between the least and the greatest number that came, but for the gaps. What is before the least one was not taken either, but nobody misses it: a
    reader may have begun in the middle.

    >>> ranges = NumberRanges()
    >>> [ranges.take(n, n + 1, time=0) for n in (5, 8, 5, 7, 3, 8, 6, 4)]
    [True, True, False, True, True, False, True, True]
    >>> ranges.plain()
    [3, 9, [], {}]
    """

    __slots__ = ("_gaps", "_high", "_low", "_passed")

    def __init__(self) -> None:
        self._low = self._high = 0  # nothing was taken where they are equal
        self._gaps: list[Gap] = []  # ascending, apart from each other
        self._passed: dict[int, int] = {}  # centre → the end of the greatest numbers that came through it

    def take(self, first: int, end: int, time: int) -> bool:
        """Whether the message with the numbers [first, end) comes for the first time; then they count as taken. It is known by its first number."""
        if self._low == self._high:
            self._low, self._high = first, end
            return True
        if first >= self._high:
            self._open(len(self._gaps), self._high, first, time)
            self._high = end
            return True
        if first < self._low:
            self._fill(first, end)
            if end < self._low:
                self._gaps.insert(0, Gap(end, self._low, time))
            self._low, self._high = first, max(self._high, end)
            return True
        at = self._gap_of(first)
        if at is None:
            return False
        self._fill(first, end)
        self._high = max(self._high, end)
        return True

    def passed(self, centre: int, end: int) -> None:
        """The numbers before `end` that have come through a centre will not come through it any more."""
        self._passed[centre] = max(end, self._passed.get(centre, end))

    def lost(self, now: int, patience: int, centres: int) -> Iterator[tuple[int, int]]:
        """Gaps [first, end) of which nobody was told, and that all of so many centres have passed (0: nobody can tell), or that are `patience` ms old."""
        behind = min(self._passed.values()) if 0 < centres <= len(self._passed) else None
        for gap in self._gaps:
            if not gap.told and ((behind is not None and gap.end <= behind) or now - gap.since >= patience):
                yield gap.first, gap.end

    def told(self, first: int, end: int) -> bool:
        """Somebody is told of these numbers; whether they are still missing, and nobody was told before."""
        news = [gap for gap in self._gaps if first <= gap.first and gap.end <= end and not gap.told]
        for gap in news:
            gap.told = True
        return bool(news)

    def open_since(self) -> int | None:
        """Since when (ms) the oldest gap is there of which nobody was told."""
        return min((gap.since for gap in self._gaps if not gap.told), default=None)

    @property
    def gaps(self) -> int:
        """How many there are."""
        return len(self._gaps)

    def plain(self) -> list[Any]:
        """As plain values.

        >>> NumberRanges.of(NumberRanges().plain()).plain()
        [0, 0, [], {}]
        """
        gaps = [[gap.first, gap.end, gap.since, gap.told] for gap in self._gaps]
        return [self._low, self._high, gaps, dict(self._passed)]

    @staticmethod
    def of(plain: list[Any]) -> NumberRanges:
        """The inverse of `plain`."""
        found = NumberRanges()
        found._low, found._high, gaps, passed = plain
        found._gaps = [Gap(*gap) for gap in gaps]
        found._passed = {int(centre): end for centre, end in passed.items()}
        return found

    def _gap_of(self, number: int) -> int | None:
        """The index of the gap that a number is in."""
        at = bisect_right(self._gaps, number, key=attrgetter("first")) - 1
        return at if at >= 0 and number < self._gaps[at].end else None

    def _open(self, at: int, first: int, end: int, time: int) -> None:
        if first < end:
            self._gaps.insert(at, Gap(first, end, time))
            del self._gaps[: max(0, len(self._gaps) - MOST)]

    def _fill(self, first: int, end: int) -> None:
        """No gap has these numbers any more."""
        at = max(0, bisect_right(self._gaps, first, key=attrgetter("first")) - 1)
        while at < len(self._gaps) and self._gaps[at].first < end:
            gap = self._gaps[at]
            left = [
                Gap(a, b, gap.since, gap.told)
                for a, b in ((gap.first, min(gap.end, first)), (max(gap.first, end), gap.end))
                if a < b
            ]
            self._gaps[at : at + 1] = left
            at += len(left)
