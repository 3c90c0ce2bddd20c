"""A file of JSON lines as an input: a line is a record with a `time` (ms), a position is the number of a line, lines stay as they are."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy as np
import numpy.typing as npt

from nadi.io.contract import Messages
from nadi.io.filebell import FileBell
from nadi.io.wakes import Tell

LINES_PER_PIECE = 1_000


class _Stamped(msgspec.Struct, frozen=True):
    time: int


class LineIndex:
    """Where the lines of a file begin, and their times, 16 bytes a line."""

    def __init__(self) -> None:
        self._starts = array("q", [0])  # where line n begins; the last one is where the next line will
        self._times = array("q")

    def __len__(self) -> int:
        return len(self._times)

    @property
    def size(self) -> int:
        """Bytes of all lines."""
        return self._starts[-1]

    def take(self, added: bytes) -> None:
        """Note the whole lines of what follows."""
        for line in added[: added.rfind(b"\n") + 1].splitlines(keepends=True):
            self._times.append(msgspec.json.decode(line, type=_Stamped).time)
            self._starts.append(self._starts[-1] + len(line))

    def times(self, start: int, end: int) -> npt.NDArray[np.int64]:
        return np.array(self._times[start:end], np.int64)

    def read(self, file: BinaryIO, start: int, end: int) -> Messages:
        """Lines by their places in the file."""
        file.seek(self._starts[start])
        lines = file.read(self._starts[end] - self._starts[start]).splitlines()
        return Messages(np.arange(start, end), self.times(start, end), lines)


class LineLog:
    """See `nadi.io.contract.Log`: one partition, without an end.

    `committed` says how many bytes of the file are there for good; by default all up to the last line end are. Places and times of lines are kept in
    memory, lines are read when asked for.
    """

    def __init__(self, path: Path, committed: Callable[[], int] | None = None) -> None:
        self._path = path
        self._committed = committed
        self._lines = LineIndex()
        self._files = FileBell(path)

    def partitions(self) -> int:
        return 1

    def beginning(self, partition: int) -> int:
        return 0

    def end(self, partition: int) -> int:
        if self._files.due():
            with self._files.look():
                self._look()
        return len(self._lines)

    def wake(self, tell: Tell) -> None:
        self._files.register(tell)

    def next_look(self) -> float | None:
        return self._files.next_look()

    def _look(self) -> None:
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            return
        known = self._lines.size
        if size > known and self._committed is not None:
            size = min(size, self._committed())
        if size > known:
            with self._path.open("rb") as file:
                file.seek(known)
                self._lines.take(file.read(size - known))

    def finished(self) -> bool:
        return False

    def times(self, partition: int, start: int, end: int) -> npt.NDArray[np.int64]:
        self.end(partition)
        return self._lines.times(start, end)

    def read(self, partition: int, start: int, end: int) -> Iterator[Messages]:
        self.end(partition)
        for at in range(start, end, LINES_PER_PIECE):
            with self._path.open("rb") as file:
                found = self._lines.read(file, at, min(at + LINES_PER_PIECE, end))
            yield found

    def acknowledge(self, partition: int, position: int) -> None:
        """Nothing: records are kept."""

    def close(self) -> None:
        """No file is held open."""
        self._files.close()
