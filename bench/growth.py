"""How fast an output grew, from outside: when so many of its rows were there, and so how many events a second were taken. Pure but for the watch."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt

from bench.events import Ints

LOOK = 0.005  # seconds between two looks at the size of a file
BATCH_EVENTS, BATCHES = 100_000, 20
WARM_SHARE = 0.3  # of the events: those that do not count, as Spark and Java get warm
Point = tuple[float, int]
"""When (s), and how many events had been taken."""


class FileGrowth:
    """Notes when a file had which size, in a thread, for the time of a block; a file that is not there has size 0."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.samples: list[tuple[float, int]] = []

    def __enter__(self) -> FileGrowth:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
        self._look()

    def _watch(self) -> None:
        while not self._over.wait(LOOK):
            self._look()

    def _look(self) -> None:
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            return
        if size and (not self.samples or size != self.samples[-1][1]):
            self.samples.append((time.monotonic(), size))


def line_ends(data: bytes) -> Ints:
    """The position behind each line.

    >>> line_ends(b"ab" + bytes([10]) + b"c" + bytes([10])).tolist()
    [3, 5]
    """
    return np.flatnonzero(np.frombuffer(data, np.uint8) == 10).astype(np.int64) + 1


def points(times: Sequence[float], rows: npt.ArrayLike, row_ts: Ints, event_ts: Ints) -> list[Point]:
    """When how many events had been taken: at each of `times` so many `rows` of the output were there, and a row is of its event's time or earlier.

    >>> points([1.0, 2.0], [1, 3], np.array([5, 9, 7]), np.array([4, 5, 6, 9, 10]))
    [(1.0, 2), (2.0, 4)]
    """
    reached = np.maximum.accumulate(row_ts)
    counts = np.asarray(rows, np.int64)
    inside = (counts > 0) & (counts <= len(reached))
    taken = np.searchsorted(event_ts, reached[counts[inside] - 1], side="right")
    return [(float(t), int(n)) for t, n in zip(np.asarray(times, float)[inside], taken, strict=True)]


def batch_events(count: int) -> int:
    """A bound for batches that leaves enough of them to see how fast they follow each other.

    >>> batch_events(2_000_000), batch_events(50_000)
    (100000, 2500)
    """
    return max(100, min(BATCH_EVENTS, count // BATCHES))


def steady_rate(found: Sequence[Point], count: int) -> float:
    """Events a second from the first point behind the warm-up to the last one, of `count` events; 0 where there are no two such points.

    >>> steady_rate([(0.0, 100), (1.0, 400), (2.0, 800), (3.0, 1000)], 1000)
    300.0
    """
    warm = [p for p in found if p[1] >= WARM_SHARE * count] or list(found)
    if len(warm) < 2 or warm[-1][0] <= warm[0][0]:
        return 0.0
    return (warm[-1][1] - warm[0][1]) / (warm[-1][0] - warm[0][0])
