"""The place of a table among the queries of an app: behind those that write it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nadi.errors import error
from nadi.functions.arithmetic import told
from nadi.kernel.columns.stretch import Stretch
from nadi.kernel.columns.tables.changing import Changing
from nadi.kernel.columns.tables.held import Asked, HeldTable
from nadi.kernel.columns.tables.writing import Writing, joined, target_of, turns_of
from nadi.kernel.contract import Failure, Row
from nadi.kernel.rows.meter import Clock, Part
from nadi.plan.columns.setclause import with_set
from nadi.plan.columns.tablesupport import seen, write_of
from nadi.plan.columns.tableuse import changes, writes
from nadi.plan.nodes import App


class Written:
    """Takes the outputs of the queries that write a table out of the streams. `changing` is the one that looks into it, too."""

    def __init__(self, held: HeldTable, writers: Mapping[str, Writing], changing: Changing | None = None) -> None:
        self._held = held
        self._writers = writers
        self._changing = changing
        self._refused: list[tuple[int, Failure]] = []
        self._meter: tuple[Clock, Part] | None = None
        self._charged: tuple[Clock, Mapping[str, Part]] | None = None

    def run(self, streams: dict[str, Stretch], _now: int) -> None:
        """Write."""
        self._held.settle()
        given = [(w, streams.pop(key)) for key, w in self._writers.items() if key in streams]
        if self._charged is None:
            self._write(streams, given)
            return
        clock, parts = self._charged
        begin = clock()
        self._write(streams, given)
        spent, whole = clock() - begin, sum(len(stretch) for _writing, stretch in given)
        for writing, stretch in given:
            part = parts[writing.operation]
            part.ns += spent * len(stretch) // whole if whole else 0
            part.calls += 1
            part.events += len(stretch)

    def _write(self, streams: Mapping[str, Stretch], given: Sequence[tuple[Writing, Stretch]]) -> None:
        asked = joined([writing.given(stretch) for writing, stretch in given]) if given else None
        failed: Any = ()
        if self._changing is not None and self._changing.source in streams:
            failed = self._change(self._changing, streams[self._changing.source], asked)
        elif asked is not None:
            failed = self._held.write(asked)
        if asked is None:
            return
        starts = np.cumsum([0, *(len(stretch) for _writing, stretch in given)])
        for place in map(int, failed):
            number = int(np.searchsorted(starts, place, "right")) - 1
            writing, stretch = given[number]
            ts, row, key = writing.row(stretch, place - int(starts[number]))
            self._refused.append((int(asked.turns[place]), refusal(self._held, ts, row, key)))

    def _change(self, changing: Changing, stretch: Stretch, asked: Asked | None) -> Any:
        """Let the query run that changes what it finds; -> the places of what could not be inserted among what others ask for."""
        begin = self._meter[0]() if self._meter is not None else 0
        made = changing.process(stretch, asked)
        for turn, ts, row in zip(made.turns.tolist(), made.ts.tolist(), made.rows, strict=True):
            self._refused.append((turn, refusal(self._held, ts, row, changing.key)))
        if self._meter is not None:
            clock, part = self._meter
            part.ns += clock() - begin
            part.calls += 1
            part.events += len(stretch)
        return made.others

    def measure(self, clock: Clock, parts: dict[str, Part]) -> None:
        """Charge the time of what is done to the table from now on, and that of the query that changes what it finds; that of others is their own."""
        name = self._held.table.name
        operations = sorted({writing.operation for writing in self._writers.values()})
        self._charged = clock, {one: parts.setdefault(f"table {one} {name}", Part()) for one in operations}
        if self._changing is not None:
            self._meter = clock, parts.setdefault(f"query {self._changing.name}", Part())

    def forget(self) -> None:
        """Charge it no more."""
        self._meter = self._charged = None

    def take_refused(self) -> list[tuple[int, Failure]]:
        """The batch is over: rows that could not be inserted, each with its turn."""
        self._held.settle()
        refused, self._refused = self._refused, []
        return refused


def refusal(held: HeldTable, ts: int, row: Row, key: tuple[int, ...]) -> Failure:
    """An output row whose primary key was taken."""
    name = held.table.name
    problem = error("PRIMARY_KEY_TAKEN", table=name, key=", ".join(told(row[p]) for p in key))
    return Failure(name, ts, row, problem.condition, problem.diagnostic.message, routed=False)


def written(held: HeldTable, app: App) -> Written:
    """The table with the queries of an app that write it."""
    writers, changing = {}, None
    for query in map(with_set, app.queries):
        write = write_of(query, app) if writes(query) == held.table.name else None
        if write is None:
            continue
        found = seen(query, app) if changes(query, app) else None
        if found is not None:
            changing = Changing(found, write, held, turns_of(query, app))
        else:
            writers[target_of(query)] = Writing(write, held, query.selection.schema.types, turns_of(query, app))
    return Written(held, writers, changing)
