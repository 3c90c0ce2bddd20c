"""A cut log in a database, for nodes that share it: two tables, and the epoch compared in the transaction that appends.

    nadi_epochs   app, epoch            the epoch of the run that may append
    nadi_cuts     app, n, epoch, cut    one row per cut; `cut` is JSON, as in a folder

An append locks the app's row of `nadi_epochs`, so that it and a take-over never overlap, whichever nodes they come from.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    MetaData,
    String,
    Table,
    Text,
    delete,
    func,
    select,
    update,
)
from sqlalchemy.exc import DBAPIError, IntegrityError

from nadi.databases import Address, connect, make_tables, translated
from nadi.errors import error
from nadi.pipeline.cutting.cuts import Cut

_TABLES = MetaData()
_APP = 255  # characters of an app's name
EPOCHS = Table(
    "nadi_epochs", _TABLES, Column("app", String(_APP), primary_key=True), Column("epoch", BigInteger, nullable=False)
)
CUTS = Table(
    "nadi_cuts",
    _TABLES,
    Column("app", String(_APP), primary_key=True),
    Column("n", BigInteger, primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, nullable=False),
    Column("cut", Text, nullable=False),
)
AHEAD = 200
"""How many cuts are read at a time: a replay reads them all, one after the other."""


_ENGINES: dict[Address, Engine] = {}  # a log is opened anew by whoever looks for new cuts; connections are kept


def engines() -> tuple[Engine, ...]:
    """What this process has connections with."""
    return tuple(_ENGINES.values())


def _engine(address: Address) -> Engine:
    if address not in _ENGINES:
        _ENGINES[address] = connect(address)
    return _ENGINES[address]


class TableCutLog:
    """The log of an app as one run sees it. Errors of every method: CONNECTION_UNAVAILABLE, REFUSED."""

    def __init__(self, url: str, app: str, epoch: int) -> None:
        self._app = app
        self.epoch = epoch
        self._address = Address(url)
        self._engine = _engine(self._address)
        self._known: dict[int, Cut] = {}
        self._made = False

    def take_over(self) -> int:
        """Begin a new epoch and return it; every run before, on any node, can no longer append."""
        with self._transaction() as connection:
            known = self._current(connection)
        if not known:
            self._introduce()
        with self._transaction() as connection:
            mine = EPOCHS.c.app == self._app
            connection.execute(update(EPOCHS).where(mine).values(epoch=EPOCHS.c.epoch + 1))
            self.epoch = self._current(connection)
        return self.epoch

    def _introduce(self) -> None:
        """Give the app its row, before its first run: so that a take-over only ever changes a row, which others wait for."""
        try:
            with self._engine.begin() as connection:
                connection.execute(EPOCHS.insert().values(app=self._app, epoch=0))
        except IntegrityError:
            return  # another node was faster

    def last(self) -> Cut | None:
        """The newest cut."""
        with self._transaction() as connection:
            n = self._newest(connection)
        return None if n is None else self.at(n)

    def at(self, n: int) -> Cut | None:
        """Cut `n`, None where the log does not have it (any more)."""
        if n not in self._known:
            wanted = select(CUTS.c.n, CUTS.c.cut).where(CUTS.c.app == self._app, CUTS.c.n.between(n, n + AHEAD))
            with self._transaction() as connection:
                found = {number: Cut.from_offset(json.loads(text)) for number, text in connection.execute(wanted)}
            self._known = found
        return self._known.get(n)

    def append(self, cut: Cut) -> None:
        """Make a cut durable, if this run still may. Errors also: CUT_FENCED, CUT_LOG_MISMATCH."""
        with self._transaction() as connection:
            current = self._current(connection, lock=True)
            if current != self.epoch:
                raise error("CUT_FENCED", app=self._app, current=current, epoch=self.epoch)
            newest = self._newest(connection)
            if newest is not None and cut.n != newest + 1:
                raise error("CUT_LOG_MISMATCH", folder=self._address.shown, last=newest, known=cut.n - 1)
            text = json.dumps(cut.to_offset(), separators=(",", ":"))
            connection.execute(CUTS.insert().values(app=self._app, n=cut.n, epoch=self.epoch, cut=text))
        self._known = {cut.n: cut}

    def trim(self, before: int) -> None:
        """Forget the cuts before number `before`; the newest one stays."""
        with self._transaction() as connection:
            newest = self._newest(connection)
            if newest is not None:
                older = CUTS.c.n < min(before, newest)
                connection.execute(delete(CUTS).where(CUTS.c.app == self._app, older))
        self._known = {}

    def _newest(self, connection: Connection) -> int | None:
        found: int | None = connection.execute(select(func.max(CUTS.c.n)).where(CUTS.c.app == self._app)).scalar()
        return found

    def _current(self, connection: Connection, lock: bool = False) -> int:
        """The epoch that may append; 0 where none ever did."""
        if lock:  # writing the row locks it in every database, SQLite included
            same = update(EPOCHS).where(EPOCHS.c.app == self._app).values(epoch=EPOCHS.c.epoch)
            connection.execute(same)
        found: int | None = connection.execute(select(EPOCHS.c.epoch).where(EPOCHS.c.app == self._app)).scalar()
        return found or 0

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        try:
            if not self._made:
                make_tables(self._engine, EPOCHS, CUTS)
                self._made = True
            with self._engine.begin() as connection:
                yield connection
        except DBAPIError as reason:
            raise translated(reason, f"the cut log at {self._address.shown}") from reason
