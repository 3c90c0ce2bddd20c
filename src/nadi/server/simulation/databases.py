"""Databases as sources of events: what tables and columns there are, and their rows.

Only tables that the database lists are read, names are quoted, and files of SQLite are read where the worker keeps its deployment and nowhere else. A
database that does not answer holds up a few threads, never who asks: `Questions` gives up on it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from nadi.databases.engines import CONNECT_WITHIN, Address, connect, translated
from nadi.errors import error
from nadi.io.databasereach import reached
from nadi.io.reach import Reach
from nadi.server.simulation.configuration import DatabaseSource
from nadi.server.simulation.events import UNSET
from nadi.server.simulation.rows import BadRow, Stamped, timestamp_of

ANSWERS_WITHIN = 20.0  # seconds
AT_A_TIME = 4
ROWS = 500  # that are fetched together

T = TypeVar("T")


class Databases:
    """The databases that simulations may read. `folder` is where files of SQLite may be, `reach` says to which servers they may connect."""

    def __init__(self, folder: Path, reach: Reach) -> None:
        self._folder = folder
        self._reach = reach

    def check(self, address: Address) -> None:
        """Connect. Errors: SIMULATION_INVALID, DATABASE_UNKNOWN, CONNECTION_UNAVAILABLE, REFUSED, DATABASE_NOT_ALLOWED."""
        with self._connected(address):
            pass

    def tables(self, address: Address) -> list[str]:
        """The tables and views that a database lists. Errors: as `check`."""
        with self._connected(address) as connection:
            return _tables(connection)

    def columns(self, address: Address, table: str) -> list[str]:
        """The columns of a table. Errors: as `check`; SIMULATION_INVALID where there is no such table."""
        with self._connected(address) as connection:
            return _columns(connection, table)

    def rows(
        self, source: DatabaseSource, columns: tuple[str, ...], start: int, end: int
    ) -> Iterator[Stamped | BadRow]:
        """The rows of a source, those between `start` and `end` (ms) by timestamp where it has one. Errors: as `columns`."""
        with self._connected(source.address) as connection:
            known = _columns(connection, source.table)
            _check_known(source, columns, known)
            wanted = (*columns, source.timestamp) if source.timestamp else columns
            found = connection.execution_options(stream_results=True, yield_per=ROWS).execute(
                _select(source, wanted, start, end)
            )
            for row in found:
                yield _stamped(tuple(row), bool(source.timestamp))

    @contextmanager
    def _connected(self, address: Address) -> Iterator[sa.Connection]:
        engine = self._engine(address)
        try:
            with engine.connect() as connection:
                yield connection
        except DBAPIError as reason:
            raise translated(reason, f"the database {address.shown}") from reason
        except SQLAlchemyError as reason:
            raise error("SIMULATION_INVALID", reason=f"the database {address.shown}: {reason}") from reason
        finally:
            engine.dispose()

    def _engine(self, address: Address) -> sa.Engine:
        url = address.parsed
        if url.get_backend_name() != "sqlite":
            for one in reached(address, "dataSourceLocation"):
                self._reach.check("a simulation", one)
            return connect(address, ANSWERS_WITHIN)
        path = (self._folder / (url.database or "")).resolve()
        if not path.is_relative_to(self._folder.resolve()) or not path.is_file():
            raise error("SIMULATION_INVALID", reason=f"there is no file of SQLite of this name below {self._folder}")

        def opened() -> sqlite3.Connection:
            return sqlite3.connect(
                f"file:{quote(str(path))}?mode=ro", uri=True, timeout=CONNECT_WITHIN, check_same_thread=False
            )

        return sa.create_engine("sqlite://", creator=opened, poolclass=sa.pool.NullPool)


class Questions:
    """Asks databases in threads of its own, for those who cannot wait for ever."""

    def __init__(self, within: float = ANSWERS_WITHIN, at_a_time: int = AT_A_TIME) -> None:
        self._within = within
        self._most = at_a_time
        self._asked: set[Future[Any]] = set()
        self._lock = Lock()
        self._threads = ThreadPoolExecutor(at_a_time, thread_name_prefix="simulation-database")

    def ask(self, question: Callable[[], T]) -> T:
        """The answer. Errors: those of the question; DATABASE_SILENT, DATABASES_BUSY."""
        with self._lock:
            self._asked = {future for future in self._asked if not future.done()}
            if len(self._asked) >= self._most:
                raise error("DATABASES_BUSY", count=self._most)
            asked = self._threads.submit(question)
            self._asked.add(asked)
        try:
            return asked.result(self._within)
        except Late:
            raise error("DATABASE_SILENT", seconds=round(self._within)) from None

    def close(self) -> None:
        """Ask no more; who still waits for an answer is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _tables(connection: sa.Connection) -> list[str]:
    inspected = sa.inspect(connection)
    return sorted({*inspected.get_table_names(), *inspected.get_view_names()})


def _columns(connection: sa.Connection, table: str) -> list[str]:
    if table not in _tables(connection):
        raise error("SIMULATION_INVALID", reason=f"the database lists no table {table[:100]!r}")
    return [column["name"] for column in sa.inspect(connection).get_columns(table)]


def _check_known(source: DatabaseSource, columns: tuple[str, ...], known: list[str]) -> None:
    for name in (*columns, *((source.timestamp,) if source.timestamp else ())):
        if name not in known:
            raise error("SIMULATION_INVALID", reason=f"the table '{source.table}' has no column {name[:100]!r}")


def _select(source: DatabaseSource, wanted: tuple[str, ...], start: int, end: int) -> sa.Select[Any]:
    named: list[sa.ColumnClause[Any]] = [sa.column(sa.quoted_name(name, quote=True)) for name in dict.fromkeys(wanted)]
    by_name = dict(zip(dict.fromkeys(wanted), named))
    table = sa.table(sa.quoted_name(source.table, quote=True), *named)
    chosen = sa.select(*(by_name[name].label(f"c{i}") for i, name in enumerate(wanted))).select_from(table)
    if not source.timestamp:
        return chosen
    stamp = by_name[source.timestamp]
    if start != UNSET:
        chosen = chosen.where(stamp >= start)
    if end != UNSET:
        chosen = chosen.where(stamp <= end)
    return chosen.order_by(stamp)


def _stamped(row: tuple[Any, ...], timed: bool) -> Stamped | BadRow:
    if not timed:
        return None, row
    try:
        return timestamp_of(row[-1]), row[:-1]
    except BadRow as reason:
        return reason
