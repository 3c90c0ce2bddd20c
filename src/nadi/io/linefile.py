"""Adding lines to a file that several processes add to: one at a time, whole lines only, on the disk on return.

A line that a crash has torn is dropped by whoever adds next; what does not fit on the disk is taken back, so that it is there whole or not at all.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from nadi.config.ownership import own_file
from nadi.errors import error
from nadi.io.staging import sync_folder

_READ = 1 << 20  # bytes

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


class LineAppender:
    """As `append_lines`, for a file that is long or added to often: it reads only what others have added since, and hands out only the last line.

    One thread at a time.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = 0  # which file it was, by its inode
        self._end = 0  # behind its last whole line
        self._count = 0
        self._last = b""

    def append(self, made: Made) -> int:
        """Adds lines; -> how many the file had before. `made` gets the last whole line (b"" where there is none). Errors: DISK_FULL, those of `made`."""
        try:
            with open(self._path, "a+b", opener=own_file) as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                size = self._catch_up(file)
                lines = made(self._last)
                if size > self._end:
                    file.truncate(self._end)
                self._write(file, lines)
        except OSError as reason:
            raise error("DISK_FULL", path=f"{self._path} ({reason.strerror})") from reason
        return self._count - len(lines)

    def _catch_up(self, file: BinaryIO) -> int:
        """Read what is new; -> the size of the file."""
        found = os.fstat(file.fileno())
        if found.st_ino != self._file or found.st_size < self._end:
            self._file, self._end, self._count, self._last = found.st_ino, 0, 0, b""
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
