"""The coordination database over SQLAlchemy: PostgreSQL, MySQL, MariaDB, or SQLite where all managers are on one machine.

A transaction locks the rows of its keys, then asks the database for its time, decides, and writes. Rows that were asked for and are not there are inserted, so
that of two that make the same row one fails and decides again; all others are put over what there may be. Deadlocks and such conflicts are tried again, as
they have changed nothing; every other failure is `StoreAway`, since a commit that brought no answer may have been made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from nadi.cluster.contract import Change, Decide, Seen, StoreAway
from nadi.cluster.rows import Key, Row, key_of
from nadi.cluster.sqltables import Mapped, mapped
from nadi.databases import Address, add_columns, connect, make_tables, translated

T = TypeVar("T")
ATTEMPTS = 5
THREADS = 4
HELD_UP = 5
"""Seconds that a transaction waits for another one, and after which the database ends one whose node does nothing: a paused node must not hold rows."""

_CLOCKS = {
    "sqlite": "SELECT CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)",
    "postgresql": "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
    "mysql": "SELECT CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED)",
}
_SESSIONS: dict[str, tuple[str, ...]] = {
    "sqlite": (),  # a process that stands still holds the file: all managers are on its machine
    "postgresql": ("SET idle_in_transaction_session_timeout = '{held_up}s'", "SET lock_timeout = '{held_up}s'"),
    "mysql": (
        "SET SESSION time_zone = '+00:00'",  # no hour comes twice
        "SET SESSION wait_timeout = {held_up}",
        "SET SESSION innodb_lock_wait_timeout = {held_up}",
    ),
}
_CONFLICTS = ("40001", "40P01")  # PostgreSQL: not serializable, deadlock
_DEADLOCK = 1213  # MySQL


class SqlStore:
    """Implements `nadi.cluster.contract.Store`. `within` is how long (ms) an answer may take."""

    def __init__(self, address: Address, group: str, within: int = 1_500) -> None:
        self._address = address
        self._group = group
        self._within = within
        self._engine = connect(address, max(1.0, within / 1000))
        self._kind = self._engine.dialect.name.replace("mariadb", "mysql")
        self._tables = mapped(self._engine.dialect.name)
        self._threads = ThreadPoolExecutor(THREADS, "coordination")
        sa.event.listen(self._engine, "connect", self._begin_session)

    def open(self) -> None:
        """Make the tables that are missing, and columns that those of an older version lack. Errors: CONNECTION_UNAVAILABLE, REFUSED: what `translated` says of
        the driver's error."""
        try:
            tables = [found.table for found in self._tables.values()]
            make_tables(self._engine, *tables)
            add_columns(self._engine, *tables)
        except DBAPIError as reason:
            raise translated(reason, f"the coordination database at {self._address.shown}") from reason

    def close(self) -> None:
        """Let go of the connections, when what is on its way has ended: that takes as long as the database may take to answer."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._engine.dispose()

    async def read(self, *kinds: type[Row]) -> Seen:
        return await self._apart(lambda: self._read(kinds))

    async def transact(self, keys: Sequence[Key], decide: Decide) -> Change:
        ordered = sorted(set(keys), key=lambda key: (key[0].__name__, key[1]))  # all lock in one order
        return await self._apart(lambda: self._transact(ordered, decide))

    async def groups(self, *kinds: type[Row]) -> dict[str, Seen]:
        """The rows of these kinds of all groups that the database has. Errors: `StoreAway`."""
        return await self._apart(lambda: self._groups(kinds))

    async def _apart(self, work: Callable[[], T]) -> T:
        """Do it in another thread. One that takes too long may still do it."""
        doing = asyncio.get_running_loop().run_in_executor(self._threads, work)
        try:
            async with asyncio.timeout(self._within / 1000):
                return await doing
        except TimeoutError:
            raise StoreAway(f"no answer within {self._within} ms") from None
        except SQLAlchemyError as reason:
            said = getattr(reason, "orig", None) or reason
            raise StoreAway(" ".join(str(said).split())[:300]) from reason

    def _begin_session(self, connection: Any, _record: object) -> None:
        cursor = connection.cursor()
        for statement in _SESSIONS[self._kind]:
            cursor.execute(statement.format(held_up=HELD_UP))
        cursor.close()
        connection.commit()

    # ---- in a thread ---------------------------------------------------------------------------------------------------

    def _read(self, kinds: Sequence[type[Row]]) -> Seen:
        with self._one_moment() as connection:
            return self._rows(connection, self._group, kinds)

    def _groups(self, kinds: Sequence[type[Row]]) -> dict[str, Seen]:
        with self._one_moment() as connection:
            tables = [self._tables[kind].table for kind in kinds]
            names = {name for table in tables for name in connection.scalars(sa.select(table.c["group_"]).distinct())}
            return {name: self._rows(connection, name, kinds) for name in sorted(names)}

    @contextmanager
    def _one_moment(self) -> Iterator[sa.Connection]:
        """A connection that sees what is there at one moment."""
        level = {} if self._kind == "sqlite" else {"isolation_level": "REPEATABLE READ"}
        with self._engine.connect().execution_options(**level) as connection:
            if self._kind == "sqlite":
                connection.exec_driver_sql("BEGIN")
            yield connection
            connection.rollback()

    def _rows(self, connection: sa.Connection, group: str, kinds: Sequence[type[Row]]) -> Seen:
        now = self._now(connection)
        rows: dict[Key, Row] = {}
        for kind in kinds:
            table = self._tables[kind]
            for found in connection.execute(sa.select(*table.columns).where(table.of(group))):
                row = table.row(found)
                rows[key_of(row)] = row
        return Seen(now, rows)

    def _transact(self, keys: Sequence[Key], decide: Decide) -> Change:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._attempt(keys, decide)
            except DBAPIError as reason:
                if attempt == ATTEMPTS or not is_conflict(reason):
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _attempt(self, keys: Sequence[Key], decide: Decide) -> Change:
        level = {"isolation_level": "READ COMMITTED"} if self._kind == "postgresql" else {}
        with self._engine.connect().execution_options(**level) as connection:
            if self._kind == "sqlite":
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            rows = {key: row for key in keys if (row := self._locked(connection, key)) is not None}
            change = decide(Seen(self._now(connection), rows))
            if change.put or change.drop:
                self._write(connection, change, set(keys) - rows.keys())
                connection.commit()
            else:
                connection.rollback()
        return change

    def _now(self, connection: sa.Connection) -> int:
        return int(connection.exec_driver_sql(_CLOCKS[self._kind]).scalar_one())

    def _locked(self, connection: sa.Connection, key: Key) -> Row | None:
        table = self._tables[key[0]]
        asked = sa.select(*table.columns).where(table.key(self._group, key[1])).with_for_update()
        found = connection.execute(asked).first()
        return None if found is None else table.row(found)

    def _write(self, connection: sa.Connection, change: Change, missing: set[Key]) -> None:
        """Dropped rows first: a change never puts and drops the same row."""
        for kind, keys in _by_kind(change.drop, lambda key: key[0]).items():
            table = self._tables[kind]
            by_key = [{f"k_{n}": v for n, v in zip(kind.KEY, key[1])} for key in keys]
            columns = dict(zip(table.names, table.columns))
            which = sa.and_(table.of(self._group), *(columns[n] == sa.bindparam(f"k_{n}") for n in kind.KEY))
            connection.execute(sa.delete(table.table).where(which), by_key)
        made = [row for row in change.put if key_of(row) in missing]
        put = [row for row in change.put if key_of(row) not in missing]
        for kind, rows in _by_kind(made, type).items():
            table = self._tables[kind]
            connection.execute(sa.insert(table.table), [table.values(self._group, row) for row in rows])
        for kind, rows in _by_kind(put, type).items():
            table = self._tables[kind]
            connection.execute(self._upsert(table), [table.values(self._group, row) for row in rows])

    def _upsert(self, table: Mapped) -> Any:
        names = {c.key: c for c in table.table.columns if not c.primary_key}
        keys = list(table.table.primary_key)
        if self._kind == "mysql":
            made = mysql.insert(table.table)
            return made.on_duplicate_key_update({name: made.inserted[name] for name in names})
        insert = postgresql.insert if self._kind == "postgresql" else sqlite.insert
        put = insert(table.table)
        return put.on_conflict_do_update(index_elements=keys, set_={c: put.excluded[name] for name, c in names.items()})


def _by_kind(found: Any, kind_of: Callable[[Any], type[Row]]) -> dict[type[Row], list[Any]]:
    groups: dict[type[Row], list[Any]] = {}
    for one in found:
        groups.setdefault(kind_of(one), []).append(one)
    return groups


def is_conflict(reason: DBAPIError) -> bool:
    """Whether a transaction lost against another one and changed nothing: deciding again is right."""
    if isinstance(reason, IntegrityError):
        return True
    original = reason.orig
    if getattr(original, "sqlstate", None) in _CONFLICTS:
        return True
    return bool(original is not None and original.args and original.args[0] == _DEADLOCK)
