"""Rows of tables of each kind of database."""

from __future__ import annotations

from pathlib import Path

import pytest
from servers.emptydatabase import EmptyDatabase
from sqlalchemy import BigInteger, Boolean, Column, MetaData, Numeric, String, Table, insert, text

from nadi.errors import NadiError
from nadi.io.reach import Reach
from nadi.server.simulation.configuration import DatabaseSource
from nadi.server.simulation.databases import Databases


@pytest.fixture
def table(database: EmptyDatabase) -> Table:
    columns = (
        Column("at", BigInteger),
        Column('Sym; b"ol', String(40)),
        Column("price", Numeric(10, 2)),
        Column("sold", Boolean),
    )
    made = Table('Odd `na"me; select', MetaData(), *columns)
    made.create(database.engine)
    with database.engine.begin() as connection:
        rows = [(n % 7, f"s{n}", n / 4, n % 2 == 0) for n in range(1_200)]
        connection.execute(insert(made), [dict(zip(made.columns.keys(), row, strict=True)) for row in rows])
    return made


def test_tables_columns_and_rows_are_read_whatever_their_names(database: EmptyDatabase, table: Table, tmp_path: Path):
    read = Databases(tmp_path, Reach())
    read.check(database.address)
    assert read.tables(database.address) == [table.name]
    names = read.columns(database.address, table.name)
    assert names == ["at", 'Sym; b"ol', "price", "sold"]
    source = DatabaseSource("A", "S", 1, database.address, table.name, "at", ())
    rows = list(read.rows(source, ('Sym; b"ol', "price", "sold"), 2, 5))
    stamps = [row[0] for row in rows if isinstance(row, tuple)]
    assert stamps == sorted(stamps)
    assert {*stamps} == {2, 3, 4, 5}
    assert len(rows) == sum(2 <= n % 7 <= 5 for n in range(1_200))
    untimed = list(read.rows(DatabaseSource("A", "S", 1, database.address, table.name, "", ()), ("sold",), 2, 5))
    assert len(untimed) == 1_200


def test_a_table_that_is_not_listed_is_not_read(database: EmptyDatabase, table: Table, tmp_path: Path):
    read = Databases(tmp_path, Reach())
    for name in ("other", "information_schema.tables", "sqlite_master", f'"{table.name}"'):
        with pytest.raises(NadiError, match="lists no table"):
            read.columns(database.address, name)


def test_a_query_that_takes_too_long_is_given_up(
    database: EmptyDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    slow = {"postgresql": "select pg_sleep(60)", "mysql": "select sleep(60)"}
    kind = database.engine.dialect.name
    if kind not in slow:
        pytest.skip("SQLite is a file: nobody lets it wait")
    monkeypatch.setattr("nadi.server.simulation.databases.ANSWERS_WITHIN", 1.0)
    with (
        pytest.raises(NadiError, match=r"CONNECTION_UNAVAILABLE|REFUSED"),
        Databases(tmp_path, Reach())._connected(database.address) as connection,
    ):
        connection.execute(text(slow[kind]))
