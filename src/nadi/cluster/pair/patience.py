"""Waiting for the partner no longer than a span, on the clock of the node."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from nadi.cluster.contract import Clock
from nadi.eventsync.contract import SessionOver

T = TypeVar("T")


async def within(clock: Clock, ms: int, work: Coroutine[Any, Any, T]) -> T:
    """What the work returns or raises. Errors: SessionOver, where it takes longer."""
    doing = asyncio.ensure_future(work)
    alarm = asyncio.ensure_future(clock.sleep(ms))
    try:
        await asyncio.wait((doing, alarm), return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise SessionOver(f"no answer within {ms} ms")
        return doing.result()
    finally:
        doing.cancel()
        alarm.cancel()
