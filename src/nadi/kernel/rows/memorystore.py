"""A store in memory: the in-memory table behind the interface that all stores have (`nadi.functions.stores`).

Its rows are not kernel state. It is what `@cache` keeps its rows in, what tests put in the place of a database, and the model of how a store behaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nadi.errors import NadiError
from nadi.functions.stores import Changes, Refused, StoreTable
from nadi.kernel.rows.compile import compile_condition
from nadi.kernel.rows.events import Row
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.tables import TableRuntime, lookup_of
from nadi.plan.nodes import Expr, Table

if TYPE_CHECKING:
    from nadi.functions.registry import Registry

Condition = Callable[[Row, Row], object]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A condition and changes as functions of (values, row); `columns` are those of a key or index that the condition fixes to `key`."""

    on: Condition | None
    columns: tuple[int, ...]
    key: tuple[Condition, ...]
    set: tuple[tuple[int, Condition], ...]

    def changed(self, values: Row, row: Row) -> Row:
        """The row after the changes; all of them see it as it was."""
        made = list(row)
        for column, value in self.set:
            made[column] = value(values, row)
        return tuple(made)


class MemoryStore:
    """Implements `nadi.functions.stores.Store`. `held` is the table; its rows have numbers that are never used again."""

    def __init__(self, table: StoreTable, registry: Registry | None = None) -> None:
        self._flow = Flow(lambda _key: 0, registry=registry)
        self.held = TableRuntime(Table(table.name, table.schema, table.primary_key, table.indexes), self._flow)

    def connect(self) -> None:
        """Nothing is to be opened."""

    def compile(self, condition: Expr | None, changes: Changes = ()) -> Compiled:
        columns, values = lookup_of(condition, self.held.table)
        return Compiled(
            None if condition is None else compile_condition(condition, self._flow, {}),
            columns,
            tuple(compile_condition(value, self._flow, {}) for value in values),
            tuple((column, compile_condition(value, self._flow, {})) for column, value in changes),
        )

    def matching(self, compiled: Compiled, values: Row) -> list[tuple[int, Row]]:
        """The rows for which the condition holds, with their numbers."""
        key = tuple(value(values, ()) for value in compiled.key)
        candidates, on = self.held.candidates(compiled.columns, key), compiled.on
        return candidates if on is None else [(n, row) for n, row in candidates if on(values, row) is True]

    def find(self, compiled: Compiled, values: Row) -> Iterable[Row]:
        return [row for _number, row in self.matching(compiled, values)]

    def contains(self, compiled: Compiled, values: Row) -> bool:
        return bool(self.matching(compiled, values))

    def add(self, rows: Sequence[Row]) -> Refused:
        return [(n, why) for n, row in enumerate(rows) if (why := self._inserted(row)) is not None]

    def delete(self, compiled: Compiled, values: Sequence[Row]) -> None:
        for given in values:
            for number, _row in self.matching(compiled, given):
                self.held.delete(number)

    def update(self, compiled: Compiled, values: Sequence[Row]) -> Refused:
        refused = []
        for n, given in enumerate(values):
            _found, why = self._updated(compiled, given)
            if why is not None:
                refused.append((n, why))
        return refused

    def update_or_add(self, compiled: Compiled, values: Sequence[Row], rows: Sequence[Row]) -> Refused:
        refused = []
        for n, (given, row) in enumerate(zip(values, rows, strict=True)):
            found, why = self._updated(compiled, given)
            if not found:
                why = self._inserted(row)
            if why is not None:
                refused.append((n, why))
        return refused

    def _inserted(self, row: Row) -> NadiError | None:
        try:
            self.held.insert(row)
        except NadiError as taken:
            return taken
        return None

    def _updated(self, compiled: Compiled, values: Row) -> tuple[bool, NadiError | None]:
        changes = [(number, compiled.changed(values, row)) for number, row in self.matching(compiled, values)]
        try:
            self.held.replace(changes)
        except NadiError as taken:
            return True, taken
        return bool(changes), None
