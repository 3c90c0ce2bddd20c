"""Wrong passwords are counted by user and address, and by address alone; after some of them the next attempt has to wait.

A user who is tried from one address waits longer each time. An address that tries one password on many users has an allowance of wrong ones; who has come with
the right password from there within a day is not held up by the others.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from nadi.server.security.allowances import Allowance
from nadi.server.security.queue import Queue

FREE = 5  # wrong passwords in a row that cost nothing
FIRST, LONGEST = 1.0, 60.0  # seconds that the one after has to wait, and at most; each time twice as long
FORGOTTEN = 900.0  # seconds without an attempt
REMEMBERED = 10_000  # names and addresses
OF_ADDRESS = 100  # wrong passwords of an address in a quarter of an hour
KNOWN_FOR = 86_400.0  # seconds in which a user is known at an address after a right password


@dataclass(slots=True)
class _Count:
    wrong: int = 0
    until: float = 0.0
    seen: float = 0.0


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt that may be made where `wait` is 0; else after so many seconds."""

    user: str
    address: str
    wait: float
    is_known: bool = False


class Attempts:
    """See the module's text. From any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, of_address: int = OF_ADDRESS) -> None:
        """`of_address` 0: addresses are not counted."""
        self._clock = clock
        self._counts: OrderedDict[str, _Count] = OrderedDict()
        self._known: OrderedDict[str, float] = OrderedDict()
        self._addresses = Allowance(of_address, clock)
        self.queue = Queue()
        self._lock = threading.Lock()

    def is_known(self, user: str, address: str) -> bool:
        """Whether a user's password was right at an address within a day."""
        with self._lock:
            return self._known.get(_key(user, address), 0.0) > self._clock()

    def begin(self, user: str, address: str) -> Attempt:
        """An attempt, to be ended by `end` or `leave` where it may be made.

        >>> attempts = Attempts(lambda: 0.0)
        >>> for _ in range(6): attempts.end(attempts.begin("admin", "10.0.0.1"), right=False)
        >>> [attempts.begin(*who).wait for who in (("admin", "10.0.0.1"), ("admin", "10.0.0.2"), ("other", "10.0.0.1"))]
        [1.0, 0.0, 0.0]
        """
        key, now = _key(user, address), self._clock()
        with self._lock:
            count = self._counts.get(key)
            wait = 0.0 if count is None else max(0.0, count.until - now)
            is_known = self._known.get(key, 0.0) > now
        if wait == 0.0 and not is_known:
            # taken before it is known to be wrong: those who try at the same time would all see the same count
            wait = self._addresses.take(address)
        return Attempt(user, address, wait, is_known)

    def end(self, attempt: Attempt, right: bool) -> None:
        """An attempt was made."""
        now, key = self._clock(), _key(attempt.user, attempt.address)
        if right:
            self.leave(attempt)
        with self._lock:
            if right:
                self._counts.pop(key, None)
                self._known[key] = now + KNOWN_FOR
                self._known.move_to_end(key)
                while len(self._known) > REMEMBERED:
                    self._known.popitem(last=False)
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

    def leave(self, attempt: Attempt) -> None:
        """Nobody could say whether the password was right; or it was."""
        if not attempt.is_known:
            self._addresses.give_back(attempt.address)


def _key(user: str, address: str) -> str:
    """A user and an address together: by the user alone, anybody could lock somebody else out."""
    return f"{address}\0{user}"
