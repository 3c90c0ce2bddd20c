"""A table: its rows, what queries find in it, its state.

A *turn* is a number for what a query does with the events of an arrival: that of the arrival's chunk, and the query's place among those that get it. So what is
written at a turn is seen at all later ones, as if queries had taken their events one after the other.

Blocks have the letter `t`: `head` (the number of the next row, the most rows there have been), and of rows `there` (0: it is gone, and only its key counts),
`number`, `nulls` (bits) and the words of the columns; strings are places in `ends` and `texts`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from nadi.kernel.columns.bounds import check_numbers, check_places, many, values
from nadi.kernel.columns.flat import BLOCK_BYTES, Block
from nadi.kernel.columns.keytable import KeyTable, longer, texts_of
from nadi.kernel.columns.naming import ids_of, named, put_back, strings_of
from nadi.kernel.columns.stretch import DTYPES, Array, Bools, Column, Longs
from nadi.kernel.columns.tables import versions
from nadi.kernel.columns.tables.versions import (
    CHANGES,
    END_KEY,
    END_NODE,
    KEY,
    KEYS,
    LIVE,
    MASK,
    META,
    MOST,
    NEXT,
    NULLS,
    NUMBER,
    ROW,
    STATE,
    TOUCHES,
    VALUES,
    WIDTH,
)
from nadi.kernel.columns.words import aligned
from nadi.kernel.contract import Row
from nadi.lang.tree import Type
from nadi.plan.nodes import Table

_ROOM = 1024  # rows that there is room for at first
_SWEEP = 1024  # texts from which on one looks for such that nothing refers to
_FLOATS = (Type.FLOAT, Type.DOUBLE)
_NO = np.zeros(0, np.int64)


def _check_words(words: Longs, kind: Type) -> None:
    """Raises ValueError where words are no values of a type; those that are null are 0."""
    if kind is Type.BOOL:
        check_places(words, 2, "a truth value")
    elif kind is Type.INT:
        check_places(words, 1 << 31, "an int", -(1 << 31))


class Asked:
    """Writes: their turns, kinds, bits of the columns that are set and that are looked at; what is looked for, and rows, as words with bits for nulls."""

    def __init__(
        self,
        turns: Longs,
        kinds: Longs,
        sets: Longs,
        looked: Longs,
        keys: tuple[Longs, Longs],
        rows: tuple[Longs, Longs],
    ) -> None:
        self.turns, self.kinds, self.sets, self.looked, self.keys, self.rows = turns, kinds, sets, looked, keys, rows


class HeldTable:
    """The rows of a table with a primary key. Implements `nadi.kernel.columns.contract.Stateful`. `columns` are those by which rows are hashed."""

    def __init__(self, table: Table, columns: tuple[int, ...] | None = None) -> None:
        self.table = table
        self.elements: tuple[str, ...] = (table.id,)
        self.types = table.schema.types
        self._columns = np.array(table.primary_key if columns is None else columns, np.int64)
        self._texts = [n for n, kind in enumerate(self.types) if kind is Type.STRING]
        self._names = KeyTable()
        self.clear()
        for _ in self.contents():  # a forked process must not have to compile what this calls
            pass
        self._block(np.zeros((0, VALUES + len(self.types)), np.int64))

    def clear(self) -> None:
        """Forget all."""
        width = VALUES + len(self.types)
        self._names.clear()
        self._limit = _SWEEP
        self.meta = np.zeros(META, np.int64)
        self.meta[[END_NODE, END_KEY, WIDTH, MASK]] = width, KEY, width, _ROOM - 1
        self._nodes = aligned(_ROOM * width)
        self._nodes[NULLS] = -1  # that of no row
        self._keys = np.zeros(_ROOM * KEY, np.int64)
        self._heads = np.zeros(_ROOM, np.int64)
        self._touched, self._changed = np.zeros(_ROOM, np.int64), np.zeros(_ROOM, np.int64)

    def __len__(self) -> int:
        return int(self.meta[LIVE])

    @property
    def most(self) -> int:
        """How many rows there have been at once."""
        return int(self.meta[MOST])

    def take_number(self) -> int:
        """The number of a new row."""
        self.meta[NEXT] += 1
        return int(self.meta[NEXT]) - 1

    @property
    def _arrays(self) -> tuple[Array, ...]:
        """What loops get."""
        return self._columns, self._nodes, self._keys, self._heads, self.meta, self._touched, self._changed

    # ---- values as words

    def words(self, column: Column, kind: Type) -> tuple[Longs, Bools]:
        """The values of a column as words, 0 where they are null, and which are."""
        nulls = column.nulls()[: column.size]
        if kind is Type.STRING:
            found = self._names.number(texts_of((column,), (kind,))).astype(np.int64)
        elif kind in _FLOATS:
            found = column.values().astype(np.float64).view(np.int64)
        else:
            found = column.values().astype(np.int64)
        return (np.where(nulls, 0, found) if nulls.any() else found), nulls

    def matrix(self, columns: Sequence[Column | None], kinds: Sequence[Type], size: int) -> tuple[Longs, Longs]:
        """Columns beside each other as words, row by row, and bits that say which are null; where there is none all is 0."""
        made, bits = np.zeros((size, len(columns)), np.int64), np.zeros(size, np.int64)
        for n, (column, kind) in enumerate(zip(columns, kinds, strict=True)):
            if column is not None:
                made[:, n], nulls = self.words(column, kind)
                bits |= nulls.astype(np.int64) << n
        return made.reshape(-1), bits

    def column(self, nodes: Longs, number: int) -> Column:
        """A column of some versions; null where there is none."""
        nulls = (self._nodes[nodes + NULLS] >> number) & 1 != 0
        return self._column(self._nodes[nodes + (VALUES + number)], nulls, self.types[number])

    def _column(self, found: Longs, nulls: Bools, kind: Type) -> Column:
        if kind is Type.STRING:
            return Column(self._names.array(np.where(nulls, 0, found), nulls))
        values = found.view(np.float64) if kind in _FLOATS else found
        return Column(None, values.astype(DTYPES[kind]), nulls)

    def numbered(self, text: str) -> Longs:
        """A text as a word, alone in an array."""
        return self._names.number(pa.array([text], pa.string())).astype(np.int64)

    def rows_of(self, words: Array, nulls: Longs) -> list[Row]:
        """Rows of words, and bits which are null, as values."""
        columns = []
        for number, kind in enumerate(self.types):
            column = self._column(words[:, number].copy(), (nulls >> number) & 1 != 0, kind)
            columns.append(column.array().to_pylist())
        return list(zip(*columns, strict=True))

    # ---- writing and reading

    def _ready(self, rows: int) -> None:
        """Make room for so many writes."""
        meta, width = self.meta, int(self.meta[WIDTH])
        if (need := int(meta[END_NODE]) + rows * width) > len(self._nodes):
            self._nodes = aligned(max(need, 2 * len(self._nodes)), self._nodes)
        if (need := int(meta[END_KEY]) + rows * KEY) > len(self._keys):
            self._keys = longer(self._keys, max(need, 2 * len(self._keys)))
        if (need := int(meta[KEYS]) + rows) > len(self._heads):
            self._heads = np.zeros(1 << need.bit_length(), np.int64)
            meta[MASK] = len(self._heads) - 1
            versions.rehash(self._keys, self._heads, meta)
        if (need := int(meta[TOUCHES]) + rows) > len(self._touched):
            self._touched = longer(self._touched, 2 * need)
        if (need := int(meta[CHANGES]) + rows) > len(self._changed):
            self._changed = longer(self._changed, 2 * need)

    def write(self, asked: Asked) -> Longs:
        """Do what queries ask for, in the order of the turns; -> the places of rows whose primary key was taken."""
        size = len(asked.turns)
        self._ready(size)
        order, failed = np.argsort(asked.turns, kind="stable"), np.empty(size, np.int64)
        wishes = order, asked.turns, asked.kinds, asked.sets, *asked.keys, *asked.rows
        return failed[: versions.write(*wishes, self._arrays, failed)]

    def loops(self, rows: int) -> dict[str, Array | int]:
        """What a loop gets that writes up to so many rows."""
        self._ready(rows)
        names = ("columns", "nodes", "keys", "heads", "meta", "touched", "changed")
        return {**dict(zip(names, self._arrays, strict=True)), "floats": self._nodes.view(np.float64)}

    def looked(
        self, by: Sequence[int], columns: Sequence[Column], kinds: Sequence[Type], size: int
    ) -> tuple[Longs, Longs]:
        """What is looked for in the columns `by`, which are the primary key, as words and bits for nulls."""
        return self.matrix(columns, kinds, size)

    def look(self, turns: Longs, keys: tuple[Longs, Longs], by: Sequence[int]) -> Longs:
        """The version of a row that is seen at each of ascending turns, 0 where there is none."""
        found = np.empty(len(turns), np.int64)
        versions.look(turns, *keys, self._arrays, found)
        return found

    def settle(self) -> None:
        """The batch is over."""
        if self.meta[TOUCHES]:
            versions.settle(self._arrays)
        if self._names.count >= self._limit:
            self._sweep()

    def _sweep(self) -> None:
        """Forget texts that no row has."""
        used = np.zeros(self._names.room, np.bool_)
        width, end = int(self.meta[WIDTH]), int(self.meta[END_NODE])
        nodes = self._nodes[:end].reshape(-1, width)
        for number in self._texts:
            there = (nodes[:, STATE] != versions.FREE) & ((nodes[:, NULLS] >> number) & 1 == 0)
            used[nodes[there, VALUES + number]] = True
        ids = self._names.held()
        self._names.release(ids[~used[ids]])
        self._limit = max(_SWEEP, 2 * self._names.count)

    # ---- rows by number, for those who ask on demand; between batches only

    def found(self, keys: tuple[Longs, Longs]) -> Longs:
        """The rows with some keys, null being a value as any other."""
        there = []
        for at in range(len(keys[1])):
            rows = versions.all_rows(self._nodes, self.meta)
            matrix = self._nodes[rows[:, None] + (VALUES + self._columns)]
            nulls = (self._nodes[rows + NULLS][:, None] >> self._columns) & 1
            count = len(self._columns)
            wanted, bits = keys[0][at * count : (at + 1) * count], (keys[1][at] >> np.arange(count)) & 1
            same = (nulls == bits) & ((bits == 1) | (matrix == wanted))
            there.append(rows[same.all(axis=1)])
        return np.concatenate(there) if there else _NO

    def all(self) -> Longs:
        """All rows, in the order in which they came."""
        rows = versions.all_rows(self._nodes, self.meta)
        found: Longs = rows[np.argsort(self._nodes[rows + NUMBER], kind="stable")]
        return found

    def numbers(self, nodes: Longs) -> Longs:
        """The numbers of some rows."""
        found: Longs = self._nodes[nodes + NUMBER]
        return found

    # ---- state

    def next_timer(self) -> int | None:
        """Nothing comes out by itself."""
        return None

    def changes(self) -> Iterator[Block]:
        """The rows that changed, and the keys of those that went."""
        if count := int(self.meta[CHANGES]):
            nodes = versions.last_of(self._keys, self._changed[:count])
            block = self._block(versions.words_of(self._nodes, self.meta, nodes))
            self._tell()
            yield block

    def contents(self) -> Iterator[Block]:
        """All rows."""
        self._tell()
        nodes = self.all()
        most = max(1, BLOCK_BYTES // (8 * int(self.meta[WIDTH])))
        if not len(nodes) and self.meta[NEXT]:
            yield self._block(versions.words_of(self._nodes, self.meta, nodes))
        for start in range(0, len(nodes), most):
            yield self._block(versions.words_of(self._nodes, self.meta, nodes[start : start + most]), int(start == 0))

    def _tell(self) -> None:
        versions.told(self._arrays)

    def _block(self, matrix: Array, begins: int = 1) -> Block:
        values = matrix[:, VALUES:].copy()
        arrays: dict[str, Array] = {"head": self.meta[[NEXT, MOST]]}
        arrays |= named(self._names, strings_of(values, matrix[:, NULLS], self._texts, self._texts), {}, keyed=False)
        arrays |= {"there": (matrix[:, STATE] == ROW).astype(np.int8), "number": matrix[:, NUMBER]}
        arrays |= {"nulls": matrix[:, NULLS], "words": values.reshape(-1)}
        return Block(self.table.id, 0, "t", arrays, keys=begins)

    def apply(self, block: Block) -> None:
        """Put rows back, or take them away. Raises ValueError where the block tells of none."""
        given = block.arrays
        there = many(given, "there", np.int8)
        size, width = len(there), len(self.types)
        check_places(there, 2, "whether a row is there")
        head = values(given, "head", np.int64, 2)
        check_numbers(head, "the number of a row")
        numbers, nulls = (values(given, name, np.int64, size) for name in ("number", "nulls"))
        check_places(numbers, int(head[0]), "the number of a row")
        if width < 63:
            check_places(nulls, 1 << width, "the bits of a row")
        words = values(given, "words", np.int64, size * width).reshape(size, width).copy()
        words[(nulls[:, None] >> np.arange(width)) & 1 != 0] = 0
        for column, kind in enumerate(self.types):
            _check_words(words[:, column], kind)
        put_back(strings_of(words, nulls, self._texts, self._texts), ids_of(self._names, given))
        self.put(there != 0, numbers, words, nulls)
        if self.table.primary_key and head[1] < self.meta[LIVE]:  # others do not count it
            raise ValueError("there are more rows than there ever were")
        self.meta[[NEXT, MOST]] = head

    def put(self, there: Bools, numbers: Longs, values: Longs, nulls: Longs, tells: bool = False) -> None:
        """Rows as they are from now on: a matrix of words, bits that say which are null; with `tells` the next delta tells it."""
        self._ready(len(there))
        keys = np.ascontiguousarray(values[:, self._columns]).reshape(-1)
        bits = np.zeros(len(there), np.int64)
        for n, column in enumerate(self._columns):
            bits |= ((nulls >> column) & 1) << n
        versions.put(there, numbers, keys, bits, values.reshape(-1), nulls, self._arrays, tells)
        if tells:
            self.settle()

    def size(self) -> dict[str, int]:
        """How many rows there are."""
        return {self.table.id: len(self)}
