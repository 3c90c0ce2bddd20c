"""The table of an `rdbms` sink: its columns from the attributes of the stream, and the statement of each operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Double,
    Executable,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    bindparam,
    delete,
    insert,
    literal_column,
    null,
    select,
    update,
)
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.types import TypeEngine

from nadi.lang.tree import Type
from nadi.plan.nodes import Schema

Row = Mapping[str, Any]
Rows = list[dict[str, Any]]

_KEY_LENGTH = 255  # characters of a text in a key: MySQL needs a bound
_TYPES: dict[Type, TypeEngine[Any]] = {
    Type.STRING: Text(),
    Type.INT: Integer(),
    Type.LONG: BigInteger(),
    Type.FLOAT: Float(24),
    Type.DOUBLE: Double(),
    Type.BOOL: Boolean(),
    Type.OBJECT: Text(),
}

_NEVER = literal_column("1 = 0", Boolean())  # SQLAlchemy would leave out what stands beside a `false()` of its own

LEDGER = Table(
    "nadi_ledger",
    MetaData(),
    Column("producer", String(_KEY_LENGTH), primary_key=True),
    Column("cut", BigInteger, nullable=False),
)
"""Which cut each producer wrote last."""


def made_table(name: str, schema: Schema, keys: Sequence[str]) -> Table:
    """The table as it is made where there is none; `schema.table` is understood."""
    place, _dot, bare = name.rpartition(".")
    columns = [Column(c.name, _type(c.type, c.name in keys), primary_key=c.name in keys) for c in schema.columns]
    return Table(bare, MetaData(schema=place or None), *columns)


def _type(kind: Type, key: bool) -> TypeEngine[Any]:
    return String(_KEY_LENGTH) if key and kind in (Type.STRING, Type.OBJECT) else _TYPES[kind]


@dataclass(frozen=True, slots=True)
class Operation:
    """What is done with each row: "insert", "update", "upsert" or "delete"."""

    name: str
    table: Table

    def run(self, connection: Connection, rows: Rows) -> None:
        """Do it with some rows, in order."""
        if self.name == "insert":
            connection.execute(insert(self.table), rows)
            return
        statement = self._statement(connection.dialect.name)
        connection.execute(statement, [self._bound(row) for row in self._latest(rows)])

    def ask(self, connection: Connection) -> None:
        """Have the database check the operation, on no row. Errors: the driver's."""
        connection.execute(self._of_nothing(connection.dialect.name))

    def _of_nothing(self, dialect: str) -> Executable:
        table, keys = self.table, self._keys()
        if self.name in ("insert", "upsert"):
            into = insert(table) if self.name == "insert" else _insert(table, dialect)
            one = select(literal_column("1").label("one")).subquery()
            nothing = select(*[null().label(c.name) for c in table.c]).select_from(one).where(_NEVER)
            filled = into.from_select([c.name for c in table.c], nothing)
            return filled if self.name == "insert" else _upsert(filled, table, dialect)
        where = [*(table.c[name].is_(None) for name in keys), _NEVER]
        if self.name == "delete":
            return delete(table).where(*where)
        return update(table).where(*where).values({c.name: null() for c in table.c if c.name not in keys})

    def _keys(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.table.primary_key)

    def _latest(self, rows: Rows) -> Rows:
        """Of rows with equal keys only the last counts; it stands where the last one stood."""
        keys = self._keys()
        found: dict[tuple[Any, ...], dict[str, Any]] = {}
        for row in rows:
            key = tuple(row[k] for k in keys)
            found.pop(key, None)
            found[key] = row
        return list(found.values())

    def _bound(self, row: Row) -> dict[str, Any]:
        """A row as parameters: SQLAlchemy keeps the plain names for the values that are set."""
        if self.name == "upsert":
            return dict(row)
        keys = self._keys()
        named = {f"key_{name}": row[name] for name in keys}
        return named if self.name == "delete" else named | {n: v for n, v in row.items() if n not in keys}

    def _statement(self, dialect: str) -> Executable:
        table, keys = self.table, self._keys()
        if self.name == "upsert":
            return _upsert(_insert(table, dialect), table, dialect)
        where = [table.c[name] == bindparam(f"key_{name}") for name in keys]
        if self.name == "delete":
            return delete(table).where(*where)
        return update(table).where(*where).values({c.name: bindparam(c.name) for c in table.c if c.name not in keys})


def _insert(table: Table, dialect: str) -> Any:
    """The insert of a dialect that knows what to do with a key that is there."""
    if dialect == "mysql":
        return mysql.insert(table)
    return postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)


def _upsert(into: Any, table: Table, dialect: str) -> Executable:
    """An insert that changes the row whose keys are there."""
    keys = [c.name for c in table.primary_key]
    others = [c.name for c in table.c if c.name not in keys]
    made: Executable
    if dialect == "mysql":
        made = into.on_duplicate_key_update({n: into.inserted[n] for n in others or keys})
    elif not others:
        made = into.on_conflict_do_nothing(index_elements=keys)
    else:
        made = into.on_conflict_do_update(index_elements=keys, set_={n: into.excluded[n] for n in others})
    return made
