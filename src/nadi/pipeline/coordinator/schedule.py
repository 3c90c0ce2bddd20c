"""Who is to be looked at, and when: a thread sleeps here until somebody rings or somebody's time has come."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Schedule(Generic[T]):
    """Items that ring are given at once, each once however often it rang; an item has at most one time, the last one that was said.

    >>> now = [0.0]
    >>> schedule = Schedule[str](clock=lambda: now[0])
    >>> schedule.at(5.0, "a"); schedule.ring("b"); schedule.ring("b")
    >>> schedule.next(0.0)
    ['b']
    >>> now[0] = 5.0
    >>> schedule.next(0.0), schedule.next(0.0)
    (['a'], [])
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rung: dict[T, None] = {}
        self._times: dict[T, float] = {}
        self._heap: list[tuple[float, int, T]] = []
        self._order = itertools.count()
        self._changed = threading.Condition()

    def ring(self, item: T) -> None:
        """Now."""
        with self._changed:
            self._rung[item] = None
            self._changed.notify()

    def at(self, moment: float, item: T) -> None:
        """At a moment of the clock, unless it rings before."""
        with self._changed:
            self._times[item] = moment
            heapq.heappush(self._heap, (moment, next(self._order), item))
            if self._heap[0][2] == item:
                self._changed.notify()

    def forget(self, item: T) -> None:
        """Not any more."""
        with self._changed:
            self._rung.pop(item, None)
            self._times.pop(item, None)

    def next(self, patience: float | None = None) -> list[T]:
        """Those that rang or whose time has come, once there are any; none after so many seconds."""
        until = None if patience is None else self._clock() + patience
        with self._changed:
            while True:
                found = self._due()
                if found:
                    return found
                now = self._clock()
                ends = [moment for moment in (until, self._heap[0][0] if self._heap else None) if moment is not None]
                if until is not None and now >= until:
                    return []
                self._changed.wait(max(0.0, min(ends) - now) if ends else None)

    def _due(self) -> list[T]:
        found = self._rung
        self._rung = {}
        now = self._clock()
        while self._heap and (self._heap[0][0] <= now or self._times.get(self._heap[0][2]) != self._heap[0][0]):
            moment, _order, item = heapq.heappop(self._heap)
            if self._times.get(item) == moment and moment <= now:
                found[item] = None
        for item in found:
            self._times.pop(item, None)
        return list(found)
