"""In-memory tables (semantics/tables.md#tables): rows in insertion order, a unique primary key, look-ups by key and index.

The rows are state: a `Map` from row id (ascending, never used again) to row. What finds rows by value is a cache of it, made anew whenever the cells
are others than last time (after a load).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from nadi.errors import error
from nadi.functions.arithmetic import told
from nadi.kernel.rows.events import Row
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.javahash import bucket_of, buckets_for
from nadi.kernel.rows.state import Map, Value
from nadi.lang.tree import Type
from nadi.plan.nodes import TABLE, Attr, Comparison, Expr, Table
from nadi.plan.walk import conjuncts, inside

Key = tuple[object, ...]

_NUMBERS = (Type.INT, Type.LONG, Type.FLOAT, Type.DOUBLE)
"""A primary key of one of these types is a sorted map in Siddhi, any other one a hash map."""


@dataclass(slots=True)
class Sought:
    """The ways in which `in` looks through a table, if any (`used`): who measures it puts others in their place."""

    rows: Callable[[], Iterable[Row]]
    lookup: Callable[[tuple[int, ...], Key], Iterable[Row] | None]
    used: bool = False


class TableRuntime:
    """The rows of one table. `rows()` is what joins, `in` and finds read; the ids of rows are for `update`, `delete` and look-ups."""

    def __init__(self, table: Table, flow: Flow) -> None:
        self.table = table
        self.key = table.primary_key
        self.sought = Sought(self.rows, self.lookup)
        self.indexed = bool(table.primary_key or table.indexes)
        self._collapses = flow.compat == 4 and bool(table.indexes) and not table.primary_key
        self._state = flow.store.element(table.id, {"rows": Map, "next": Value, "most": Value})
        self._cells: object = None
        self._rows: Map
        self._next: Value
        self._most: Value  # how many rows there have been at once: a HashMap never shrinks
        self._ordered: list[Row] | None = None
        # ids in any order: in which order updates have entered them would be forgotten by a restart, so that look-ups sort them
        self._finders: dict[tuple[int, ...], dict[Key, dict[int, None]]] = {}

    def _bind(self) -> Map:
        cells = self._state.at("")
        if cells is not self._cells:
            self._cells, self._rows, self._next, self._most = cells, cells["rows"], cells["next"], cells["most"]
            self._ordered = None
            columns = [self.key] if self.key else []
            columns += [(i,) for i in self.table.indexes if (i,) != self.key]
            self._finders = {c: {} for c in columns}
            for number, row in self._rows.items():
                self._find(number, row)
        return self._rows

    def _find(self, number: int, row: Row) -> None:
        for columns, found in self._finders.items():
            found.setdefault(tuple(row[i] for i in columns), {})[number] = None

    def _lose(self, number: int, row: Row) -> None:
        for columns, found in self._finders.items():
            key = tuple(row[i] for i in columns)
            numbers = found[key]
            del numbers[number]
            if not numbers:
                del found[key]

    # ---- reading

    def rows(self) -> Iterable[Row]:
        """All rows: in insertion order; with a primary key in the order of Siddhi's map: by number, else that of a Java HashMap by key."""
        rows = self._bind()
        if not self.key:
            return rows.values()
        if self._ordered is None:
            self._ordered = [rows.get(number) for number in self._key_order(rows)]
        return self._ordered

    def _key_order(self, rows: Map) -> list[int]:
        return key_order(self.table, dict(rows.items()), self._most.get() or 0)

    def _key_of(self, row: Row) -> Key:
        return tuple(row[i] for i in self.key)

    def __len__(self) -> int:
        return len(self._bind())

    def lookup(self, columns: tuple[int, ...], key: Key) -> list[Row] | None:
        """The rows with these values in these columns, in insertion order; None where no primary key or index covers exactly them."""
        rows = self._bind()
        found = self._finders.get(columns)
        return None if found is None else [rows.get(n) for n in sorted(found.get(key, ()))]

    def candidates(self, columns: tuple[int, ...], key: Key) -> list[tuple[int, Row]]:
        """Like `lookup`, with the ids of the rows; empty `columns`: all rows."""
        rows = self._bind()
        if not columns:
            numbers = self._key_order(rows) if self.key else rows
            return [(n, rows.get(n)) for n in numbers]
        return [(n, rows.get(n)) for n in sorted(self._finders[columns].get(key, ()))]

    def keyed(self, key: Key) -> list[tuple[int, Row]]:
        """The row with this primary key, with its id. Null is a key as any other value; what is no number is none."""
        pairs = tuple(zip(self.key, key, strict=True))
        return [(n, row) for n, row in self.candidates(self.key, key) if all(row[i] == value for i, value in pairs)]

    # ---- writing

    def insert(self, row: Row) -> int:
        """Append a row; returns its id.

        Raises:
            SiddhiAppRuntimeException: PRIMARY_KEY_TAKEN.
        """
        rows = self._bind()
        if self.key:
            self._check_free(self._key_of(row))
        number = self._next.get() or 0
        self._next.set(number + 1)
        rows.set(number, row)
        if self.key and len(rows) > (self._most.get() or 0):
            self._most.set(len(rows))
        self._changed(number, row)
        return number

    def _changed(self, number: int, row: Row) -> None:
        self._ordered = None
        self._find(number, row)

    def replace(self, changes: list[tuple[int, Row]]) -> None:
        """Put other rows in the place of some, by id: all, or none where a row would take the primary key of another one.

        Raises:
            SiddhiAppRuntimeException: PRIMARY_KEY_TAKEN.
        """
        rows = self._bind()
        if self.key:
            taken: set[Key] = set()
            for number, row in changes:
                key = self._key_of(row)
                if key in taken or key != self._key_of(rows.get(number)):
                    self._check_free(key, taken)
                    taken.add(key)
        for number, row in changes:
            self._lose(number, rows.get(number))
            rows.set(number, row)
            self._changed(number, row)
        if self._collapses:
            for number, row in changes:
                self._collapse(number, row)

    def _collapse(self, number: int, row: Row) -> None:
        """Siddhi 4 holds the rows of an index in sets: of rows that an update makes equal, one is left."""
        first = (self.table.indexes[0],)
        if number in self._rows and any(n != number and r == row for n, r in self.candidates(first, (row[first[0]],))):
            self.delete(number)

    def delete(self, number: int) -> None:
        """Remove a row."""
        rows = self._bind()
        self._ordered = None
        row = rows.pop(number)
        self._lose(number, row)

    def _check_free(self, key: Key, taken: Collection[Key] = ()) -> None:
        if key in taken or self._is_taken(key):
            shown = ", ".join(map(told, key))
            raise error("PRIMARY_KEY_TAKEN", table=self.table.name, key=shown)

    def _is_taken(self, key: Key) -> bool:
        return key in self._finders[self.key]


def key_order(table: Table, rows: Mapping[int, Row], most: int) -> list[int]:
    """The ids of the rows of a table with a primary key in the order of Siddhi's map, which held up to `most` rows at once."""
    key = table.primary_key
    types = tuple(table.schema.columns[i].type for i in key)
    if len(types) == 1 and types[0] in _NUMBERS:
        keys = {number: row[key[0]] for number, row in rows.items()}
        return sorted(keys, key=lambda number: (keys[number] is None, keys[number] or 0))
    buckets = buckets_for(most)
    places = {number: bucket_of(tuple(row[i] for i in key), types, buckets) for number, row in rows.items()}
    return sorted(places, key=places.__getitem__)


# ---- which look-up serves a condition --------------------------------------------------------------------------------


def lookup_of(condition: Expr | None, table: Table, slot: int = TABLE) -> tuple[tuple[int, ...], tuple[Expr, ...]]:
    """The columns of a primary key or index that `condition` fixes by equality, and what it compares them with; empty where there is none.

    Only equalities that stand in conjunction are used. The whole condition is checked on what is found, unless it `asks_for_key`. `slot` is that of the row.
    """
    fixed = dict(_equalities(condition, slot)) if condition is not None else {}
    for columns in (table.primary_key, *((i,) for i in table.indexes)):
        if columns and all(c in fixed for c in columns):
            return columns, tuple(fixed[c] for c in columns)
    return (), ()


def asks_for_key(condition: Expr | None, table: Table, slot: int = TABLE) -> bool:
    """Whether `condition` wants the whole primary key to be equal to something, and nothing else: `TableRuntime.keyed` then is its answer.

    Siddhi looks there in its map by key, in which null finds null; what else is in a condition it computes, and there null is equal to nothing.
    """
    parts = () if condition is None else tuple(conjuncts(condition))
    found = [column for part in parts for column, _value in _equalities(part, slot)]
    return len(found) == len(parts) == len(table.primary_key) > 0 and set(found) == set(table.primary_key)


def _equalities(condition: Expr, slot: int) -> Iterable[tuple[int, Expr]]:
    for part in conjuncts(condition):
        if isinstance(part, Comparison) and part.op == "==":
            for column, value in ((part.left, part.right), (part.right, part.left)):
                if isinstance(column, Attr) and column.slot == slot and _same_key(column, value):
                    yield column.position, value


def _same_key(column: Attr, value: Expr) -> bool:
    """Whether equal values are equal keys: not where a float is compared with a double, which widens one side."""
    comparable = value.type == column.type or {value.type, column.type} <= {Type.INT, Type.LONG}
    return comparable and not _mentions(value, column.slot)


def mentions_table(expression: Expr) -> bool:
    """Whether the row of the table takes part in an expression."""
    return _mentions(expression, TABLE)


def _mentions(expression: Expr, slot: int) -> bool:
    return any(isinstance(part, Attr) and part.slot == slot for part in inside(expression))
