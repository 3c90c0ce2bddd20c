"""The last minutes of each app, for a page that shows them: a point a second, kept in memory."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from threading import Lock

from nadi.metrics.progress import AppProgress

SECONDS = 300


@dataclass(frozen=True, slots=True)
class Point:
    """A second: when it began (s since the epoch), events in and out, how long (ms) events took from their log time to the commit of their cut (where that is
    measured; otherwise what the batch took), bytes of state, messages that wait."""

    at: int
    events_in: int = 0
    events_out: int = 0
    latency: float = 0.0
    state_bytes: int = 0
    lag: int = 0


class LastMinutes:
    """Of one node. From any thread."""

    def __init__(self, seconds: int = SECONDS) -> None:
        self._seconds = seconds
        self._points: dict[str, deque[Point]] = {}
        self._totals: dict[str, tuple[int, int]] = {}
        self._lock = Lock()

    def note(self, progress: AppProgress, at: int) -> None:
        """A snapshot of an app, in the second `at`."""
        totals = sum(progress.events_in.values()), sum(progress.events_out.values())
        with self._lock:
            before = self._totals.get(progress.app)
            self._totals[progress.app] = totals
            came, went = (
                (0, 0) if before is None else (max(0, now - then) for now, then in zip(totals, before, strict=True))
            )
            points = self._points.setdefault(progress.app, deque(maxlen=self._seconds))
            last = points.pop() if points and points[-1].at == at else Point(at)
            latency = _latency(progress) if came or went or progress.measured.delays else 0.0
            points.append(
                Point(
                    at,
                    last.events_in + came,
                    last.events_out + went,
                    max(last.latency, latency),
                    progress.state_bytes,
                    sum(progress.lag.values()),
                )
            )

    def forget(self, app: str) -> None:
        """An app has gone."""
        with self._lock:
            self._points.pop(app, None)
            self._totals.pop(app, None)

    def of(self, app: str, now: int) -> list[Point]:
        """The seconds of an app up to `now`, which is under way, from the first one that is known; a second in which nothing was told is like the one before,
        without events."""
        with self._lock:
            known = list(self._points.get(app, ()))
        if not known:
            return []
        by_second = {point.at: point for point in known}
        first = max(known[0].at, now - self._seconds + 1)
        found: list[Point] = []
        last = next((p for p in reversed(known) if p.at < first), known[0])
        for second in range(first, now + 1):
            last = by_second.get(second) or Point(second, state_bytes=last.state_bytes, lag=last.lag)
            found.append(last)
        return found


def _latency(progress: AppProgress) -> float:
    delays = progress.measured.delays
    many = sum(n for _, n in delays)
    if many:
        return sum(ms * n for ms, n in delays) / many
    return float(progress.batch_ms.get("triggerExecution", 0))
