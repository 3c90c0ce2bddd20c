"""A heap of due times in flat arrays, the least first: what is to happen next. The order of equal ones means nothing."""

from __future__ import annotations

from nadi.kernel.columns.jit import loop


@loop
def push(due, key, size, time, number):  # type: ignore[no-untyped-def]
    """Put (time, number) into a heap; `size` is an array with how many are in it, and there is room for one more."""
    at = size[0]
    size[0] = at + 1
    while at > 0:
        above = (at - 1) // 2
        if due[above] <= time:
            break
        due[at] = due[above]
        key[at] = key[above]
        at = above
    due[at] = time
    key[at] = number


@loop
def pop(due, key, size):  # type: ignore[no-untyped-def]
    """Take the least one out of a heap that has one."""
    last = size[0] - 1
    size[0] = last
    time, number = due[last], key[last]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= last:
            break
        if below + 1 < last and due[below + 1] < due[below]:
            below += 1
        if time <= due[below]:
            break
        due[at] = due[below]
        key[at] = key[below]
        at = below
    due[at] = time
    key[at] = number


LINES: dict[str, object] = {"push": push, "pop": pop}
"""The names by which generated loops call them."""
