"""A SQLite database of which another node has a copy: what a transaction has written is prepared there before it is committed here.

`CopiedConnection` is a connection of Python's own driver, so that SQLAlchemy needs to know nothing. It notes the statements that write, with their
parameters. Reading takes no lock; the first statement that writes begins the transaction with SQLite's write lock (`BEGIN IMMEDIATE`), which is held until
the commit is done. So transactions of all processes of a node follow each other, and each gets the next number:

    nadi_copied   n, own, digest     the last transactions; `own`: written here, not taken from the other node; `digest` of the statements
    nadi_lines    since, line        each time a node begins to write by itself: a random name, and the first number that it counts for

The rows of a transaction and its number are one commit. Number and line say what a database has: two with the same ones are equal, and one whose lines begin as
those of another one was that one at an earlier time.

A statement has to have the same effect on both nodes: functions of time and chance are refused (`not authorized to use function`).
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from nadi.errors import error
from nadi.replica import client
from nadi.replica.contract import Replica, Statements

KEPT = 64
"""Transactions of which the digest is known: more than can be under way."""

Written = tuple[str, bytes]
"""A statement, and its parameters as MessagePack: a list of rows."""

_READS = re.compile(r"\s*(select|values|pragma|explain|with(?!.*\b(insert|update|delete|replace)\b))\b", re.I | re.S)
_REFUSED = re.compile(r"\s*(begin|commit|end|rollback(?!\s+to\b)|vacuum|attach|detach)\b", re.I)
_IMPURE = frozenset(
    {
        "random",
        "randomblob",
        "date",
        "time",
        "datetime",
        "julianday",
        "unixepoch",
        "strftime",
        "timediff",
        "current_date",
        "current_time",
        "current_timestamp",
        "changes",
        "total_changes",
        "last_insert_rowid",
    }
)
_COPIED = "create table if not exists nadi_copied (n integer primary key, own integer not null, digest blob not null)"
_LINES = "create table if not exists nadi_lines (since integer primary key, line text not null)"
_LINE = "insert into nadi_lines (since, line) values (?, ?)"


class CopiedCursor(sqlite3.Cursor):
    """Tells its connection what it writes."""

    connection: CopiedConnection

    def execute(self, sql: str, parameters: Any = (), /) -> CopiedCursor:
        if _READS.match(sql):
            return super().execute(sql, parameters)
        if _REFUSED.match(sql):
            raise sqlite3.NotSupportedError(
                f"'{sql[:40]}' cannot be copied: a transaction ends with commit() or rollback()"
            )
        self.connection.begin()
        super().execute(sql, parameters)
        self._wrote(sql, [parameters])
        return self

    def executemany(self, sql: str, rows: Iterable[Any], /) -> CopiedCursor:
        given = list(rows)
        self.connection.begin()
        super().executemany(sql, given)
        self._wrote(sql, given)
        return self

    def executescript(self, sql_script: str, /) -> CopiedCursor:
        """Refused: nobody would know which of its statements write."""
        raise sqlite3.NotSupportedError("a script cannot be copied: execute its statements one by one")

    def _wrote(self, sql: str, rows: list[Any]) -> None:
        """What had no effect here has none at the other node; of a change of tables the driver does not tell (-1)."""
        if rows and self.rowcount != 0:
            self.connection.written.append((sql, msgspec.msgpack.encode(rows)))


class CopiedConnection(sqlite3.Connection):
    """A connection whose commits the other node has before. Errors of `commit`: the driver's, those of `Replica.prepare`; then nothing is committed."""

    def __init__(self, *about: Any, reach: Callable[[], Replica], **named: Any) -> None:
        super().__init__(*about, **{**named, "isolation_level": None})
        self.written: list[Written] = []
        self._reach = reach
        self.set_authorizer(_authorize)

    def cursor(self, factory: Any = CopiedCursor) -> Any:
        return super().cursor(factory)

    def begin(self) -> None:
        """Have the write lock of the database, until the transaction ends."""
        if not self.in_transaction:
            self._plain().execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        if not self.written:
            super().commit()
            return
        written, self.written = self.written, []
        try:
            written, n = _numbered(self._plain(), written)
            replica = self._reach()
            ticket = replica.prepare(Statements(n, written))
        except BaseException:
            super().rollback()
            raise
        try:
            super().commit()
        except BaseException:
            super().rollback()
            replica.abandon(ticket)
            raise
        replica.confirm(ticket)

    def rollback(self) -> None:
        self.written = []
        super().rollback()

    def _plain(self) -> sqlite3.Cursor:
        return super().cursor(sqlite3.Cursor)


def copied_at(socket: Path) -> Callable[..., CopiedConnection]:
    """What Python's driver takes as the `factory` of connections whose event sync is behind a socket."""

    def make(*about: Any, **named: Any) -> CopiedConnection:
        return CopiedConnection(*about, reach=lambda: client.blocking_replica(socket), **named)

    return make


def _authorize(action: int, _first: str | None, name: str | None, _database: str | None, _trigger: str | None) -> int:
    refused = action == sqlite3.SQLITE_FUNCTION and (name or "").lower() in _IMPURE
    return sqlite3.SQLITE_DENY if refused else sqlite3.SQLITE_OK


def _numbered(cursor: sqlite3.Cursor, written: list[Written]) -> tuple[list[Written], int]:
    """Enter what a transaction has written under the next number; -> all that the other node has to do, and the number."""
    last, own = _last(cursor)
    n = last + 1
    if not own:
        line = [(_LINES, ()), (_LINE, (n, os.urandom(8).hex()))]
        for sql, parameters in line:
            cursor.execute(sql, parameters)
        written = [*((sql, msgspec.msgpack.encode([parameters])) for sql, parameters in line), *written]
    _enter(cursor, n, True, written)
    return written, n


def _last(cursor: sqlite3.Cursor) -> tuple[int, bool]:
    """The number of the last transaction, and whether it was written here; 0 for none."""
    cursor.execute(_COPIED)
    found = cursor.execute("select n, own from nadi_copied order by n desc limit 1").fetchone()
    return (0, False) if found is None else (found[0], bool(found[1]))


def _enter(cursor: sqlite3.Cursor, n: int, own: bool, written: Sequence[Written]) -> None:
    cursor.execute("insert into nadi_copied (n, own, digest) values (?, ?, ?)", (n, own, digest(written)))
    cursor.execute("delete from nadi_copied where n <= ?", (n - KEPT,))


def digest(written: Sequence[Written]) -> bytes:
    """What tells one transaction from another of the same number."""
    found = blake2b(digest_size=16)
    for sql, rows in written:
        found.update(f"{len(sql)} {len(rows)} ".encode() + sql.encode() + rows)
    return found.digest()


def has_written(connection: sqlite3.Connection, record: Statements) -> bool:
    """Whether a transaction was committed. Waits until no other one is under way. `connection` is a plain one without a transaction, in autocommit.

    Errors: sqlite3.OperationalError, where another one is under way for longer than the connection waits.
    """
    cursor = connection.cursor()
    cursor.execute("BEGIN IMMEDIATE")
    try:
        last, _ = _last(cursor)
        found = cursor.execute("select digest from nadi_copied where n = ?", (record.n,)).fetchone()
    finally:
        cursor.execute("ROLLBACK")
    return last >= record.n if found is None else bool(found[0] == digest(record.statements))


def take(connection: sqlite3.Connection, record: Statements) -> None:
    """Write a transaction of the other node, unless it is there. `connection` is a plain one, in autocommit. Errors: COPY_GAP, the driver's."""
    cursor = connection.cursor()
    cursor.execute("BEGIN IMMEDIATE")
    try:
        last, _ = _last(cursor)
        if record.n <= last:
            cursor.execute("ROLLBACK")
            return
        if record.n > last + 1:
            raise error("COPY_GAP", what="the logs", given=record.n, last=last)
        for sql, packed in record.statements:
            rows = msgspec.msgpack.decode(packed)
            if len(rows) == 1:
                cursor.execute(sql, rows[0])
            else:
                cursor.executemany(sql, rows)
        _enter(cursor, record.n, False, record.statements)
        cursor.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            cursor.execute("ROLLBACK")
        raise


class Standing(msgspec.Struct, frozen=True):
    """What a database has: the number of its last transaction, its lines as (since, name), and the digests of the last transactions as (number, digest)."""

    n: int = 0
    lines: tuple[tuple[int, str], ...] = ()
    recent: tuple[tuple[int, bytes], ...] = ()

    def precedes(self, other: Standing) -> bool:
        """Whether the other one has been as this one is.

        >>> old, new = Standing(4, ((1, "a"),)), Standing(9, ((1, "a"), (5, "b")))
        >>> old.precedes(new), new.precedes(old), Standing(5, ((1, "a"),)).precedes(new)
        (True, False, False)
        >>> Standing(4, ((1, "a"),), ((4, b"x"),)).precedes(Standing(5, ((1, "a"),), ((4, b"y"), (5, b"z"))))
        False
        """
        count = len(self.lines)
        end = other.lines[count][0] if len(other.lines) > count else other.n + 1
        # the last one of this node may be one that was given up, and another one was written there
        known = dict(other.recent)
        return (
            other.lines[:count] == self.lines and self.n < end and all(known.get(n, of) == of for n, of in self.recent)
        )


def standing_of(connection: sqlite3.Connection) -> Standing:
    """What a database has; nothing has to be in it. `connection` is in autocommit."""
    cursor = connection.cursor()
    tables = {name for (name,) in cursor.execute("select name from sqlite_master where type = 'table'")}
    if "nadi_copied" not in tables or "nadi_lines" not in tables:
        return Standing()
    cursor.execute("BEGIN")
    try:
        recent = cursor.execute("select n, digest from nadi_copied order by n").fetchall()
        lines = cursor.execute("select since, line from nadi_lines order by since").fetchall()
    finally:
        cursor.execute("ROLLBACK")
    return Standing(recent[-1][0] if recent else 0, tuple(lines), tuple(recent))


def disown(connection: sqlite3.Connection) -> None:
    """Say that nothing in it was written here: who writes next begins a line."""
    connection.execute(_COPIED)
    connection.execute("update nadi_copied set own = 0")
