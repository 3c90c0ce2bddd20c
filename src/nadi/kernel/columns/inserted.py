"""A stream into which several queries insert: their rows in the order of the arrivals that they come with, and of the queries that get these in turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from nadi.kernel.columns.stretch import Stretch, in_order
from nadi.kernel.columns.tables.writing import Turns, turns_of
from nadi.kernel.rows.meter import Clock, Part
from nadi.plan.nodes import App
from nadi.plan.streams import producers


def shared(app: App, queries: Sequence[str]) -> dict[str, Inserted]:
    """The streams into which several queries insert, of those with the ids `queries`."""
    found = {}
    for target, makers in producers(app.elements).items():
        mine = [query for query in makers if query.id in queries]
        if len(mine) > 1:
            found[target] = Inserted(target, {part_of(target, query.id): turns_of(query, app) for query in mine})
    return found


def part_of(target: str, query: str) -> str:
    """Where the rows of a query are put that go into a stream with those of others."""
    return f"{target}/{query}"


class Inserted:
    """Takes the rows of the queries out of the streams; each is in `turns` by where it puts them."""

    def __init__(self, target: str, turns: Mapping[str, Turns]) -> None:
        self.target = target
        self._turns = turns

    def run(self, streams: dict[str, Stretch], _now: int) -> None:
        """Put the rows of a batch in order."""
        given = [(turns, streams.pop(key)) for key, turns in self._turns.items() if key in streams]
        if len(given) == 1:
            streams[self.target] = given[0][1]
        elif given:
            streams[self.target] = _merged(given)

    def measure(self, _clock: Clock, _parts: dict[str, Part]) -> None:
        """Its time is nobody's."""

    def forget(self) -> None:
        """There is nothing to forget."""


def _merged(given: Sequence[tuple[Turns, Stretch]]) -> Stretch:
    parts = [stretch for _turns, stretch in given]
    order = np.argsort(np.concatenate([turns.of(stretch) for turns, stretch in given]), kind="stable")
    which = np.repeat(np.arange(len(parts)), [part.size for part in parts])[order]
    made = in_order(parts, order)
    opens = np.concatenate([[True], (np.diff(made.chunk) != 0) | (np.diff(which) != 0)])
    return Stretch(made.columns, made.ts, made.now, np.cumsum(opens), made.group)
