"""Adding lines to a file that several processes add to: one at a time, whole lines only, on the disk on return.

The file of a `LineAppender` is set aside when it is long, so that old lines can be forgotten: the new ones go into another file of its name.

A line that a crash has torn is dropped by whoever adds next; what does not fit on the disk is taken back, so that it is there whole or not at all.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from nadi.config.ownership import own_file
from nadi.errors import error
from nadi.io import durablefiles
from nadi.io.durablefiles import sync_folder

FILE_BYTES = 4 * 1024 * 1024
_READ = 1 << 20  # bytes
_TAIL = 64 * 1024

Made = Callable[[bytes], Sequence[bytes]]
"""Given the whole lines that the file has, the lines to add (without their ends)."""


def append_lines(path: Path, made: Made) -> int:
    """Adds lines; -> how many the file had before. Nobody else adds between the call of `made` and the end. Errors: DISK_FULL, those of `made`."""
    try:
        with open(path, "a+b", opener=own_file) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            content = file.read()
            whole = content[: content.rfind(b"\n") + 1]
            lines = made(whole)
            if len(content) > len(whole):
                file.truncate(len(whole))
            try:
                file.write(b"".join(line + b"\n" for line in lines))
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                os.ftruncate(file.fileno(), len(whole))
                raise
        sync_folder(path.parent)
    except OSError as reason:
        raise error("DISK_FULL", path=f"{path} ({reason.strerror})") from reason
    return whole.count(b"\n")


@dataclass(frozen=True, slots=True, order=True)
class Whole:
    """A file that nobody adds to any more; it has the lines from number `first` up to `end`, without it."""

    first: int
    end: int
    path: Path


def whole_files(path: Path) -> list[Whole]:
    """Those that were `path` before, in order: `<name>-<first>-<end>` beside it."""
    named = re.compile(rf"{re.escape(path.stem)}-(\d+)-(\d+){re.escape(path.suffix)}")
    found = ((named.fullmatch(name), path.with_name(name)) for name in os.listdir(path.parent))
    return sorted(Whole(int(is_one[1]), int(is_one[2]), file) for is_one, file in found if is_one is not None)


def first_line(path: Path) -> int:
    """The number of the first line of the file at `path`, or of the first one that it will have."""
    before = whole_files(path)
    return before[-1].end if before else 0


def forget_lines(path: Path, before: int, keep: Callable[[Path], None]) -> None:
    """Remove the whole files that have nothing but lines before number `before`, oldest first, each after a call of `keep`. The last one stays: it says where
    the next file begins."""
    for one in whole_files(path)[:-1]:
        if one.end > before:
            break
        keep(one.path)
        durablefiles.remove(one.path)
        sync_folder(path.parent)


class LineAppender:
    """As `append_lines`, for a file that is long or added to often: it reads only what others have added since, and hands out only the last line.

    A file that has grown beyond `most` bytes is set aside, under a name that says which lines it has (`whole_files`), and a new one begun. One thread at a
    time.
    """

    def __init__(self, path: Path, most: int | None = None) -> None:
        self._path = path
        self._most = FILE_BYTES if most is None else most
        self._inode = 0  # which file it was …
        self._first = 0  # … and the number of its first line
        self._end = 0  # behind its last whole line
        self._count = 0
        self._last = b""

    def append(self, made: Made) -> int:
        """Adds lines; -> how many there were before. `made` gets the last whole line (b"" where there is none). Errors: DISK_FULL, those of `made`."""
        try:
            while True:
                with self._held() as file:
                    size = self._catch_up(file)
                    if self._end >= self._most:
                        self._set_aside(file)
                        continue
                    lines = made(self._last)
                    if size > self._end:
                        file.truncate(self._end)
                    self._write(file, lines)
                    return self._first + self._count - len(lines)
        except OSError as reason:
            raise error("DISK_FULL", path=f"{self._path} ({reason.strerror})") from reason

    @contextmanager
    def _held(self) -> Iterator[BinaryIO]:
        """The file, for this process alone."""
        while True:
            with open(self._path, "a+b", opener=own_file) as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                if is_at(file, self._path):  # else it was set aside meanwhile
                    yield file
                    return

    def _catch_up(self, file: BinaryIO) -> int:
        """Read what is new; -> the size of the file."""
        found = os.fstat(file.fileno())
        before = whole_files(self._path)
        first = before[-1].end if before else 0
        if (found.st_ino, first) != (self._inode, self._first) or found.st_size < self._end:
            self._inode, self._first, self._end, self._count = found.st_ino, first, 0, 0
            self._last = _last_line(before[-1].path) if before else b""
        file.seek(self._end)
        rest = b""
        while part := file.read(_READ):
            rest += part
            whole = rest[: rest.rfind(b"\n") + 1]
            if whole:
                self._end += len(whole)
                self._count += whole.count(b"\n")
                self._last = whole[whole.rfind(b"\n", 0, -1) + 1 :]
                rest = rest[len(whole) :]
        return found.st_size

    def _set_aside(self, file: BinaryIO) -> None:
        file.truncate(self._end)
        os.fsync(file.fileno())
        end = self._first + self._count
        durablefiles.rename(self._path, self._path.with_stem(f"{self._path.stem}-{self._first:012d}-{end:012d}"))
        sync_folder(self._path.parent)

    def _write(self, file: BinaryIO, lines: Sequence[bytes]) -> None:
        if not lines:
            return
        fresh = self._end == 0
        data = b"".join(line + b"\n" for line in lines)
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            if fresh:
                sync_folder(self._path.parent)
        except OSError:
            os.ftruncate(file.fileno(), self._end)
            raise
        self._end += len(data)
        self._count += len(lines)
        self._last = lines[-1] + b"\n"


def is_at(file: BinaryIO, path: Path) -> bool:
    """Whether an open file is the one at a path."""
    try:
        return os.stat(path).st_ino == os.fstat(file.fileno()).st_ino
    except FileNotFoundError:
        return False


def _last_line(path: Path) -> bytes:
    with path.open("rb") as file:
        end, taken = file.seek(0, os.SEEK_END), _TAIL
        while True:
            file.seek(max(0, end - taken))
            content = file.read()
            begin = content.rfind(b"\n", 0, -1) + 1
            if begin or taken >= end:
                return content[begin:]
            taken *= 8
