"""Histograms, and timers: how long something took, and how often it happened."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nadi.metrics.meters import Meter, Rates
from nadi.metrics.reservoirs import Distribution, Pairs, Reservoir


@dataclass(frozen=True, slots=True)
class Timed:
    """What a timer tells: how long (ms), how often."""

    lengths: Distribution
    rates: Rates


class Histogram:
    """All values there were, in number and sum, and a sample of them."""

    def __init__(self, reservoir: Reservoir) -> None:
        self._reservoir = reservoir
        self.count, self.total = 0, 0.0

    def update(self, pairs: Pairs, now: float) -> None:
        """Take values, each with the number of times it was met."""
        kept = [(value, n) for value, n in pairs if n > 0]
        self.count += sum(n for _, n in kept)
        self.total += sum(value * n for value, n in kept)
        if kept:
            self._reservoir.update(kept, now)

    def distribution(self, now: float) -> Distribution:
        """What there is to tell."""
        return replace(self._reservoir.distribution(now), count=self.count, total=self.total)


class Timer:
    """Lengths in ms."""

    def __init__(self, reservoir: Reservoir, now: float) -> None:
        self._histogram = Histogram(reservoir)
        self._meter = Meter(now)

    def update(self, pairs: Pairs, now: float) -> None:
        """Something took so many ms, so many times."""
        self._histogram.update(pairs, now)
        self._meter.mark(sum(n for _, n in pairs if n > 0), now)

    def told(self, now: float) -> Timed:
        """What there is to tell."""
        return Timed(self._histogram.distribution(now), self._meter.rates(now))
