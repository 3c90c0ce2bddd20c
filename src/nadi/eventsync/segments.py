"""The files of the passive node's log. All functions block; one thread writes.

    000000000007.held       a segment: entries one after the other
    000000000008.held

An entry is the length of its body (4 bytes), a check-sum of all else (4), its kind (1), a number (8), and the body. The first entry of a segment says whose
session it belongs to: BEGIN, with which all that was before is forgotten, or GOES_ON. Segments go away from the front only, when all that is in them is done.

A crash may leave a torn end, and only there: a segment is synced before the next one is begun. What stands behind the last good entry is cut off; it was never
acknowledged.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from nadi.config.ownership import OWN_FILE
from nadi.errors import error
from nadi.io.durablefiles import make_folder, remove, room_for, sync_folder, truncate, write_all

HEAD = struct.Struct("!IIBQ")
_CHECKED = struct.Struct("!IBQ")
SEGMENT = 32 * 1024 * 1024  # bytes after which another one is begun
_NAME = re.compile(r"(\d{12})\.held")
_WHOLE, _PART = b"\x01", b"\x00"


class Kind(IntEnum):
    """BEGIN and GOES_ON have the token as their number; their body says whether the copy is whole (1 byte), and whose session it is (the id of the store of the
    active node). Marks have numbers of records in their body."""

    RECORD = 1
    CONFIRMED = 2
    ABANDONED = 3
    DONE = 4
    BEGIN = 5
    GOES_ON = 6
    WHOLE = 7


@dataclass(frozen=True, slots=True)
class Entry:
    kind: Kind
    number: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Span:
    """Where the body of an entry lies."""

    segment: int
    offset: int
    length: int


class Segments:
    """The log in a folder. Errors of all methods: OSError; DISK_FULL where it writes; STATE_FILE_NOT_READABLE, where a file is damaged that was whole."""

    def __init__(self, folder: Path, size: int = SEGMENT) -> None:
        self._folder = folder
        self._size = size
        self._files: dict[int, int] = {}  # descriptors by the number of the segment, in order
        self._end = 0  # of the last segment
        self.token = 0
        self.store = ""  # of the active node whose session it is; "": nobody has said it
        self.whole = False

    def open(self) -> Iterator[tuple[Entry, Span]]:
        """All entries since the last BEGIN, in order. To be read to its end before anything is written."""
        make_folder(self._folder)
        found = sorted(int(name[1]) for name in map(_NAME.fullmatch, os.listdir(self._folder)) if name)
        for number in found:
            self._files[number] = os.open(self._path(number), os.O_RDWR | os.O_CLOEXEC)
        for number in found:
            yield from self._read(number, number == found[-1])
        if not self._files:
            self.restart(0)

    @property
    def first(self) -> int:
        """The number of the oldest segment."""
        return next(iter(self._files))

    @property
    def last(self) -> int:
        """The number of the segment that is written to."""
        return next(reversed(self._files))

    def append(self, entries: Sequence[Entry], sync: bool) -> list[Span]:
        """Write entries together. With `sync` they are durable when this returns. If it fails, none of them is there."""
        if self._end >= self._size:
            self._begin(Kind.GOES_ON)
        segment, start = self.last, self._end
        descriptor, at = self._files[segment], start
        spans: list[Span] = []
        data: list[bytes] = []
        for entry in entries:
            data += _encoded(entry)
            at += HEAD.size
            spans.append(Span(segment, at, len(entry.body)))
            at += len(entry.body)
        try:
            with room_for(self._path(segment)):
                os.lseek(descriptor, start, os.SEEK_SET)
                write_all(descriptor, b"".join(data))
                if sync:
                    os.fdatasync(descriptor)
        except BaseException:
            truncate(descriptor, start)
            raise
        self._end = at
        if any(entry.kind == Kind.WHOLE for entry in entries):
            self.whole = True
        return spans

    def read(self, span: Span) -> bytes:
        return os.pread(self._files[span.segment], span.length, span.offset)

    def restart(self, token: int, store: str = "") -> None:
        """Forget all. Durable."""
        old = list(self._files)
        self.token, self.store, self.whole = token, store, False
        self._begin(Kind.BEGIN)
        self._remove(old)

    def forget(self, before: int) -> None:
        """Remove the segments in front of this one."""
        self._remove([number for number in self._files if number < before])

    def close(self) -> None:
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()

    def _begin(self, kind: Kind) -> None:
        number = self.last + 1 if self._files else 1
        with room_for(self._path(number)):
            if self._files:
                os.fdatasync(self._files[self.last])
            descriptor = os.open(self._path(number), os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, OWN_FILE)
            try:
                body = (_WHOLE if self.whole else _PART) + self.store.encode()
                first = b"".join(_encoded(Entry(kind, self.token, body)))
                write_all(descriptor, first)
                os.fsync(descriptor)
                sync_folder(self._folder)
            except BaseException:
                os.close(descriptor)
                raise
        self._files[number], self._end = descriptor, len(first)

    def _read(self, number: int, is_last: bool) -> Iterator[tuple[Entry, Span]]:
        descriptor, at = self._files[number], 0
        size = os.fstat(descriptor).st_size
        while (entry := _entry_at(descriptor, at, size)) is not None:
            if entry.kind in (Kind.BEGIN, Kind.GOES_ON):
                self.token, self.whole = entry.number, entry.body[:1] == _WHOLE
                self.store = entry.body[1:].decode(errors="replace")
            elif entry.kind == Kind.WHOLE:
                self.whole = True
            yield entry, Span(number, at + HEAD.size, len(entry.body))
            at += HEAD.size + len(entry.body)
        if at < size and not is_last:
            raise error("STATE_FILE_NOT_READABLE", path=self._path(number), reason=f"it is damaged at byte {at:,}")
        if is_last and at == 0:
            self._remove([number])  # the crash was before its first entry
            if self._files:
                self._end = os.fstat(self._files[self.last]).st_size
        elif is_last:
            truncate(descriptor, at)
            os.fdatasync(descriptor)
            self._end = at

    def _remove(self, numbers: Sequence[int]) -> None:
        for number in numbers:  # from the front: what is left is always an end of the log
            os.close(self._files.pop(number))
            remove(self._path(number))

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:012d}.held"


def _encoded(entry: Entry) -> tuple[bytes, bytes]:
    check = _check(len(entry.body), entry.kind, entry.number, entry.body)
    return HEAD.pack(len(entry.body), check, entry.kind, entry.number), entry.body


def _check(length: int, kind: int, number: int, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(_CHECKED.pack(length, kind, number)))


def _entry_at(descriptor: int, at: int, size: int) -> Entry | None:
    """None where there is no whole entry."""
    if at + HEAD.size > size:
        return None
    length, check, kind, number = HEAD.unpack(os.pread(descriptor, HEAD.size, at))
    if at + HEAD.size + length > size:
        return None
    body = os.pread(descriptor, length, at + HEAD.size)
    if check != _check(length, kind, number, body) or kind not in _KINDS:
        return None
    return Entry(Kind(kind), number, body)


_KINDS = frozenset(Kind)
