"""`@source(type='file')`: closed files as a log of one partition.

`file.uri` names a file or a pattern (`/data/*.csv`), `dir.uri` a folder. What is read line by line (json, csv, text, packed or not) and what
holds typed rows (parquet, arrow) is told by the @map and the name's ending. A position is a row's number over all files in order of discovery (by name
within one look). A file becomes part of the log when its size and date have not changed for `file.settle` ms (1000), and must then stay as it
is: FILE_CHANGED.
Names that begin with `.` or `_` or end in .tmp or .part are not looked at. A row's log time is `event.time` (as the running maximum), without it
the file's date.

`until.end='true'`: only what is there at the first look, without waiting for it to settle; then the log is finished. A single `file.uri` is finite anyway.
"""

from __future__ import annotations

import glob
import logging
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nadi.errors import NOWHERE, Span, error
from nadi.io.contract import Connector, Messages, Place
from nadi.io.filebell import LOOK_EVERY, FolderBell
from nadi.io.mappers.unreadable import UNREADABLE
from nadi.io.reach import Reached
from nadi.io.registry import Before, SourceKind
from nadi.io.sources.file_index import NO_TIME, Index, Reader
from nadi.io.sources.file_manifest import Entry, EntryNotes, Manifest, check_unchanged, edges_of
from nadi.io.wakes import Tell
from nadi.plan.connectortraits import Divided, SourceTraits
from nadi.plan.options import Option, check_options, flag, integer, one_of

_log = logging.getLogger("nadi.io.file")
_NEVER = float("inf")
_TEMPORARY = (".tmp", ".part")

OPTIONS = (
    Option("file.uri", doc="a file, or a pattern such as `/data/*.csv`; this or `dir.uri`"),
    Option("dir.uri", doc="a folder"),
    Option(
        "file.settle", kind="int", least=0, doc="how long a file must be unchanged, ms; 1000, or 0 with `until.end`"
    ),
    Option(
        "until.end",
        kind="bool",
        doc=(
            "`true`: what is there at the first look, then the input has ended. `nadi run --until-end` "
            "sets it. A single file ends anyway"
        ),
    ),
    Option("multiline", kind="bool", doc="`true`: quoted csv fields may contain line ends"),
    # Siddhi's own, as far as a closed file has a choice.
    Option(
        "mode",
        choices=("LINE", "TEXT.FULL"),
        doc=(
            "`LINE` (default): a line is a message. `TEXT.FULL`: a file is one message, all events in it are one chunk"
        ),
        default="LINE",
    ),
    Option(
        "header.present",
        kind="bool",
        doc=(
            "`true`: the first line of a file is no event; `false` by default. Where it has the names of "
            "columns, `header` of the csv mapper reads them"
        ),
    ),
    Option("tailing", choices=("false",), doc="`false` only"),
    Option("action.after.process", choices=("KEEP", "NONE"), doc="`KEEP` or `NONE`: the file stays as it is"),
)


class FileLog:
    """Closed files as a log. `clock` gives seconds that only grow, `wall` seconds of the epoch."""

    def __init__(
        self,
        connector: Connector,
        place: Place,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._where = _location(connector)
        self._reach, self._said = place.reach, f"@source of {connector.stream} (file)"
        self._one = "file.uri" in connector.options and not glob.has_magic(self._where)
        self._until_end = flag(connector.options, "until.end", False)
        self._settle = integer(connector.options, "file.settle", 0 if self._until_end else 1000)
        self._reader = Reader(connector)
        self._clock, self._wall = clock, wall
        self._folder = FolderBell(_watched_part(self._where), every=LOOK_EVERY, clock=clock)
        self._due = _NEVER  # when the first of the files that are there may have settled
        self._seen: dict[str, tuple[int, int, float]] = {}
        self._ended = False
        notes = EntryNotes(connector, place) if place.shared else None
        self._manifest = Manifest(place.state / "sources" / str(connector.ordinal), notes)
        self._known = {e.path: e for e in self._manifest.entries}

    # -- the log

    def partitions(self) -> int:
        return 1

    def beginning(self, partition: int) -> int:
        return 0

    def end(self, partition: int) -> int:
        """Looks for new files at most every 200 ms, or where somebody waits (`wake`), when there may be some.

        Errors: FILE_MISSING where the file or folder is not there.
        """
        if not self._ended and (self._folder.due() or self._due <= self._clock()):
            with self._folder.look():
                self._discover()
        return self._manifest.end

    def wake(self, tell: Tell) -> None:
        self._folder.register(tell)

    def next_look(self) -> float | None:
        """When the first file may have settled, where there is one."""
        if self._ended:
            return None
        at = self._folder.next_look()
        due = self._due if at is None else min(at, self._due)
        return None if due == _NEVER else due

    def finished(self) -> bool:
        return self._ended

    def times(self, partition: int, start: int, end: int) -> npt.NDArray[np.int64]:
        self._catch_up(end)
        parts = [
            self._times(entry)[max(start, entry.first) - entry.first : min(end, entry.end) - entry.first]
            for entry in self._manifest.between(start, end)
        ]
        return np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, np.int64)

    def read(self, partition: int, start: int, end: int) -> Iterator[Messages]:
        """The rows of [start, end). Errors: FILE_CHANGED."""
        self._catch_up(end)
        for entry in self._manifest.between(start, end):
            self._check_reach(entry.path)
            check_unchanged(entry)
            self._ensure_index(entry)
            first, last = max(start, entry.first) - entry.first, min(end, entry.end) - entry.first
            times = self._times(entry)
            readable = entry.rows - bool(entry.broken)
            index = Index(entry.kind, entry.rows, self._manifest.offsets(entry), entry.header, entry.broken)
            for at, rows in self._reader.rows(Path(entry.path), index, first, min(last, readable)):
                yield _messages(entry, at, rows, times)
            if entry.broken and first <= readable < last:
                yield _messages(entry, readable, entry.broken, times)

    def acknowledge(self, partition: int, position: int) -> None:
        """Nothing: files are kept."""

    def close(self) -> None:
        self._folder.close()
        self._reader.close()

    def _catch_up(self, end: int) -> None:
        if self._manifest.end < end:
            self._manifest.refresh()
        if self._manifest.end < end:
            raise error("LOG_TRUNCATED", log=self._where, position=end, first=f"0 and ends at {self._manifest.end}")

    def _times(self, entry: Entry) -> npt.NDArray[np.int64]:
        if entry.timed:
            self._ensure_index(entry)
        return self._manifest.times(entry) if entry.timed else np.broadcast_to(np.int64(entry.time), (entry.rows,))

    def _ensure_index(self, entry: Entry) -> None:
        """Make the index of a file that another node has made part of the log. Errors: FILE_CHANGED."""
        if self._manifest.has_index(entry):
            return
        self._check_reach(entry.path)
        check_unchanged(entry)
        path, before = Path(entry.path), self._manifest.entries[entry.number - 1] if entry.number else None
        index = self._reader.index(path)
        since = before.time if before and before.timed else NO_TIME
        times = self._reader.times(path, index, since, entry.mtime // 10**6)
        self._manifest.keep_index(entry, index.offsets, times)

    # -- discovery

    def _discover(self) -> None:
        fresh = [(path, found) for path, found in self._candidates() if self._is_new(path, found)]
        ready = [path for path, found in fresh if self._has_settled(path, found)]
        if ready:
            with self._manifest.locked():
                self._known = {e.path: e for e in self._manifest.entries}
                for path in sorted(ready):
                    if path not in self._known:
                        self._add(Path(path))
        waiting = [(path, found) for path, found in fresh if path not in self._known]
        self._due = min((self._settles(path, found) for path, found in waiting), default=_NEVER)
        self._ended = (self._until_end or self._one) and not waiting

    def _candidates(self) -> list[tuple[str, os.stat_result]]:
        if self._one:
            paths = [self._where]
        elif os.path.isdir(self._where):
            paths = [entry.path for entry in os.scandir(self._where)]
        else:
            paths = glob.glob(self._where)
            if not paths and not os.path.isdir(_fixed_part(self._where)):
                raise error("FILE_MISSING", path=_fixed_part(self._where))
        found = []
        for path in paths:
            name = os.path.basename(path)
            if not self._one and (name.startswith((".", "_")) or name.endswith(_TEMPORARY)):
                continue
            try:
                stat = os.stat(path)
            except FileNotFoundError:  # gone between two looks, or not there yet
                if self._one and path not in self._known:
                    raise error("FILE_MISSING", path=path) from None
                continue
            if os.path.isfile(path):
                found.append((path, stat))
        return found

    def _is_new(self, path: str, found: os.stat_result) -> bool:
        known = self._known.get(path)
        if known is None:
            return True
        if (found.st_size, found.st_mtime_ns) != (known.size, known.mtime) and path not in self._seen:
            self._seen[path] = (found.st_size, found.st_mtime_ns, 0.0)
            _log.warning("%s was changed after its rows were numbered; what is new in it is not read", path)
        return False

    def _has_settled(self, path: str, found: os.stat_result) -> bool:
        now = self._clock()
        size, mtime, since = self._seen.get(path, (-1, -1, now))
        if (size, mtime) != (found.st_size, found.st_mtime_ns):
            since = now
        self._seen[path] = (found.st_size, found.st_mtime_ns, since)
        quiet = self._settle / 1000
        return now - since >= quiet or self._wall() - found.st_mtime >= quiet

    def _settles(self, path: str, found: os.stat_result) -> float:
        """When a file will have settled that has not, unless it changes; one that changed while it was read is looked at a little later."""
        now, quiet = self._clock(), self._settle / 1000
        at = min(self._seen[path][2] + quiet, now + found.st_mtime + quiet - self._wall())
        return at if at > now else now + LOOK_EVERY

    def _check_reach(self, path: str) -> None:
        """Whether apps may reach a file that is there now: it may have become a link. Errors: PATH_NOT_ALLOWED."""
        self._reach.check_path(self._said, "file", path)

    def _add(self, path: Path) -> None:
        self._check_reach(str(path))
        if not os.access(path, os.R_OK):
            raise error("INPUT_UNREADABLE", path=path, reason="permission denied")
        before = path.stat()
        last = self._manifest.entries[-1] if self._manifest.entries else None
        index = self._reader.index(path)
        times = self._reader.times(
            path, index, last.time if last and last.timed else NO_TIME, before.st_mtime_ns // 10**6
        )
        after = path.stat()
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            return  # still being written: another look will tell
        entry = Entry(
            number=len(self._manifest.entries),
            path=str(path),
            size=after.st_size,
            mtime=after.st_mtime_ns,
            edges=edges_of(path, after.st_size),
            kind=index.kind,
            rows=index.rows,
            first=self._manifest.end,
            time=_last_time(times, last, after.st_mtime_ns // 10**6),
            timed=times is not None,
            header=index.header,
            broken=index.broken,
        )
        self._manifest.add(entry, index.offsets, times)
        self._known |= {each.path: each for each in self._manifest.entries[entry.number :]}


def _last_time(times: npt.NDArray[np.int64] | None, last: Entry | None, mtime: int) -> int:
    if times is None:
        return max(mtime, last.time if last else mtime)
    return int(times[-1]) if len(times) else last.time if last else NO_TIME


def _messages(
    entry: Entry, at: int, rows: list[bytes] | pa.RecordBatch | str, times: npt.NDArray[np.int64]
) -> Messages:
    many = 1 if isinstance(rows, str) else len(rows) if isinstance(rows, list) else rows.num_rows
    positions = np.arange(entry.first + at, entry.first + at + many, dtype=np.int64)
    chosen = np.array(times[at : at + many], np.int64)
    if isinstance(rows, str):
        return Messages(positions, chosen, [entry.path.encode()], entry.header, [{UNREADABLE: f"{entry.path}: {rows}"}])
    return Messages(positions, chosen, rows, entry.header)


def _location(connector: Connector) -> str:
    where = f"@source of {connector.stream} (file)"
    option, text = one_of(where, connector.options, ("file.uri", "dir.uri"), NOWHERE)
    path = text.removeprefix("file://").removeprefix("file:")
    if "://" in path:
        what, alternative = f"{path} in {where}", "copy the files to a local or mounted folder"
        raise error("NOT_SUPPORTED", connector.place(option), what=what, alternative=alternative)
    return os.path.abspath(path)


def _fixed_part(pattern: str) -> str:
    part = pattern
    while glob.has_magic(part):
        part = os.path.dirname(part)
    return part


def _watched_part(where: str) -> Path | None:
    """The folder in which files come; None where there may be several."""
    if os.path.isdir(where):
        return Path(where)
    folder = os.path.dirname(where)
    return None if glob.has_magic(folder) else Path(folder)


def open_file_log(connector: Connector, place: Place) -> FileLog:
    """The log of a file source. Errors: OPTION_MISSING, OPTION_INVALID, NOT_SUPPORTED."""
    check_options(
        f"@source of {connector.stream} (file)", connector.options, (*OPTIONS, Option("event.time")), connector.map.span
    )
    return FileLog(connector, place)


def _check(connector: Connector, _span: Span) -> None:
    _location(connector)


def _reaches(connector: Connector) -> tuple[Reached, ...]:
    where, option = _location(connector), "file.uri" if connector.options.get("file.uri") else "dir.uri"
    return (Reached(option, _fixed_part(where)),)


def _take_over(source: Connector, place: Place, before: Before) -> None:
    """Number the rows of files as those before did. Errors: CONNECTION_UNAVAILABLE, REFUSED."""
    notes = EntryNotes(source, place)
    for old, at in before:
        for entry in EntryNotes(old, at).since(0):
            notes.add(entry)


KIND = SourceKind(
    options=OPTIONS,
    open=open_file_log,
    identity=("file.uri", "dir.uri"),
    begins=lambda _source: "with the first row of what is there",
    checks=(_check,),
    take_over=_take_over,
    reaches=_reaches,
    traits=SourceTraits(
        endless=False,
        divided=Divided.WHOLE,
        centres=False,
        owned=False,
        listens=None,
        journal=False,
        parted=True,
        local=True,
        header=True,
        topics=None,
        moved="needs its path on a mount of all workers: elsewhere its instance stops with FILE_CHANGED or FILE_MISSING when it moves",
    ),
    loops=(),
)
