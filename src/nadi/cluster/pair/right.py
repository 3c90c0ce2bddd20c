"""How long a node may be active, and how long its partner may not: each counts by its own clock, so that the first span is over before the second one."""

from __future__ import annotations

from dataclasses import dataclass

from nadi.cluster.leases import counted_until
from nadi.cluster.settings import at_least


@dataclass(slots=True)
class Right:
    """The right to be active under a token: until the lease ends, or the partner's last promise, whichever is later. Both count from when one asked."""

    token: int
    length: int
    lease_until: int = 0
    promise_until: int = 0
    sent: int = 0  # when the last renewal that was answered was sent

    @property
    def until(self) -> int:
        return max(self.lease_until, self.promise_until)

    def renewed(self, sent: int, answered: int) -> None:
        """The database has renewed the lease."""
        self.sent = sent
        self.lease_until = max(self.lease_until, counted_until(sent, answered, self.length))

    def promised(self, sent: int, answered: int) -> None:
        """The partner has promised not to take over."""
        self.promise_until = max(self.promise_until, counted_until(sent, answered, self.length))

    def valid(self, now: int) -> bool:
        return now < self.until


@dataclass(slots=True)
class Promise:
    """What this node has promised: not to take over before `until`. A node that was just started may have promised it in its life before."""

    length: int
    until: int = 0

    def give(self, now: int) -> None:
        self.until = max(self.until, now + at_least(self.length))

    def over(self, now: int) -> bool:
        return now >= self.until

    def released(self) -> None:
        """The active node has ended and says so itself."""
        self.until = 0
