"""Epochs of runs. Where the leader of a cluster gives instances out, the epoch that it gave one with (its owner) is the upper part of those of its runs:
who was given an instance later wins against every run of who had it before, however often that one starts again."""

from __future__ import annotations

from nadi.errors import error

RUNS = 20  # bits for the runs of one owner: with the longest pauses between them these are a year


def next_epoch(app: str, current: int, owner: int = 0) -> int:
    """The epoch of a run that begins, after `current`.

    Errors: CUT_FENCED where a later owner has run it already.

    >>> next_epoch("A", 4), next_epoch("A", 0, owner=2) == 2 << RUNS, next_epoch("A", (2 << RUNS) + 5, owner=2) == (2 << RUNS) + 6
    (5, True, True)
    """
    if owner and current >> RUNS > owner:
        raise error("CUT_FENCED", app=app, current=current, epoch=owner << RUNS)
    return max(current + 1, owner << RUNS)
