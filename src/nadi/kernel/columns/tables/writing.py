"""What the queries of an app do to one table in a batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from nadi.errors import error
from nadi.kernel.columns.stretch import Column, Longs, Stretch
from nadi.kernel.columns.tables.held import HeldTable
from nadi.kernel.columns.tables.versions import DELETE, INSERT, UPDATE, UPSERT
from nadi.kernel.contract import Failure
from nadi.lang.tree import Type
from nadi.plan.nodes import App, Query
from nadi.plan.tabling import Write, write_of
from nadi.plan.touching import turns, writes

_KINDS = {"insert": INSERT, "update": UPDATE, "upsert": UPSERT, "delete": DELETE}


class Turns:
    """The turns of a query: `place` is its place among all `count` of the app."""

    def __init__(self, place: int, count: int) -> None:
        self._place, self._count = place, count

    def of(self, stretch: Stretch) -> Longs:
        """The turn of each event of a stretch."""
        return stretch.chunk * self._count + self._place


def turns_of(query: Query, app: App) -> Turns:
    """When a query gets what comes of an arrival."""
    return Turns(turns(app)[query.id], len(app.queries))


class Writing:
    """One query that writes. `types` are those of its output."""

    def __init__(self, write: Write, held: HeldTable, types: tuple[Type, ...], turns: Turns) -> None:
        self._write, self._held, self._types, self._turns = write, held, types, turns
        self._kind = _KINDS[write.kind]
        self._set = sum(1 << column for column in write.set)

    def given(self, stretch: Stretch) -> Asked:
        """What it asks for."""
        held, write, size = self._held, self._write, len(stretch)
        columns: list[Column | None] = [None if p is None else stretch.columns[p] for p in write.columns]
        rows = held.matrix(columns, held.types, size)
        keys = held.matrix([stretch.columns[p] for p in write.key], [self._types[p] for p in write.key], size)
        return Asked(
            self._turns.of(stretch), np.full(size, self._kind, np.int64), np.full(size, self._set, np.int64), keys, rows
        )

    def refused(self, stretch: Stretch, at: int) -> Failure:
        """The output row that could not be inserted."""
        row = tuple(column.array()[at].as_py() for column in stretch.columns)
        name = self._held.table.name
        problem = error("PRIMARY_KEY_TAKEN", table=name, key=", ".join(repr(row[p]) for p in self._write.key))
        return Failure(name, int(stretch.ts[at]), row, problem.condition, problem.diagnostic.message, routed=False)


class Asked:
    """Writes in the order of their turns: kinds, columns that are set, keys and rows as words with bits for nulls."""

    def __init__(
        self, turns: Longs, kinds: Longs, sets: Longs, keys: tuple[Longs, Longs], rows: tuple[Longs, Longs]
    ) -> None:
        self.turns, self.kinds, self.sets, self.keys, self.rows = turns, kinds, sets, keys, rows


def joined(parts: list[Asked]) -> Asked:
    """What several queries ask for, behind each other."""
    if len(parts) == 1:
        return parts[0]

    def both(pairs: Iterable[tuple[Longs, Longs]]) -> tuple[Longs, Longs]:
        given = list(pairs)
        return np.concatenate([p[0] for p in given]), np.concatenate([p[1] for p in given])

    return Asked(
        np.concatenate([p.turns for p in parts]),
        np.concatenate([p.kinds for p in parts]),
        np.concatenate([p.sets for p in parts]),
        both(p.keys for p in parts),
        both(p.rows for p in parts),
    )


class Written:
    """The place of a table among the queries: behind those that write it, whose outputs it takes out of the streams."""

    def __init__(self, held: HeldTable, writers: Mapping[str, Writing]) -> None:
        self._held = held
        self._writers = writers
        self._refused: list[tuple[int, Failure]] = []

    def run(self, streams: dict[str, Stretch], _now: int) -> None:
        """Write."""
        self._held.settle()
        given = [(w, streams.pop(key)) for key, w in self._writers.items() if key in streams]
        if not given:
            return
        asked = joined([writing.given(stretch) for writing, stretch in given])
        starts = np.cumsum([0, *(len(stretch) for _writing, stretch in given)])
        for place in self._held.write(asked.turns, asked.kinds, asked.sets, asked.keys, asked.rows).tolist():
            number = int(np.searchsorted(starts, place, "right")) - 1
            writing, stretch = given[number]
            failure = writing.refused(stretch, place - int(starts[number]))
            self._refused.append((int(asked.turns[place]), failure))

    def take_refused(self) -> list[tuple[int, Failure]]:
        """The batch is over: rows that could not be inserted, each with its turn."""
        self._held.settle()
        refused, self._refused = self._refused, []
        return refused


def written(held: HeldTable, app: App) -> Written:
    """The table with the queries of an app that write it."""
    writers = {}
    for query in app.queries:
        write = write_of(query, app) if writes(query) == held.table.name else None
        if write is not None:
            writers[target_of(query)] = Writing(write, held, query.selection.schema.types, turns_of(query, app))
    return Written(held, writers)


def target_of(query: Query) -> str:
    """Where the rows of a query are put: its stream, or for a table a place of its own."""
    table = writes(query)
    return f"{table}/table/{query.id}" if table is not None else query.output.target  # type: ignore[union-attr]
