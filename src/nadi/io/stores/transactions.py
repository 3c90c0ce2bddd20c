"""What a store does in its database belongs to a cut, or stands alone.

Within a **cut** all that the tables of an app in one database read and write for one bucket is one transaction. It ends with the cut, before the state is
written. With its first write it enters the number of the cut in the table `nadi_store_ledger`, in which each bucket of an app has a row: a cut that is taken
again after its transaction was committed finds its number there, and does not write again. What was refused in it is kept there, too, and refused once more.
The row holds the epoch of the run: one that was replaced gets FENCED.

If the database fails in a way that may pass, what was written in the cut is undone, so that the rest of it cannot count: the cut fails, and is taken again.

**Alone**, as in a `nadi.runtime.Runtime`, each call is a transaction, and what fails is the event at hand.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import msgspec
from sqlalchemy import BigInteger, Column, Connection, Engine, MetaData, String, Table, Text
from sqlalchemy.exc import DBAPIError, IntegrityError

from nadi.databases import make_tables, translated
from nadi.errors import NadiError, error
from nadi.functions.stores import Refused

T = TypeVar("T")

LEDGER = Table(
    "nadi_store_ledger",
    MetaData(),
    Column("producer", String(255), primary_key=True),
    Column("cut", BigInteger, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("refused", Text),
)
"""Which cut each bucket of an app has written last, in which run, and what was refused in it: `[[call, row, condition, parameters], …]`."""

_NOTHING = -1

Write = Callable[[Connection], Refused]


class Session(Protocol):
    """How a store gets at its database. `who` names the store in errors, which are CONNECTION_UNAVAILABLE and REFUSED."""

    @property
    def repeats(self) -> bool:
        """Whether what is written now had been written before, so that writes have no effect."""
        ...

    def prepare(self, who: str, do: Callable[[Connection], None]) -> None:
        """Make tables, which stay whatever becomes of a cut."""
        ...

    def read(self, who: str, do: Callable[[Connection], T]) -> T:
        """What reading gives."""
        ...

    def write(self, who: str, do: Write, careful: bool = True) -> Refused:
        """Write something, all or nothing; what was refused. Without `careful` each of its statements is behind a savepoint of its own already."""
        ...


@dataclass(frozen=True, slots=True)
class Alone:
    """Each call for itself."""

    engine: Engine

    @property
    def repeats(self) -> bool:
        return False

    def prepare(self, who: str, do: Callable[[Connection], None]) -> None:
        with named(who), self.engine.connect() as connection:
            do(connection)
            connection.commit()

    def read(self, who: str, do: Callable[[Connection], T]) -> T:
        with named(who), self.engine.connect() as connection:
            return do(connection)

    def write(self, who: str, do: Write, careful: bool = True) -> Refused:
        with named(who), self.engine.connect() as connection:
            begin_writing(connection)
            try:
                refused = do(connection)
                connection.commit()
            except BaseException:
                connection.rollback()
                raise
            return refused


@dataclass(frozen=True, slots=True)
class Entry:
    """Whose cut it is: `producer` names a bucket of an app. `trial`: nothing of it is to stay."""

    producer: str
    cut: int
    epoch: int
    trial: bool = False


class CutTransaction:
    """All that one cut of a bucket does in one database. `begin` gives the bucket its row in the ledger. It is ended with `commit` or `rollback`."""

    def __init__(self, engine: Engine, entry: Entry, begin: Callable[[], None]) -> None:
        self._engine = engine
        self._entry = entry
        self._begin = begin
        self._connection: Connection | None = None
        self._writes = False
        self._known: dict[int, list[tuple[int, NadiError]]] | None = None  # of a cut that was committed before
        self._refused: list[tuple[int, int, str, dict[str, Any]]] = []
        self._calls = 0
        self._broken: NadiError | None = None

    @property
    def repeats(self) -> bool:
        return self._known is not None

    def prepare(self, who: str, do: Callable[[Connection], None]) -> None:
        with self._guarded(who) as connection:
            if self._writes and connection.dialect.name == "sqlite":  # it has the only lock
                do(connection)
                return
            with self._engine.connect() as other:
                do(other)
                other.commit()

    def read(self, who: str, do: Callable[[Connection], T]) -> T:
        with self._guarded(who) as connection:
            if not self._writes or connection.dialect.name != "postgresql":
                return do(connection)
            with connection.begin_nested():  # there an error undoes all else
                return do(connection)

    def write(self, who: str, do: Write, careful: bool = True) -> Refused:
        with self._guarded(who) as connection:
            call, self._calls = self._calls, self._calls + 1
            self._enter(connection)
            if self._known is not None:
                return self._known.get(call, ())
            with connection.begin_nested() if careful else nullcontext():
                refused = do(connection)
            self._refused += [(call, n, why.condition, _plain(why)) for n, why in refused if isinstance(why, NadiError)]
            return refused

    @contextmanager
    def _guarded(self, who: str) -> Iterator[Connection]:
        if self._broken is not None:
            raise self._broken
        try:
            with named(who):
                if self._connection is None:
                    self._connection = self._open()
                yield self._connection
        except NadiError as reason:
            if reason.condition in ("CONNECTION_UNAVAILABLE", "FENCED"):
                self._broken = reason
            elif not self._writes and self._connection is not None:
                self._connection.rollback()  # PostgreSQL: nothing else goes in it
            raise

    def _open(self) -> Connection:
        connection = self._engine.connect()
        if connection.dialect.name == "mysql":  # else it would read what was there when it began
            connection = connection.execution_options(isolation_level="READ COMMITTED")
        return connection

    def _enter(self, connection: Connection) -> None:
        """With the first write: enter the cut, or find that it was entered before. Holds the bucket's row until the transaction ends."""
        if self._writes:
            return
        entry, made_by = self._entry, LEDGER.c.producer == self._entry.producer
        connection.rollback()  # what was read before; SQLite lets nobody write who began with reading
        self._begin()
        begin_writing(connection)
        newer = LEDGER.update().where(made_by, LEDGER.c.cut < entry.cut, LEDGER.c.epoch <= entry.epoch)
        if connection.execute(newer.values(cut=entry.cut, epoch=entry.epoch, refused=None)).rowcount != 1:
            found = connection.execute(LEDGER.select().where(made_by)).first()
            if found is None:
                raise error("REFUSED", connector=entry.producer, reason="its row in nadi_store_ledger is gone")
            if found.epoch > entry.epoch:
                raise error("FENCED", connector="the store's ledger", producer=entry.producer)
            self._known = _unpacked(found.refused if found.cut == entry.cut else None)
        self._writes = True

    def commit(self) -> None:
        """End it. Errors: CONNECTION_UNAVAILABLE, FENCED, as something in it has met them, or met now; REFUSED."""
        try:
            if self._broken is not None:
                raise self._broken
            if self._connection is None or not self._writes:
                return
            if self._entry.trial:
                return
            with named("a store, at the end of a batch,"):
                if self._refused and self._known is None:
                    packed = msgspec.json.encode(self._refused).decode()
                    mine = LEDGER.update().where(LEDGER.c.producer == self._entry.producer)
                    self._connection.execute(mine.values(refused=packed))
                if is_aborted(self._connection):
                    raise error(
                        "REFUSED", connector=self._entry.producer, reason="the transaction was given up in between"
                    )
                self._connection.commit()
        finally:
            self.rollback()

    def rollback(self) -> None:
        """End it without effect. Nothing where it has ended."""
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()  # rolls back
            except DBAPIError:
                connection.invalidate()


def introduce(engine: Engine, producer: str) -> None:
    """Give a bucket its row in the ledger, before its first cut: so that a cut only ever changes a row, which other attempts at it wait for. Errors: the
    driver's."""
    make_tables(engine, LEDGER)
    with engine.connect() as connection:
        found = connection.execute(LEDGER.select().where(LEDGER.c.producer == producer)).first()
    if found is None:
        try:
            with engine.begin() as connection:
                connection.execute(LEDGER.insert().values(producer=producer, cut=_NOTHING, epoch=0))
        except IntegrityError:
            return  # another attempt was faster


def begin_writing(connection: Connection) -> None:
    """SQLite: have the lock of who writes from the beginning, which is waited for; it is not where somebody has read before."""
    driver: object = connection.connection.dbapi_connection
    if type(driver) is sqlite3.Connection and not driver.in_transaction:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def is_aborted(connection: Connection) -> bool:
    """PostgreSQL: whether an error has ended the transaction. Its commit would be a rollback, and nobody would be told."""
    info = getattr(connection.connection.dbapi_connection, "info", None)
    status = getattr(info, "transaction_status", None)
    return getattr(status, "name", "") == "INERROR"


@contextmanager
def named(who: str) -> Iterator[None]:
    """A driver's errors become nadi's: CONNECTION_UNAVAILABLE, REFUSED."""
    try:
        yield
    except DBAPIError as reason:
        raise translated(reason, who) from None  # the driver's has values in it


def _plain(why: NadiError) -> dict[str, Any]:
    return {name: value if isinstance(value, (int, float)) else str(value) for name, value in why.parameters.items()}


def _unpacked(packed: str | None) -> dict[int, list[tuple[int, NadiError]]]:
    found: dict[int, list[tuple[int, NadiError]]] = {}
    for call, n, condition, parameters in [] if packed is None else msgspec.json.decode(packed):
        found.setdefault(call, []).append((n, error(condition, **parameters)))
    return found
