"""What Siddhi 5.1 holds the rows of a table in, with its defects: a linked list, or maps and sets by key and index.

Each defect that shows is noted in `Held.noted`, by the name of the entry in `docs/internals/differences.md` that tells about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from nadi.errors import error
from nadi.functions.stores import StoreTable
from nadi.kernel.rows.tables import key_order
from nadi.lang.tree import Type
from nadi.plan.nodes import Table

DELETES = KEYS = "Deletes from and updates of tables"
SETS = FOUND = "Tables with a key or an index"
Values = tuple[Any, ...]


@dataclass(eq=False, slots=True)
class Held:
    """A row that a table holds. `after` is the row that it is tied to while an update changes both, and longer where that fails."""

    row: list[Any]
    time: int
    after: Held | None = None

    def equal(self) -> tuple[Any, ...]:
        """What Siddhi compares and hashes."""
        return (self.time, *self.row)


def failed(why: str) -> Exception:
    """What Siddhi fails with."""
    return error("NOT_SUPPORTED", what=why, alternative="nothing")


@dataclass(slots=True)
class Queue:
    """The rows of a table without key and index: a list that knows its last row, even where that one has gone."""

    noted: set[str]
    rows: list[Held] = field(default_factory=list)
    last: Held | None = None

    def add(self, row: Held) -> None:
        if self.rows and self.rows[-1] is not self.last:
            self.noted.add(DELETES)
        else:
            self.rows.append(row)
        self.last = row

    def remove(self, rows: Iterable[Held]) -> None:
        gone = set(map(id, rows))
        self.rows = [row for row in self.rows if id(row) not in gone]

    def changed(self, row: Held) -> None:
        """A row that is changed is put into the list anew, and is known to be its last one where it is."""
        if row is self.rows[-1]:
            self.last = row


class HashSet:
    """Knows its rows by what they were when they came."""

    def __init__(self, rows: Iterable[Held] = ()) -> None:
        self._rows: list[tuple[tuple[Any, ...], Held]] = []
        for row in rows:
            self.add(row)

    def __iter__(self) -> Iterator[Held]:
        return iter([row for _was, row in self._rows])

    def __len__(self) -> int:
        return len(self._rows)

    def _place(self, row: Held) -> int | None:
        now = row.equal()
        found = (n for n, (was, held) in enumerate(self._rows) if was == now and (held is row or held.equal() == now))
        return next(found, None)

    def __contains__(self, row: Held) -> bool:
        return self._place(row) is not None

    def add(self, row: Held) -> bool:
        """Whether it was not there."""
        if row in self:
            return False
        self._rows.append((row.equal(), row))
        return True

    def remove(self, row: Held) -> bool:
        """Whether it was there."""
        place = self._place(row)
        if place is not None:
            del self._rows[place]
        return place is not None


NUMBERS = (Type.INT, Type.LONG, Type.FLOAT, Type.DOUBLE)
_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}
_SOUGHT = {**_TESTS, "<=": _TESTS[">="], ">=": _TESTS["<="]}
"""What `in` asks of the values of a key or an index. That it asks for the wrong side is one of the defects."""


class Maps:
    """The rows of a table with a primary key, indexes, or both."""

    def __init__(self, table: StoreTable, noted: set[str]) -> None:
        self.noted = noted
        self.key = table.primary_key
        self.indexes = tuple(column for column in table.indexes)
        self._table = Table(table.name, table.schema, table.primary_key, table.indexes)
        self._by_key: dict[Values, Held] = {}
        self._most = 0
        self._sets: dict[int, dict[Any, HashSet]] = {column: {} for column in self.indexes}

    @property
    def single(self) -> int | None:
        """The column that is the primary key by itself."""
        return self.key[0] if len(self.key) == 1 else None

    def has_map(self, column: int) -> bool:
        """Whether rows are found by the values of a column."""
        return column == self.single or column in self.indexes

    # ---- reading

    def all(self) -> list[Held]:
        if self.key:
            return self._in_order(self._by_key)
        return list(HashSet(row for rows in next(iter(self._sets.values())).values() for row in rows))

    def _in_order(self, found: dict[Values, Held]) -> list[Held]:
        """As the map goes through them, by the keys under which they are."""
        keys = list(found)
        width = len(self._table.schema)
        rows = {n: tuple(dict(zip(self.key, key)).get(i) for i in range(width)) for n, key in enumerate(keys)}
        return [found[keys[n]] for n in key_order(self._table, rows, self._most)]

    def by_key(self, key: Values) -> list[Held]:
        return [self._by_key[key]] if key in self._by_key else []

    def keys(self) -> list[Any]:
        """The values of a primary key of one attribute."""
        return [key[0] for key in self._by_key]

    def _check(self, column: int, value: Any) -> None:
        """A sorted map fails where null is sought in it."""
        if value is None and (column != self.single or self._table.schema.columns[column].type in NUMBERS):
            raise failed("null sought in a sorted map")

    def find(self, column: int, op: str, value: Any) -> list[Held]:
        self._check(column, value)
        test = _TESTS[op]
        if column == self.single:
            return self._in_order({key: row for key, row in self._by_key.items() if test(key[0], value)})
        return list(
            HashSet(row for held in sorted(self._sets[column]) if test(held, value) for row in self._sets[column][held])
        )

    def contains(self, column: int, op: str, value: Any) -> bool:
        values = self.keys() if column == self.single else list(self._sets[column])
        if op == "==" or (op != "!=" and values):
            self._check(column, value)
        right = any(_TESTS[op](held, value) for held in values)
        found = len(values) > 1 if op == "!=" else any(_SOUGHT[op](held, value) for held in values)
        if found != right:
            self.noted.add(FOUND)
        return found

    # ---- writing

    def _key_of(self, row: Held) -> Values:
        return tuple(row.row[i] for i in self.key)

    def add(self, row: Held) -> None:
        taken = False
        if self.key:
            taken = self._by_key.setdefault(self._key_of(row), row) is not row
            self._most = max(self._most, len(self._by_key))
        self._enter(row)
        if taken:
            raise failed("a key that is taken")

    def _enter(self, row: Held) -> None:
        for column, sets in self._sets.items():
            if not sets.setdefault(row.row[column], HashSet()).add(row):
                self.noted.add(SETS)

    def overwrite(self, row: Held) -> None:
        """Put a row where its primary key is. That an index has the row before it under another value is not seen."""
        before = self._by_key.get(self._key_of(row))
        self._by_key[self._key_of(row)] = row
        self._most = max(self._most, len(self._by_key))
        for column, sets in self._sets.items():
            value = row.row[column]
            if before is not None:
                if before.row[column] != value:
                    self.noted.add(SETS)
                if value not in sets:
                    raise failed("an index without the value")
                self._leave(column, value, before)
        self._enter(row)

    def _leave(self, column: int, value: Any, row: Held) -> None:
        sets = self._sets[column]
        if value not in sets or not sets[value].remove(row):
            self.noted.add(SETS)
        if value in sets and not sets[value]:
            del sets[value]

    def _leave_all(self, row: Held, but: int | None = None) -> None:
        for column in self.indexes:
            if column != but:
                self._leave(column, row.row[column], row)

    def clear(self) -> None:
        self._by_key.clear()
        for sets in self._sets.values():
            sets.clear()

    def remove(self, rows: Sequence[Held]) -> None:
        """Rows that were found."""
        for row in HashSet(rows):
            if not self.key:
                self._leave_all(row)
                continue
            gone = self._by_key.pop(self._key_of(row), None)
            if gone is not row:
                self.noted.add(KEYS)
            if gone is not None:
                self._leave_all(gone)
            elif self.indexes:
                raise failed("a row that is not under its key")

    def remove_key(self, key: Values) -> None:
        if (gone := self._by_key.pop(key, None)) is not None:
            self._leave_all(gone)

    def remove_where(self, column: int, op: str, value: Any) -> None:
        """The rows with such a value in a column that has a map."""
        self._check(column, value)
        if op == "!=":
            self._keep(column, value)
        elif column == self.single:
            for key in [key for key in self._by_key if _TESTS[op](key[0], value)]:
                self.remove_key(key)
        else:
            sets = self._sets[column]
            for held in [held for held in sets if _TESTS[op](held, value)]:
                for row in sets.pop(held):
                    if self.key:
                        self._by_key.pop(self._key_of(row), None)
                    self._leave_all(row, but=column)

    def _keep(self, column: int, value: Any) -> None:
        """`!=` removes all rows and adds those that are to stay, which it fails to find in an index that has none."""
        if column == self.single:
            kept: HashSet | None = HashSet(self.by_key((value,)))
        else:
            kept = self._sets[column].get(value)
        self.clear()
        if kept is None:
            self.noted.add(DELETES)
            raise failed("nothing that is to stay")
        for row in kept:
            self.add(row)
