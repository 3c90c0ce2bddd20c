"""The logs of a node, a SQLite database: `nadi.databases.copied` says what is in a copy of it, and how transactions are numbered.

Where a copy is not equal, it gets the whole database: a header that says whether the copy is an earlier state of it, and a consistent copy of the file.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from nadi.config.ownership import OWN_FILE
from nadi.databases.copied import Standing, disown, has_written, standing_of, take
from nadi.eventsync.contract import Keep, Surplus, SurplusKind
from nadi.io.durablefiles import make_folder
from nadi.replica.contract import Record, Statements

PIECE = 1024 * 1024  # bytes
CUTS = 1_000  # that are told together
BUSY_WITHIN = 10.0  # seconds that another writer is waited for, before it is waited for again
_LEFT = ".copy"


class Header(msgspec.Struct, frozen=True):
    """`earlier`: the copy is what the database was once, so that nothing in it is its alone."""

    earlier: bool


class LogsCopy:
    """Implements `nadi.eventsync.contract.Copy` for the database at a path. Errors of every method: sqlite3.Error; COPY_GAP from `apply`."""

    kinds = (Statements,)

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: sqlite3.Connection | None = None  # for `apply`
        make_folder(path.parent)
        for left in path.parent.glob(f".{path.name}-*{_LEFT}"):
            left.unlink()

    async def holds(self, record: Record) -> bool:
        assert isinstance(record, Statements)
        return await asyncio.to_thread(self._holds, record)

    async def apply(self, record: Record) -> None:
        assert isinstance(record, Statements)
        await asyncio.to_thread(self._apply, record)

    async def standing(self) -> bytes:
        return msgspec.msgpack.encode(await asyncio.to_thread(self._standing))

    async def missing(self, standing: bytes) -> AsyncIterator[bytes]:
        theirs, mine = msgspec.msgpack.decode(standing, type=Standing), await asyncio.to_thread(self._standing)
        if theirs == mine:
            return
        yield msgspec.msgpack.encode(Header(theirs.precedes(mine)))
        with self._beside() as whole:
            await asyncio.to_thread(self._save, whole)
            with whole.open("rb") as source:
                while piece := await asyncio.to_thread(source.read, PIECE):
                    yield piece

    async def restore(self, pieces: AsyncIterator[bytes], keep: Keep) -> None:
        first = await anext(pieces, b"")
        if not first:
            return
        header = msgspec.msgpack.decode(first, type=Header)
        with self._beside() as whole:
            with whole.open("wb") as target:
                async for piece in pieces:
                    await asyncio.to_thread(target.write, piece)
            await asyncio.to_thread(self._load, whole, header, keep)

    def close(self) -> None:
        """Close the connection that `apply` keeps; it makes another one where it is called again."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _holds(self, record: Statements) -> bool:
        with closing(self._open()) as connection:
            while True:
                try:
                    return has_written(connection, record)
                except sqlite3.OperationalError as reason:
                    if reason.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                        raise  # else somebody writes, maybe this very transaction: only the end of that tells

    def _apply(self, record: Statements) -> None:
        if self._kept is None:
            self._kept = self._open()
        take(self._kept, record)

    def _standing(self) -> Standing:
        with closing(self._open()) as connection:
            return standing_of(connection)

    def _save(self, target: Path) -> None:
        with closing(self._open()) as source, closing(sqlite3.connect(target, isolation_level=None)) as whole:
            source.backup(whole)
            whole.execute("PRAGMA journal_mode=DELETE")  # all of it is in the one file
            disown(whole)

    def _load(self, whole: Path, header: Header, keep: Keep) -> None:
        self.close()
        with closing(self._open()) as target, closing(sqlite3.connect(whole, isolation_level=None)) as source:
            if not header.earlier:
                keep(list(_alone(target, source)))
            source.backup(target)  # a transaction: whoever reads it meanwhile has the old or the new one

    def _open(self) -> sqlite3.Connection:
        made = sqlite3.connect(self._path, timeout=BUSY_WITHIN, isolation_level=None, check_same_thread=False)
        made.execute("PRAGMA journal_mode=WAL")
        made.execute("PRAGMA synchronous=FULL")
        return made

    @contextmanager
    def _beside(self) -> Iterator[Path]:
        """A file for a while that nobody else reads."""
        path = self._path.with_name(f".{self._path.name}-{os.urandom(4).hex()}{_LEFT}")
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OWN_FILE))
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)


def _alone(mine: sqlite3.Connection, theirs: sqlite3.Connection) -> Iterator[Surplus]:
    """What only one of two databases has, of what somebody may want to know: rows of the error store, and cuts."""
    place = "app, run, cut, bucket, number"
    known = set(_rows(theirs, "nadi_errors", f"{place}, content"))
    for *at, content, time, stream in _rows(mine, "nadi_errors", f"{place}, content, time, stream"):
        if (*at, content) not in known:
            yield Surplus(at[0], stream, f"an error of cut {at[2]}", time, content.encode(), SurplusKind.ERROR)
    known = set(_rows(theirs, "nadi_cuts", "app, n, epoch, cut"))
    cuts: dict[str, list[tuple[int, str]]] = {}
    for app, n, epoch, cut in _rows(mine, "nadi_cuts", "app, n, epoch, cut"):
        if (app, n, epoch, cut) not in known:
            cuts.setdefault(app, []).append((n, cut))
    for app, all_ in cuts.items():
        for begin in range(0, len(all_), CUTS):
            found = all_[begin : begin + CUTS]
            content = [json.loads(cut) for _, cut in found]
            what, clock = f"cuts {found[0][0]} to {found[-1][0]}", int(content[-1].get("clock", 0))
            yield Surplus(app, "", what, clock, json.dumps(content).encode())


def _rows(connection: sqlite3.Connection, table: str, columns: str) -> list[tuple[Any, ...]]:
    """Rows of a table in the order of its key; none where there is no such table."""
    if connection.execute("select 1 from sqlite_master where type = 'table' and name = ?", (table,)).fetchone() is None:
        return []
    return connection.execute(f"select {columns} from {table} order by 1, 2, 3").fetchall()
