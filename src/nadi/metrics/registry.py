"""All metrics of a node by name, and what they tell at one moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from threading import Lock

from nadi.metrics.histograms import Histogram, Timed, Timer
from nadi.metrics.meters import Meter, Rates
from nadi.metrics.names import MetricName
from nadi.metrics.reservoirs import DecayingReservoir, Distribution, Pairs, Reservoir

Value = float | str | Rates | Distribution | Timed
"""What a metric tells: a number or text of a gauge, a whole number of a counter, rates of a meter, and so on."""


@dataclass(frozen=True, slots=True)
class Counter:
    """How many there are, or were: what a counter tells."""

    count: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All metrics at one moment (ms since the epoch)."""

    at: int
    values: tuple[tuple[MetricName, Value | Counter], ...]

    def matching(self, wanted: Callable[[str], bool]) -> Snapshot:
        """Those whose whole names are wanted."""
        return Snapshot(self.at, tuple((name, value) for name, value in self.values if wanted(name.full)))

    def by_name(self) -> Mapping[str, Value | Counter]:
        """Values by whole names."""
        return {name.full: value for name, value in self.values}


class Registry:
    """Metrics are made when they are first fed. From any thread. `reservoir(now)` makes what a new timer keeps its sample in."""

    def __init__(self, reservoir: Callable[[float], Reservoir] = DecayingReservoir) -> None:
        self._reservoir = reservoir
        self._lock = Lock()
        self._gauges: dict[MetricName, float | str] = {}
        self._counters: dict[MetricName, int] = {}
        self._meters: dict[MetricName, Meter] = {}
        self._histograms: dict[MetricName, Histogram] = {}
        self._timers: dict[MetricName, Timer] = {}

    def gauge(self, name: MetricName, value: float | str) -> None:
        """How it is now."""
        with self._lock:
            self._gauges[name] = value

    def count(self, name: MetricName, n: int) -> None:
        """`n` more (or, below 0, fewer)."""
        with self._lock:
            self._counters[name] = self._counters.get(name, 0) + n

    def mark(self, name: MetricName, n: int, now: float) -> None:
        """`n` have come; `now` is in seconds."""
        with self._lock:
            found = self._meters.get(name)
            if found is None:
                found = self._meters[name] = Meter(now)
            found.mark(n, now)

    def note(self, name: MetricName, pairs: Pairs, now: float) -> None:
        """Values of a histogram, with how often each was met."""
        with self._lock:
            found = self._histograms.get(name)
            if found is None:
                found = self._histograms[name] = Histogram(self._reservoir(now))
            found.update(pairs, now)

    def time(self, name: MetricName, pairs: Pairs, now: float) -> None:
        """Something took so many ms, so many times."""
        with self._lock:
            found = self._timers.get(name)
            if found is None:
                found = self._timers[name] = Timer(self._reservoir(now), now)
            found.update(pairs, now)

    def drop(self, gone: Callable[[MetricName], bool]) -> None:
        """Let go of some."""
        with self._lock:
            for kind in (self._gauges, self._counters, self._meters, self._histograms, self._timers):
                for name in [name for name in kind if gone(name)]:
                    del kind[name]

    def snapshot(
        self, at: int, now: float, wanted: Callable[[MetricName], bool], beside: Iterable[tuple[str, float | str]] = ()
    ) -> Snapshot:
        """What all that is wanted tells now, by name; `beside` are gauges of the node that are read for it."""
        found: list[tuple[MetricName, Value | Counter]] = [(MetricName.of_node(name), v) for name, v in beside]
        with self._lock:
            found += [(name, value) for name, value in self._gauges.items() if wanted(name)]
            found += [(name, Counter(n)) for name, n in self._counters.items() if wanted(name)]
            found += [(name, meter.rates(now)) for name, meter in self._meters.items() if wanted(name)]
            found += [(name, h.distribution(now)) for name, h in self._histograms.items() if wanted(name)]
            found += [(name, timer.told(now)) for name, timer in self._timers.items() if wanted(name)]
        return Snapshot(at, tuple(sorted(found, key=lambda one: one[0])))
