"""Numbers of keys in a block of state: each different one told once, and which of them stands at each place."""

from __future__ import annotations

import numpy as np

from nadi.kernel.columns.jit import loop
from nadi.kernel.columns.stretch import Array


def coded(numbers: Array, room: int) -> tuple[Array, Array]:
    """Numbers below `room` as (the different ones in the order in which they come, the place of each among them).

    >>> [array.tolist() for array in coded(np.array([7, 2, 7]), 8)]
    [[7, 2], [0, 1, 0]]
    """
    codes, found = np.empty(len(numbers), np.int32), np.empty(len(numbers), np.int32)
    count = _code(numbers, np.full(room, -1, np.int32), codes, found)
    return found[:count], codes


@loop
def _code(numbers, seen, codes, found):  # type: ignore[no-untyped-def]
    count = 0
    for i in range(len(numbers)):
        number = numbers[i]
        if seen[number] < 0:
            seen[number] = count
            found[count] = number
            count += 1
        codes[i] = seen[number]
    return count
