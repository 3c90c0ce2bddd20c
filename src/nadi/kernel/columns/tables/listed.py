"""A table without a primary key: rows in lists, of which one look may find many."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nadi.kernel.columns.keytable import longer
from nadi.kernel.columns.stretch import Bools, Column, Longs
from nadi.kernel.columns.tables import rowlists
from nadi.kernel.columns.tables.held import Asked, HeldTable
from nadi.kernel.columns.tables.rowlists import LISTED
from nadi.kernel.columns.tables.versions import END_KEY, END_NODE, KEYS, MASK, READER, WIDTH
from nadi.kernel.columns.words import aligned
from nadi.lang.tree import Type

_ROOM = 1024  # rows that there is room for at first


class ListedTable(HeldTable):
    """Such a table; what is looked for are words of all its columns, of which some count. `columns` are among those of every look, and never change."""

    def clear(self) -> None:
        """Forget all."""
        super().clear()
        self.meta[END_KEY] = LISTED
        self._keys = np.zeros(_ROOM * LISTED, np.int64)
        self._heads = np.zeros(2 * _ROOM, np.int64)

    def _ready(self, rows: int) -> None:
        """Make room for so many rows more."""
        meta, width = self.meta, int(self.meta[WIDTH])
        self._extend(int(meta[END_NODE]) + rows * width)
        if (need := int(meta[END_KEY]) + rows * LISTED) > len(self._keys):
            self._keys = longer(self._keys, max(need, 2 * len(self._keys)))
        if (need := int(meta[KEYS]) + rows) > len(self._heads) // 2:
            self._heads = np.zeros(2 << need.bit_length(), np.int64)
            meta[MASK] = len(self._heads) // 2 - 1
            found, numbers = rowlists.all_listed(self._nodes, self._keys, meta)
            rowlists.relisted(found[np.argsort(numbers, kind="stable")], self._keys, self._heads, meta)
        most = len(self._keys) // LISTED  # a row is listed once
        if len(self._touched) < most:
            self._touched, self._changed = longer(self._touched, most), longer(self._changed, most)

    def _extend(self, need: int) -> None:
        """Make room for words of versions."""
        if need > len(self._nodes):
            self._nodes = aligned(max(need, 2 * len(self._nodes)), self._nodes)

    # ---- writing and reading

    def write(self, asked: Asked) -> Longs:
        """Do what queries ask for, in the order of the turns; there is nothing that could be refused."""
        size = len(asked.turns)
        self._ready(size)
        order, done = np.argsort(asked.turns, kind="stable"), 0
        while True:
            wishes = asked.turns, asked.kinds, asked.sets, *asked.keys, asked.looked, *asked.rows
            done = rowlists.write(order, done, *wishes, self._arrays)
            if done == size:
                return np.zeros(0, np.int64)
            self._extend(2 * len(self._nodes))

    def looked(
        self, by: Sequence[int], columns: Sequence[Column], kinds: Sequence[Type], size: int
    ) -> tuple[Longs, Longs]:
        """What is looked for in the columns `by`, as words of all columns and bits for nulls."""
        given: dict[int, tuple[Column, Type]] = dict(zip(by, zip(columns, kinds, strict=True), strict=True))
        every = [given.get(number, (None, kind)) for number, kind in enumerate(self.types)]
        return self.matrix([column for column, _kind in every], [kind for _column, kind in every], size)

    def look(self, turns: Longs, keys: tuple[Longs, Longs], by: Sequence[int]) -> Longs:
        """The version of the first row that is seen at each of ascending turns, 0 where there is none."""
        return self._look(turns, keys, by, False)[1]

    def looks(self, turns: Longs, keys: tuple[Longs, Longs], by: Sequence[int]) -> tuple[Longs, Longs]:
        """The places of the turns, each as often as it sees rows, at least once; and the versions of these rows, 0 where there is none."""
        return self._look(turns, keys, by, True)

    def _look(self, turns: Longs, keys: tuple[Longs, Longs], by: Sequence[int], each: bool) -> tuple[Longs, Longs]:
        self.meta[READER] += 1
        which, reader = sum(1 << column for column in by), int(self.meta[READER])
        size, done, count = len(turns), 0, np.zeros(1, np.int64)
        source, found = np.empty(size, np.int64), np.empty(size, np.int64)
        while True:
            done = rowlists.look(turns, done, *keys, which, each, reader, self._arrays, source, found, count)
            if done == size:
                return source[: count[0]], found[: count[0]]
            source, found = longer(source, 2 * len(source)), longer(found, 2 * len(found))

    # ---- state

    def _tell(self) -> None:
        rowlists.told(self._arrays)

    def put(self, there: Bools, numbers: Longs, values: Longs, nulls: Longs, tells: bool = False) -> None:
        """Rows as they are from now on, by number: a matrix of words, bits that say which are null; with `tells` the next delta tells it."""
        self._ready(len(there))
        rowlists.put(there, numbers, np.ascontiguousarray(values).reshape(-1), nulls, self._arrays, tells)
        if tells:
            self.settle()
