"""The manifest of a file source: which files are part of the log, in which order, and what they were when their rows were numbered.

    <state>/sources/<ordinal>/manifest.jsonl    a line for each file
    <state>/sources/<ordinal>/index/            where rows begin in it, and when they count as of

Where another node may go on with the app, the entries are notes in the database that all nodes reach, each made once by whoever is first. A node that does not
have an index makes it of the file again.
"""

from __future__ import annotations

import fcntl
import os
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from nadi.errors import error
from nadi.io.contract import Connector, Place
from nadi.io.durablefiles import append_durably, make_folder, room_for, truncate, write_atomically

_EDGE = 65536
_MOST = 999_999_998  # files of one source


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the log. Its rows have the positions [first, first + rows).

    `edges` is a checksum of its first and last 64 KB; `time` the log time (ms) of all rows, or of the last one if `timed` (then the times of
    all are in the index); `broken` says why its last row stands for a part that cannot be read, "" where all can.
    """

    number: int
    path: str
    size: int
    mtime: int
    edges: int
    kind: str
    rows: int
    first: int
    time: int
    timed: bool = False
    header: tuple[str, ...] = ()
    broken: str = ""

    @property
    def end(self) -> int:
        return self.first + self.rows


class EntryNotes:
    """The entries of a source where all nodes find them."""

    def __init__(self, connector: Connector, place: Place) -> None:
        from nadi.io.appnotes import AppNotes  # with it comes SQLAlchemy, which takes half a second

        self._notes = AppNotes(place.shared, place.identity, place.epoch)
        self._source = f"source-{connector.ordinal}"

    def since(self, number: int) -> list[Entry]:
        """Those from a number on. Errors: CONNECTION_UNAVAILABLE, REFUSED."""
        found = self._notes.following(self._name(number - 1), self._name(_MOST))
        return [msgspec.convert(entry, Entry) for entry in found]

    def add(self, entry: Entry) -> bool:
        """Add one; False where there is another one with its number. Errors: CONNECTION_UNAVAILABLE, REFUSED."""
        made = msgspec.to_builtins(entry)
        return msgspec.convert(self._notes.once(self._name(entry.number), lambda: made), Entry) == entry

    def _name(self, number: int) -> str:
        return f"{self._source}-{1 + number:09}"  # 0: before the first one


class Manifest:
    """The entries, append-only: on disk or, with `notes`, there. One process adds (`locked`), any number read (`refresh`)."""

    def __init__(self, folder: Path, notes: EntryNotes | None = None) -> None:
        self._folder = folder
        self._notes = notes
        self._path = folder / "manifest.jsonl"
        self._read = 0
        self.entries: list[Entry] = []
        self._firsts: list[int] = []
        self.refresh()

    @property
    def end(self) -> int:
        return self.entries[-1].end if self.entries else 0

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Alone among all processes; entries of others are read first."""
        make_folder(self._folder)
        with open(self._folder / "manifest.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.refresh()
            yield

    def refresh(self) -> None:
        """Takes in what was appended since the last look; a torn last line is not there yet."""
        if self._notes is not None:
            for entry in self._notes.since(len(self.entries)):
                self._take(entry)
            return
        try:
            with self._path.open("rb") as f:
                f.seek(self._read)
                new = f.read()
        except FileNotFoundError:
            return
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            self._take(msgspec.json.decode(line, type=Entry))

    def add(self, entry: Entry, offsets: npt.NDArray[np.int64], times: npt.NDArray[np.int64] | None) -> None:
        """Makes a file part of the log: its index first, then its entry. Call it under `locked`. Where another node has added a file in its place, that one is
        taken in, and this one is still to be added."""
        if self._notes is not None:
            if self._notes.add(entry):
                self.keep_index(entry, offsets, times)
            self.refresh()
            return
        self.keep_index(entry, offsets, times)
        self._drop_torn_end()
        line = msgspec.json.encode(entry) + b"\n"
        append_durably(self._path, line)
        self._read += len(line)
        self._take(entry)

    def keep_index(self, entry: Entry, offsets: npt.NDArray[np.int64], times: npt.NDArray[np.int64] | None) -> None:
        """Keep what is found in a file."""
        make_folder(self._folder / "index")
        if times is not None:
            self._save(entry.number, "times", times)
        self._save(entry.number, "offsets", offsets)

    def has_index(self, entry: Entry) -> bool:
        """Whether what is found in a file is kept here."""
        return self._notes is None or (self._folder / "index" / f"{entry.number}.offsets.npy").exists()

    def offsets(self, entry: Entry) -> npt.NDArray[np.int64]:
        return self._load(entry.number, "offsets")

    def times(self, entry: Entry) -> npt.NDArray[np.int64]:
        return self._load(entry.number, "times")

    def between(self, start: int, end: int) -> list[Entry]:
        """The entries that have rows in [start, end)."""
        found = []
        for entry in self.entries[max(0, bisect_right(self._firsts, start) - 1) :]:
            if entry.first >= end:
                break
            if entry.end > start:
                found.append(entry)
        return found

    def _take(self, entry: Entry) -> None:
        self.entries.append(entry)
        self._firsts.append(entry.first)

    def _drop_torn_end(self) -> None:
        if self._path.exists() and self._path.stat().st_size > self._read:
            descriptor = os.open(self._path, os.O_WRONLY)
            try:
                with room_for(self._path):
                    truncate(descriptor, self._read)
            finally:
                os.close(descriptor)

    def _save(self, number: int, what: str, values: npt.NDArray[np.int64]) -> None:
        write_atomically(self._folder / "index" / f"{number}.{what}.npy", _npy(values))

    def _load(self, number: int, what: str) -> npt.NDArray[np.int64]:
        loaded: npt.NDArray[np.int64] = np.load(self._folder / "index" / f"{number}.{what}.npy", mmap_mode="r")
        return loaded


def _npy(values: npt.NDArray[np.int64]) -> bytes:
    from io import BytesIO

    out = BytesIO()
    np.save(out, values.astype(np.int64))
    return out.getvalue()


def edges_of(path: Path, size: int) -> int:
    """A checksum of the first and last 64 KB of a file."""
    with path.open("rb") as f:
        found = zlib.crc32(f.read(_EDGE))
        f.seek(max(0, size - _EDGE))
        return zlib.crc32(f.read(_EDGE), found)


def check_unchanged(entry: Entry) -> None:
    """FILE_CHANGED where a file is not what its entry says; a copy with another date is fine."""
    path = Path(entry.path)
    try:
        found = path.stat()
        if found.st_size != entry.size:
            reason = f"it has {found.st_size} bytes, not {entry.size}"
        elif found.st_mtime_ns != entry.mtime and edges_of(path, entry.size) != entry.edges:
            reason = "its content is another"
        else:
            return
    except FileNotFoundError:
        reason = "it is gone"
    raise error("FILE_CHANGED", path=entry.path, reason=reason)
