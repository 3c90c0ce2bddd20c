"""Waiting for a sign with a limit, on the clock of the node."""

from __future__ import annotations

import asyncio

from nadi.cluster.contract import Clock


class Bell:
    """Rings for one waiter. A ring that nobody waits for is kept: one, however often it rang."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rung = asyncio.Event()

    def ring(self) -> None:
        self._rung.set()

    async def heard(self, within: int | None = None) -> bool:
        """Wait for a ring, for `within` ms at most. Whether it rang."""
        if within is not None and not self._rung.is_set():
            alarm = asyncio.ensure_future(self._ring_late(within))
            try:
                await self._rung.wait()
            finally:
                alarm.cancel()
            late = alarm.done() and not alarm.cancelled() and alarm.exception() is None
            self._rung.clear()
            return not late
        await self._rung.wait()
        self._rung.clear()
        return True

    async def _ring_late(self, within: int) -> None:
        await self._clock.sleep(max(0, within))
        self._rung.set()
