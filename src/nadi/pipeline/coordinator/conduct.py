"""How a group behaves towards those that it shares hosts with: what decides whether it gets hosts of its own, and when it comes back.

late     a cut cost more than BOUND seconds of the processor, or of waiting for its sinks
crash    a host died while a cut of the group was under way in it. If its kernel computed at that moment, it is suspected at once: whoever is wrongly so has
         only moved, and who has the host die does that to its neighbours no second time. Otherwise one is not enough
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

BOUND = 0.2  # seconds: how long a batch of several groups waits for one of them
WINDOW = 60.0  # seconds in which late cuts are counted
LATE_CUTS = 5  # so many in the window, …
LATE_SECONDS = 10.0  # … or so many seconds of them altogether
CRASHES = 2  # within
CRASHED_WITHIN = 600.0  # seconds
SLOWER = 4.0  # times as long as before may a cut take, once one was tried without finding anything
GOOD_FOR = 300.0  # seconds without either, after which a group may come back


class Conduct:
    """Of one group, over all its runs. Times are seconds of one clock. Used from several threads.

    >>> conduct = Conduct()
    >>> for second in range(5):
    ...     conduct.cut(100.0 + second, 0.3)
    >>> conduct.offends(105.0), conduct.offends(161.0), conduct.is_good(161.0), conduct.is_good(405.0)
    (True, False, False, True)
    >>> conduct.crash(500.0); conduct.offends(500.0)
    False
    >>> conduct.crash(900.0); conduct.offends(900.0), conduct.has_crashed(900.0), conduct.is_good(1090.0), conduct.is_good(1201.0)
    (True, True, False, True)
    """

    def __init__(self) -> None:
        self._late: deque[tuple[float, float]] = deque()
        self._crashes: deque[float] = deque()
        self._last = self._before = float("-inf")
        self._suspected = False
        self._deaths = (-1, 0)
        self._tried = -1
        self.patience = 1.0
        self._suspect: tuple[Any, ...] = ()
        self._lock = threading.Lock()

    def cut(self, now: float, seconds: float) -> None:
        """A cut was done now that has cost so much."""
        if seconds > BOUND:
            with self._lock:
                self._late.append((now, seconds))
                self._last = now

    def crash(self, now: float, computed: bool = False) -> None:
        """A host has died with it; where its kernel computed just then, once is enough."""
        with self._lock:
            self._crashes.append(now)
            self._suspected |= computed
            self._last, self._before = now, self._last

    # ---- the cut that it dies of

    def die(self, cut: int, times: int = 1) -> None:
        """A host has died with this cut of it under way; it counts so many times."""
        with self._lock:
            died = self._deaths[1] if self._deaths[0] == cut else 0
            self._deaths = cut, died + times

    def tries(self, cut: int) -> bool:
        """Whether the cut is to be tried message by message: hosts have died of it, and it is not known that no message by itself does that.

        >>> conduct = Conduct()
        >>> conduct.die(7); conduct.tries(7)
        False
        >>> conduct.die(7); conduct.tries(7), conduct.tries(8)
        (True, False)
        >>> conduct.tried(7); conduct.tries(7)
        False
        """
        return self._deaths[0] == cut and self._deaths[1] >= CRASHES and self._tried != cut

    def tried(self, cut: int) -> None:
        """No host died of a message of it. So the app is one that takes long, and its next cuts have more time before they are tried, too.

        >>> conduct = Conduct()
        >>> conduct.tried(7); conduct.tried(8); conduct.patience
        16.0
        """
        self._tried = cut
        self.patience *= SLOWER

    def has_tried(self, cut: int) -> bool:
        """Whether that is known of it."""
        return self._tried == cut

    def suspects(self, message: tuple[Any, ...]) -> bool:
        """A host has died while it tried this message and nothing else computed in it; whether the last one did so, too. Who kills a host from outside meets
        one message once, not twice in a row.

        >>> conduct = Conduct()
        >>> [conduct.suspects((7, (0, 0), n)) for n in (3, 4, 4)]
        [False, False, True]
        """
        with self._lock:
            again, self._suspect = self._suspect == message, message
            return again

    def begin_anew(self) -> None:
        """A message of the cut was set aside."""
        with self._lock:
            self._deaths = -1, 0

    # ---- whether it is served apart

    def offends(self, now: float) -> bool:
        """Whether it exceeds the bounds again and again."""
        return self.has_crashed(now) or self._is_late(now)

    def has_crashed(self, now: float) -> bool:
        """Whether it is suspected to have its hosts die."""
        with self._lock:
            while self._crashes and self._crashes[0] <= now - CRASHED_WITHIN:
                self._crashes.popleft()
            return self._suspected or len(self._crashes) >= CRASHES

    def done(self, cut: int) -> None:
        """A cut was done. If it is the one that the only crash of late is of, that was not its fault.

        >>> conduct = Conduct()
        >>> conduct.die(7); conduct.crash(100.0, computed=True); conduct.has_crashed(100.0)
        True
        >>> conduct.done(7); conduct.has_crashed(100.0), conduct.is_good(100.0)
        (False, True)
        """
        if not self._suspected:
            return
        with self._lock:
            self._suspected = False
            if len(self._crashes) == 1 and self._deaths[0] == cut:
                self._last = self._before

    def _is_late(self, now: float) -> bool:
        with self._lock:
            while self._late and self._late[0][0] <= now - WINDOW:
                self._late.popleft()
            return len(self._late) >= LATE_CUTS or sum(seconds for _, seconds in self._late) >= LATE_SECONDS

    def is_good(self, now: float) -> bool:
        """Whether it has behaved for long."""
        return now - self._last >= GOOD_FOR and not self.offends(now)
