"""The table of a store in a database: its columns from the attributes, how it is made, and what is known of one that is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Double,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    inspect,
    text,
)
from sqlalchemy.dialects.mysql import LONGTEXT
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import TypeEngine

from nadi.databases import passes
from nadi.errors import error
from nadi.functions.stores import StoreTable
from nadi.io.stores.options import LENGTH, Target
from nadi.lang.tree import Type

TYPES: Mapping[Type, TypeEngine[Any]] = {
    Type.STRING: String(),
    Type.INT: Integer(),
    Type.LONG: BigInteger(),
    Type.FLOAT: Double(),  # each float is a double; MySQL would give floats back with six digits
    Type.DOUBLE: Double(),
    Type.BOOL: Boolean(),
}
_BYTES = "utf8mb4_bin"
_LONGEST_IN_ROW = 16_000  # characters of a text that MySQL keeps in a row, which has 64 KB
_LONGEST_KEY = 60  # characters of a name of an index


def table_of(given: StoreTable, target: Target, dialect: str) -> Table:
    """The table as it is made where there is none; `schema.table` is understood."""
    place, _dot, bare = target.table.rpartition(".")
    columns = [
        Column(
            column.name,
            _string(target.lengths[column.name], dialect) if column.type is Type.STRING else TYPES[column.type],
            primary_key=n in given.primary_key,
            autoincrement=False,
            nullable=n not in given.primary_key and target.nulls,
        )
        for n, column in enumerate(given.schema.columns)
    ]
    made = Table(bare, MetaData(schema=place or None), *columns)
    for n in given.indexes:
        if (n,) != given.primary_key:
            Index(_index_name(bare, columns[n].name), columns[n])
    return made


def _string(length: int, dialect: str) -> String:
    if dialect != "mysql":
        return String(length)
    return String(length, collation=_BYTES) if length <= _LONGEST_IN_ROW else LONGTEXT(collation=_BYTES)


def _index_name(table: str, column: str) -> str:
    name = f"{table}_{column}_index"
    if len(name) <= _LONGEST_KEY:
        return name
    return f"{name[: _LONGEST_KEY - 9]}_{blake2b(name.encode(), digest_size=4).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Known:
    """What a table is in its database: how many characters its texts take (None: any number), and which columns take no null."""

    lengths: Mapping[str, int | None]
    required: frozenset[str]


def prepare(connection: Connection, table: Table, target: Target, who: str) -> Known:
    """Make the table if it is not there; -> what it is. Errors: the driver's; REFUSED, where it lacks a column."""
    if not _is_there(connection, table, target.check_query):
        try:
            # MySQL ends the transaction, and its savepoints, with each change of tables
            with nullcontext() if connection.dialect.name == "mysql" else connection.begin_nested():
                table.create(connection, checkfirst=False)
        except DBAPIError:
            if not _has_table(connection, table):  # else somebody else was faster
                raise
    found = {column["name"]: column for column in inspect(connection).get_columns(table.name, schema=table.schema)}
    lacking = [column.name for column in table.columns if column.name not in found]
    if lacking:
        reason = f"the table '{target.table}' is there, without {_list(lacking)}"
        raise error("REFUSED", connector=who, reason=reason)
    ours = [found[column.name] for column in table.columns]
    keys = {column.name for column in table.primary_key}
    return Known(
        {each["name"]: _length(each["type"], target.lengths.get(each["name"], LENGTH)) for each in ours},
        frozenset(c["name"] for c in ours if (not c["nullable"] and c.get("default") is None) or c["name"] in keys)
        | (frozenset() if target.nulls else frozenset(column.name for column in table.columns)),
    )


def _length(found: TypeEngine[Any], given: int) -> int | None:
    """How many characters a column takes: as it is, else as `field.length` has it."""
    length: int | None = getattr(found, "length", None)
    return length if length is not None or given == LENGTH else given


def _is_there(connection: Connection, table: Table, query: str) -> bool:
    if not query:
        return _has_table(connection, table)
    try:
        with connection.begin_nested():
            connection.execute(text(query.replace(":", r"\:"))).close()
    except DBAPIError as reason:
        if passes(reason):
            raise
        return False
    return True


def _has_table(connection: Connection, table: Table) -> bool:
    return connection.dialect.has_table(connection, table.name, schema=table.schema)


def _list(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
