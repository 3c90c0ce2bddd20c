"""A table on columns as rows see it who ask it on demand: between batches, by rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from nadi.kernel.arrow import ARROW_TYPES
from nadi.kernel.columns.stretch import Column, Longs
from nadi.kernel.columns.tables.held import HeldTable
from nadi.kernel.contract import Row
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.tables import Key, TableRuntime, key_order


class AskedTable(TableRuntime):
    """Stands among the tables of rows in the place of the one that is on columns."""

    def __init__(self, held: HeldTable) -> None:
        super().__init__(held.table, Flow(lambda _key: 0))
        self._held = held
        self._known: dict[int, Row] = {}  # those that were asked for last

    def __len__(self) -> int:
        return len(self._held)

    # ---- reading

    def rows(self) -> Iterable[Row]:
        return [row for _number, row in self.candidates((), ())]

    def lookup(self, columns: tuple[int, ...], key: Key) -> list[Row] | None:
        indexed = columns == self.key or (len(columns) == 1 and columns[0] in self.table.indexes)
        return [row for _number, row in self.candidates(columns, key)] if columns and indexed else None

    def candidates(self, columns: tuple[int, ...], key: Key) -> list[tuple[int, Row]]:
        if columns and columns == self.key:
            return self._fetched(self._found([key]))
        self._fetched(self._held.all())
        found = self._known
        if columns:  # an index
            return [(n, row) for n, row in sorted(found.items()) if tuple(row[i] for i in columns) == key]
        numbers = key_order(self.table, found, self._held.most) if self.key else sorted(found)
        return [(number, found[number]) for number in numbers]

    def _fetched(self, nodes: Longs) -> list[tuple[int, Row]]:
        columns = [self._held.column(nodes, n).array().to_pylist() for n in range(len(self._held.types))]
        self._known = dict(zip(self._held.numbers(nodes).tolist(), zip(*columns, strict=True), strict=True))
        return list(self._known.items())

    def _found(self, keys: Sequence[Key]) -> Longs:
        types = [self._held.types[n] for n in self.key]
        columns = [self._column(kind, values) for kind, values in zip(types, zip(*keys, strict=True), strict=True)]
        return self._held.found(self._held.matrix(columns, types, len(keys)))

    @staticmethod
    def _column(kind: object, values: Iterable[object]) -> Column:
        return Column(pa.array(list(values), ARROW_TYPES[kind]))  # type: ignore[index]

    # ---- writing

    def insert(self, row: Row) -> int:
        self._check_free(self._key_of(row))
        number = self._held.take_number()
        self._put([(number, row)])
        return number

    def replace(self, changes: list[tuple[int, Row]]) -> None:
        before = self._known
        if not self.key:  # one that is found by other values now stands elsewhere
            self._put([(number, before[number]) for number, _row in changes], there=False)
            self._put(changes)
            return
        taken: set[Key] = set()
        for number, row in changes:
            key = self._key_of(row)
            if key in taken or key != self._key_of(before[number]):
                self._check_free(key, taken)
                taken.add(key)
        self._put([(n, before[n]) for n, row in changes if self._key_of(row) != self._key_of(before[n])], there=False)
        self._put(changes)

    def delete(self, number: int) -> None:
        self._put([(number, self._known[number])], there=False)

    def _is_taken(self, key: Key) -> bool:
        return bool(self.key) and len(self._found([key])) > 0

    def _put(self, rows: Sequence[tuple[int, Row]], there: bool = True) -> None:
        if rows:
            held, size = self._held, len(rows)
            given = zip(held.types, zip(*(row for _number, row in rows), strict=True), strict=True)
            words, nulls = held.matrix([self._column(kind, values) for kind, values in given], held.types, size)
            numbers = np.array([number for number, _row in rows], np.int64)
            held.put(np.full(size, there), numbers, words.reshape(size, -1), nulls, tells=True)
