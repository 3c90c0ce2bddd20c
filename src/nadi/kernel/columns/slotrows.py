"""Whole output rows in arrays by slot: one for each group of a query."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nadi.kernel.columns.bounds import values
from nadi.kernel.columns.keytable import longer
from nadi.kernel.columns.stretch import DTYPES, Array, Column, Longs, Stretch
from nadi.kernel.columns.texts import Texts
from nadi.kernel.columns.wholerows import nothing
from nadi.lang.tree import Type

Numbers = dict[str, Array]


class SlotRows:
    """Rows with columns of some types, those at some `positions`; at others nobody looks.

    `arrays` by slot: of column n `c<n>` its values, of strings their ids, and `y<n>` nulls; `ts`.
    """

    def __init__(self, types: tuple[Type, ...], positions: frozenset[int] | None = None) -> None:
        self._types = types
        self._dtypes = {"ts": "int64"}
        self._positions = tuple(range(len(types))) if positions is None else tuple(sorted(positions))
        for n in self._positions:
            kind = types[n]
            self._dtypes |= {f"c{n}": "int32"} if kind is Type.STRING else {f"c{n}": DTYPES[kind], f"y{n}": "bool"}
        self._texts = tuple(f"c{n}" for n in self._positions if types[n] is Type.STRING)
        self._table = Texts()
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self._table.clear()
        self.arrays: Numbers = {name: np.zeros(1, dtype) for name, dtype in self._dtypes.items()}

    def room(self, size: int) -> None:
        """Make room for so many slots."""
        if size > len(self.arrays["ts"]):
            self.arrays = {name: longer(array, size) for name, array in self.arrays.items()}

    def numbers(self, rows: Stretch | None) -> Numbers:
        """The columns of a batch as numbers."""
        if rows is None:
            return {name: np.zeros(1, dtype) for name, dtype in self._dtypes.items()}
        made: Numbers = {"ts": rows.ts}
        for n in self._positions:
            column = rows.columns[n]
            if self._types[n] is Type.STRING:
                made[f"c{n}"] = self._table.ids(column)
            else:
                made |= {f"c{n}": column.values(), f"y{n}": column.nulls()[: len(rows)]}
        return made

    def put(self, slots: Longs, rows: Numbers, places: Longs) -> None:
        """Hold the rows at some places of a batch."""
        for name, array in self.arrays.items():
            array[slots] = rows[name][places]

    def picked(self, rows: Numbers, places: Longs) -> tuple[tuple[Column, ...], Longs]:
        """Rows of a batch by place, and of slots where a place is -1 - slot: columns and timestamps."""
        held = places < 0
        slots, there = np.where(held, -1 - places, 0), np.where(held, 0, places)
        found = {name: np.where(held, array[slots], rows[name][there]) for name, array in self.arrays.items()}
        columns = []
        for n, kind in enumerate(self._types):
            if n not in self._positions:
                columns.append(nothing(kind, len(places)))
            elif kind is Type.STRING:
                columns.append(self._table.column(found[f"c{n}"]))
            else:
                columns.append(Column(None, found[f"c{n}"], found[f"y{n}"]))
        return tuple(columns), found["ts"]

    @property
    def may_sweep(self) -> bool:
        """Whether there are so many strings that it is worth while to look for those that are not held."""
        return self._table.may_sweep

    def sweep(self, held: Longs) -> None:
        """Forget the strings of other slots than these, where there are so many that it is worth while."""
        self._table.sweep(self.arrays[name][held] for name in self._texts)

    # ---- state

    def told(self, slots: Longs) -> Numbers:
        """The rows of slots as arrays of a block."""
        made = {name: array[slots] for name, array in self.arrays.items()}
        for name in self._texts:
            made |= self._table.told(name, made[name])
        return made

    def read(self, slots: Longs, arrays: Mapping[str, Array]) -> None:
        """Put back what was told of slots. Raises ValueError for what was told of others."""
        for name, array in self.arrays.items():
            told = {name: self._table.read(name, arrays)} if name in self._texts else arrays
            array[slots] = values(told, name, array.dtype, len(slots))
