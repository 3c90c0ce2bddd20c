"""The error store in a database: a table that all apps share, and one beside it that says which cut each app has in it.

    <table>          app, run, cut, bucket, number, time, kind, stream, content      a row each; `content` is the row as JSON
    <table>_LEDGER   app, run, cut                                                   the last cut that an app has kept rows of

The rows of a cut and its number are one transaction: a cut that is written again finds its number there and has no effect. `run` is a random name in the
state folder of the app, since a new state folder counts its cuts from 0 again; where other nodes may go on with the app, one that they all know.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Integer,
    MetaData,
    Select,
    String,
    Table,
    Text,
    and_,
    delete,
    insert,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.exc import DBAPIError, IntegrityError

from nadi.databases import Address, connect, make_tables, translated
from nadi.io.errorstore import ANY, Place, Row, Wanted, place_of, staged_lines
from nadi.io.sinks import ledger

NOTHING = -1
AT_ONCE = 1_000
"""Rows handed to the driver in one call, and read at a time."""

_ENGINES: dict[Address, Engine] = {}  # a store is opened anew for each cut; connections are kept


def engine_of(address: Address) -> Engine:
    """The engine of a database, one per process."""
    if address not in _ENGINES:
        _ENGINES[address] = connect(address)
    return _ENGINES[address]


class TableErrorStore:
    """Implements `nadi.io.errorstore.ErrorStore`. Errors of every method: CONNECTION_UNAVAILABLE, REFUSED."""

    def __init__(self, state: Path, app: str, address: Address, table: str, run: str = "") -> None:
        self._lines = staged_lines(state)
        self._app = app
        self._address = address
        self._engine = engine_of(address)
        self._table, self._ledger = tables_of(table, self._engine.dialect.name)
        self._run = run or ledger.run(state / "errors")
        self._made = False

    @property
    def name(self) -> str:
        return f"{self._address.shown}, table {self._table.name}"

    def commit(self, cut: int, buckets: Sequence[int]) -> None:
        if not buckets:
            return
        self._introduce()
        with self._transaction() as connection:
            if self._entered(connection, cut):
                for bucket in buckets:
                    self._keep(connection, cut, bucket)
        self._lines.clear(cut)

    def _introduce(self) -> None:
        """Give the run its row in the ledger, so that a cut only ever changes a row, which other attempts at it wait for."""
        mine = self._mine(self._ledger)
        with self._transaction() as connection:
            if connection.execute(select(self._ledger.c.cut).where(mine)).first() is not None:
                return
        try:
            with self._engine.begin() as connection:
                connection.execute(insert(self._ledger).values(app=self._app, run=self._run, cut=NOTHING))
        except IntegrityError:
            return  # another attempt was faster
        except DBAPIError as reason:
            raise translated(reason, f"the error store at {self._address.shown}") from reason

    def _entered(self, connection: Connection, cut: int) -> bool:
        """Enter a cut into the ledger; False where it was there before. Holds the row until the transaction ends."""
        newer = update(self._ledger).where(self._mine(self._ledger), self._ledger.c.cut < cut).values(cut=cut)
        return connection.execute(newer).rowcount == 1

    def _keep(self, connection: Connection, cut: int, bucket: int) -> None:
        lines = self._lines.staged(cut, bucket).splitlines()
        for at in range(0, len(lines), AT_ONCE):
            values = [self._values(line.decode()) for line in lines[at : at + AT_ONCE]]
            connection.execute(insert(self._table), values)

    def _values(self, line: str) -> dict[str, Any]:
        row = json.loads(line)
        cut, bucket, number = place_of(row["id"]) or (0, 0, 0)
        about = {name: row[name] for name in ("time", "kind", "stream")}
        place = {"cut": cut, "bucket": bucket, "number": number}
        return {"app": self._app, "run": self._run, **place, **about, "content": line}

    def enter(self, rows: Sequence[tuple[Place, Row]]) -> int:
        """Keep rows of no cut, each at its place or, where that is another row's, at the next number that is free; -> how many are new.

        A row that is there stays as it is. So a second call with the same rows adds nothing.
        """
        return sum(self._enter(rows[at : at + AT_ONCE]) for at in range(0, len(rows), AT_ONCE))

    def _enter(self, rows: Sequence[tuple[Place, Row]]) -> int:
        with self._transaction() as connection:
            there = self._there(connection, [place for place, _ in rows])
            values = []
            for wanted, row in rows:
                place, line = wanted, _line(wanted, row)
                while there.get(place, line) != line:
                    place = (*place[:2], place[2] + 1)
                    if place not in there:
                        there |= self._there(connection, [place])
                    line = _line(place, row)
                if place not in there:
                    there[place] = line
                    values.append(self._values(line))
            if values:
                connection.execute(insert(self._table), values)
        return len(values)

    def _there(self, connection: Connection, places: Sequence[Place]) -> dict[Place, str]:
        """What rows are at some places."""
        of = self._table.c
        asked = select(of.cut, of.bucket, of.number, of.content).where(
            self._mine(self._table), tuple_(of.cut, of.bucket, of.number).in_(places)
        )
        return {(cut, bucket, number): content for cut, bucket, number, content in connection.execute(asked)}

    def rows(self, wanted: Wanted = ANY, limit: int = 0) -> Iterator[Row]:
        of = self._table.c
        newest = [of.cut.desc(), of.bucket.desc(), of.number.desc()]
        if limit:
            asked = select(of.content).where(self._meant(wanted)).order_by(*newest).limit(limit)
            with self._transaction() as connection:
                found = [json.loads(text) for text in connection.execute(asked).scalars()]
            yield from reversed(found)
            return
        yield from self._in_order(select(of.content).where(self._meant(wanted)))

    def _in_order(self, asked: Select[tuple[str]]) -> Iterator[Row]:
        of = self._table.c
        with self._transaction() as connection:
            options = {"stream_results": True, "yield_per": AT_ONCE}
            ordered = asked.order_by(of.cut, of.bucket, of.number)
            for found in connection.execute(ordered, execution_options=options):
                yield json.loads(str(found[0]))

    def purge(self, wanted: Wanted = ANY) -> int:
        with self._transaction() as connection:
            return int(connection.execute(delete(self._table).where(self._meant(wanted))).rowcount)

    def _meant(self, wanted: Wanted) -> ColumnElement[bool]:
        of = self._table.c
        conditions = [self._mine(self._table)]
        if wanted.ids:
            places = [place for id_ in wanted.ids if (place := place_of(id_)) is not None]
            conditions.append(tuple_(of.cut, of.bucket, of.number).in_(places))
        if wanted.kind:
            conditions.append(of.kind == wanted.kind)
        if wanted.stream:
            conditions.append(of.stream == wanted.stream)
        if wanted.since is not None:
            conditions.append(of.time >= wanted.since)
        if wanted.until is not None:
            conditions.append(of.time < wanted.until)
        return and_(*conditions)

    def _mine(self, table: Table) -> ColumnElement[bool]:
        return and_(table.c.app == self._app, table.c.run == self._run)

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        try:
            if not self._made:
                make_tables(self._engine, self._table, self._ledger)
                self._made = True
            with self._engine.begin() as connection:
                yield connection
        except DBAPIError as reason:
            raise translated(reason, f"the error store at {self._address.shown}") from reason


def _line(place: Place, row: Row) -> str:
    """A row as the table has it, with the id of its place."""
    cut, bucket, number = place
    return json.dumps({**row, "id": f"{cut}-{bucket}-{number}", "cut": cut}, sort_keys=True)


def forget_errors(address: Address, app: str, table: str) -> None:
    """Delete all rows of an app that is no more, where there is such a table. Errors: CONNECTION_UNAVAILABLE, REFUSED."""
    engine = engine_of(address)
    try:
        for each in tables_of(table, engine.dialect.name):
            with engine.begin() as connection:
                if connection.dialect.has_table(connection, each.name):
                    connection.execute(delete(each).where(each.c.app == app))
    except DBAPIError as reason:
        raise translated(reason, f"the error store at {address.shown}") from reason


def tables_of(name: str, dialect: str) -> tuple[Table, Table]:
    """The table of the rows and the ledger."""
    metadata = MetaData()
    exact = "utf8mb4_bin" if dialect in ("mysql", "mariadb") else None  # names that differ in case are two
    long = Text().with_variant(mysql.LONGTEXT(charset="utf8mb4"), "mysql", "mariadb")

    def key(column: str, kind: Any) -> Column[Any]:
        return Column(column, kind, primary_key=True, autoincrement=False)

    def owner() -> list[Column[Any]]:
        return [key("app", String(255, exact)), key("run", String(32, exact))]

    rows = Table(
        name,
        metadata,
        *owner(),
        *(key("cut", BigInteger), key("bucket", Integer), key("number", Integer)),
        Column("time", BigInteger, nullable=False),
        Column("kind", String(16), nullable=False),
        Column("stream", String(255, exact), nullable=False),
        Column("content", long, nullable=False),
    )
    cuts = Table(f"{name}_LEDGER", metadata, *owner(), Column("cut", BigInteger, nullable=False))
    return rows, cuts
