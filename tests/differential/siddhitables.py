"""Tables as Siddhi 5.1 has them, defects and all: a store that nadi can run an app with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from nadi.errors import NadiError
from nadi.functions.registry import Registry
from nadi.functions.stores import Changes, Refused, StoreTable
from nadi.kernel.rows.compile import compile_condition
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.outputs import set_in_turn
from nadi.plan.nodes import Expr
from tests.differential.siddhiheld import KEYS, SETS, Held, Maps, Queue, Values, failed
from tests.differential.siddhiways import Holds, Way, Ways


@dataclass
class Moment:
    """What the tables of one run share: in which order hash sets go, the time of the step, and the entries whose defects have shown."""

    order: int = 0
    now: int = 0
    noted: set[str] = field(default_factory=set)
    loose: bool = False
    """Whether rows came out of a hash set, or in the order of the parts of a condition: their order is Siddhi's own."""

    def in_some_order(self, rows: list[Held]) -> list[Held]:
        """As a hash set might go through them."""
        self.loose |= len(rows) > 1
        if self.order and len(rows) > 1:
            Random(f"{self.order} {len(rows)}").shuffle(rows)
        return rows

    def tell(self, time: int) -> None:
        self.now = time


@dataclass(frozen=True)
class Asked:
    """A condition, as each kind of table takes it, and what an update assigns."""

    holds: Holds
    way: Way | None
    replaces: bool
    set: tuple[tuple[int, Holds], ...]


class SiddhiTable:
    """Implements `nadi.functions.stores.Store`."""

    def __init__(self, table: StoreTable, moment: Moment, registry: Registry) -> None:
        self._moment = moment
        self._flow = Flow(lambda _key: 0, registry=registry)
        self._blank = (None,) * len(table.schema)
        self._queue = Queue(moment.noted)
        self._maps = Maps(table, moment.noted) if table.primary_key or table.indexes else None

    def connect(self) -> None:
        """Nothing is to be opened."""

    def compile(self, condition: Expr | None, changes: Changes = ()) -> Asked:
        def compiled(expr: Expr) -> Holds:
            return compile_condition(expr, self._flow, {})

        ways = None if self._maps is None else Ways(self._maps, compiled)
        return Asked(
            (lambda _values, _row: True) if condition is None else compiled(condition),
            None if ways is None else ways.of(condition),
            ways is not None and ways.replaces(condition),
            tuple((column, compiled(value)) for column, value in set_in_turn(changes)),
        )

    # ---- reading

    def _found(self, asked: Asked, values: Values) -> list[Held]:
        if asked.way is not None:
            found = asked.way.found(values)
            return found if asked.way.ordered else self._moment.in_some_order(found)
        return [row for row in self._queue.rows if asked.holds(values, tuple(row.row)) is True]

    def find(self, asked: Asked, values: Values) -> list[Values]:
        return [tuple(row.row) for row in self._found(asked, values)]

    def contains(self, asked: Asked, values: Values) -> bool:
        return bool(self._found(asked, values)) if asked.way is None else asked.way.contains(values)

    # ---- writing

    def add(self, rows: Sequence[Values]) -> Refused:
        return self._each(rows, lambda row: self._add(Held(list(row), self._moment.now)))

    def _add(self, row: Held) -> None:
        (self._queue if self._maps is None else self._maps).add(row)

    def _each(self, rows: Sequence[Any], act: Callable[[Any], object]) -> Refused:
        refused: list[tuple[int, NadiError]] = []
        for n, row in enumerate(rows):
            try:
                act(row)
            except NadiError as why:
                refused.append((n, why))
        return refused

    def delete(self, asked: Asked, values: Sequence[Values]) -> None:
        for given in values:
            if asked.way is None:
                self._queue.remove(self._found(asked, given))
            else:
                asked.way.delete(given)

    def update(self, asked: Asked, values: Sequence[Values]) -> Refused:
        return self._each(values, lambda given: self._update(asked, given))

    def _update(self, asked: Asked, values: Values) -> bool:
        """Whether there was a row."""
        found = self._found(asked, values)
        if self._maps is not None:
            return self._update_mapped(asked, values, self._maps, found)
        for row in found:
            for column, value in asked.set:
                row.row[column] = value(values, tuple(row.row))
            self._queue.changed(row)
        return bool(found)

    def _update_mapped(self, asked: Asked, values: Values, maps: Maps, found: list[Held]) -> bool:
        chain = _tied(found)
        if len(chain) > len(found):
            maps.noted.add(KEYS)
        given = {column: value(values, self._blank) for column, value in asked.set}
        moves, taken = _moves(given, chain, maps)
        if taken:
            maps.noted.add(KEYS)
            return bool(found)
        for row in chain:
            row.after = None
        if moves and asked.way is not None:
            asked.way.delete(values)
        for row in chain:
            self._change(row, given, maps, moves)
        if moves:
            for row in _tied(chain):
                maps.add(Held(list(row.row), row.time))
        return bool(found)

    def _change(self, row: Held, given: dict[int, Any], maps: Maps, moves: bool) -> None:
        """Changes a row where it is. Only one that moves goes where its new values belong."""
        for column, value in given.items():
            if row.row[column] != value and not moves:
                maps.noted.update([KEYS] * (column in maps.key) + [SETS] * (column in maps.indexes))
            row.row[column] = value

    def update_or_add(self, asked: Asked, values: Sequence[Values], rows: Sequence[Values]) -> Refused:
        if asked.replaces and self._maps is not None:
            maps = self._maps
            return self._each(rows, lambda row: maps.overwrite(Held(list(row), self._moment.now)))
        made: list[list[Any]] = []
        for given, row in zip(values, rows, strict=True):
            if self._update(asked, given):
                continue
            merged = [other for other in made if asked.holds(given, tuple(other)) is True]
            for other in merged:
                for column, value in asked.set:
                    other[column] = value(given, tuple(other))
            if not merged:
                made.append(list(row))
        return self.add([tuple(row) for row in made])


def _tied(found: Sequence[Held]) -> list[Held]:
    """Ties rows to each other, as an update does; those that a failed one has tied come along."""
    chain: list[Held] = []
    for row in found:
        if chain:
            chain[-1].after = row
        here: Held | None = row
        while here is not None:
            if here in chain:
                raise failed("rows that are tied in a circle")
            chain.append(here)
            here = here.after
    return chain


def _moves(given: dict[int, Any], rows: Sequence[Held], maps: Maps) -> tuple[bool, bool]:
    """Whether an update deletes rows and adds them anew, since a column that has a map changes, and whether a primary key that it gives is taken."""
    for column, value in given.items():
        if not maps.has_map(column):
            continue
        keys = set(maps.keys()) if column == maps.single else set()
        moves = False
        for row in rows:
            held = row.row[column]
            if value is None or held is None or value == held:
                continue
            moves = True
            if not keys:
                break
            keys.discard(held)
            if value in keys:
                return True, True
            keys.add(value)
        if moves:
            return True, False
    return False, False
