"""The operator of joins with the windows `lengthBatch`, `timeBatch` and `externalTimeBatch`: stages (`stages.py`) and the join behind them.

The join takes the events of both sides by turns. Of an arrival they have its place among the others; what a batch lets go comes with the arrival that ends it,
or, where it ends by itself, before the first one that is not earlier. Batches that end at the same time come as on rows: the left side's before the right
side's, in a partition by the texts of keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from nadi.kernel.columns.contract import check
from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.joins.join import Join
from nadi.kernel.columns.joins.stages import Entry, staged
from nadi.kernel.columns.staging import Stage
from nadi.kernel.columns.stretch import Longs, Stretch
from nadi.plan.nodes import App, Query


@dataclass(frozen=True, slots=True)
class _Part:
    """Events of one side. `order` is where each stands among the arrivals, `time` when its batch ended if it did so by itself, `unit` what goes on together;
    `arrival` tells the arrivals apart, and what comes between them."""

    events: Stretch
    order: Longs
    time: Longs
    unit: Longs
    arrival: Longs


class BatchedJoin:
    """`from A#window.lengthBatch(3) as a join B#window.time(1 sec) as b on …`."""

    def __init__(self, query: Query, app: App) -> None:
        inner, inner_app, self._entries = staged(query, app)
        self._join = Join(inner, inner_app, staged=True)
        self._stages = {e.stage.element: e.stage for e in self._entries if e.stage is not None}
        self._alone = self._entries[0].source == self._entries[1].source  # each event of it comes by itself
        self.elements = tuple(dict.fromkeys((*self._stages, *self._join.elements)))

    # ---- a batch

    def process(self, given: Mapping[str, Stretch], until: int) -> Stretch | None:
        """The output rows of a batch."""
        places = {name: self._places(stretch) for name, stretch in given.items()}
        parts = [self._part(entry, given, places, until) for entry in self._entries]
        turns = _turns(parts)
        taken = {}
        for entry, part, turn in zip(self._entries, parts, turns):
            if part is not None:
                one = part.events
                taken[entry.name] = Stretch(one.columns, one.ts, one.now, turn, one.group, part.arrival)
        return self._join.process(taken, until) if taken else None

    def _places(self, stretch: Stretch) -> Longs:
        """Where the events of a stream stand among the others."""
        return np.arange(len(stretch)) if self._alone else stretch.chunk

    def _part(
        self, entry: Entry, given: Mapping[str, Stretch], places: Mapping[str, Longs], until: int
    ) -> _Part | None:
        """What comes of a side in a batch."""
        stretch = given.get(entry.source)
        if entry.stage is None:
            return None if stretch is None else _arriving(stretch, places[entry.source])
        if entry.timed:
            return _ended(entry.stage, {} if stretch is None else {entry.source: stretch}, given, places, until)
        return None if stretch is None else _ending(entry.stage, entry.source, stretch, places[entry.source], until)

    def next_timer(self) -> int | None:
        """When a batch ends by itself."""
        due = (stage.next_timer() for stage in self._stages.values())
        return min((one for one in due if one is not None), default=None)

    # ---- state

    def changes(self) -> Iterator[Block]:
        """What changed in the stages, and behind them."""
        for stage in self._stages.values():
            yield from stage.changes()
        yield from self._join.changes()

    def contents(self) -> Iterator[Block]:
        """All that is held."""
        for stage in self._stages.values():
            yield from stage.contents()
        yield from self._join.contents()

    def apply(self, block: Block) -> None:
        """Put back what one of them told."""
        stage = self._stages.get(block.element)
        if stage is not None and block.letter in stage.letters:
            stage.apply(block)
        else:
            self._join.apply(block)

    def check(self) -> None:
        """See whether what was loaded fits together."""
        for one in (*self._stages.values(), self._join):
            check(one)

    def clear(self) -> None:
        """Forget all."""
        for stage in self._stages.values():
            stage.clear()
        self._join.clear()

    def size(self) -> dict[str, int]:
        """Events held, those that wait among them, and groups that hold anything."""
        held = self._join.size()
        return held | {element: held.get(element, 0) + len(stage) for element, stage in self._stages.items()}


def _arriving(stretch: Stretch, places: Longs) -> _Part:
    """Events of a side without a stage."""
    return _Part(stretch, 2 * places + 1, np.zeros(len(stretch), np.int64), places, 2 * stretch.chunk + 1)


def _ending(stage: Stage, source: str, stretch: Stretch, places: Longs, until: int) -> _Part | None:
    """The batches that events end: they are stamped with its place first, so that it is known which event that was."""
    told = Stretch(stretch.columns, stretch.ts, places, stretch.chunk, stretch.group)
    made = stage.process({source: told}, until)
    if made is None:
        return None
    ends = np.searchsorted(places, made.now)
    events = Stretch(made.columns, made.ts, stretch.now[ends], made.chunk, made.group)
    return _Part(events, 2 * made.now + 1, np.zeros(len(made), np.int64), made.chunk, 2 * stretch.chunk[ends] + 1)


def _ended(
    stage: Stage,
    mine: Mapping[str, Stretch],
    given: Mapping[str, Stretch],
    places: Mapping[str, Longs],
    until: int,
) -> _Part | None:
    """The batches that end by themselves: each comes before the first arrival that is not earlier."""
    made = stage.process(mine, until)
    if made is None:
        return None
    order, arrival = (np.full(len(made), 1 + _last(arrays), np.int64) for arrays in (places, _chunks(given)))
    for name, stretch in given.items():
        ends = np.searchsorted(stretch.now, made.now)
        met = ends < len(stretch)
        order[met] = np.minimum(order[met], places[name][ends[met]])
        arrival[met] = np.minimum(arrival[met], stretch.chunk[ends[met]])
    return _Part(made, 2 * order, made.now, made.chunk, 2 * arrival)


def _chunks(given: Mapping[str, Stretch]) -> dict[str, Longs]:
    return {name: stretch.chunk for name, stretch in given.items()}


def _last(arrays: Mapping[str, Longs]) -> int:
    return max((int(array[-1]) for array in arrays.values()), default=-1)


def _turns(parts: list[_Part | None]) -> Iterator[Longs]:
    """The turn of each event of both sides: what goes on together has one."""
    sizes = [0 if part is None else len(part.events) for part in parts]
    some = [part for part in parts if part is not None]
    if not some:
        return iter([_NO] * len(parts))
    order, time, unit = (np.concatenate([getattr(part, name) for part in some]) for name in ("order", "time", "unit"))
    side = np.repeat(np.arange(len(parts)), sizes)
    by = np.lexsort((side, time, order))
    opens = np.concatenate([[False], (np.diff(side[by]) != 0) | (np.diff(unit[by]) != 0)])
    turns = np.empty(len(by), np.int64)
    turns[by] = np.cumsum(opens)
    return iter(np.split(turns, np.cumsum(sizes)[:-1]))


_NO = np.zeros(0, np.int64)
