"""Times of the protocol, and how they follow from what a deployment says. All in ms.

Two clocks may run at speeds that differ by `DRIFT`. Whoever *has* a lease counts it shorter than it is, whoever waits for its end counts it longer.
"""

from __future__ import annotations

from dataclasses import dataclass

DRIFT = 0.01
"""The largest difference of a clock's speed from true time: 1 %, ten times what operating systems allow themselves while they correct a clock."""


def at_most(ms: int) -> int:
    """What may be counted of a span that another clock measures, by who must not count too much.

    >>> at_most(8000)
    7840
    """
    return int(ms * (1 - 2 * DRIFT))


def at_least(ms: int) -> int:
    """What must be waited until a span is over by any clock.

    >>> at_least(8000)
    8161
    """
    return int(ms * (1 + 2 * DRIFT)) + 1


@dataclass(frozen=True, slots=True)
class Election:
    """`cluster.config`: how managers agree on a leader."""

    group: str = "sp"
    interval: int = 1_000  # heartbeatInterval
    retries: int = 2  # heartbeatMaxRetry
    polling: int = 1_000  # eventPollingInterval

    @property
    def lease(self) -> int:
        """How long a leader leads after its last renewal."""
        return self.interval * self.retries


@dataclass(frozen=True, slots=True)
class Timing:
    """`deployment.config`: how a manager holds workers."""

    interval: int = 2_000  # heartbeatInterval of workers
    retries: int = 2  # heartbeatMaxRetry
    stop_within: int = 1_500  # a worker ends an instance within this, by force
    steady: int = 10_000  # so long after a worker joined nothing is moved onto it, and so long an instance must run to have not failed
    backoff: int = 1_000  # the first pause after a failure, then twice the one before
    backoff_most: int = 60_000

    @property
    def lease(self) -> int:
        """How long a worker may run what it was told to, from when it sent its heartbeat: two intervals more than the retries, so that managers can change
        meanwhile, and the time to stop."""
        return self.interval * (self.retries + 2)

    def pause(self, failures: int) -> int:
        """How long an instance that failed so often in a row is left alone.

        >>> [Timing().pause(n) for n in (1, 2, 3, 9)]
        [1000, 2000, 4000, 60000]
        """
        return int(min(self.backoff_most, self.backoff << min(failures - 1, 20)))


@dataclass(frozen=True, slots=True)
class Placing:
    """`deployment.config`: where instances go."""

    algorithm: str = "round-robin"  # round-robin, least-cpu, weight
    least: int = 1  # minResourceCount
    moves: int = 4  # so many instances are on their way to another worker at a time, for balance


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What a worker's own file says."""

    id: str
    address: str
    managers: tuple[str, ...]  # resourceManagers, in order
    receiver: bool = False  # isReceiverNode
    retry: int = 10_000  # leaderRetryInterval
    within: int = 1_000  # an answer that takes longer is none
    version: str = ""  # of nadi, for people
