"""Workers as the leader hears them: in its memory only, told anew by each heartbeat."""

from __future__ import annotations

from dataclasses import dataclass, field

from nadi.cluster.messages import Heartbeat, Metrics, Running
from nadi.cluster.rows import WorkerRow
from nadi.cluster.settings import Timing, at_least

Mark = tuple[int, int]
"""A token and the number of a decision under it: what a worker took over last."""


@dataclass(slots=True)
class Presence:
    """A worker that has sent a heartbeat in this term. `until` is when its lease is surely over, by the leader's clock."""

    id: str
    address: str
    incarnation: str
    receiver: bool
    joined: int
    number: int = 0
    until: int = 0
    applied: Mark = (0, 0)
    running: dict[str, Running] = field(default_factory=dict)
    since: dict[tuple[str, int], int] = field(default_factory=dict)
    """When an instance of an epoch was first heard to run, or to have failed (leader's clock)."""
    metrics: Metrics = field(default_factory=Metrics)
    leaving: bool = False
    version: str = ""

    def alive(self, now: int) -> bool:
        return now < self.until

    def hear(self, beat: Heartbeat, now: int, timing: Timing) -> bool:
        """Take what a heartbeat says. Whether something else runs than before, or the worker begins to leave. The lease counts from when the heartbeat was
        sent, which was before it came."""
        self.number = beat.number
        self.until = now + at_least(timing.lease)
        self.metrics, self.version = beat.metrics, beat.version
        self.applied = beat.applied
        leaves, self.leaving = beat.leaving and not self.leaving, beat.leaving
        running = {found.instance: found for found in beat.running}
        if running == self.running:
            return leaves
        self.running = running
        settled = {(r.instance, r.epoch) for r in beat.running if r.state in ("running", "failed")}
        self.since = {key: self.since.get(key, now) for key in sorted(settled)}
        return True


def clashes(beat: Heartbeat, known: Presence | None, now: int) -> bool:
    """Whether the id of a heartbeat belongs to another worker that is alive: one at another address, or one that was started later (incarnations sort by when
    they began), so that this heartbeat is an old one that came late."""
    if known is None or not known.alive(now) or known.incarnation == beat.incarnation:
        return False
    return known.address != beat.address or beat.incarnation < known.incarnation


def is_late(beat: Heartbeat, known: Presence | None) -> bool:
    """Whether a later heartbeat of the same incarnation was heard before: what this one says may no longer be so."""
    return known is not None and known.incarnation == beat.incarnation and beat.number <= known.number


def is_outlived(beat: Heartbeat, row: WorkerRow | None) -> bool:
    """Whether a worker was started again after it sent this: what ran then has ended, and what it wished was for another life. The row says so also to a leader
    that has not heard the later one yet."""
    return row is not None and not row.gone and beat.incarnation < row.incarnation
