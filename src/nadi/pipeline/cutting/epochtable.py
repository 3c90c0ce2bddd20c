"""The epoch of an app in a database, for nodes that share it: `nadi_epochs` has, per app, the epoch of the run that may append to its logs.

An append locks the app's row, so that it and a take-over never overlap, whichever nodes they come from.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import BigInteger, Column, Connection, Engine, MetaData, String, Table, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from nadi.databases import Address, connect, make_tables, translated
from nadi.errors import error
from nadi.pipeline.cutting.epochs import next_epoch

TABLES = MetaData()
APP = 255  # characters of an app's name
EPOCHS = Table(
    "nadi_epochs", TABLES, Column("app", String(APP), primary_key=True), Column("epoch", BigInteger, nullable=False)
)

_ENGINES: dict[Address, Engine] = {}  # a log is opened anew by whoever looks for new cuts; connections are kept


def engines() -> tuple[Engine, ...]:
    """What this process has connections with."""
    return tuple(_ENGINES.values())


def _engine(address: Address) -> Engine:
    if address not in _ENGINES:
        _ENGINES[address] = connect(address)
    return _ENGINES[address]


class EpochTable:
    """The epoch of one app, and transactions under it. Errors of every method: CONNECTION_UNAVAILABLE, REFUSED."""

    def __init__(self, url: str, app: str, what: str, *tables: Table) -> None:
        """`tables` are made where they are missing; `what` is what they hold, for messages."""
        self.app = app
        self.address = Address(url)
        self._engine = _engine(self.address)
        self._what = what
        self._tables = (EPOCHS, *tables)
        self._made = False

    def take_over(self, owner: int = 0) -> int:
        """Begin a new epoch and return it; every run before, on any node, can no longer append. Errors also: CUT_FENCED (as `next_epoch`)."""
        with self.transaction() as connection:
            known = self._current(connection)
        if not known:
            self._introduce()
        with self.transaction() as connection:
            self._lock(connection)
            epoch = next_epoch(self.app, self._current(connection), owner)
            connection.execute(update(EPOCHS).where(EPOCHS.c.app == self.app).values(epoch=epoch))
            return epoch

    def _introduce(self) -> None:
        """Give the app its row, before its first run: so that a take-over only ever changes a row, which others wait for."""
        try:
            with self._engine.begin() as connection:
                connection.execute(EPOCHS.insert().values(app=self.app, epoch=0))
        except IntegrityError:
            return  # another node was faster

    def current(self) -> int:
        """The epoch of the last run; 0 where there was none."""
        with self.transaction() as connection:
            return self._current(connection)

    def fence(self, connection: Connection, epoch: int) -> None:
        """Hold the app's row until the transaction ends; nobody takes over meanwhile. Errors: CUT_FENCED where another epoch than this one may append."""
        self._lock(connection)
        current = self._current(connection)
        if current != epoch:
            raise error("CUT_FENCED", app=self.app, current=current, epoch=epoch)

    def _lock(self, connection: Connection) -> None:
        """Writing the row locks it in every database, SQLite included."""
        connection.execute(update(EPOCHS).where(EPOCHS.c.app == self.app).values(epoch=EPOCHS.c.epoch))

    def _current(self, connection: Connection) -> int:
        """The epoch that may append; 0 where none ever did."""
        found: int | None = connection.execute(select(EPOCHS.c.epoch).where(EPOCHS.c.app == self.app)).scalar()
        return found or 0

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A transaction that is committed at its end."""
        try:
            if not self._made:
                make_tables(self._engine, *self._tables)
                self._made = True
            with self._engine.begin() as connection:
                yield connection
        except DBAPIError as reason:
            raise translated(reason, f"{self._what} at {self.address.shown}") from reason
