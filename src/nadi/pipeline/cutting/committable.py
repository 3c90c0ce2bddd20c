"""The commit record in a database, for nodes that share it, under the epoch of the cut log (`nadi.pipeline.cutting.epochtable`).

    nadi_commits   app, n, part, epoch, first, record

A record is JSON, as in a folder, in parts of at most a million characters: the whole knowledge after cut `first` where n is `first`, else commit n. Rows of
the knowledge before the last one stay, older ones go.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from sqlalchemy import BigInteger, Column, Connection, Integer, String, Table, Text, delete, func, select
from sqlalchemy.dialects import mysql

from nadi.errors import error
from nadi.pipeline.cutting.commitlog import (
    GROWN,
    Commit,
    RecordReader,
    Recovered,
    Standing,
    after_commit,
    checked_commit,
)
from nadi.pipeline.cutting.epochtable import APP, TABLES, EpochTable
from nadi.received import read_json

PART = 1_000_000  # characters
COMMITS = Table(
    "nadi_commits",
    TABLES,
    Column("app", String(APP), primary_key=True),
    Column("n", BigInteger, primary_key=True, autoincrement=False),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, nullable=False),
    Column("first", BigInteger, nullable=False),
    # MySQL's TEXT has 64 KB
    Column("record", Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb"), nullable=False),
)


class TableCommitLog(RecordReader):
    """Implements `nadi.pipeline.cutting.commitlog.Commits`. Errors of every method: CONNECTION_UNAVAILABLE, REFUSED."""

    def __init__(self, url: str, app: str, epoch: int) -> None:
        """Errors also: COMMIT_LOG_DAMAGED."""
        self._app = app
        self._epoch = epoch
        self._table = EpochTable(url, app, "the record of commits", COMMITS)
        self._standing = Standing()
        self._first: int | None = None  # of the newest whole knowledge
        self._head = self._grown = 0  # characters: of it, of the commits after it
        self._read()

    def append(self, commit: Commit) -> None:
        found = self._standing.found
        begins = self._first is None or self._grown > max(GROWN, self._head)
        with self._table.transaction() as connection:
            self._table.fence(connection, self._epoch)
            after = after_commit(found, checked_commit(self._app, found, commit, self._epoch))
            # an append of which nobody knew whether it was done was not
            last = -1 if found is None else found.n
            connection.execute(delete(COMMITS).where(COMMITS.c.app == self._app, COMMITS.c.n > last))
            first = commit.n if begins or self._first is None else self._first
            text = msgspec.json.encode(after if begins else commit).decode()
            self._insert(connection, commit.n, first, text)
            if begins and self._first is not None:
                old = COMMITS.c.first < self._first
                connection.execute(delete(COMMITS).where(COMMITS.c.app == self._app, old))
        self._standing.follow(commit, after)
        if begins:
            self._first, self._head, self._grown = first, len(text), 0
        else:
            self._grown += len(text)

    def clear(self, first: Commit | None = None) -> None:
        with self._table.transaction() as connection:
            self._table.fence(connection, self._epoch)
            after = None if first is None else after_commit(None, checked_commit(self._app, None, first, self._epoch))
            connection.execute(delete(COMMITS).where(COMMITS.c.app == self._app))
            text = ""
            if after is not None:
                text = msgspec.json.encode(after).decode()
                self._insert(connection, after.n, after.n, text)
        self._standing = Standing(after)
        self._first, self._head, self._grown = None if after is None else after.n, len(text), 0

    def _insert(self, connection: Connection, n: int, first: int, text: str) -> None:
        of = {"app": self._app, "n": n, "epoch": self._epoch, "first": first}
        cut = [text[start : start + PART] for start in range(0, len(text), PART)]
        connection.execute(COMMITS.insert(), [{**of, "part": i, "record": part} for i, part in enumerate(cut)])

    def _read(self) -> None:
        mine = COMMITS.c.app == self._app
        newest = select(func.max(COMMITS.c.first)).where(mine).scalar_subquery()
        wanted = select(COMMITS.c.n, COMMITS.c.first, COMMITS.c.record).where(mine, COMMITS.c.first == newest)
        with self._table.transaction() as connection:
            rows = connection.execute(wanted.order_by(COMMITS.c.n, COMMITS.c.part)).all()
        records: dict[int, str] = {}
        for n, _, part in rows:
            records[n] = records.get(n, "") + part
        self._first = rows[0].first if rows else None
        self._standing = Standing(self._known(records))
        lengths = [len(text) for text in records.values()]
        self._head, self._grown = sum(lengths[:1]), sum(lengths[1:])

    def _known(self, records: Mapping[int, str]) -> Recovered | None:
        found: Recovered | None = None
        for line, (n, text) in enumerate(records.items(), 1):
            try:
                if n == self._first:
                    found = read_json(text, Recovered)
                elif found is not None:
                    found = after_commit(found, read_json(text, Commit))
                else:
                    raise ValueError(f"there is no row of cut {self._first}")
            except (ValueError, msgspec.MsgspecError) as reason:
                where = f"{self._table.address.shown} of '{self._app}'"
                raise error("COMMIT_LOG_DAMAGED", path=where, line=line, reason=reason) from reason
        return found
