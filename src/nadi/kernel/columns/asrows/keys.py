"""The keys of a partition with `@purge` as on rows."""

from __future__ import annotations

from collections.abc import Iterator

from nadi.kernel.columns.asrows.texts import texts
from nadi.kernel.columns.flat import OF_EACH, Block
from nadi.kernel.rows.payloads import Entry


class KeysState:
    """Those of the partition whose keys are an element, in any order; purges come in an interval (ms), the next one after a clock (ms)."""

    def __init__(self, element: str, interval: int, clock: int) -> None:
        self._element, self._interval, self._clock = element, interval, clock
        self._number = 0

    def entries(self, block: Block) -> Iterator[Entry]:
        """What a block comes to."""
        if block.letter == OF_EACH:
            due = int(block.arrays["next"][0])
            missed = max(0, (self._clock - due) // self._interval + 1)
            yield f"{self._element}/purge/timer", "", {"due": ["d", 0, [due + missed * self._interval]]}
            return
        for key, seen in zip(texts(block.arrays), block.arrays["seen"].tolist(), strict=True):
            if seen:
                self._number += 1
                yield self._element, key, {"number": ["v", self._number], "seen": ["v", seen - 1]}
