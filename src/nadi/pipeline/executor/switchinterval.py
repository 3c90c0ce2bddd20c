"""How soon a thread of a host that waits for the interpreter asks the one that has it to let go.

With Python's 5 ms a request of another app waits 6 ms and more beside a thread that computes, and again after each call that lets go of the interpreter; with
0.5 ms it is 1 ms, and what the other thread computes in a second stays the same. But each of those that wait asks by itself: with 50 apps at work 0.5 ms made
100,000 wake-ups a second, which took two thirds of both cores. So the more apps are at work, the longer each of them waits before it asks.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SWITCH = 0.0005  # seconds, for each app at work


class SwitchInterval:
    """Keeps the switch interval of this process at SWITCH for each app at work.

    >>> import sys
    >>> before = sys.getswitchinterval()
    >>> interval = SwitchInterval()
    >>> with interval.during(), interval.during():
    ...     round(sys.getswitchinterval(), 4)
    0.001
    >>> round(sys.getswitchinterval(), 4)
    0.0005
    >>> sys.setswitchinterval(before)
    """

    def __init__(self) -> None:
        self._at_work = 0
        self._lock = threading.Lock()
        self._set()

    @contextmanager
    def during(self) -> Iterator[None]:
        """One more app is at work."""
        self._change(1)
        try:
            yield
        finally:
            self._change(-1)

    def _change(self, by: int) -> None:
        with self._lock:
            self._at_work += by
            self._set()

    def _set(self) -> None:
        sys.setswitchinterval(SWITCH * max(1, self._at_work))
