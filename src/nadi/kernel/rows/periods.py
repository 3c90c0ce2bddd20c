"""Periods of one length that follow each other, as batches of a time have them. Times are in ms."""

from __future__ import annotations

from nadi.functions.arithmetic import remainder_ints


def end_after(now: int, start: int, period: int) -> int:
    """The end of the period that `now` is in, where one begins at `start`. As in Java: before `start` it is the end after next.

    >>> end_after(12, 0, 10), end_after(20, 0, 10), end_after(7, 7, 10), end_after(-3, 0, 10)
    (20, 30, 17, 10)
    """
    return now + period - remainder_ints(now - start, period)


def next_end(end: int, now: int, period: int) -> int:
    """The first end of periods after `now`, of which one `end` is not after it.

    >>> next_end(20, 20, 10), next_end(20, 29, 10), next_end(20, 30, 10)
    (30, 30, 40)
    """
    return end + ((now - end) // period + 1) * period
