"""Which values a histogram keeps of all that it is given, and what they tell: a bounded sample, fed with many equal values at once.

Values come with the number of times they were met, so that a batch of a million events is one call with a few pairs. Times are seconds of a clock that never
goes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

SIZE = 1_028
ALPHA = 0.015
RESCALE = 3_600.0  # seconds after which weights are made small again
ONE_BY_ONE = 4_096  # of more values at once only those are drawn that can stay

Floats = npt.NDArray[np.float64]
Pairs = Sequence[tuple[float, int]]
"""Values, and how often each was met."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """What a sample tells of its values. `count` and `total` are about all values there were."""

    count: int = 0
    total: float = 0.0
    max: float = 0.0
    mean: float = 0.0
    min: float = 0.0
    stddev: float = 0.0
    p50: float = 0.0
    p75: float = 0.0
    p95: float = 0.0
    p98: float = 0.0
    p99: float = 0.0
    p999: float = 0.0


QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)


class Reservoir(Protocol):
    """A bounded sample."""

    def update(self, pairs: Pairs, now: float) -> None: ...
    def distribution(self, now: float) -> Distribution: ...


class DecayingReservoir:
    """A sample in which values of the last five minutes have most of the weight (forward decay: Cormode et al., 2009). Each value gets a priority, its weight
    by its time over a random number; those with the greatest priorities stay."""

    def __init__(self, now: float, size: int = SIZE, alpha: float = ALPHA, seed: int | None = None) -> None:
        self._size, self._alpha = size, alpha
        self._random = np.random.default_rng(seed)
        self._landmark = now
        self._values, self._weights, self._priorities = (np.empty(0) for _ in range(3))

    def update(self, pairs: Pairs, now: float) -> None:
        """Take values. Errors: none."""
        values, draws = self._drawn(pairs)
        if not len(values):
            return
        if now - self._landmark >= RESCALE:
            self._rescale(now)
        weight = float(np.exp(self._alpha * (now - self._landmark)))
        self._values = np.concatenate([self._values, values])
        self._weights = np.concatenate([self._weights, np.full(len(values), weight)])
        self._priorities = np.concatenate([self._priorities, weight / draws])
        if len(self._values) > self._size:
            kept = np.argpartition(self._priorities, -self._size)[-self._size :]
            self._values, self._weights = self._values[kept], self._weights[kept]
            self._priorities = self._priorities[kept]

    def _drawn(self, pairs: Pairs) -> tuple[Floats, Floats]:
        """The values that may stay, and the random number of each."""
        total = sum(n for _, n in pairs)
        values = np.array([v for v, _ in pairs], np.float64)
        counts = np.array([n for _, n in pairs], np.int64)
        if total <= ONE_BY_ONE:
            return np.repeat(values, counts), 1.0 - self._random.random(total)
        # the least of so many random numbers, without making the others
        gaps = self._random.exponential(size=self._size) / (total - np.arange(self._size))
        return self._random.choice(values, self._size, p=counts / total), -np.expm1(-np.cumsum(gaps))

    def _rescale(self, now: float) -> None:
        factor = float(np.exp(-self._alpha * (now - self._landmark)))
        kept = self._priorities * factor > 0  # long ago is nothing
        self._values = self._values[kept]
        self._weights, self._priorities = self._weights[kept] * factor, self._priorities[kept] * factor
        self._landmark = now

    def distribution(self, now: float) -> Distribution:
        """What the sample tells. `count` and `total` are whoever keeps them's."""
        return weighted(self._values, self._weights)


class UniformReservoir:
    """A sample of all values there ever were, each as likely as any other one."""

    def __init__(self, size: int = SIZE, seed: int | None = None) -> None:
        self._size = size
        self._random = np.random.default_rng(seed)
        self._values, self._draws = np.empty(0), np.empty(0)

    def update(self, pairs: Pairs, now: float) -> None:
        """Take values: those with the least random numbers stay."""
        values = np.repeat([float(v) for v, _ in pairs], [n for _, n in pairs])
        self._values = np.concatenate([self._values, values])
        self._draws = np.concatenate([self._draws, self._random.random(len(values))])
        if len(self._values) > self._size:
            kept = np.argpartition(self._draws, self._size)[: self._size]
            self._values, self._draws = self._values[kept], self._draws[kept]

    def distribution(self, now: float) -> Distribution:
        """What the sample tells."""
        return plain(self._values)


class SlidingReservoir:
    """The last `size` values; with `seconds` those of the last so many seconds only."""

    def __init__(self, size: int = SIZE, seconds: float = 0.0) -> None:
        self._size, self._seconds = size, seconds
        self._values, self._times = np.empty(0), np.empty(0)

    def update(self, pairs: Pairs, now: float) -> None:
        """Take values."""
        counts = [min(n, self._size) for _, n in pairs]
        values = np.repeat([float(v) for v, _ in pairs], counts)
        self._values = np.concatenate([self._values, values])[-self._size :]
        self._times = np.concatenate([self._times, np.full(len(values), now)])[-self._size :]

    def distribution(self, now: float) -> Distribution:
        """What the values tell."""
        fresh = self._times > now - self._seconds if self._seconds else slice(None)
        return plain(self._values[fresh])


def weighted(values: Floats, weights: Floats) -> Distribution:
    """What values with weights tell: a quantile is the value before which there is so much of the weight.

    >>> weighted(np.array([1.0, 2.0, 3.0, 2.0, 1.0]), np.array([1.0, 2.0, 3.0, 2.0, 2.0])).p50
    2.0
    """
    if not len(values):
        return Distribution()
    order = np.argsort(values, kind="stable")
    sorted_, shares = values[order], weights[order] / weights.sum()
    before = np.concatenate([[0.0], np.cumsum(shares)[:-1]])
    mean = float(sorted_ @ shares)
    at = np.searchsorted(before, QUANTILES, side="right") - 1
    deviation = float(np.sqrt(((sorted_ - mean) ** 2) @ shares))
    return _told(sorted_, mean, deviation, sorted_[at])


def plain(values: Floats) -> Distribution:
    """What values tell that weigh the same: a quantile lies between two of them."""
    if not len(values):
        return Distribution()
    sorted_ = np.sort(values)
    deviation = float(np.std(sorted_, ddof=1)) if len(sorted_) > 1 else 0.0
    return _told(sorted_, float(sorted_.mean()), deviation, np.quantile(sorted_, QUANTILES, method="weibull"))


def _told(sorted_: Floats, mean: float, deviation: float, quantiles: Any) -> Distribution:
    return Distribution(
        len(sorted_),
        float(sorted_.sum()),
        float(sorted_[-1]),
        mean,
        float(sorted_[0]),
        deviation,
        *(float(q) for q in quantiles),
    )
