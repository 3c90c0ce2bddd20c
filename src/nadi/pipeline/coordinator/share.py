"""How much of a core a group has taken lately: what decides whether it may share a query with others."""

from __future__ import annotations

from collections import deque

WINDOW = 10.0  # seconds that a share is about
BUSY = 0.4  # of a core: above it a group gets a query of its own …
CALM = 0.1  # … and below it, for so long:
CALM_FOR = 60.0  # seconds, it comes back


class Share:
    """The work of one group: when a cut was done, and how long its hosts worked on it. Times are seconds of one clock.

    >>> share = Share(begun=0.0)
    >>> share.add(4.0, 3.0); share.add(9.0, 3.0)
    >>> share.of(9.5), share.is_busy(10.0), share.of(14.5)
    (0.6, True, 0.3)
    """

    def __init__(self, begun: float) -> None:
        self._begun = begun
        self._done: deque[tuple[float, float]] = deque()
        self._last_busy = begun

    def add(self, now: float, worked: float) -> None:
        """A cut was done now, after so many seconds of work."""
        self._done.append((now, worked))
        self._forget(now)
        if self.of(now) >= CALM:
            self._last_busy = now

    def of(self, now: float) -> float:
        """The share of one core."""
        self._forget(now)
        return sum(worked for _, worked in self._done) / WINDOW

    def is_busy(self, now: float) -> bool:
        """Whether it needs a query of its own: not before it was seen for a whole window."""
        return now - self._begun >= WINDOW and self.of(now) >= BUSY

    def is_calm(self, now: float) -> bool:
        """Whether it has been quiet for long."""
        return now - self._last_busy >= CALM_FOR

    def _forget(self, now: float) -> None:
        while self._done and self._done[0][0] <= now - WINDOW:
            self._done.popleft()
