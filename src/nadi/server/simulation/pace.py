"""When events of a feed are due: a pure reckoning over a clock that somebody else has."""

from __future__ import annotations

from dataclasses import dataclass

GATHER = 0.05
"""Seconds in which events of a fast feed are gathered, so that it writes 20 times a second and not a thousand times."""
MOST = 1_000  # events that are sent together
BEHIND = 1.0
"""Seconds that a feed may be behind its times and still catch up; what is more is lost time."""


@dataclass(slots=True)
class Pace:
    """`interval` lies between two events, `due` is when the next one is, `last` when some were taken; seconds of any one clock.

    >>> pace = Pace(0.25, due=10.0, last=10.0)
    >>> pace.take(10.5), pace.next
    (3, 10.75)
    """

    interval: float
    due: float
    last: float

    def take(self, now: float) -> int:
        """How many events are due; they count as sent."""
        self.last = now
        if self.interval <= 0:
            return MOST
        self.due = max(self.due, now - BEHIND)
        if self.due > now:
            return 0
        count = min(MOST, int((now - self.due) / self.interval) + 1)
        self.due += count * self.interval
        return count

    @property
    def next(self) -> float:
        """When to look again."""
        if self.interval <= 0:
            return self.last
        return self.due if self.interval >= GATHER else max(self.due, self.last + GATHER)

    def resume(self, now: float) -> None:
        """Begin anew after a pause: what would have been due meanwhile is not."""
        self.due = max(self.due, now)
