"""A heap of the ends of sessions in flat arrays: by the time at which an end is looked at, the end itself, and the number of the session."""

from __future__ import annotations

import numpy as np

from nadi.kernel.columns.jit import loop
from nadi.kernel.columns.stretch import Array, Longs

NAMES = ("watch", "watch_end", "watch_rank", "watch_key", "watch_size")
"""How generated loops call the arrays; the last one has how many are in it."""


@loop
def _earlier(time, end, rank, other, other_end, other_rank):  # type: ignore[no-untyped-def]
    if time != other:
        return time < other
    return end < other_end or (end == other_end and rank < other_rank)


@loop
def _move(watch, ends, ranks, keys, to, at):  # type: ignore[no-untyped-def]
    watch[to] = watch[at]
    ends[to] = ends[at]
    ranks[to] = ranks[at]
    keys[to] = keys[at]


@loop
def push_watch(watch, ends, ranks, keys, size, time, end, rank, key):  # type: ignore[no-untyped-def]
    """Put one in; there is room for it."""
    at = size[0]
    size[0] = at + 1
    while at > 0:
        above = (at - 1) // 2
        if not _earlier(time, end, rank, watch[above], ends[above], ranks[above]):
            break
        _move(watch, ends, ranks, keys, at, above)
        at = above
    watch[at] = time
    ends[at] = end
    ranks[at] = rank
    keys[at] = key


@loop
def pop_watch(watch, ends, ranks, keys, size):  # type: ignore[no-untyped-def]
    """Take the first one out of a heap that has one."""
    last = size[0] - 1
    size[0] = last
    time, end, rank, key = watch[last], ends[last], ranks[last], keys[last]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= last:
            break
        other = below + 1
        if other < last and _earlier(watch[other], ends[other], ranks[other], watch[below], ends[below], ranks[below]):
            below = other
        if not _earlier(watch[below], ends[below], ranks[below], time, end, rank):
            break
        _move(watch, ends, ranks, keys, at, below)
        at = below
    watch[at] = time
    ends[at] = end
    ranks[at] = rank
    keys[at] = key


def watches(times: Array, ends: Array, ranks: Array, keys: Array, room: int) -> tuple[Longs, ...]:
    """The arrays with some entries, and room for so many."""
    order = np.lexsort((ranks, ends, times))  # what is sorted is a heap
    made = [np.zeros(max(room, len(times)), np.int64) for _ in range(4)]
    for array, given in zip(made, (times, ends, ranks, keys), strict=True):
        array[: len(order)] = given[order]
    return (*made, np.array([len(order)], np.int64))


LINES: dict[str, object] = {"push_watch": push_watch, "pop_watch": pop_watch}
"""The names by which generated loops call them."""
