"""Who waits for a password to be checked: a check takes 64 MB and a core for some 50 ms, and strangers may ask for any number of them.

There is room for a bounded number, and for a few of each address, so that one cannot fill it. Users whose password was right at their address within a day have
as much room of their own. Who finds none hears 503 at once.
"""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

from nadi.server.security.allowances import place

ROOM, OF_ADDRESS = 32, 8
THREADS = 8  # where users are elsewhere, each waits for an answer


class Queue:
    """See the module's text. From any thread."""

    def __init__(self, room: int = ROOM, of_address: int = OF_ADDRESS) -> None:
        self._room = room
        self._of_address = of_address
        self._lock = threading.Lock()
        self._strangers: Counter[str] = Counter()
        self._known: Counter[str] = Counter()

    @cached_property
    def threads(self) -> ThreadPoolExecutor:
        """Where checks run."""
        return ThreadPoolExecutor(THREADS, thread_name_prefix="passwords")

    def take(self, address: str, is_known: bool) -> bool:
        """A place; whether there was one.

        >>> queue = Queue(room=3, of_address=2)
        >>> [queue.take(*who) for who in (("a", False), ("a", False), ("a", False), ("b", False), ("c", False), ("a", True))]
        [True, True, False, True, False, True]
        """
        waiting, of = self._known if is_known else self._strangers, place(address)
        with self._lock:
            if waiting.total() >= self._room or waiting[of] >= self._of_address:
                return False
            waiting[of] += 1
            return True

    def leave(self, address: str, is_known: bool) -> None:
        """It is free again."""
        waiting, of = self._known if is_known else self._strangers, place(address)
        with self._lock:
            waiting[of] -= 1
            if waiting[of] <= 0:
                del waiting[of]
