"""The store that a configuration names."""

from __future__ import annotations

import re
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from nadi.config import DataSource, Persistence
from nadi.config.persistence import FILES
from nadi.errors import error
from nadi.persistence.contract import Store
from nadi.persistence.database import DatabaseStore
from nadi.persistence.files import FileStore

_DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "mariadb": "mysql+pymysql"}
_JDBC = re.compile(r"jdbc:(\w+):(.*)", re.DOTALL)
_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def store_of(settings: Persistence, base: Path) -> Store:
    """The store of `state.persistence`; a relative location is one below `base`.

    Raises:
        CannotLoadConfigurationException: INVALID_SETTING, for a JDBC URL of another database than PostgreSQL, MySQL, MariaDB or SQLite.
        NoPersistenceStoreException: NO_PERSISTENCE_STORE, for a database without a data source.
    """
    if settings.store == FILES:
        return FileStore(base / settings.location)
    if settings.datasource is None:
        raise error("NO_PERSISTENCE_STORE", reason="its data source is not configured")
    if not _TABLE.fullmatch(settings.table):
        wanted = "a name of letters, digits and '_'"
        raise error("INVALID_SETTING", name="state.persistence.config.table", value=settings.table, wanted=wanted)
    return DatabaseStore(url_of(settings.datasource), settings.table)


def url_of(source: DataSource) -> sa.URL:
    """The URL of a data source for SQLAlchemy. Parameters of the JDBC driver are left out: they mean nothing to another one.

    >>> url_of(DataSource("DB", "jdbc:postgresql://db:5432/PERSISTENCE_DB?ssl=true", "wso2", "secret")).render_as_string()
    'postgresql+psycopg://wso2:***@db:5432/PERSISTENCE_DB'
    """
    found = _JDBC.fullmatch(source.jdbc_url)
    kind, rest = found.groups() if found else ("", "")
    if kind == "sqlite":
        return sa.URL.create("sqlite", database=rest)
    if kind not in _DRIVERS:
        wanted = f"jdbc:{{{','.join(_DRIVERS)}}}://host:port/database or jdbc:sqlite:path"
        raise error(
            "INVALID_SETTING", name=f"jdbcUrl of {source.name}", value=source.jdbc_url.split("?")[0], wanted=wanted
        )
    try:
        made = sa.make_url(f"{_DRIVERS[kind]}:{rest.split('?')[0].split(';')[0]}")
    except (ArgumentError, ValueError) as problem:
        wanted = f"jdbc:{kind}://host:port/database"
        raise error(
            "INVALID_SETTING", name=f"jdbcUrl of {source.name}", value=source.jdbc_url.split("?")[0], wanted=wanted
        ) from problem
    return made.set(
        username=source.username or None,
        password=source.password or None,
        query={"charset": "utf8mb4"} if kind != "postgresql" else {},
    )
