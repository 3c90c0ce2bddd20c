"""What the queries of an app do to one table in a batch."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from nadi.kernel.columns.stretch import Column, Longs, Stretch
from nadi.kernel.columns.tables.held import Asked, HeldTable
from nadi.kernel.columns.tables.versions import DELETE, INSERT, UPDATE, UPSERT
from nadi.kernel.contract import Row
from nadi.lang.tree import Type
from nadi.plan.columns.tablesupport import Write
from nadi.plan.columns.tableuse import turns, writes
from nadi.plan.nodes import App, Query

OPERATIONS = {"insert": "insert", "update": "update", "upsert": "updateOrInsert", "delete": "delete"}
KINDS = {"insert": INSERT, "update": UPDATE, "upsert": UPSERT, "delete": DELETE}


class Turns:
    """The turns of a query: `place` is its place among all `count` of the app."""

    def __init__(self, place: int, count: int) -> None:
        self._place, self._count = place, count

    def of(self, stretch: Stretch) -> Longs:
        """The turn of each event of a stretch."""
        chunk = stretch.chunk if stretch.origin is None else stretch.origin
        return chunk * self._count + self._place


def turns_of(query: Query, app: App) -> Turns:
    """When a query gets what comes of an arrival."""
    return Turns(turns(app)[query.id], len(app.queries))


class Writing:
    """One query that writes. `types` are those of its output."""

    def __init__(self, write: Write, held: HeldTable, types: tuple[Type, ...], turns: Turns) -> None:
        self._write, self._held, self._types, self._turns = write, held, types, turns
        self._kind = KINDS[write.kind]
        self._set = sum(1 << column for column in write.set)
        self._looked = sum(1 << column for column in write.by)

    @property
    def operation(self) -> str:
        """What it does, as metrics name it."""
        return OPERATIONS[self._write.kind]

    def given(self, stretch: Stretch) -> Asked:
        """What it asks for."""
        held, write, size = self._held, self._write, len(stretch)
        columns: list[Column | None] = [None if p is None else stretch.columns[p] for p in write.columns]
        rows = held.matrix(columns, held.types, size)
        given = [stretch.columns[p] for p in write.key]
        keys = held.looked(write.by, given, [self._types[p] for p in write.key], size)
        kinds, sets, looked = (np.full(size, one, np.int64) for one in (self._kind, self._set, self._looked))
        return Asked(self._turns.of(stretch), kinds, sets, looked, keys, rows)

    def row(self, stretch: Stretch, at: int) -> tuple[int, Row, tuple[int, ...]]:
        """An output row: its timestamp, its values, and which of these are its primary key."""
        return int(stretch.ts[at]), tuple(c.array()[at].as_py() for c in stretch.columns), self._write.key


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
        np.concatenate([p.looked for p in parts]),
        both(p.keys for p in parts),
        both(p.rows for p in parts),
    )


def target_of(query: Query) -> str:
    """Where the rows of a query are put: its stream, or for a table a place of its own."""
    table = writes(query)
    return f"{table}/table/{query.id}" if table is not None else query.output.target  # type: ignore[union-attr]
