"""Which permissions there are and which roles have them: two tables of WSO2's, in a database or in a file of the security folder.

    PERMISSIONS         APP_NAME, PERMISSION_STRING (together the key), PERMISSION_ID
    ROLE_PERMISSIONS    APP_NAME, PERMISSION_STRING, ROLE_ID, PERMISSION_ID

Nothing is remembered: what is revoked is gone with the next request, on every node that shares the database. Databases may think `Ops` and `ops` the same;
here they are not.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import md5
from pathlib import Path
from uuid import UUID

from sqlalchemy import Column, ColumnElement, Connection, Engine, MetaData, String, Table, and_, delete, insert, select
from sqlalchemy.exc import DBAPIError, IntegrityError

from nadi.config.ownership import OWN_FILE
from nadi.config.places import DataSource
from nadi.databases import Address, connect, make_tables, translated
from nadi.errors import error
from nadi.server.security.permissions import Permission
from nadi.server.security.users import User

LONGEST = 255  # characters of a name
FILE = "permissions.db"


@dataclass(frozen=True, slots=True)
class _Tables:
    permissions: Table
    roles: Table


def _tables(dialect: str) -> _Tables:
    """The tables for a database. PostgreSQL folds names that are not quoted to lower case, and WSO2 quotes none."""
    metadata = MetaData()
    spelled = str.lower if dialect == "postgresql" else str
    # to MySQL's own order `Ops` and `ops` would be the same
    name = String(LONGEST, collation="utf8mb4_bin" if dialect in ("mysql", "mariadb") else None)

    def column(written: str, key: str, primary: bool = False) -> Column[str]:
        return Column(spelled(written), name, key=key, primary_key=primary, nullable=False)

    app, text, id_, role = "APP_NAME", "PERMISSION_STRING", "PERMISSION_ID", "ROLE_ID"
    return _Tables(
        Table(
            spelled("PERMISSIONS"),
            metadata,
            column(app, "app", primary=True),
            column(text, "text", primary=True),
            column(id_, "id"),
        ),
        Table(
            spelled("ROLE_PERMISSIONS"),
            metadata,
            column(app, "app"),
            column(text, "text"),
            column(role, "role"),
            column(id_, "id"),
        ),
    )


def permission_id(permission: Permission) -> str:
    """The id of a permission, the same on every node: Java's UUID.nameUUIDFromBytes of what WSO2 writes for it.

    >>> permission_id(Permission("MON", "MON.consumer"))
    'f0c74633-2f07-3896-841a-154afb0c29da'
    """
    written = f"Permission[appName={permission.app}, permissionString={permission.text}]"
    return str(UUID(bytes=md5(written.encode(), usedforsecurity=False).digest(), version=3))


def is_name(text: str) -> bool:
    """Whether a text can name an app, a permission or a role. One with `, permissionString=` could give two permissions the same id.

    >>> [is_name(text) for text in ("SAPP", "", "a" + chr(10), "A, permissionString=b")]
    [True, False, False, False]
    """
    return 0 < len(text) <= LONGEST and text.isprintable() and text == text.strip() and "permissionString=" not in text


@dataclass(frozen=True, slots=True)
class Granted:
    """A permission that is registered."""

    id: str
    permission: Permission


class Unknown(Exception):
    """There is no permission of this id or name."""


class AllGranted:
    """Every user has every permission (`isPermissionDisabled`); what is for administrators stays so."""

    def has_one(self, user: User, wanted: Iterable[Permission]) -> bool:
        return any(True for _one in wanted)


class PermissionStore:
    """See the module's text. Errors of every method: CONNECTION_UNAVAILABLE, REFUSED. From any thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._tables = _tables(engine.dialect.name)
        self._made = False

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def add(self, permission: Permission) -> str:
        """Register a permission, where it is not yet; -> its id."""
        made = permission_id(permission)
        try:
            with self._writing() as connection:
                if not self._registered(connection, made):
                    connection.execute(insert(self._tables.permissions), [_row(permission)])
        except IntegrityError:
            if not self._is_there(made):  # else somebody else was faster
                raise
        return made

    def drop(self, id_: str) -> None:
        """Forget a permission and who has it. Errors: Unknown."""
        with self._writing() as connection:
            self._known(connection, id_)
            for table in (self._tables.roles, self._tables.permissions):
                connection.execute(delete(table).where(table.c.id == id_))

    def of_app(self, app: str) -> list[Granted]:
        """The permissions of an app, by name."""
        table = self._tables.permissions
        with self._reading() as connection:
            rows = connection.execute(select(table.c.id, table.c.app, table.c.text).where(table.c.app == app)).all()
        found = [Granted(id_, Permission(of, text)) for id_, of, text in rows]
        return sorted((one for one in found if one.permission.app == app), key=lambda one: one.permission.text)

    def roles_of(self, id_: str) -> list[str]:
        """The ids of the roles that have a permission. Errors: Unknown."""
        table = self._tables.roles
        with self._reading() as connection:
            self._known(connection, id_)
            asked = select(table.c.role).where(table.c.id == id_)
            return sorted(set(connection.execute(asked).scalars()))

    def has(self, id_: str, role: str) -> bool:
        """Whether a role has a permission. Errors: Unknown."""
        return role in self.roles_of(id_)

    def grant(self, permission: Permission, role: str) -> None:
        """Give a permission to a role. Errors: Unknown, where it is not registered."""
        with self._writing() as connection:
            self._known(connection, permission_id(permission))
            if role not in self._holders(connection, permission):
                connection.execute(insert(self._tables.roles), [{**_row(permission), "role": role}])

    def revoke(self, permission: Permission, role: str) -> None:
        """Take a permission from a role. Errors: Unknown, where it is not registered."""
        table = self._tables.roles
        with self._writing() as connection:
            self._known(connection, permission_id(permission))
            connection.execute(delete(table).where(_is(table, permission), table.c.role == role))

    def revoke_all(self, id_: str) -> None:
        """Take a permission from all roles. Errors: Unknown."""
        table = self._tables.roles
        with self._writing() as connection:
            self._known(connection, id_)
            connection.execute(delete(table).where(table.c.id == id_))

    def has_one(self, user: User, wanted: Iterable[Permission]) -> bool:
        """Whether one of the user's roles has one of some permissions."""
        asked = tuple(wanted)
        if not asked or not user.role_ids:
            return False
        with self._reading() as connection:
            return any(not self._holders(connection, one).isdisjoint(user.role_ids) for one in asked)

    # ---- rows

    def _holders(self, connection: Connection, permission: Permission) -> set[str]:
        table = self._tables.roles
        rows = connection.execute(select(table.c.role, table.c.app, table.c.text).where(_is(table, permission)))
        return {role for role, app, text in rows if Permission(app, text) == permission}

    def _registered(self, connection: Connection, id_: str) -> Sequence[str]:
        table = self._tables.permissions
        asked = select(table.c.id).where(table.c.id == id_)
        return connection.execute(asked).scalars().all()

    def _known(self, connection: Connection, id_: str) -> None:
        if id_ not in self._registered(connection, id_):
            raise Unknown(id_)

    def _is_there(self, id_: str) -> bool:
        with self._reading() as connection:
            return bool(self._registered(connection, id_))

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with _told():
            self._make()
            with self._engine.connect() as connection:
                yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with _told():
            self._make()
            with self._engine.begin() as connection:
                yield connection

    def _make(self) -> None:
        """Make the tables that are missing; with the first use, as a worker starts though its database is away."""
        if not self._made:
            make_tables(self._engine, self._tables.permissions, self._tables.roles)
            self._made = True


def open_permissions(folder: Path, source: DataSource | None) -> PermissionStore:
    """The store in a data source, or else in a file of the security folder. Errors: DATABASE_UNKNOWN, FOLDER_NOT_MADE."""
    return PermissionStore(engine_of(folder / FILE, source))


def engine_of(file: Path, source: DataSource | None) -> Engine:
    """The database of a data source, or else a file of SQLite. Errors: DATABASE_UNKNOWN, FOLDER_NOT_MADE."""
    if source is not None:
        return connect(Address.of(source))
    try:
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT, OWN_FILE))
    except OSError as reason:
        raise error("FOLDER_NOT_MADE", folder=file, reason=reason.strerror) from reason
    return connect(Address(f"sqlite:///{file}"))


def _row(permission: Permission) -> dict[str, str]:
    return {
        "app": permission.app,
        "text": permission.text,
        "id": permission_id(permission),
    }


def _is(table: Table, permission: Permission) -> ColumnElement[bool]:
    return and_(table.c.app == permission.app, table.c.text == permission.text)


@contextmanager
def _told() -> Iterator[None]:
    """Errors of a driver as conditions."""
    try:
        yield
    except IntegrityError:
        raise
    except DBAPIError as reason:
        raise translated(reason, "permissions") from reason
