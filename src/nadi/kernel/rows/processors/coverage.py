"""How AQ-K-slack scales K: after each batch alpha follows the distance between the coverage of the window that is needed and the one that was reached.

Formulas are those of Siddhi's extension siddhi-execution-reorder 5.0. One thing differs: coverage is measured over the last batch, as the extension's
documentation says, and not over all events since the start, which would have to be kept for ever.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import NormalDist

from nadi.kernel.rows.state import Cell, Cells, Deque, Value

_PROPORTIONAL, _DIFFERENTIAL = 0.5, 0.8


class Alpha:
    """Cells: `values` of the field and `times` since alpha was last computed; `alpha` = (alpha, reached K, alpha without bound, error, events counted)."""

    def __init__(self, batch: int, threshold: float, confidence: float) -> None:
        self.cells: dict[str, type[Cell]] = {"values": Deque, "times": Deque, "alpha": Value}
        self._batch, self._threshold = batch, threshold
        self._critical = abs(NormalDist().inv_cdf((1 - confidence) / 2))

    def factor(self, cells: Cells) -> float:
        """What K is multiplied with."""
        state = cells["alpha"].get()
        return 1.0 if state is None else float(state[0])

    def observe(self, cells: Cells, time: int, value: float) -> None:
        """Every event is seen, also one that is then dropped as late."""
        cells["times"].append(time)
        cells["values"].append(float(value))

    def count(self, cells: Cells, time: int, k: int) -> None:
        """An event was taken. The one after a full batch computes alpha anew."""
        alpha, reach, before, error, counted = cells["alpha"].get() or (1.0, 0, 0.0, 0.0, 0)
        counted += 1
        if counted > self._batch:
            needed = coverage_needed(cells["values"], self._critical, self._threshold)
            reached = 1.0 if reach == 0 else coverage_reached(cells["times"], time - reach)
            new = needed - reached
            alpha = before = abs(before + _PROPORTIONAL * new + _DIFFERENTIAL * (new - error))
            reach, error, counted = min(java_round(alpha * k), k), new, 0
            cells["values"].clear()
            cells["times"].clear()
        cells["alpha"].set((alpha, reach, before, error, counted))


def coverage_needed(values: Deque | Sequence[float], critical: float, threshold: float) -> float:
    """The least share of a window's events with which the aggregate of `values` errs by no more than `threshold`; 0 where no share is found.

    `critical` is the quantile of the normal distribution for the confidence.

    >>> round(coverage_needed([10.0, 12.0, 11.0, 9.0], 1.96, 0.03), 6)
    0.47706
    """
    count = len(values)
    mean = _sum(values) / count
    if mean == 0:
        return 0.0
    variance = _sum((mean - value) ** 2 for value in values) / count
    spread = critical**2 * ((mean**2 + variance**2) / (count * mean**2))
    factor = 1 + spread
    below = _roots(factor, 2 * threshold - 2 - spread, (1 - threshold) ** 2)
    above = _roots(factor, -(2 + 2 * threshold + spread), (1 + threshold) ** 2)
    return min((*below, *above), default=0.0)


def _sum(values: Iterable[float]) -> float:
    """Strictly from left to right."""
    total = 0.0
    for value in values:
        total += value
    return total


def _roots(a: float, b: float, c: float) -> tuple[float, ...]:
    square = b**2 - 4 * a * c
    if not square >= 0:
        return ()
    return ((-b - math.sqrt(square)) / (2 * a), (-b + math.sqrt(square)) / (2 * a))


def coverage_reached(times: Iterable[int], until: int) -> float:
    """Of the events up to the time `until`, the share that came before the first one at or after it; 1 where there are none.

    >>> coverage_reached([1, 2, 5, 3, 4], 4)
    0.5
    """
    covered = total = 0
    closed = False
    for time in times:
        closed = closed or time >= until
        if time <= until:
            total += 1
            covered += not closed
    return covered / total if total else 1.0


def java_round(value: float) -> int:
    """`Math.round`.

    >>> java_round(2.5), java_round(-2.5)
    (3, -2)
    """
    return math.floor(value + 0.5)
