"""What travels between operators: the events of one stream in one batch, as columns.

A `Stretch` has CURRENT events only, in the order in which the stream saw them. Beside its attributes it has, per event,

- `ts`, its timestamp (ms);
- `now`, the clock at which it travels (ms), which does not go back;
- `chunk`, the number of the chunk in which it travels: events of equal numbers stand beside each other. The chunks of all inputs of a batch are
  numbered together, in the order of their arrival; an operator that cuts chunks makes new numbers, which grow, too;
- `group`, the key-group in which outputs are numbered (int64), None where all are 0;
- `origin`, the number of the chunk of its input that each event comes from, None where that is `chunk`.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from nadi.kernel.columns.column import (
    DTYPES,
    Array,
    BatchColumn,
    Bools,
    Column,
    Lies,
    Longs,
    PlacedColumn,
    columns_of,
    counted_at,
    none,
    none_at,
    picked_at,
    texts_in,
    values_of,
)
from nadi.kernel.columns.jit import bare
from nadi.kernel.columns.memory import address_of, values_at
from nadi.kernel.columns.places import FIRST, LIES, MARKS, NULLS, ROW, TEXTS, VALUES, Recipe, picked
from nadi.lang.tree import Type

__all__ = [
    "DTYPES",
    "Array",
    "BatchColumn",
    "Bools",
    "Column",
    "Lies",
    "Longs",
    "PlacedColumn",
    "PlacedStretch",
    "Stretch",
    "columns_of",
    "counted_at",
    "empty",
    "in_order",
    "none",
    "none_at",
    "picked_at",
    "texts_in",
    "values_of",
]

_LONG = np.dtype(np.int64)
Read = tuple[int, np.dtype[Any] | None]
"""What a loop reads: a row, and the type of its values; None for its nulls."""


class Stretch:
    """See the module's text. Nothing is put into it afterwards. `apart`: it is known that each event is a chunk of its own.

    Loops are told where its columns lie by the address of a *table*, which has a row for each.
    """

    __slots__ = ("_words", "apart", "chunk", "columns", "group", "now", "origin", "size", "ts")

    def __init__(
        self,
        columns: tuple[Column, ...],
        ts: Longs,
        now: Longs,
        chunk: Longs,
        group: Longs | None = None,
        origin: Longs | None = None,
        apart: bool = False,
    ) -> None:
        self._words: array[int] | None = None
        self.size = len(ts)
        self.columns = columns
        self.ts = ts
        self.now = now
        self.chunk = chunk
        self.group = group
        self.origin = origin
        self.apart = apart

    def __len__(self) -> int:
        return self.size

    def reads(self, read: Sequence[Read]) -> int:
        """The address of a table that has what a loop reads."""
        words = self._table()
        for row, dtype in read:
            if row < FIRST:
                words[ROW * row + VALUES] = address_of(getattr(self, MARKS[row]), _LONG)
            elif dtype is None:
                words[ROW * row + NULLS] = self.columns[row - FIRST].nulls_at()
            else:
                words[ROW * row + VALUES] = self.columns[row - FIRST].values_at(dtype)
        return words.buffer_info()[0]

    def lying(self, positions: Sequence[int]) -> tuple[int, tuple[int, ...]]:
        """The address of a table that has all marks, and some columns; and which of these do not lie anywhere."""
        words = self._table()
        for row, name in enumerate(MARKS):
            words[ROW * row + VALUES] = address_of(getattr(self, name), _LONG)
        return words.buffer_info()[0], _laid(words, positions, self.columns)

    def lies(self, position: int) -> Lies | None:
        """As that of the column."""
        return self.columns[position].lies()

    def _table(self) -> array[int]:
        if self._words is None:
            self._words = array("q", bytes(8 * ROW * (FIRST + len(self.columns))))
        return self._words

    def having(self, columns: tuple[Column, ...]) -> Stretch:
        """The same events with other columns."""
        return Stretch(columns, self.ts, self.now, self.chunk, self.group, self.origin, self.apart)

    def chunked(self, chunk: Longs) -> Stretch:
        """The same events in other chunks."""
        return Stretch(self.columns, self.ts, self.now, chunk, self.group, self.origin, self.apart)

    def take(self, source: Longs) -> Stretch:
        """The events at some places, in their order."""
        lies = [column.lies() for column in self.columns]
        made = self.picked(source, len(source), Recipe(range(len(lies)), [one[0] if one else None for one in lies]))
        made.apart = False  # one event may be there several times
        return made

    def picked(
        self, source: Longs | None, count: int, recipe: Recipe, computed: int = 0, holder: object = None
    ) -> PlacedStretch:
        """Rows of what stands at the first `count` places of `source`, None for all events as they are. `computed` lies in what `holder` keeps."""
        size = self.size
        table, missing = self.lying(recipe.positions)
        words, block = picked(table, size, source, count, recipe, computed, none_at(max(size, count)))
        others: dict[int, Column] = {}
        group, origin = self.group, self.origin
        some = source if source is None else source[:count]
        if some is not None:
            group = group if group is None else picked_at(group, some)
            origin = origin if origin is None else picked_at(origin, some)
        for at, position in recipe.passed if missing else ():
            if position in missing:
                others[at] = self.columns[position] if some is None else self.columns[position].take(some)
        held = (holder, self if source is None else block)
        return PlacedStretch(count, words, held, recipe.kinds, others, group, origin, self.apart)

    def values(self, position: int) -> Array:
        """The values of a column; what stands at a null means nothing."""
        return self.columns[position].values()

    def nulls(self, position: int) -> Bools:
        """Which of them are null; may be longer."""
        return self.columns[position].nulls()

    def part(self, start: int, stop: int) -> Stretch:
        """The events from a place to another."""
        group = None if self.group is None else self.group[start:stop]
        columns = tuple(column.part(start, stop) for column in self.columns)
        return Stretch(columns, self.ts[start:stop], self.now[start:stop], self.chunk[start:stop], group)

    @property
    def placed(self) -> bool:
        """Whether all of it lies where its table says."""
        return False

    @property
    def alone(self) -> bool:
        """Whether each event is a chunk of its own."""
        return self.apart or bool(_alone(self.chunk))


class PlacedStretch(Stretch):
    """One that is known by its table: columns, and arrays of its marks, are made when somebody asks.

    `kinds` are the types of its columns, None for texts; `others` those columns that do not lie anywhere; `holder` has what the addresses are in.
    """

    __slots__ = ("_at", "_holder", "_kinds", "_origin_at", "_others")
    _words: array[int]

    def __init__(
        self,
        size: int,
        words: array[int],
        holder: object,
        kinds: Sequence[np.dtype[Any] | None],
        others: dict[int, Column],
        group: Longs | None,
        origin: Longs | None,
        apart: bool,
    ) -> None:
        self.size = size
        self._words = words
        self._at = words.buffer_info()[0]
        self._holder = holder
        self._kinds = kinds
        self._others = others
        self.group = group
        self.origin = origin
        self.apart = apart

    def __getattr__(self, name: str) -> Any:
        if name == "columns":
            found: Any = tuple(map(self._column, range(len(self._kinds))))
        elif name in MARKS:
            found = values_at(self._words[ROW * MARKS.index(name) + VALUES], _LONG, self.size, self._holder)
        elif name == "origin":
            found = values_at(self._origin_at, _LONG, self.size, self._holder)
        else:
            raise AttributeError(name)
        setattr(self, name, found)
        return found

    def put(self, at: int, column: Column) -> None:
        """Puts in a column that does not lie where the table says; before anybody has looked."""
        self._others[at] = column

    def lay(self, at: int, lies: Lies, holder: object) -> None:
        """Tells where a column lies that has no nulls, in what `holder` keeps; before anybody has looked."""
        row = ROW * (FIRST + at)
        dtype, self._words[row + VALUES], self._words[row + TEXTS] = lies
        self._words[row + LIES] = -1 if dtype is None else dtype.itemsize
        self._holder = (self._holder, holder)

    def rechunk(self, chunk: Longs) -> None:
        """Puts its events into other chunks, so that those that they are in become their origin; before anybody has looked."""
        if self.origin is None:
            self._origin_at = self._words[ROW * MARKS.index("chunk") + VALUES]
            del self.origin  # its array is made when somebody asks
        self.chunk, self.apart = chunk, False
        self._words[ROW * MARKS.index("chunk") + VALUES] = address_of(chunk, _LONG)

    def values(self, position: int) -> Array:
        dtype = self._kinds[position]
        if dtype is None or position in self._others:
            return super().values(position)
        at = self._words[ROW * (FIRST + position) + VALUES]
        found: Array = values_at(at, dtype, self.size, self._holder)
        return found

    def nulls(self, position: int) -> Bools:
        return super().nulls(position) if position in self._others else none(self.size)

    def _column(self, at: int) -> Column:
        if at in self._others:
            return self._others[at]
        lies = self.lies(at)
        assert lies is not None  # the others are there
        return PlacedColumn(self._holder, self.size, lies)

    @property
    def placed(self) -> bool:
        return not self._others

    def reads(self, read: Sequence[Read]) -> int:
        if self._others:
            for row, dtype in read:
                other = self._others.get(row - FIRST)
                if other is None:
                    continue
                if dtype is None:
                    self._words[ROW * row + NULLS] = other.nulls_at()
                else:
                    self._words[ROW * row + VALUES] = other.values_at(dtype)
        return self._at

    def lying(self, positions: Sequence[int]) -> tuple[int, tuple[int, ...]]:
        if not self._others:
            return self._at, ()
        return self._at, _laid(self._words, [p for p in positions if p in self._others], self._others)

    def lies(self, position: int) -> Lies | None:
        if position in self._others:
            return self._others[position].lies()
        at = ROW * (FIRST + position)
        return self._kinds[position], self._words[at + VALUES], self._words[at + TEXTS]


def _laid(words: array[int], positions: Sequence[int], columns: Any) -> tuple[int, ...]:
    """Tells of columns where they lie; -> those that do not."""
    missing = []
    for position in positions:
        lies, at = columns[position].lies(), ROW * (FIRST + position)
        if lies is None:
            missing.append(position)
            words[at + LIES] = 0
        else:
            dtype, words[at + VALUES], words[at + TEXTS] = lies
            words[at + LIES] = -1 if dtype is None else dtype.itemsize
    return tuple(missing)


@bare
def _alone(chunk):  # type: ignore[no-untyped-def]
    same = 0
    for i in range(1, len(chunk)):
        same += chunk[i] == chunk[i - 1]
    return same == 0


def empty(types: tuple[Type, ...], grouped: bool) -> Stretch:
    """A stretch without events of a stream with such columns."""
    none_of = np.zeros(0, np.int64)
    columns = tuple(
        Column(pa.array([], pa.string())) if kind not in DTYPES else Column(None, np.zeros(0, DTYPES[kind]))
        for kind in types
    )
    return Stretch(columns, none_of, none_of, none_of, none_of if grouped else None)


def in_order(parts: Sequence[Stretch], order: Longs) -> Stretch:
    """The events of some stretches with the same columns, put behind each other and then into an order. Origins stay where all have one."""

    def joined(arrays: Sequence[Longs]) -> Longs:
        return np.concatenate(arrays).take(order)

    columns = tuple(
        Column(pa.concat_arrays([column.array() for column in same])).take(order)
        for same in zip(*(part.columns for part in parts), strict=True)
    )
    group = None
    if any(part.group is not None for part in parts):
        group = joined([np.zeros(part.size, np.int64) if part.group is None else part.group for part in parts])
    origins = [part.origin for part in parts if part.origin is not None]
    ts, now, chunk = (joined(arrays) for arrays in zip(*((part.ts, part.now, part.chunk) for part in parts)))
    return Stretch(columns, ts, now, chunk, group, joined(origins) if len(origins) == len(parts) else None)
