"""The control log of an app: `<state>/control.jsonl`, a line per record, and files that it was before, read as the last input of the app.

    control.jsonl                               what is added to; it is set aside when it has grown beyond 4 MB
    control-000000000000-000000020000.jsonl     lines 0 to 19,999
    control.again                               marks of what was sent again, of files that are forgotten

It is read as a `nadi.io.rotatedlog.RotatedLog`. What no revision needs any more is forgotten, a file at a time; marks are not. Where another node may go on
with the app, its records are in the journal (`nadi.io.journalrecords`).

Whoever appends holds the file's lock, drops what a crash left of a line before it, and syncs: a record that
`append` has returned for is there for good, and no other one will ever stand in its place.

A record is a change that an on-demand query makes, what is sent again out of the error store (`Again`; the record is the mark, too: what has one was sent
again), or events of a simulation (`Simulated`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np
import pyarrow as pa

from nadi.errors import error
from nadi.io.contract import Connector, Decoded, Log, Messages
from nadi.io.linefile import LineAppender, append_lines, forget_lines, whole_files
from nadi.io.rotatedlog import RotatedLog
from nadi.io.wallclock import WALL
from nadi.kernel.control import CONTROL, CONTROL_SCHEMA
from nadi.lang.tree import Annotation

TYPE = "control"
SIMULATED = "simulated"
"""The id of a record of a simulation."""


class Again(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is sent again: all that is needed for it, so that it is a function of this log alone.

    `error` is the id of its row in the error store, `kind` is "source" (a message, to the stream of the source `ordinal`), "query" (an event of a stream,
    `payload` are its values as JSON, `time` its timestamp in ms), "control" (a change, see `Record.query`) or "sink" (a payload, to the sink `ordinal`; `rows`
    are `[timestamp (ms), [values]]`, as in the fault log). `partition` and `position` are where the message stood, `header` and `properties` what its log told
    beside it. `bucket` and `group` are those of the state in which it failed.
    """

    error: str
    kind: str
    stream: str
    payload: bytes = b""
    ordinal: int = 0
    partition: int = 0
    position: int = 0
    bucket: int = 0
    group: int = 0
    time: int = 0
    header: tuple[str, ...] = ()
    properties: dict[str, str] = {}
    rows: list[tuple[int, list[Any]]] = []


class Simulated(msgspec.Struct, frozen=True, omit_defaults=True):
    """Events of a stream that a simulation sends, in order, each a chunk of its own: `stamps` are their timestamps (ms), `columns` the values of each
    attribute. What JSON has no number for is a text: "NaN", "Infinity", "-Infinity"."""

    stream: str
    stamps: list[int]
    columns: list[list[Any]]


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """`time` (ms) is when it was appended; it never goes back within a log."""

    time: int
    id: str
    query: str
    again: Again | None = None
    simulated: Simulated | None = None


@dataclass(frozen=True, slots=True)
class Appended:
    """What `append_again` did: the position of the last record in the log (None where there is none), the ids of the errors that were sent before."""

    last: int | None
    before: tuple[str, ...]


class ControlLog(Protocol):
    """The control log of an app, wherever it is: see the module's text. Errors of what appends: DISK_FULL, CONNECTION_UNAVAILABLE."""

    def open(self) -> Log:
        """As an input."""
        ...

    def append(self, id_: str, query: str, now: int | None = None) -> int:
        """Add a record; -> its position, once it is durable. `now` is the time, ms."""
        ...

    def append_simulated(self, events: Sequence[Simulated], now: int | None = None) -> int:
        """Add a record for each event of a simulation; -> the position of the last one, once all are durable. From any thread."""
        ...

    def append_again(
        self, wanted: Iterable[Again], repeat: bool = False, skip: bool = False, now: int | None = None
    ) -> Appended:
        """See the function of this name."""
        ...

    def sent_again(self) -> dict[str, int]:
        """What was sent again: id of the error → when (ms) for the last time."""
        ...

    def trim(self, before: int) -> None:
        """See the function of this name."""
        ...


class ControlFile:
    """That of an app in its state folder."""

    def __init__(self, state: Path) -> None:
        self._path = control_path(state)
        self._simulated: SimulatedAppender | None = None
        self._lock = threading.Lock()

    def open(self) -> Log:
        return RotatedLog(self._path)

    def append(self, id_: str, query: str, now: int | None = None) -> int:
        return append(self._path, id_, query, now)

    def append_simulated(self, events: Sequence[Simulated], now: int | None = None) -> int:
        with self._lock:
            self._simulated = appender = self._simulated or SimulatedAppender(self._path)
        return appender.append(events, now)

    def append_again(
        self, wanted: Iterable[Again], repeat: bool = False, skip: bool = False, now: int | None = None
    ) -> Appended:
        return append_again(self._path, wanted, repeat, skip, now)

    def sent_again(self) -> dict[str, int]:
        return sent_again(self._path)

    def trim(self, before: int) -> None:
        trim(self._path, before)


def control_path(state: Path) -> Path:
    """The control log in the state folder of an app."""
    return state / "control.jsonl"


def control_connector(ordinal: int) -> Connector:
    """The control input as the last one of an app's inputs."""
    return Connector(CONTROL, CONTROL_SCHEMA, TYPE, {}, Annotation("map"), ordinal)


def append(path: Path, id_: str, query: str, now: int | None = None) -> int:
    """Add a record; -> its position, once it is on the disk. `now` is the time, ms. Errors: DISK_FULL."""
    wall = wall_time(now)

    def made(last: bytes) -> Sequence[bytes]:
        return [msgspec.json.encode(Record(max(wall, _time_of_last(last)), id_, query))]

    return LineAppender(path).append(made)


class SimulatedAppender:
    """Adds the events of simulations; those of all threads that wait are one write. Records of others may come in between."""

    def __init__(self, path: Path) -> None:
        self._file = LineAppender(path)
        self._waiting: list[_Adding] = []
        self._coming = threading.Lock()
        self._writing = threading.Lock()

    def append(self, events: Sequence[Simulated], now: int | None = None) -> int:
        """Add a record for each; -> the position of the last one, once all are on the disk. `now` is the time, ms. Errors: DISK_FULL; then none is there."""
        encoded = [
            msgspec.Raw(msgspec.json.encode(each)) for each in events
        ]  # here, where what cannot be encoded fails alone
        mine = _Adding(encoded, wall_time(now))
        with self._coming:
            self._waiting.append(mine)
        with self._writing:  # whoever has it writes for all who came before
            if not mine.done:
                with self._coming:
                    together, self._waiting = self._waiting, []
                self._write(together)
        if mine.failure is not None:
            raise mine.failure
        return mine.last

    def _write(self, together: Sequence[_Adding]) -> None:
        wall = max(one.wall for one in together)

        def made(last: bytes) -> Sequence[bytes]:
            stamp = max(wall, _time_of_last(last))
            return [
                msgspec.json.encode(_Encoded(stamp, SIMULATED, "", each)) for one in together for each in one.events
            ]

        try:
            position = self._file.append(made)
        except BaseException as reason:  # nobody may take for written what is not
            for one in together:
                one.done, one.failure = True, reason
            return
        for one in together:
            position += len(one.events)
            one.done, one.last = True, position - 1


@dataclass(slots=True)
class _Adding:
    """What one thread wants to be added, and what became of it."""

    events: Sequence[msgspec.Raw]
    wall: int
    done: bool = False
    last: int = -1
    failure: BaseException | None = None


class _Encoded(msgspec.Struct, frozen=True):
    """A record whose events are encoded."""

    time: int
    id: str
    query: str
    simulated: msgspec.Raw


def append_again(
    path: Path, wanted: Iterable[Again], repeat: bool = False, skip: bool = False, now: int | None = None
) -> Appended:
    """Add a record for each thing that is to be sent again: all or none, and the first ones where the process is killed meanwhile.

    Where the log has one with the same `error` already: with `repeat` there will be another one, with `skip` it is left out. Errors: ERROR_REPLAYED without
    these, before anything is written; DISK_FULL.
    """
    wall, chosen = wall_time(now), list(wanted)
    added: list[Again] = []
    before: list[str] = []

    def made(last: bytes) -> Sequence[bytes]:
        known = {} if repeat else sent_again(path)  # under the lock of who appends
        for again in chosen:
            when = known.get(again.error)
            if when is None:
                added.append(again)
            elif skip:
                before.append(again.error)
            else:
                raise error("ERROR_REPLAYED", id=again.error, time=shown_time(when))
        stamp = max(wall, _time_of_last(last))
        return [msgspec.json.encode(again_record(a, stamp)) for a in added]

    first = LineAppender(path).append(made)
    return Appended(first + len(added) - 1 if added else None, tuple(before))


def sent_again(path: Path) -> dict[str, int]:
    """What was sent again: id of the error → when (ms) for the last time."""
    if not path.parent.is_dir():
        return {}
    found: dict[str, int] = {}
    # marks are kept before a file is forgotten: who looks for them last misses none
    for file in (*(one.path for one in whole_files(path)), path, _marks(path)):
        for mark in _marked(file):
            if mark.again is not None:
                found[mark.again.error] = max(mark.time, found.get(mark.again.error, 0))
    return found


def trim(path: Path, before: int) -> None:
    """Forget records before number `before`, so far as that costs little; what was sent again stays known. Errors: DISK_FULL."""

    def keep(file: Path) -> None:
        marks = [msgspec.json.encode(mark) for mark in _marked(file) if mark.again is not None]
        if marks:
            append_lines(_marks(path), lambda _known: marks)

    forget_lines(path, before, keep)


def _marks(path: Path) -> Path:
    return path.with_suffix(".again")


def _marked(file: Path) -> list[_Marked]:
    """The records of a file that may be marks; none where it is forgotten."""
    try:
        with file.open("rb") as lines:
            return [
                msgspec.json.decode(line, type=_Marked) for line in lines if b'"again"' in line and line[-1:] == b"\n"
            ]
    except FileNotFoundError:
        return []


def shown_time(ms: int) -> str:
    """A time as people read it, UTC.

    >>> shown_time(1_000)
    '1970-01-01 00:00:01 UTC'
    """
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(ms // 1000))


class _Mark(msgspec.Struct, frozen=True):
    error: str


class _Marked(msgspec.Struct, frozen=True):
    """As much of a record as a mark needs."""

    time: int
    again: _Mark | None = None


def again_record(again: Again, time: int) -> Record:
    """The record of what is sent again at a time (ms)."""
    return Record(time, f"again-{again.error}", _query_of(again), again)


def _query_of(again: Again) -> str:
    """The text of a change that is made again; nothing for what is no change."""
    if again.kind != "control":
        return ""
    return str(msgspec.json.decode(again.payload)[1])


def wall_time(now: int | None) -> int:
    """A time (ms) that was given, else that of the node."""
    return WALL.now() if now is None else now


def _time_of_last(content: bytes) -> int:
    last = content[content.rfind(b"\n", 0, -1) + 1 :]
    return msgspec.json.decode(last, type=_Marked).time if last else 0


class ControlMapper:
    """Lines of the log → rows of the control input."""

    def decode(self, messages: Messages) -> Decoded:
        assert not isinstance(messages.payloads, pa.RecordBatch)
        records = [msgspec.json.decode(line, type=Record) for line in messages.payloads]
        columns = [pa.array([r.id for r in records], pa.string()), pa.array([r.query for r in records], pa.string())]
        batch = pa.RecordBatch.from_arrays(columns, names=list(CONTROL_SCHEMA.names))
        return Decoded(batch, np.arange(len(records)))
