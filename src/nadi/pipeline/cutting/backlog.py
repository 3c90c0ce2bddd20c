"""Bounded cuts of inputs whose times are not known without reading: a few messages are looked at to find where a cut may end.

Without it a cut would either let its clock run past messages that it leaves behind, or give messages an order time that is not theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from nadi.pipeline.cutting.cuts import Place, Waiting, choose_ends

TimeAt = Callable[[Place, int, int], int | None]
"""(partition, position, end) → log time of the first message in [position, end), None where there is none."""
LaterThan = Callable[[Place, int, int], int | None]
"""(partition, time, end) → position of the first message before `end` that is later, `end` where there is none; None where only reading tells."""


def _only_reading_tells(_place: Place, _time: int, _end: int) -> int | None:
    return None


def bounded(
    waiting: Sequence[Waiting], limit: int, time_at: TimeAt, later_than: LaterThan = _only_reading_tells
) -> tuple[tuple[Waiting, ...], int | None]:
    """What a cut of about `limit` messages takes of each partition, and the horizon: the least time of what it leaves behind.

    No partition is taken beyond the horizon, so the clock can stop there; of what is at the horizon itself, partitions behind the one that leaves something
    there take nothing, as kernels see theirs after that. Times within a partition are taken to ascend; where they do not, order times
    are running maxima and at worst capped by the clock.
    """
    shares = choose_ends(waiting, limit).ends
    ends, of = dict(shares), {w.place: w for w in waiting}
    for _ in range(len(of) + 1):
        left = [(t, w.place) for w in waiting if (t := _time(w, ends[w.place], time_at)) is not None]
        if not left:
            return tuple(waiting), None
        horizon, place = min(left)
        cut = {
            w.place: _end_within(w, ends[w.place], horizon - (w.place > place), time_at, later_than) for w in waiting
        }
        room = limit - sum(cut[w.place] - w.start for w in waiting)
        if room <= limit // 2:
            break
        # What holds the others up gets what they may not take: a share by what waits would be less each time, and the end never come.
        ends[place] = min(of[place].end, ends[place] + room)
    if all(cut[w.place] == w.start for w in waiting):
        cut = shares  # everything is at one time
    return tuple(replace(w, end=cut[w.place]) for w in waiting), horizon


def _time(waiting: Waiting, position: int, time_at: TimeAt) -> int | None:
    if position >= waiting.end:
        return None
    if waiting.times is not None and position - waiting.start < len(waiting.times):
        return int(waiting.orders()[position - waiting.start])
    return time_at(waiting.place, position, waiting.end)


def _end_within(waiting: Waiting, end: int, horizon: int, time_at: TimeAt, later_than: LaterThan) -> int:
    """The first position up to `end` from which messages are later than the horizon."""
    if waiting.times is not None:
        return min(end, waiting.start + int(np.searchsorted(waiting.orders(), horizon, side="right")))
    told = later_than(waiting.place, horizon, end)
    if told is not None:
        return max(waiting.start, told)
    low, high = waiting.start, end
    while low < high:
        middle = (low + high) // 2
        found = time_at(waiting.place, middle, end)
        if found is None or found > horizon:
            high = middle
        else:
            low = middle + 1
    return low
