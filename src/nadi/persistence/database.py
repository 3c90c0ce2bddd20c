"""Revisions in a database: the table that WSO2 SP has for them, and two beside it.

`PERSISTENCE_TABLE (id, siddhiAppName, revision, snapshot)` has a row per revision; its snapshot is the manifest (in PostgreSQL the number of a large object,
as there). `PERSISTENCE_TABLE_SEGMENTS (siddhiAppName, address, part, content)` has the blobs in parts of at most 1 MB, `PERSISTENCE_TABLE_WRITERS
(siddhiAppName, turns)` a row per app that its writer locks. All of a turn is one transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.dialects.postgresql import OID
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from nadi.config.places import Bounds
from nadi.databases import connect_within, pooled
from nadi.errors import NadiError, error
from nadi.persistence.contract import Sink, Writing, in_order

PART_BYTES = 1 << 20
LOCKED = 60  # seconds that one writer of an SQLite file waits for another


@dataclass(frozen=True, slots=True)
class Tables:
    """What revisions lie in."""

    revisions: sa.Table
    segments: sa.Table
    writers: sa.Table


def tables_of(name: str, dialect: str) -> Tables:
    """The tables for a database. PostgreSQL folds names that are not quoted to lower case, as the statements of others are not."""
    metadata = sa.MetaData()
    postgres = dialect == "postgresql"

    def spelled(text: str) -> str:
        return text.lower() if postgres else text

    def app() -> sa.Column[Any]:
        return sa.Column(spelled("siddhiAppName"), sa.String(100, _collation(dialect)), nullable=False, key="app")

    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # SQLite counts up Integer keys only
    content = sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")
    part = sa.LargeBinary().with_variant(mysql.MEDIUMBLOB(), "mysql", "mariadb")
    revisions = sa.Table(
        spelled(name),
        metadata,
        sa.Column("id", number, primary_key=True, autoincrement=True),
        app(),
        sa.Column("revision", sa.String(300, _collation(dialect)), nullable=False),
        sa.Column("snapshot", sa.BigInteger() if postgres else content, nullable=False),
    )
    segments = sa.Table(
        spelled(f"{name}_SEGMENTS"),
        metadata,
        app(),
        sa.Column("address", sa.String(64), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("content", part, nullable=False),
        sa.PrimaryKeyConstraint("app", "address", "part"),
    )
    writers = sa.Table(
        spelled(f"{name}_WRITERS"),
        metadata,
        app(),
        sa.Column("turns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("app"),
    )
    return Tables(revisions, segments, writers)


def _collation(dialect: str) -> str | None:
    """Names of apps that differ in case are two apps."""
    return "utf8mb4_bin" if dialect in ("mysql", "mariadb") else None


class DatabaseStore:
    """A persistence store in a database that SQLAlchemy reaches."""

    def __init__(self, url: sa.URL, table: str = "PERSISTENCE_TABLE", bounds: Bounds | None = None) -> None:
        self._url = url
        self._table = table
        lite = url.get_backend_name() == "sqlite"
        bounds = Bounds() if bounds is None else bounds
        self._engine = sa.create_engine(
            url,
            isolation_level="SERIALIZABLE" if lite else "READ COMMITTED",
            connect_args={"timeout": LOCKED} if lite else {"connect_timeout": connect_within(bounds)},
            **pooled(url.render_as_string(), bounds),
        )
        self._tables = tables_of(table, self._engine.dialect.name)
        self._made = False

    @property
    def name(self) -> str:
        """The URL without the password, and the table."""
        return f"{self._url.render_as_string()}, table {self._table}"

    # ---- connections

    @contextmanager
    def _connected(self) -> Iterator[sa.Connection]:
        """A transaction. Its tables are there."""
        with self._failing():
            if not self._made:
                self._make_tables()
            with self._engine.begin() as connection:
                yield connection

    def _make_tables(self) -> None:
        """Two nodes that start at once may both find them missing: the one that comes second looks again."""
        tables = self._tables.revisions.metadata
        for left in reversed(range(len(tables.tables) + 1)):
            with self._engine.connect() as connection:
                try:
                    with connection.begin():
                        tables.create_all(connection)
                    break
                except DBAPIError:
                    if not left:
                        raise
        self._made = True

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as problem:
            raise self._failed(problem) from problem
        except NadiError as problem:
            if problem.condition != "CONNECTION_UNAVAILABLE":
                raise
            raise self._failed(problem) from problem

    def _failed(self, problem: Exception) -> NadiError:
        return error("PERSISTENCE_STORE_FAILED", store=self.name, reason=_reason(problem))

    # ---- reading

    def apps(self) -> list[str]:
        app = self._tables.revisions.c.app
        with self._connected() as connection:
            found = connection.execute(sa.select(app).distinct()).scalars().all()
        return sorted(name for name in found if self.names(name))

    def names(self, app: str) -> list[str]:
        with self._connected() as connection:
            return self.names_in(connection, app)

    def names_in(self, connection: sa.Connection, app: str) -> list[str]:
        """Within a transaction."""
        rows = self._tables.revisions.c
        found = connection.execute(sa.select(rows.revision).where(rows.app == app).order_by(rows.id))
        return in_order(found.scalars(), app)

    def manifest(self, app: str, name: str) -> bytes | None:
        with self._connected() as connection:
            return self.manifest_in(connection, app, name)

    def manifest_in(self, connection: sa.Connection, app: str, name: str) -> bytes | None:
        """Within a transaction."""
        rows = self._tables.revisions.c
        snapshot = sa.func.lo_get(sa.cast(rows.snapshot, OID)) if self.large else rows.snapshot
        wanted = sa.select(snapshot).where(rows.app == app, rows.revision == name).order_by(rows.id.desc()).limit(1)
        found = connection.execute(wanted).scalar_one_or_none()
        return None if found is None else bytes(found)

    def blob(self, app: str, address: str) -> Iterator[bytes]:
        rows = self._tables.segments.c
        number = 0
        while True:
            with self._connected() as connection:
                wanted = sa.select(rows.content).where(rows.app == app, rows.address == address, rows.part == number)
                found = connection.execute(wanted).scalar_one_or_none()
            if found is None:
                return
            yield bytes(found)
            number += 1

    # ---- writing

    def set_aside(self, app: str, address: str) -> None:
        rows = self._tables.segments
        with self._connected() as connection:
            connection.execute(rows.delete().where(rows.c.app == app, rows.c.address == address))

    @contextmanager
    def writing(self, app: str) -> Iterator[Writing]:
        self._make_writer(app)
        writers = self._tables.writers
        with self._connected() as connection:
            # the lock of the row (of SQLite the whole file) holds until the transaction ends
            connection.execute(writers.update().where(writers.c.app == app).values(turns=writers.c.turns + 1))
            yield _Turn(self, connection, app)

    def _make_writer(self, app: str) -> None:
        writers = self._tables.writers
        with self._connected() as connection:
            there = connection.execute(sa.select(writers.c.turns).where(writers.c.app == app)).scalar_one_or_none()
        if there is None:
            try:
                with self._failing(), self._engine.begin() as connection:
                    connection.execute(writers.insert().values(app=app, turns=0))
            except NadiError as problem:
                if not isinstance(problem.__cause__, IntegrityError):
                    raise  # else somebody else was first

    @property
    def large(self) -> bool:
        """Whether snapshots are large objects."""
        return self._engine.dialect.name == "postgresql"

    @property
    def tables(self) -> Tables:
        """Where it all lies."""
        return self._tables

    def close(self) -> None:
        self._engine.dispose()


class _Turn:
    """Implements `nadi.persistence.contract.Writing`."""

    def __init__(self, store: DatabaseStore, connection: sa.Connection, app: str) -> None:
        self._store, self._connection, self._app = store, connection, app
        self._revisions, self._segments = store.tables.revisions, store.tables.segments

    def names(self) -> list[str]:
        return self._store.names_in(self._connection, self._app)

    def manifest(self, name: str) -> bytes:
        return self._store.manifest_in(self._connection, self._app, name) or b""

    def size(self, address: str) -> int | None:
        rows = self._segments.c
        length = sa.func.octet_length if self._store.large else sa.func.length
        wanted = sa.select(sa.func.sum(length(rows.content))).where(rows.app == self._app, rows.address == address)
        found = self._connection.execute(wanted).scalar_one_or_none()
        return None if found is None else int(found)

    @contextmanager
    def blob(self, address: str) -> Iterator[Sink]:
        rows = self._segments
        self._connection.execute(rows.delete().where(rows.c.app == self._app, rows.c.address == address))
        sink = _Parts(self._connection, rows, {"app": self._app, "address": address})
        yield sink
        sink.flush()

    def save(self, name: str, manifest: bytes) -> None:
        snapshot: Any = sa.func.lo_from_bytea(0, manifest) if self._store.large else manifest
        values = {"app": self._app, "revision": name, "snapshot": snapshot}
        self._connection.execute(self._revisions.insert().values(**values))

    def delete(self, names: Iterable[str]) -> None:
        rows = self._revisions.c
        for name in names:
            those = (rows.app == self._app, rows.revision == name)
            if self._store.large:
                large = sa.cast(rows.snapshot, OID)
                self._connection.execute(sa.select(sa.func.lo_unlink(large)).where(*those))
            self._connection.execute(self._revisions.delete().where(*those))

    def sweep(self, keep: frozenset[str]) -> None:
        rows = self._segments.c
        wanted = sa.select(rows.address).where(rows.app == self._app).distinct()
        for address in self._connection.execute(wanted).scalars().all():
            if address not in keep:
                gone = self._segments.delete().where(rows.app == self._app, rows.address == address)
                self._connection.execute(gone)


class _Parts:
    """Bytes as rows of at most PART_BYTES."""

    def __init__(self, connection: sa.Connection, table: sa.Table, values: dict[str, str]) -> None:
        self._connection, self._table, self._values = connection, table, values
        self._held = bytearray()
        self._number = 0

    def write(self, data: bytes, /) -> int:
        self._held += data
        while len(self._held) >= PART_BYTES:
            self._put(bytes(self._held[:PART_BYTES]))
            del self._held[:PART_BYTES]
        return len(data)

    def flush(self) -> None:
        """The rest."""
        if self._held:
            self._put(bytes(self._held))
            self._held.clear()

    def _put(self, content: bytes) -> None:
        values = {**self._values, "part": self._number, "content": content}
        self._connection.execute(self._table.insert().values(**values))
        self._number += 1


def _reason(problem: Exception) -> str:
    """What the database said, in one line and without the statement."""
    said = problem.orig if isinstance(problem, DBAPIError) and problem.orig is not None else problem
    text = " ".join(str(said).split())
    return text[:300] or type(said).__name__
