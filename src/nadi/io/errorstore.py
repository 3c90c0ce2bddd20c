"""The error store of an app: what it could not take, exactly once per cut, in a file of the state folder (`nadi.io.errorfile`) or in a database
(`nadi.io.errortable`).

    stage(state, cut, bucket, rows)     in the write stage: how many there are comes back
    store.commit(cut, buckets)          after all buckets have written
    store.rows(wanted)                  the rows, oldest first
    store.purge(wanted)                 forget rows: how many

Rows have id, time (ms), app, kind ("source", "query" or "sink"), origin ("source file of S", "query of S", "sink http of S"), stream, partition, position,
reason, payload (text, or base64 with "encoding": "base64"), cut; and either `again`, what sending it again needs beside the payload, or `final`, why that
cannot be. For a sink, partition and position are key-group and number of the first row that the payload has.

The id is `<cut>-<bucket>-<number>`: a function of the input and cut logs, so that a cut that is written again gives the same ones.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from nadi.errors import error
from nadi.io.stagedlines import StagedLines

Row = dict[str, Any]
Place = tuple[int, int, int]
"""Cut, bucket, number: the order of rows."""
KINDS = ("source", "query", "sink")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows are meant: all conditions must hold. Times are ms, `since` inclusive and `until` exclusive; ids: none means any.

    >>> Wanted(kind="sink").has({"id": "1-0-0", "kind": "source", "stream": "S", "time": 5})
    False
    """

    ids: frozenset[str] = frozenset()
    kind: str = ""
    stream: str = ""
    since: int | None = None
    until: int | None = None

    def has(self, row: Mapping[str, Any]) -> bool:
        """Whether a row is meant."""
        return (
            (not self.ids or row["id"] in self.ids)
            and self.kind in ("", row.get("kind"))
            and self.stream in ("", row["stream"])
            and (self.since is None or row["time"] >= self.since)
            and (self.until is None or row["time"] < self.until)
        )


ANY = Wanted()


class ErrorStore(Protocol):
    """Where the rows of one app lie. Errors of a database: CONNECTION_UNAVAILABLE, REFUSED."""

    @property
    def name(self) -> str:
        """For people; without a password."""
        ...

    def commit(self, cut: int, buckets: Sequence[int]) -> None:
        """Keep what these buckets (those that staged rows) have for the cut, once. Errors: DISK_FULL, STAGE_MISSING, TARGET_CHANGED."""
        ...

    def rows(self, wanted: Wanted = ANY, limit: int = 0) -> Iterator[Row]:
        """The rows that are meant, oldest first; with a limit the newest ones of them."""
        ...

    def purge(self, wanted: Wanted = ANY) -> int:
        """Forget the rows that are meant and there now; -> how many. Errors: DISK_FULL."""
        ...


def row_of(store: ErrorStore, app: str, id_: str) -> Row:
    """One row. Errors: ERROR_NOT_FOUND."""
    for row in store.rows(Wanted(ids=frozenset((id_,)))):
        return row
    raise error("ERROR_NOT_FOUND", app=app, id=id_)


def payload_fields(payload: bytes) -> dict[str, str]:
    """A payload as fields of a row: its text, or base64 where it is none."""
    try:
        return {"payload": payload.decode()}
    except UnicodeDecodeError:
        return {"payload": base64.b64encode(payload).decode(), "encoding": "base64"}


def payload_of(row: Mapping[str, object]) -> bytes:
    """The payload of a row as it came."""
    text = str(row["payload"])
    return base64.b64decode(text) if row.get("encoding") == "base64" else text.encode()


def place_of(id_: str) -> Place | None:
    """Cut, bucket and number of an id; None where it is none.

    >>> place_of("12-0-3"), place_of("x")
    ((12, 0, 3), None)
    """
    parts = id_.split("-")
    if len(parts) != 3 or not all(p.isascii() and p.isdecimal() for p in parts):
        return None
    cut, bucket, number = map(int, parts)
    return cut, bucket, number


def staged_lines(state: Path) -> StagedLines:
    """The file of a state folder, and what waits for its cut."""
    return StagedLines(state / "errors", state / "errors.jsonl")


def stage(state: Path, cut: int, bucket: int, rows: Iterable[Mapping[str, object]]) -> int:
    """Keeps the rows of a bucket for the commit of the cut; returns how many. A second call replaces the first. Errors: DISK_FULL."""
    named = ({"id": f"{cut}-{bucket}-{n}", **row} for n, row in enumerate(rows))
    return staged_lines(state).stage(cut, bucket, named)
