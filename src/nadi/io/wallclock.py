"""The time of day by which cuts and arrivals are dated: this machine's clock, corrected by what the nodes of a cluster or of a pair agree on.

Nodes whose clocks differ would hold each other up: a group that goes on at another node waits until that one's clock has reached the last cut, and whoever
reads from several waits for the one that is behind. So each node of a pair takes the time of the coordination database, and each worker that of its leader, who
has it from there. A node that belongs to neither has its machine's.

A difference counts where it is larger than what the question took on its way, and NOISE. Cuts never go back (`nadi.pipeline.cutting`), so a clock that is set
back stands still for a while.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

NOISE = 100  # ms


def machine_ms() -> int:
    """The machine's clock, in ms since 1970."""
    return time.time_ns() // 1_000_000


class WallClock:
    """A clock that may be corrected. From any thread.

    >>> clock = WallClock(lambda: 1_000)
    >>> clock.agree(61_000), clock.now(), clock.correction
    (None, 61000, 60000)
    >>> clock.agree(61_050), clock.agree(58_000, unsure=3_000), clock.now()
    (None, None, 61000)
    """

    def __init__(self, machine: Callable[[], int] = machine_ms) -> None:
        self._machine = machine
        self._lock = threading.Lock()
        self.correction = 0
        """ms that are added to the machine's clock."""

    def now(self) -> int:
        """ms since 1970."""
        return self._machine() + self.correction

    def agree(self, time: int, unsure: int = 0) -> None:
        """Take over what others say the time is now (ms since 1970), give or take `unsure` ms."""
        with self._lock:
            apart = time - self._machine()
            if abs(apart - self.correction) > NOISE + unsure:
                self.correction = apart


WALL = WallClock()
"""That of this process. Sources and cuts are in the node's own process."""
