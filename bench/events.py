"""The events that the benchmark feeds: the same ones on every machine, made in numpy.

Event i is made from one 64-bit word: i times an odd constant, mixed so that all bits depend on all bits. No state, so any range can be made alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

KEYS = 1_000
FIRST_MS = 1_700_000_000_000
PER_MS = 100  # events in a millisecond of event time
PIECE = 100_000
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0x3C79AC492BA7B653), np.uint64(0x1C69B3F74AC4AE35))


@dataclass(frozen=True, slots=True)
class Events:
    """Columns of one length: time (`ts`: ms, or µs where events are stamped when sent), number of the key, price in cents, volume."""

    ts: Ints
    key: Ints
    cents: Ints
    vol: Ints

    def __len__(self) -> int:
        return len(self.ts)

    def first(self, count: int) -> Events:
        """The first `count` events."""
        return Events(self.ts[:count], self.key[:count], self.cents[:count], self.vol[:count])


def words(start: int, stop: int, seed: int = 7) -> npt.NDArray[np.uint64]:
    """The words of the events [start, stop).

    >>> bool((words(0, 10)[5:] == words(5, 10)).all())
    True
    """
    z = (np.arange(start, stop, dtype=np.uint64) + np.uint64(seed)) * _STEP
    z = (z ^ (z >> np.uint64(27))) * _MIX[0]
    z = (z ^ (z >> np.uint64(33))) * _MIX[1]
    return z ^ (z >> np.uint64(27))


def make_events(start: int, stop: int, keys: int = KEYS) -> Events:
    """The events [start, stop), `PER_MS` in each millisecond of event time."""
    w = words(start, stop)
    key = (w >> np.uint64(34)) % np.uint64(keys)
    cents = (w & np.uint64(0xFFFFF)) % np.uint64(10_000)
    vol = (w >> np.uint64(20)) % np.uint64(100) + np.uint64(1)
    ts = FIRST_MS + np.arange(start, stop, dtype=np.int64) // PER_MS
    return Events(ts, key.astype(np.int64), cents.astype(np.int64), vol.astype(np.int64))


def messages(events: Events) -> Iterator[bytes]:
    """Each event as the JSON message that the sources of the benchmark read."""
    columns = (events.ts.tolist(), events.key.tolist(), events.cents.tolist(), events.vol.tolist())
    for ts, key, cents, vol in zip(*columns, strict=True):
        yield message(ts, key, cents, vol)


def message(ts: int, key: int, cents: int, vol: int) -> bytes:
    """One event as JSON.

    >>> message(5, 1, 250, 7)
    b'{"event":{"ts":5,"sym":"S1","price":2.5,"vol":7}}'
    """
    return b'{"event":{"ts":%d,"sym":"S%d","price":%s,"vol":%d}}' % (ts, key, repr(cents / 100).encode(), vol)


def write_file(path: Path, count: int) -> Events:
    """Write the first `count` events as JSON lines; -> the events."""
    with path.open("wb") as out:
        for start in range(0, count, PIECE):
            out.write(b"\n".join(messages(make_events(start, min(count, start + PIECE)))) + b"\n")
    return make_events(0, count)
