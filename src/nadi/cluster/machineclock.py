"""The clock of this machine, as leases need it."""

from __future__ import annotations

import asyncio
import time

_CLOCK = getattr(
    time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC
)  # BOOTTIME goes on during suspension; systems without it have none to fear
_SLICE = 1_000  # ms: the event loop's own clock stops during suspension, so that a sleep would last longer than it should by that time


class MachineClock:
    """Implements `nadi.cluster.contract.Clock`."""

    def now(self) -> int:
        return time.clock_gettime_ns(_CLOCK) // 1_000_000

    async def sleep(self, ms: int) -> None:
        until = self.now() + ms
        while (rest := until - self.now()) > 0:
            await asyncio.sleep(min(rest, _SLICE) / 1000)
