"""What a task is to read. By itself, as the processes that plan a query import it, and should start quickly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Range:
    """Positions [start, end) of a partition: piece `split` of what the cut takes of it; `high` is the running maximum of log times before the cut.
    Messages at the positions `aside` are set aside."""

    ordinal: int
    partition: int
    start: int
    end: int
    split: int = 0
    high: int | None = None
    aside: tuple[int, ...] = ()

    def plain(self) -> list[Any]:
        """As requests have it."""
        more = [self.aside] if self.aside else []
        return [self.ordinal, self.partition, self.start, self.end, self.split, self.high, *more]
