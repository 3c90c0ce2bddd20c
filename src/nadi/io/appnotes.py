"""What whoever goes on with an app must know, in the database that all nodes of a cluster reach: `nadi_notes`, a row per note.

    app, name, content      a value as JSON
    app, ".run", epoch      the run that may replace notes

A note is made `once`, by whoever comes first, or replaced by the newest run of the app and by no earlier one. So it can be relied upon by who has nothing of
the folder in which the run before kept its files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    MetaData,
    String,
    Table,
    Text,
    delete,
    insert,
    select,
    update,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.exc import DBAPIError, IntegrityError

from nadi.databases import Address, make_tables, translated
from nadi.errors import error
from nadi.io.errortable import engine_of

_EXACT = String(255).with_variant(mysql.VARCHAR(255, collation="utf8mb4_bin"), "mysql", "mariadb")
_LONG = Text().with_variant(mysql.LONGTEXT(charset="utf8mb4"), "mysql", "mariadb")
NOTES = Table(
    "nadi_notes",
    MetaData(),
    Column("app", _EXACT, primary_key=True),
    Column("name", _EXACT, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("content", _LONG, nullable=False),
)
RUN = ".run"


class AppNotes:
    """The notes of one app, for its run `epoch` (0: who replaces none). Errors of every method: CONNECTION_UNAVAILABLE, REFUSED."""

    def __init__(self, url: str, app: str, epoch: int = 0) -> None:
        self._address = Address(url)
        self._engine = engine_of(self._address)
        self._app = app
        self._epoch = epoch
        self._made = False

    def begin(self) -> None:
        """From now on no earlier run replaces a note. Errors also: FENCED, where a later one has begun."""
        claimed = update(NOTES).where(self._named(RUN), NOTES.c.epoch <= self._epoch).values(epoch=self._epoch)
        with self._transaction() as connection:
            if connection.execute(claimed).rowcount:
                return
        self._add(RUN, "0")
        with self._transaction() as connection:
            if not connection.execute(claimed).rowcount:
                raise self._fenced()

    def once(self, name: str, make: Callable[[], object]) -> object:
        """The value of a note; the first one who asks makes it, whoever it is."""
        found = self.read(name)
        if found is None:
            self._add(name, json.dumps(make()))
            found = self.read(name)
        return found

    def read(self, name: str) -> object:
        """The value of a note, None where there is none."""
        with self._transaction() as connection:
            found = connection.execute(select(NOTES.c.content).where(self._named(name))).scalar()
        return None if found is None else json.loads(found)

    def following(self, name: str, last: str) -> list[object]:
        """The values of the notes after one name up to another, in the order of their names."""
        wanted = select(NOTES.c.content).where(NOTES.c.app == self._app, NOTES.c.name > name, NOTES.c.name <= last)
        with self._transaction() as connection:
            found = connection.execute(wanted.order_by(NOTES.c.name)).scalars().all()
        return [json.loads(content) for content in found]

    def held(self, name: str) -> object:
        """As `read`, for who goes on from there. Errors also: FENCED, where a later run has begun."""
        with self._transaction() as connection:
            self._fence(connection)
            found = connection.execute(select(NOTES.c.content).where(self._named(name))).scalar()
        return None if found is None else json.loads(found)

    def replace(self, name: str, value: object) -> None:
        """Put a value into a note. Errors also: FENCED, where a later run has begun."""
        content = json.dumps(value)
        replaced = update(NOTES).where(self._named(name)).values(content=content)
        with self._transaction() as connection:
            self._fence(connection)
            if not connection.execute(replaced).rowcount:
                connection.execute(insert(NOTES).values(app=self._app, name=name, epoch=0, content=content))

    def forget(self) -> None:
        """Delete all notes of the app; none of its runs may replace one any more."""
        with self._transaction() as connection:
            connection.execute(delete(NOTES).where(NOTES.c.app == self._app))

    def _named(self, name: str) -> ColumnElement[bool]:
        return (NOTES.c.app == self._app) & (NOTES.c.name == name)

    def _add(self, name: str, content: str) -> None:
        """Make a note, unless somebody has."""
        try:
            with self._engine.begin() as connection:
                connection.execute(insert(NOTES).values(app=self._app, name=name, epoch=0, content=content))
        except IntegrityError:
            return  # somebody was faster
        except DBAPIError as reason:
            raise self._translated(reason) from reason

    def _fence(self, connection: Connection) -> None:
        """Hold the row of the run until the transaction ends: nobody begins another one meanwhile."""
        held = update(NOTES).where(self._named(RUN)).values(epoch=NOTES.c.epoch)  # locks it in every database
        connection.execute(held)
        if connection.execute(select(NOTES.c.epoch).where(self._named(RUN))).scalar() != self._epoch:
            raise self._fenced()

    def _fenced(self) -> Exception:
        return error("FENCED", connector=f"the notes of '{self._app}' at {self._address.shown}", producer=self._app)

    def _translated(self, reason: DBAPIError) -> Exception:
        return translated(reason, f"the notes of '{self._app}' at {self._address.shown}")

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """A transaction that is committed at its end."""
        try:
            if not self._made:
                make_tables(self._engine, NOTES)
                self._made = True
            with self._engine.begin() as connection:
                yield connection
        except DBAPIError as reason:
            raise self._translated(reason) from reason
