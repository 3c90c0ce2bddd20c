"""Times of the pair's protocol, in ms, and how they follow from what a deployment says."""

from __future__ import annotations

from dataclasses import dataclass

RENEWALS = 2
"""So many renewals fit into a lease at least, also where `heartbeatMaxRetry` is 1."""

LEAST_ANSWER = 1_500  # ms
STALLED = 5  # leases


@dataclass(frozen=True, slots=True)
class PairSettings:
    """`cluster.config` of a node of a pair."""

    group: str = "sp"
    interval: int = 1_000  # heartbeatInterval
    retries: int = 2  # heartbeatMaxRetry
    skew: int = 120_000  # two nodes a minute apart work together; a clock that is wrong by more is broken

    @property
    def lease(self) -> int:
        """How long a node is active after its last renewal, and how long a promise binds."""
        return self.interval * self.retries

    @property
    def beat(self) -> int:
        """How often the lease is renewed, and another promise asked for."""
        return min(self.interval, self.lease // RENEWALS)

    @property
    def stops_before(self) -> int:
        """So long before its right ends a node begins to stop."""
        return self.lease // 8

    @property
    def patience(self) -> int:
        """How long the partner may take to answer before it counts as away: a lease."""
        return self.lease

    @property
    def answers_within(self) -> int:
        """How long the coordination database may take to answer: a second try fits into a lease.

        >>> PairSettings().answers_within, PairSettings(interval=5_000).answers_within
        (1500, 5000)
        """
        return max(LEAST_ANSWER, self.lease // 2)

    @property
    def stalls(self) -> int:
        """How long a record may wait for a partner that is in sync and keeps its promises, before it counts as away: its disk may hang."""
        return STALLED * self.lease
