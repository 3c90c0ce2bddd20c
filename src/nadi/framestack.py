"""Room for Python's frames, for what makes many calls.

Python takes memory for frames in pieces of 16 KB (`DATA_STACK_CHUNK_SIZE` of CPython 3.11 to 3.13), and gives a piece back to the system as soon as its
first frame returns. Where the end of a piece falls into a loop, each call of that loop asks the system for memory anew: rows of the same app then take up to
five times as long, and whether they do depends on how many calls deep the loop happens to be (docs/internals/performance.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_WORDS = 70_000
"""Of eight bytes. The piece of a frame so large is the next power of two, 1 MB; what is left of it is for those that it calls. Memory that nobody touches is
none."""


def with_room(call: Callable[[], T]) -> T:
    """What `call` gives. It and all that it calls, some thousands of frames, are in one piece of memory. To begin takes some ten microseconds.

    >>> with_room(lambda: 6 * 7)
    42
    """
    return call()


with_room.__code__ = with_room.__code__.replace(co_stacksize=_WORDS)
