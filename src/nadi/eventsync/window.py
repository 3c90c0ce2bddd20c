"""How much the active node may send ahead of what the passive one has in its services. Pure.

While the services are copied, much may wait: nothing is written at the other end. Then half as much may be sent as is written there, until little waits; and
from then on, never more than a take-over can write in a moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

COPYING = 1024 * 1024 * 1024  # bytes, as `places.weight_of` counts them
FOLLOWING = 32 * 1024 * 1024
LITTLE = 8 * 1024 * 1024
SLACK = 4 * 1024 * 1024


class Phase(Enum):
    """Of a session."""

    COPIES = 1
    CATCHES_UP = 2
    FOLLOWS = 3


@dataclass(slots=True)
class Window:
    """`sent` and `done` are weights since the session began."""

    sent: int = 0
    done: int = 0
    phase: Phase = Phase.COPIES
    _sent_then: int = 0
    _done_then: int = 0

    @property
    def backlog(self) -> int:
        """What is on its way, or waits at the other end."""
        return self.sent - self.done

    def has_room(self) -> bool:
        """Whether another record may be sent. A record of any size may, where nothing waits."""
        match self.phase:
            case Phase.COPIES:
                return self.backlog < COPYING
            case Phase.CATCHES_UP:
                return self.sent - self._sent_then <= (self.done - self._done_then) // 2 + SLACK
            case Phase.FOLLOWS:
                return self.backlog < FOLLOWING

    def copied(self) -> None:
        """The services have been copied: what waits is being written from now on."""
        self.phase = Phase.CATCHES_UP
        self._sent_then, self._done_then = self.sent, self.done

    def moved(self, done: int) -> bool:
        """The other end says how much it has written. -> whether little is left of what waited."""
        self.done = max(self.done, done)
        if self.phase == Phase.CATCHES_UP and self.backlog <= LITTLE:
            self.phase = Phase.FOLLOWS
        return self.phase == Phase.FOLLOWS
