"""The lines of a `nadi.io.linefile.LineAppender` as an input: those of the file that is added to, and of the files that it was before."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from nadi.errors import error
from nadi.io.contract import Messages
from nadi.io.filebell import FileBell
from nadi.io.linefile import first_line, is_at, whole_files
from nadi.io.linelog import LINES_PER_PIECE, LineIndex, LineLog
from nadi.io.retention import Retention
from nadi.io.wakes import Tell

OPEN_FILES = 4


class RotatedLog:
    """See `nadi.io.contract.Log`: one partition, without an end. A position is the number of a line since the beginning, whatever was forgotten."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bell = FileBell(path)
        self._first, self._inode = 0, 0  # of the file that is added to; no inode: there is none
        self._lines = LineIndex()
        self._whole: dict[int, LineLog] = {}

    def partitions(self) -> int:
        return 1

    def beginning(self, partition: int) -> int:
        return self.oldest(partition)

    def oldest(self, partition: int) -> int:
        """The number of the first line that is not forgotten."""
        before = whole_files(self._path) if self._path.parent.is_dir() else []
        return before[0].first if before else 0

    def retention(self) -> Retention | None:
        """None: lines are kept for as long as revisions need them."""
        return None

    def end(self, partition: int) -> int:
        if self._bell.due():
            with self._bell.look():
                self._look()
        return self._first + len(self._lines)

    def wake(self, tell: Tell) -> None:
        self._bell.register(tell)

    def next_look(self) -> float | None:
        return self._bell.next_look()

    def finished(self) -> bool:
        return False

    def times(self, partition: int, start: int, end: int) -> npt.NDArray[np.int64]:
        """Errors: LOG_TRUNCATED where `start` was forgotten."""
        found = [times for _messages, times in self._parts(start, end, lines=False)]
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def read(self, partition: int, start: int, end: int) -> Iterator[Messages]:
        """Errors: LOG_TRUNCATED where `start` was forgotten."""
        for messages, _times in self._parts(start, end, lines=True):
            assert messages is not None
            yield messages

    def acknowledge(self, partition: int, position: int) -> None:
        """Nothing: lines are forgotten with revisions."""

    def close(self) -> None:
        """No file is held open."""
        self._bell.close()

    def _look(self) -> None:
        with _last(self._path) as (file, first):
            inode = 0 if file is None else os.fstat(file.fileno()).st_ino
            if (first, inode) != (self._first, self._inode):
                self._first, self._inode, self._lines = first, inode, LineIndex()
            if file is not None:
                file.seek(self._lines.size)
                self._lines.take(file.read())

    def _parts(self, start: int, end: int, lines: bool) -> Iterator[tuple[Messages | None, npt.NDArray[np.int64]]]:
        """The lines (where wanted) and times of [start, end), in pieces of one file each."""
        if end > self.end(0):
            self._look()
        at = start
        while at < end:
            stop = min(at + LINES_PER_PIECE, end)
            found = self._of_last(at, stop, lines) if at >= self._first else None
            if found is None and at >= self._first:  # it was set aside meanwhile
                self._look()
            found = found or self._of_whole(at, stop, lines)
            yield found
            at += len(found[1])

    def _of_last(self, start: int, end: int, lines: bool) -> tuple[Messages | None, npt.NDArray[np.int64]] | None:
        """Of the file that is added to; None where that is another one by now."""
        first = self._first
        times = self._lines.times(start - first, end - first)
        if not lines:
            return None, times
        with _last(self._path) as (file, begins):
            if file is None or (begins, os.fstat(file.fileno()).st_ino) != (first, self._inode):
                return None
            return _moved(self._lines.read(file, start - first, end - first), first), times

    def _of_whole(self, start: int, end: int, lines: bool) -> tuple[Messages | None, npt.NDArray[np.int64]]:
        """Of a file that was set aside, as far as it goes."""
        one = next((one for one in whole_files(self._path) if one.first <= start < one.end), None)
        if one is None:
            raise error("LOG_TRUNCATED", log="the control log", position=start, first=self.oldest(0))
        log, low, high = self._file(one.first, one.path), start - one.first, min(end, one.end) - one.first
        try:
            times = log.times(0, low, high)
            messages = next(log.read(0, low, high)) if lines else None
        except (FileNotFoundError, IndexError) as reason:  # forgotten at this moment
            raise error("LOG_TRUNCATED", log="the control log", position=start, first=self.oldest(0)) from reason
        return None if messages is None else _moved(messages, one.first), times

    def _file(self, first: int, path: Path) -> LineLog:
        if first not in self._whole:
            self._whole[first] = LineLog(path)
            for old in sorted(self._whole)[:-OPEN_FILES]:
                if old != first:
                    del self._whole[old]
        return self._whole[first]


@contextmanager
def _last(path: Path) -> Iterator[tuple[BinaryIO | None, int]]:
    """The file that is added to (None: there is none now), and the number of its first line."""
    while True:
        try:
            file = path.open("rb")
        except FileNotFoundError:
            first = first_line(path) if path.parent.is_dir() else 0
            if path.exists():
                continue
            yield None, first
            return
        with file:
            first = first_line(path)
            if is_at(file, path):  # else it was set aside meanwhile
                yield file, first
                return


def _moved(messages: Messages, by: int) -> Messages:
    return dataclasses.replace(messages, positions=messages.positions + by)
