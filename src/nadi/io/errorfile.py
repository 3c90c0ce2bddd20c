"""The error store in the state folder of an app.

    errors.jsonl           the rows, a line each, as far as `errors/append.json` says; the committer of the app's cuts alone writes it
    errors/purged.jsonl    what people purged: conditions and the place up to which they hold, a line each; whoever purges appends
    errors/compacted.json  how much of these the last compaction has taken, and whether it is done
    errors/lock            shared by readers while they look up what there is; the committer's alone while it puts a compacted file in place

A purge hides rows at once. Their bytes go with a commit, when half of the file is purged: the rest is written aside and replaces the file in steps that can be
repeated, so that a crash between any two of them is finished by the next commit.
"""

from __future__ import annotations

import fcntl
import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec

from nadi.config.ownership import OWN_FILE, own_file
from nadi.errors import NadiError
from nadi.io import durablefiles
from nadi.io.errorstore import ANY, Place, Row, Wanted, place_of, staged_lines
from nadi.io.linefile import append_lines


class Purge(msgspec.Struct, frozen=True, omit_defaults=True):
    """Rows up to place `through` that the conditions mean are gone; `bytes` is what they weighed."""

    through: Place
    bytes: int
    ids: frozenset[str] = frozenset()
    kind: str = ""
    stream: str = ""
    since: int | None = None
    until: int | None = None

    def has(self, row: Row, place: Place) -> bool:
        return place <= self.through and self.wanted.has(row)

    @property
    def wanted(self) -> Wanted:
        return Wanted(self.ids, self.kind, self.stream, self.since, self.until)


class Compacted(msgspec.Struct, frozen=True):
    """`length` is that of the new file, `purges` how many bytes of the purges it has taken in."""

    length: int = 0
    purges: int = 0
    done: bool = True


@dataclass(frozen=True, slots=True)
class _Line:
    row: Row
    place: Place
    bytes: bytes


class FileErrorStore:
    """Implements `nadi.io.errorstore.ErrorStore`; `state` is the state folder of the app."""

    def __init__(self, state: Path) -> None:
        self._path = state / "errors.jsonl"
        self._folder = state / "errors"
        self._lines = staged_lines(state)
        self._purged = self._folder / "purged.jsonl"
        self._aside = self._folder / "compacted.jsonl"
        self._note = self._folder / "compacted.json"

    @property
    def name(self) -> str:
        return str(self._path)

    # ---- reading

    def rows(self, wanted: Wanted = ANY, limit: int = 0) -> Iterator[Row]:
        found = (line.row for line in self._visible() if wanted.has(line.row))
        yield from deque(found, limit) if limit else found

    def _visible(self, locked: bool = False) -> Iterator[_Line]:
        """What is committed and not purged, as it is at the first step; `locked`: the caller holds the lock."""
        if not self._path.exists() or not self._folder.is_dir():
            return
        if locked:
            opened = self._opened()
        else:
            with self._locked(fcntl.LOCK_SH):
                opened = self._opened()
        with opened[0] as file:
            for line in _lines_of(file, opened[1]):
                if not any(purge.has(line.row, line.place) for purge in opened[2]):
                    yield line

    def _opened(self) -> tuple[BinaryIO, int, list[Purge]]:
        """The file, how much of it is committed, what is purged."""
        return self._path.open("rb"), self._lines.committed(), self._purges()

    def _purges(self) -> list[Purge]:
        try:
            content = self._purged.read_bytes()
        except FileNotFoundError:
            return []
        return [msgspec.json.decode(line, type=Purge) for line in content[: content.rfind(b"\n") + 1].splitlines()]

    # ---- purging

    def purge(self, wanted: Wanted = ANY) -> int:
        if not self._folder.is_dir():
            return 0
        found: list[tuple[Place, int]] = []

        def made(_content: bytes) -> list[bytes]:
            """Within the turn of this purge: two at a time count no row twice."""
            found.extend((line.place, len(line.bytes)) for line in self._visible(locked=True) if wanted.has(line.row))
            if not found:
                return []
            size = sum(length for _place, length in found)
            told = Purge(found[-1][0], size, wanted.ids, wanted.kind, wanted.stream, wanted.since, wanted.until)
            return [msgspec.json.encode(told)]

        with self._locked(fcntl.LOCK_SH):
            append_lines(self._purged, made)
        return len(found)

    # ---- the committer's

    def commit(self, cut: int, buckets: Sequence[int]) -> None:
        if not buckets and not self._purged.exists():
            return
        self._finish()
        self._lines.commit(cut, buckets)
        self._compact()

    def _compact(self) -> None:
        """Leave out what was purged, where that is half of the file, and nobody is reading it right now."""
        noted = self._noted()
        try:
            size = self._purged.stat().st_size
        except FileNotFoundError:
            return
        if size <= noted.purges:
            return
        with self._purged.open("rb") as file:
            file.seek(noted.purges)
            added = file.read()
        lines = added[: added.rfind(b"\n") + 1].splitlines()
        gone = sum(msgspec.json.decode(line, type=Purge).bytes for line in lines)
        if 2 * gone < self._lines.committed():
            return
        try:
            with self._locked(fcntl.LOCK_EX | fcntl.LOCK_NB):
                kept = self._written_aside()
                if kept is None:
                    return
                self._say(Compacted(kept, self._purged.stat().st_size, done=False))
                self._put_in_place()
        except BlockingIOError:
            return  # with the next commit

    def _written_aside(self) -> int | None:
        """The rows that stay, in a file beside; its length, or None where the disk has no room for both."""
        length = 0
        try:
            with durablefiles.room_for(self._aside):
                descriptor = os.open(self._aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, OWN_FILE)
                try:
                    for line in self._visible(locked=True):
                        durablefiles.write_all(descriptor, line.bytes)
                        length += len(line.bytes)
                    durablefiles.sync(descriptor)
                finally:
                    os.close(descriptor)
                durablefiles.sync_folder(self._folder)
        except NadiError:  # DISK_FULL; nothing depends on it
            durablefiles.remove(self._aside)
            return None
        return length

    def _finish(self) -> None:
        """Finish a compaction that died."""
        if not self._noted().done:
            with self._locked(fcntl.LOCK_EX):
                self._put_in_place()

    def _put_in_place(self) -> None:
        noted = self._noted()
        if self._aside.exists():
            with durablefiles.room_for(self._path):
                durablefiles.rename(self._aside, self._path)
                durablefiles.sync_folder(self._path.parent)
        self._lines.replaced(noted.length)
        self._say(Compacted(noted.length, noted.purges))

    def _noted(self) -> Compacted:
        try:
            noted: Compacted = durablefiles.read_note(self._note, Compacted)
            return noted
        except FileNotFoundError:
            return Compacted()

    def _say(self, noted: Compacted) -> None:
        durablefiles.write_atomically(self._note, msgspec.json.encode(noted))

    @contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        path = self._folder / "lock"
        with durablefiles.room_for(path):
            lock = open(path, "a", opener=own_file)  # noqa: SIM115 (closed below)
        with lock:
            fcntl.flock(lock, how)
            yield


def _lines_of(file: BinaryIO, committed: int) -> Iterator[_Line]:
    """The lines of an open file, as far as they are there for good."""
    at, cut, number = 0, -1, 0
    for raw in file:
        at += len(raw)
        if at > committed or not raw.endswith(b"\n"):
            return
        row: Row = msgspec.json.decode(raw, type=dict)
        number = number + 1 if row["cut"] == cut else 0
        cut = row["cut"]
        if "id" not in row:  # kept by a nadi that had no ids
            row = {"id": f"{cut}-0-{number}", **row}
        place = place_of(row["id"])
        yield _Line(row, place or (cut, 0, number), raw)
