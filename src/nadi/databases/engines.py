"""From what an app or a deployment says of a database to SQLAlchemy's engine, and from a driver's error to a condition.

| written | database | driver |
|---|---|---|
| `jdbc:postgresql://host:5432/name`, `postgresql://…` | PostgreSQL | psycopg |
| `jdbc:mysql://host:3306/name`, `jdbc:mariadb://…`, `mysql://…`, `mariadb://…` | MySQL, MariaDB | PyMySQL |
| `jdbc:sqlite:/path/file.db`, `sqlite:////path/file.db` | SQLite | of Python |
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from sqlalchemy import URL, Engine, Table, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from nadi.errors import NadiError, error

DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mysql+pymysql",
    "sqlite": "sqlite",
}
CONNECT_WITHIN = 10  # seconds
BUSY_WITHIN = 10.0  # seconds that SQLite waits for another writer

_PARAMETERS = re.compile(r"[?;].*$")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a database is. `url` is a JDBC URL or one of SQLAlchemy's; user and password may also stand in it.

    >>> Address("jdbc:mysql://db:3306/orders?useSSL=false", "nadi", "secret").shown
    'mysql://nadi@db:3306/orders'
    """

    url: str
    user: str = ""
    password: str = field(default="", repr=False)

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

    def _bare(self) -> str:
        return re.sub(r"//[^/@]*@", "//", self.url)


def connect(address: Address, answers_within: float | None = None) -> Engine:
    """The engine of a database: connections are made when first used, checked before they are used again, and made anew where they broke. What a server does
    not answer within so many seconds is an error, where that is said.

    Errors: DATABASE_UNKNOWN. That the database cannot be reached shows with the first use: see `translated`.
    """
    url = address.parsed
    if url.get_backend_name() == "sqlite":
        made = create_engine(url, connect_args={"timeout": BUSY_WITHIN, "check_same_thread": False})
        event.listen(made, "connect", _durable)
        return made
    bounds = {} if answers_within is None else _bounds(url.get_backend_name(), answers_within)
    return create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": CONNECT_WITHIN, **bounds})


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


def _durable(connection: object, _record: object) -> None:
    """SQLite: readers do not hold writers up, and a commit is on the disk when it returns."""
    cursor = connection.cursor()  # type: ignore[attr-defined]  # a DBAPI connection
    cursor.execute("PRAGMA journal_mode=WAL")
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
