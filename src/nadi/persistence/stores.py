"""The store that a configuration names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from nadi.config import DataSource, Persistence
from nadi.config.places import FILES
from nadi.errors import NadiError, error
from nadi.io.remotefiles import is_remote
from nadi.persistence.contract import Store
from nadi.persistence.copiedfiles import CopiedFileStore
from nadi.persistence.files import FileStore
from nadi.persistence.signatures import SigningStore
from nadi.replica.address import replica_of

if TYPE_CHECKING:
    from sqlalchemy import URL

_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def store_of(settings: Persistence, base: Path) -> Store:
    """The store of `state.persistence`; a relative location is one below `base`, and one with a scheme is a URL of `pyarrow.fs`; what is at a URL
    `file://…?replica=…` the partner of this node has, too. With a key its manifests are signed (`nadi.persistence.signatures`).

    Raises:
        CannotLoadConfigurationException: INVALID_SETTING, for a JDBC URL of another database than PostgreSQL, MySQL, MariaDB or SQLite, and for a URL that
            is not understood.
        NoPersistenceStoreException: NO_PERSISTENCE_STORE, for a database without a data source.
    """
    return SigningStore(_store_of(settings, base), settings.secret_key.encode())


def _store_of(settings: Persistence, base: Path) -> Store:
    if settings.store == FILES:
        return _at(settings.location, base)
    if settings.datasource is None:
        raise error("NO_PERSISTENCE_STORE", reason="its data source is not configured")
    if not _TABLE.fullmatch(settings.table):
        wanted = "a name of letters, digits and '_'"
        raise error("INVALID_SETTING", name="state.persistence.config.table", value=settings.table, wanted=wanted)
    from nadi.persistence.database import DatabaseStore  # with it comes SQLAlchemy, which takes half a second

    return DatabaseStore(url_of(settings.datasource), settings.table, settings.datasource.bounds)


def _at(location: str, base: Path) -> Store:
    if is_remote(location):
        from nadi.persistence.remote import store_at  # with it come the clients of object stores

        return store_at(location)
    if "://" not in location:
        return FileStore(base / location)
    path, socket = Path(unquote(urlsplit(location).path)), replica_of(location)[1]
    return FileStore(path) if socket is None else CopiedFileStore(path, socket)


def url_of(source: DataSource) -> URL:
    """The URL of a data source for SQLAlchemy. Parameters of the JDBC driver are left out: they mean nothing to another one.

    >>> url_of(DataSource("DB", "jdbc:postgresql://db:5432/PERSISTENCE_DB?ssl=true", "wso2", "secret")).render_as_string()
    'postgresql+psycopg://wso2:***@db:5432/PERSISTENCE_DB'
    """
    from nadi.databases import Address  # see above

    try:
        return Address.of(source).parsed
    except NadiError as problem:
        value, wanted = (
            source.jdbc_url.split("?")[0],
            "jdbc:{postgresql,mysql,mariadb}://host:port/database or jdbc:sqlite:path",
        )
        raise error("INVALID_SETTING", name=f"jdbcUrl of {source.name}", value=value, wanted=wanted) from problem
