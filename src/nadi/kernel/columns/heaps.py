"""A heap of due times in flat arrays, the least first, of equal ones that of the least rank: what is to happen next."""

from __future__ import annotations

import numpy as np

from nadi.kernel.columns.jit import loop
from nadi.kernel.columns.stretch import Array, Longs

NAMES = ("due", "due_rank", "due_key", "due_size")
"""How generated loops call the arrays of a heap; the last one has how many are in it."""


@loop
def push(due, rank, key, size, time, place, number):  # type: ignore[no-untyped-def]
    """Put (time, place, number) into a heap; there is room for one more."""
    at = size[0]
    size[0] = at + 1
    while at > 0:
        above = (at - 1) // 2
        if due[above] < time or (due[above] == time and rank[above] <= place):
            break
        due[at] = due[above]
        rank[at] = rank[above]
        key[at] = key[above]
        at = above
    due[at] = time
    rank[at] = place
    key[at] = number


@loop
def pop(due, rank, key, size):  # type: ignore[no-untyped-def]
    """Take the least one out of a heap that has one."""
    last = size[0] - 1
    size[0] = last
    time, place, number = due[last], rank[last], key[last]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= last:
            break
        other = below + 1
        if other < last and (due[other] < due[below] or (due[other] == due[below] and rank[other] < rank[below])):
            below = other
        if time < due[below] or (time == due[below] and place <= rank[below]):
            break
        due[at] = due[below]
        rank[at] = rank[below]
        key[at] = key[below]
        at = below
    due[at] = time
    rank[at] = place
    key[at] = number


def heap(dues: Array, ranks: Array, keys: Array, room: int) -> tuple[Longs, ...]:
    """The arrays of a heap of some entries, with room for so many."""
    order = np.lexsort((ranks, dues))  # what is sorted is a heap
    made = [np.zeros(max(room, len(dues)), np.int64) for _ in range(3)]
    for array, given in zip(made, (dues, ranks, keys), strict=True):
        array[: len(order)] = given[order]
    return (*made, np.array([len(order)], np.int64))


LINES: dict[str, object] = {"push": push, "pop": pop}
"""The names by which generated loops call them."""

NEXT_DUE = (
    "f = due[0]",
    "g = due_key[0]",
    "pop(due, due_rank, due_key, due_size)",
    "if f != fired:",
    "    fired = f",
    "    turn += 1",
)
"""The lines that take the first entry: its time is `f`, its key `g`. Entries of one time have the same `turn`."""
