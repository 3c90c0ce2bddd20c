"""A few groups at a time are worked on in a process: their kernels run, their cuts are made and committed. One that takes long does not hold the others up.

A cut is a hundred calls of the system, each of which lets go of the interpreter. With a hundred groups at it at once each call woke another thread: 20,000
switches a second, and both cores were busy with nothing else. Side by side groups gain only the waits for the disk, for which a few are enough.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

AT_A_TIME = 3
PATIENCE = (
    0.1  # seconds that somebody waits that somebody is at it before it does not count any more, while others wait
)


class Turns:
    """See the module's text. Who is at it for longer than `patience` (seconds) while others wait, as one whose sink is away, goes on without counting.

    >>> Turns().take(lambda x: x + 1, 1)
    2
    """

    def __init__(self, at_a_time: int = AT_A_TIME, patience: float = PATIENCE) -> None:
        self._at_a_time = at_a_time
        self._patience = patience
        self._changed = threading.Condition()
        self._at_it: dict[object, float] = {}  # since when, in the order in which they began

    def take(self, call: Callable[..., T], *given: object) -> T:
        """Call it when it is its turn."""
        mark = object()
        self._begin(mark)
        try:
            return call(*given)
        finally:
            self._end(mark)

    def _begin(self, mark: object) -> None:
        with self._changed:
            while len(self._at_it) >= self._at_a_time:
                longest, since = next(iter(self._at_it.items()))
                left = since + self._patience - time.monotonic()
                if left <= 0:
                    del self._at_it[longest]
                else:
                    self._changed.wait(left)
            self._at_it[mark] = time.monotonic()

    def _end(self, mark: object) -> None:
        with self._changed:
            if self._at_it.pop(mark, None) is not None:
                self._changed.notify()
