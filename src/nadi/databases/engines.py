"""From what an app or a deployment says of a database to SQLAlchemy's engine, and from a driver's error to a condition.

| written | database | driver |
|---|---|---|
| `jdbc:postgresql://host:5432/name`, `postgresql://…` | PostgreSQL | psycopg |
| `jdbc:mysql://host:3306/name`, `jdbc:mariadb://…`, `mysql://…`, `mariadb://…` | MySQL, MariaDB | PyMySQL |
| `jdbc:sqlite:/path/file.db`, `sqlite:////path/file.db` | SQLite | of Python |
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from sqlite3 import OperationalError

from sqlalchemy import URL, Column, Engine, Table, create_engine, event, inspect, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.schema import CreateColumn

from nadi.config.places import Bounds, DataSource
from nadi.databases.copied import copied_at
from nadi.databases.pool import pooled
from nadi.errors import NadiError, error
from nadi.replica.address import replica_of

DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mysql+pymysql",
    "sqlite": "sqlite",
}
CONNECT_WITHIN = 10  # seconds
BUSY_WITHIN = 10.0  # seconds that SQLite waits for another writer
_LOOK = 0.005  # seconds between two looks where SQLite itself does not wait

_PARAMETERS = re.compile(r"[?;].*$")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a database is, and how many connections may be made. `url` is a JDBC URL or one of SQLAlchemy's; user and password may also stand in it.

    >>> Address("jdbc:mysql://db:3306/orders?useSSL=false", "nadi", "secret").shown
    'mysql://nadi@db:3306/orders'
    """

    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    bounds: Bounds = field(default_factory=Bounds)

    @classmethod
    def of(cls, source: DataSource) -> Address:
        """That of a data source."""
        return cls(source.jdbc_url, source.username, source.password, source.bounds)

    @property
    def parsed(self) -> URL:
        """The URL with nadi's driver for it. Errors: DATABASE_UNKNOWN."""
        text = self.url.strip()
        if text.lower().startswith("jdbc:"):
            text = _PARAMETERS.sub("", text[5:])
            text = re.sub(r"^sqlite:(?!//)", "sqlite:///", text)
        try:
            parsed = make_url(text)
        except (ArgumentError, ValueError) as reason:
            raise error("DATABASE_UNKNOWN", url=self._bare(), known=", ".join(DRIVERS)) from reason
        name = parsed.get_backend_name() if "+" in parsed.drivername else parsed.drivername
        if name not in DRIVERS:
            raise error("DATABASE_UNKNOWN", url=self._bare(), known=", ".join(DRIVERS))
        # parameters of drivers are not passed on; MySQL's would take texts of three bytes a character without this one
        query = {"charset": "utf8mb4"} if DRIVERS[name].startswith("mysql") else {}
        parsed = parsed.set(drivername=DRIVERS[name], query=query)
        if self.user:
            parsed = parsed.set(username=self.user)
        return parsed.set(password=self.password) if self.password else parsed

    @property
    def shown(self) -> str:
        """The database as messages name it: without password and driver."""
        parsed = self.parsed
        return str(
            URL.create(parsed.get_backend_name(), parsed.username, None, parsed.host, parsed.port, parsed.database)
        )

    @property
    def replica(self) -> Path | None:
        """The socket of the event sync that is asked before a SQLite database is written; None where there is no copy.

        >>> Address("sqlite:////n/logs.db?replica=/n/sync").replica
        PosixPath('/n/sync')
        """
        return replica_of(self.url)[1] if self.url.startswith("sqlite:") else None

    def _bare(self) -> str:
        return re.sub(r"//[^/@]*@", "//", self.url)


def connect(address: Address, answers_within: float | None = None) -> Engine:
    """The engine of a database: connections are made when first used, checked before they are used again, and made anew where they broke. What a server does
    not answer within so many seconds is an error, where that is said.

    Errors: DATABASE_UNKNOWN. That the database cannot be reached shows with the first use: see `translated`; that no connection is free, too:
    CONNECTION_UNAVAILABLE.
    """
    url = address.parsed
    copied = {"factory": copied_at(address.replica)} if address.replica is not None else {}
    in_memory = url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:")
    pool = {} if in_memory else pooled(address.shown, address.bounds)  # there each connection has its own database
    if url.get_backend_name() == "sqlite":
        made = create_engine(url, connect_args={"timeout": BUSY_WITHIN, "check_same_thread": False, **copied}, **pool)
        event.listen(made, "connect", _durable)
        return made
    bounds = {} if answers_within is None else _bounds(url.get_backend_name(), answers_within)
    return create_engine(url, connect_args={"connect_timeout": connect_within(address.bounds), **bounds}, **pool)


def connect_within(bounds: Bounds) -> int:
    """For how many seconds a driver tries to connect: whole ones, and PostgreSQL's takes none for ever.

    >>> connect_within(Bounds(wait=0.25)), connect_within(Bounds())
    (1, 10)
    """
    return max(1, round(bounds.wait))


def _bounds(backend: str, seconds: float) -> dict[str, object]:
    """What makes the driver give up on an answer."""
    if backend == "mysql":
        return {"read_timeout": seconds, "write_timeout": seconds}
    ms = round(seconds * 1000)
    return {"options": f"-c statement_timeout={ms}", "tcp_user_timeout": ms}


def make_tables(engine: Engine, *tables: Table) -> None:
    """Make the tables that are missing. Several may do so at the same moment: who loses finds them made. Errors: the driver's."""
    for table in tables:
        try:
            table.create(engine, checkfirst=True)
        except DBAPIError:
            with engine.connect() as connection:
                if not connection.dialect.has_table(connection, table.name, schema=table.schema):
                    raise


def add_columns(engine: Engine, *tables: Table) -> None:
    """Add the columns that tables of an older version lack: those that have a default in the database, so that older versions go on writing their rows. Several
    may do so at the same moment. Errors: the driver's."""
    for table in tables:
        for column in [column for column in table.columns if column.server_default is not None]:
            if _has(engine, table, column):
                continue
            name = engine.dialect.identifier_preparer.format_table(table)
            added = CreateColumn(column).compile(dialect=engine.dialect)
            try:
                with engine.begin() as connection:
                    connection.exec_driver_sql(f"ALTER TABLE {name} ADD COLUMN {added}")
            except DBAPIError:
                if not _has(engine, table, column):
                    raise


def _has(engine: Engine, table: Table, column: Column[object]) -> bool:
    return column.name.lower() in {found["name"].lower() for found in inspect(engine).get_columns(table.name)}


def _durable(connection: DBAPIConnection, _record: object) -> None:
    """SQLite: readers do not hold writers up, and a commit is on the disk when it returns."""
    cursor = connection.cursor()
    until = time.monotonic() + BUSY_WITHIN
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            break
        except OperationalError as reason:
            # The first one changes the file, for which it must be alone. SQLite looks again where a file is locked, but not for this change.
            if "locked" not in str(reason) or time.monotonic() > until:
                raise
            time.sleep(_LOOK)
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def translated(reason: DBAPIError, who: str) -> NadiError:
    """The condition of a driver's error: CONNECTION_UNAVAILABLE where trying again may help, else REFUSED. `who` is whoever asked."""
    said = " ".join(str(reason.orig).split())[:300]
    condition = "CONNECTION_UNAVAILABLE" if passes(reason) else "REFUSED"
    return error(condition, connector=who, reason=said)


# Classes of PostgreSQL's codes: connection, rollback of a transaction, resources, not in the needed state (locks), operator, system.
_PASSING_STATES = ("08", "40", "53", "55", "57", "58")
# MySQL: no such user or database, no right, no such table or column, wrong text, unknown; what else the driver calls operational may pass.
_LASTING_CODES = {1044, 1045, 1049, 1054, 1064, 1142, 1146, 1227, 1305}
_PASSING_TEXTS = ("locked", "busy", "full", "i/o", "unable to open")  # SQLite


def passes(reason: DBAPIError) -> bool:
    """Whether an error is about the moment and not about what was asked: the same again may succeed later."""
    if reason.connection_invalidated:
        return True
    original = reason.orig
    kind = type(original).__name__
    if original is not None and hasattr(original, "sqlstate"):  # psycopg; None where no server answered
        state = original.sqlstate
        return kind == "OperationalError" if state is None else str(state).startswith(_PASSING_STATES)
    if kind not in ("OperationalError", "InterfaceError", "InternalError"):
        return False
    code = original.args[0] if original is not None and original.args else None
    if isinstance(code, int):
        return code not in _LASTING_CODES
    return any(text in str(original).lower() for text in _PASSING_TEXTS)
