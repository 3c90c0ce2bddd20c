"""A cut log in a database, for nodes that share it: two tables, and the epoch compared in the transaction that appends.

nadi_epochs   app, epoch            the epoch of the run that may append (`nadi.pipeline.cutting.epochtable`)
nadi_cuts     app, n, epoch, cut    one row per cut; `cut` is JSON, as in a folder
"""

from __future__ import annotations

import json

from sqlalchemy import BigInteger, Column, Connection, String, Table, Text, delete, func, select

from nadi.errors import error
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.cutting.epochtable import APP, TABLES, EpochTable

CUTS = Table(
    "nadi_cuts",
    TABLES,
    Column("app", String(APP), primary_key=True),
    Column("n", BigInteger, primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, nullable=False),
    Column("cut", Text, nullable=False),
)
AHEAD = 200
"""How many cuts are read at a time: a replay reads them all, one after the other."""


class TableCutLog:
    """The log of an app as one run sees it. Errors of every method: CONNECTION_UNAVAILABLE, REFUSED."""

    def __init__(self, url: str, app: str, epoch: int) -> None:
        self.epoch = epoch
        self._app = app
        self._table = EpochTable(url, app, "the cut log", CUTS)
        self._known: dict[int, Cut] = {}

    def take_over(self, owner: int = 0) -> int:
        """Begin a new epoch and return it; every run before, on any node, can no longer append. Errors also: CUT_FENCED, where a later owner has begun one."""
        self.epoch = self._table.take_over(owner)
        return self.epoch

    def current(self) -> int:
        """The epoch of the last run; 0 where there was none."""
        return self._table.current()

    def last(self) -> Cut | None:
        """The newest cut."""
        with self._table.transaction() as connection:
            n = self._newest(connection)
        return None if n is None else self.at(n)

    def at(self, n: int) -> Cut | None:
        """Cut `n`, None where the log does not have it (any more)."""
        if n not in self._known:
            wanted = select(CUTS.c.n, CUTS.c.cut).where(CUTS.c.app == self._app, CUTS.c.n.between(n, n + AHEAD))
            with self._table.transaction() as connection:
                found = {number: Cut.from_offset(json.loads(text)) for number, text in connection.execute(wanted)}
            self._known = found
        return self._known.get(n)

    def append(self, cut: Cut) -> None:
        """Make a cut durable, if this run still may. Errors also: CUT_FENCED, CUT_LOG_MISMATCH."""
        with self._table.transaction() as connection:
            self._table.fence(connection, self.epoch)
            newest = self._newest(connection)
            if newest is not None and cut.n != newest + 1:
                raise error("CUT_LOG_MISMATCH", folder=self._table.address.shown, last=newest, known=cut.n - 1)
            text = json.dumps(cut.to_offset(), separators=(",", ":"))
            connection.execute(CUTS.insert().values(app=self._app, n=cut.n, epoch=self.epoch, cut=text))
        self._known = {cut.n: cut}

    def amend(self, cut: Cut) -> None:
        """Make it durable that messages of the newest cut are set aside, if this run still may. Errors also: CUT_FENCED, CUT_LOG_MISMATCH."""
        with self._table.transaction() as connection:
            self._table.fence(connection, self.epoch)
            newest = self._newest(connection)
            if newest != cut.n:
                raise error("CUT_LOG_MISMATCH", folder=self._table.address.shown, last=newest, known=cut.n)
            text = json.dumps(cut.to_offset(), separators=(",", ":"))
            here = (CUTS.c.app == self._app, CUTS.c.n == cut.n)
            connection.execute(CUTS.update().where(*here).values(epoch=self.epoch, cut=text))
        self._known = {cut.n: cut}

    def trim(self, before: int) -> None:
        """Forget the cuts before number `before`; the newest one stays."""
        with self._table.transaction() as connection:
            newest = self._newest(connection)
            if newest is not None:
                older = CUTS.c.n < min(before, newest)
                connection.execute(delete(CUTS).where(CUTS.c.app == self._app, older))
        self._known = {}

    def _newest(self, connection: Connection) -> int | None:
        found: int | None = connection.execute(select(func.max(CUTS.c.n)).where(CUTS.c.app == self._app)).scalar()
        return found
