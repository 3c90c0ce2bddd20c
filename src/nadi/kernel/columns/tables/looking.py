"""The operator of queries that look into tables: what they find stands beside the attributes of their events, and another operator does the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from nadi.kernel.columns.contract import Forgets, Operator, Stateful, check
from nadi.kernel.columns.stretch import DTYPES, Column, Longs, Stretch
from nadi.kernel.columns.tables.held import HeldTable
from nadi.kernel.columns.tables.listed import ListedTable
from nadi.kernel.columns.tables.writing import Turns
from nadi.kernel.rows.meter import Clock, Part
from nadi.plan.columns.tablesupport import Lookup, Seen
from nadi.plan.nodes import Attr
from nadi.plan.walk import inside


class StatefulOperator(Operator, Stateful, Protocol):
    """An operator with state."""


@dataclass(frozen=True, slots=True)
class _Charged:
    """What look-ups are charged to, by their places, and the query that would be charged otherwise."""

    clock: Clock
    parts: Sequence[Part]
    query: Part | None

    def charge(self, number: int, begin: int, events: int) -> None:
        part, spent = self.parts[number], self.clock() - begin
        part.ns += spent
        part.calls += 1
        part.events += events
        if self.query is not None:
            self.query.ns -= spent


class Looking:
    """`from S join T on S.k == T.k …`, `from S[T.k == k in T] …`, where `k` is the primary key. `inner` is the operator of the query as it was seen."""

    def __init__(self, seen: Seen, tables: Mapping[str, HeldTable], inner: Operator, turns: Turns) -> None:
        self._types = seen.types
        self._lookups = [(lookup, tables[lookup.table]) for lookup in seen.lookups]
        self._inner, self._turns = inner, turns
        looked = (seen.query.input, seen.query.selection)
        self._charged: _Charged | None = None
        self._read = frozenset(part.position for part in inside(looked) if isinstance(part, Attr) and part.slot == 0)

    def process(self, given: Mapping[str, Stretch], until: int) -> Stretch | None:
        """The output rows of a stretch."""
        ((name, stretch),) = given.items()
        columns = list(stretch.columns)
        turns = self._turns.of(stretch)
        for number, (lookup, held) in enumerate(self._lookups):
            begin, events = self._charged.clock() if self._charged is not None else 0, len(stretch)
            sought, kinds = [columns[p] for p in lookup.keys], [self._types[p] for p in lookup.keys]
            keys = held.looked(lookup.by, sought, kinds, len(stretch))
            if lookup.whole and isinstance(held, ListedTable):  # a join, which looks once
                source, found = held.looks(turns, keys, lookup.by)
                stretch = stretch if len(source) == len(stretch) else stretch.take(source)
                columns = list(stretch.columns)
            else:
                found = held.look(turns, keys, lookup.by)
            columns.append(Column(None, found != 0))
            if lookup.whole:
                columns += self._row(lookup, held, found)
            if self._charged is not None:
                self._charged.charge(number, begin, events)
        wide = Stretch(tuple(columns), stretch.ts, stretch.now, stretch.chunk, stretch.group, stretch.origin)
        return self._inner.process({name: wide}, until)

    def measure(self, clock: Clock, parts: dict[str, Part], query: Part | None) -> None:
        """Charge the time of its look-ups from now on to those of tables, and not to `query`, where that is charged for the whole."""
        labels = [f"table {'find' if one.whole else 'contains'} {one.table}" for one, _held in self._lookups]
        self._charged = _Charged(clock, [parts.setdefault(label, Part()) for label in labels], query)

    def stop_measuring(self) -> None:
        """Charge them no more."""
        self._charged = None

    def _row(self, lookup: Lookup, held: HeldTable, found: Longs) -> Sequence[Column]:
        """The attributes of the rows; those that nobody reads are not fetched."""
        first = lookup.at + 1
        return [
            held.column(found, n)
            if first + n in self._read
            else Column(None, np.zeros(len(found), DTYPES.get(kind, "int64")))
            for n, kind in enumerate(held.types)
        ]


class LookingOn(Looking):
    """In front of an operator with state. Implements `nadi.kernel.columns.contract.Stateful`: the state is that of `inner`."""

    def __init__(self, seen: Seen, tables: Mapping[str, HeldTable], inner: StatefulOperator, turns: Turns) -> None:
        super().__init__(seen, tables, inner, turns)
        self.elements = inner.elements
        self.next_timer, self.changes, self.contents = inner.next_timer, inner.changes, inner.contents
        self.apply, self.clear, self.size = inner.apply, inner.clear, inner.size

    def check(self) -> None:
        """See whether what was loaded fits together."""
        check(self._inner)

    def forget(self, keys: pa.Array) -> None:
        """Forget some keys of a partition."""
        if isinstance(self._inner, Forgets):
            self._inner.forget(keys)
