"""The operator of aggregators and groups over matches: `every e1=A -> e2=B select e1.k, sum(e2.v) as s group by e1.k`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from nadi.kernel.columns.contract import Input, check
from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.patterns.choice import pattern
from nadi.kernel.columns.sliding import Sliding
from nadi.kernel.columns.stretch import Stretch
from nadi.plan.columns.matchsums import halves_of
from nadi.plan.nodes import App, Query


class Summed:
    """Two operators: what the pattern or sequence gives is what the sums read, each match as a chunk of its own."""

    def __init__(self, query: Query, app: App) -> None:
        halves = halves_of(query, app)
        matches = halves.matches
        self._matches = pattern(matches, app)
        types = matches.selection.schema.types
        self._sums = Sliding(halves.summing, Input(types, (), halves.key, app.sharding.kind == "key"))
        self.elements = (*self._matches.elements, *self._sums.elements)

    def process(self, given: Mapping[str, Stretch], until: int) -> Stretch | None:
        """The output rows of a batch: one for each match, without those that `having` refuses."""
        matches = self._matches.process(given, until)
        if matches is None:
            return None
        found = self._sums.process({"": matches.chunked(np.arange(len(matches)))}, until)
        return None if found is None else found.chunked(matches.chunk[found.chunk])

    def next_timer(self) -> int | None:
        """Nothing comes out by itself."""
        return None

    # ---- state

    def changes(self) -> Iterator[Block]:
        """What changed of matches, and of sums."""
        yield from self._matches.changes()
        yield from self._sums.changes()

    def contents(self) -> Iterator[Block]:
        """All matches that wait, and all sums."""
        yield from self._matches.contents()
        yield from self._sums.contents()

    def apply(self, block: Block) -> None:
        """Put back matches or sums."""
        (self._matches if block.element in self._matches.elements else self._sums).apply(block)

    def check(self) -> None:
        """See whether what was loaded fits together."""
        check(self._matches)
        check(self._sums)

    def clear(self) -> None:
        """Forget all."""
        self._matches.clear()
        self._sums.clear()

    def size(self) -> dict[str, int]:
        """How many matches wait, how many groups there are."""
        return {**self._matches.size(), **self._sums.size()}
