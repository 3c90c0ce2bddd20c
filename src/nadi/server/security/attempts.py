"""Wrong passwords are counted by user and by address; after a few of them the next attempt has to wait, longer each time."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

FREE = 5  # wrong passwords in a row that cost nothing
FIRST, LONGEST = 1.0, 60.0  # seconds that the one after has to wait, and at most; each time twice as long
FORGOTTEN = 900.0  # seconds without an attempt
REMEMBERED = 10_000  # names and addresses


@dataclass(slots=True)
class _Count:
    wrong: int = 0
    until: float = 0.0
    seen: float = 0.0


class Attempts:
    """See the module's text."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: OrderedDict[str, _Count] = OrderedDict()
        self._lock = threading.Lock()

    def wait(self, user: str, address: str) -> float:
        """Seconds until this user may be tried again from this address; 0: now.

        >>> attempts = Attempts(lambda: 0.0)
        >>> for _ in range(6): attempts.note("admin", "10.0.0.1", right=False)
        >>> attempts.wait("admin", "10.0.0.1"), attempts.wait("admin", "10.0.0.2"), attempts.wait("other", "10.0.0.2")
        (1.0, 0.0, 0.0)
        """
        with self._lock:
            count = self._counts.get(_key(user, address))
            return 0.0 if count is None else max(0.0, count.until - self._clock())

    def note(self, user: str, address: str, right: bool) -> None:
        """An attempt was made."""
        now, key = self._clock(), _key(user, address)
        with self._lock:
            if right:
                self._counts.pop(key, None)
                return
            count = self._counts.setdefault(key, _Count())
            if now - count.seen > FORGOTTEN:
                count.wrong = 0
            count.wrong, count.seen = count.wrong + 1, now
            if count.wrong > FREE:
                count.until = now + min(LONGEST, FIRST * 2 ** min(count.wrong - FREE - 1, 10))
            self._counts.move_to_end(key)
            while len(self._counts) > REMEMBERED:
                self._counts.popitem(last=False)


def _key(user: str, address: str) -> str:
    """A user and an address together: by the user alone, anybody could lock somebody else out."""
    return f"{address}\0{user}"
