"""Numbers of keys in a block of state: each different one told once, and which of them stands at each place."""

from __future__ import annotations

import numpy as np

from nadi.kernel.columns.jit import loop
from nadi.kernel.columns.stretch import Array


def coded(numbers: Array) -> tuple[Array, Array]:
    """Numbers from 0 as (the different ones in the order in which they come, the place of each among them).

    It costs what they are, however many keys there may be: a delta of a few keys of millions is made after each cut.

    >>> [array.tolist() for array in coded(np.array([7, 2, 7]))]
    [[7, 2], [0, 1, 0]]
    """
    codes, found = np.empty(len(numbers), np.int32), np.empty(len(numbers), np.int32)
    slots = np.zeros(2 << len(numbers).bit_length(), np.int32)
    count = _code(numbers, slots, codes, found)
    return found[:count], codes


@loop
def _code(numbers, slots, codes, found):  # type: ignore[no-untyped-def]
    """Open addressing: a slot has a code + 1, 0 where there is none."""
    mask = len(slots) - 1
    count = 0
    for i in range(len(numbers)):
        number = numbers[i]
        at = (number ^ (number >> 11)) & mask
        while slots[at] != 0 and found[slots[at] - 1] != number:
            at = (at + 1) & mask
        if slots[at] == 0:
            found[count] = number
            count += 1
            slots[at] = count
        codes[i] = slots[at] - 1
    return count
