"""How many bytes of a source's events are in the journal and not processed yet, so that a sender is held up before the disk is full."""

from __future__ import annotations

import threading
from collections import deque


class Backlog:
    """Of one source, as the process knows it that writes its journal and runs its app. `most` bytes may wait; 0: as many as there is room for.

    What a process before this one has appended counts as much as what this one appends, event for event. Used by any thread.

    >>> backlog = Backlog(100)
    >>> backlog.appended(0, 2, 80)
    >>> backlog.admits(30)
    False
    >>> backlog.processed(1), backlog.admits(30)
    (None, True)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._groups: deque[tuple[int, int, int]] = deque()  # (first, end, bytes), of this process
        self._bytes = 0
        self._begun: int | None = None  # the first event of this process
        self._done = -1  # the first event that is not processed; -1: nobody knows
        self._events = self._all = 0  # what this process has appended altogether: events, bytes

    def admits(self, size: int) -> bool:
        """Whether so many bytes more may wait. Where nothing waits, any message may."""
        if self._most <= 0:
            return True
        with self._lock:
            waiting = self._waiting()
            return not waiting or waiting + size <= self._most

    def appended(self, first: int, count: int, size: int) -> None:
        """Events are in the journal."""
        with self._lock:
            if self._begun is None:
                self._begun = first
            self._events += count
            self._all += size
            if first + count > self._done:
                self._groups.append((first, first + count, size))
                self._bytes += size

    def processed(self, position: int) -> None:
        """The app is done with all events before a position."""
        with self._lock:
            self._done = max(self._done, position)
            while self._groups and self._groups[0][1] <= self._done:
                self._bytes -= self._groups.popleft()[2]

    def _waiting(self) -> int:
        """Bytes: of what is begun, the part that is left; of what stood there before, by the average."""
        waiting = self._bytes
        if self._groups and self._groups[0][0] < self._done:
            first, end, size = self._groups[0]
            waiting -= size * (self._done - first) // (end - first)
        if self._begun is not None and 0 <= self._done < self._begun and self._events:
            waiting += (self._begun - self._done) * self._all // self._events
        return waiting
