"""Meters: how many there were, and how many a second. As those of Dropwizard, so that figures can be compared: three exponentially weighted rates, moved
every five seconds; ticks are made up for when somebody looks, however long that was.

Times are seconds of a clock that never goes back; whoever marks or asks says what time it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

TICK = 5.0  # seconds
MINUTES = (1, 5, 15)


@dataclass(frozen=True, slots=True)
class Rates:
    """How many in all, and how many a second: on the whole, and over the last 1, 5 and 15 minutes."""

    count: int = 0
    mean: float = 0.0
    m1: float = 0.0
    m5: float = 0.0
    m15: float = 0.0


class Ewma:
    """A rate over some minutes, in which the past fades."""

    def __init__(self, minutes: float) -> None:
        self._alpha = 1 - exp(-TICK / 60 / minutes)
        self._begun = False
        self.rate = 0.0

    def tick(self, count: int, ticks: int) -> None:
        """`count` came in the first of some ticks, nothing in the others."""
        instant = count / TICK
        if self._begun:
            self.rate += self._alpha * (instant - self.rate)
        else:
            self.rate, self._begun = instant, True
        self.rate *= (1 - self._alpha) ** (ticks - 1)


class Meter:
    """Counts from `now` on.

    >>> meter = Meter(0.0)
    >>> meter.mark(100, 1.0)
    >>> rates = meter.rates(10.1)
    >>> rates.count, round(rates.mean, 2), round(rates.m1, 2)
    (100, 9.9, 18.4)
    """

    def __init__(self, now: float) -> None:
        self._start = self._ticked = now
        self._uncounted = 0
        self._averages = [Ewma(minutes) for minutes in MINUTES]
        self.count = 0

    def mark(self, n: int, now: float) -> None:
        """`n` have come."""
        self._tick(now)
        self.count += n
        self._uncounted += n

    def rates(self, now: float) -> Rates:
        """What there is to tell."""
        self._tick(now)
        elapsed = now - self._start
        mean = self.count / elapsed if elapsed > 0 else 0.0
        return Rates(self.count, mean, *(average.rate for average in self._averages))

    def _tick(self, now: float) -> None:
        age = now - self._ticked
        if age <= TICK:
            return
        ticks = int(age // TICK)
        self._ticked += ticks * TICK
        for average in self._averages:
            average.tick(self._uncounted, ticks)
        self._uncounted = 0
