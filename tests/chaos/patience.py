"""Waiting for what nobody rings for, while nodes die."""

from __future__ import annotations

import time
from collections.abc import Callable

import httpx
from nodes import Late

LOOK = 0.1  # seconds between two looks


def until(
    holds: Callable[[], object], seconds: float, what: str, check: Callable[[], None], said: Callable[[], str]
) -> None:
    """Wait until something holds; what is away while we look is asked again. `check` raises where it is no use to go on, `said` is what the nodes have said.

    Errors: Late, those of `check`.
    """
    end, reason = time.monotonic() + seconds, ""
    while True:
        try:
            if holds():
                return
            reason = ""
        except (httpx.HTTPError, OSError) as away:
            reason = repr(away)
        check()
        if time.monotonic() > end:
            raise Late(f"{what}: not within {seconds:.0f} s {reason}\n{said()}")
        time.sleep(LOOK)
