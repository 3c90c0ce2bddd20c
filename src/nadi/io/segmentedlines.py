"""JSON lines that every cut adds to exactly once, in files of bounded size, so that old ones can be forgotten; and the lines as an input.

    faults.jsonl                    from line 0
    faults-000000020000.jsonl       from line 20000
    faults/append.json              the ledger: {"cut", "length", "first", "lines"}
    faults/stage/<cut>-<bucket>     what waits for its cut

A line's position is its number since the beginning, whatever was forgotten. The ledger is the commit: the last cut, the file that is appended to (by its first
line), how many bytes and lines of it are there for good. What lies behind them, or in a file that begins later, is the rest of a commit that was cut
short, and the next one begins there. Files are forgotten oldest first, never the one that is appended to; so nobody who dies in between leaves a gap.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from nadi.errors import NadiError, error
from nadi.io import durablefiles
from nadi.io.contract import Messages
from nadi.io.filebell import FileBell
from nadi.io.linelog import LineLog
from nadi.io.retention import Retention
from nadi.io.sinks.appender import Stages, extend
from nadi.io.wakes import Tell

FILE_BYTES = 4 * 1024 * 1024
OPEN_FILES = 4


class Ledger(msgspec.Struct, frozen=True):
    """See the module's text; -1 cuts: none. A ledger without `lines` is that of a single file that was never counted."""

    cut: int
    length: int
    first: int = 0
    lines: int = -1


class SegmentedLines:
    """The writing side. `target` is the first file; `folder` keeps ledger and stages."""

    def __init__(self, folder: Path, target: Path) -> None:
        self._target = target
        self._stages = Stages(folder)
        self.ledger_path = folder / "append.json"

    def stage(self, cut: int, bucket: int, rows: Iterable[object]) -> int:
        """Keeps the rows of a bucket for the commit of the cut; returns how many. A second call replaces the first. Errors: DISK_FULL."""
        lines = [msgspec.json.encode(row) for row in rows]
        if lines:
            self._stages.put(cut, bucket, b"\n".join(lines) + b"\n")
        return len(lines)

    def commit(self, cut: int, buckets: Sequence[int]) -> None:
        """Appends what these buckets (those that staged rows) have for the cut, once. Errors: DISK_FULL, STAGE_MISSING, TARGET_CHANGED."""
        if not buckets:
            return
        self._stages.make()
        ledger = self.ledger()
        if cut > ledger.cut:
            data = [self._stages.get(cut, bucket) for bucket in sorted(buckets)]
            if ledger.length >= FILE_BYTES:
                ledger = Ledger(ledger.cut, 0, ledger.first + ledger.lines, 0)
            length = extend(self.path(ledger.first), ledger.length, data)
            ledger = Ledger(cut, length, ledger.first, ledger.lines + sum(d.count(b"\n") for d in data))
            durablefiles.write_atomically(self.ledger_path, msgspec.json.encode(ledger))
        self._stages.clear(ledger.cut, self.ledger_path)

    def staged(self, cut: int, bucket: int) -> bytes:
        """What a bucket has staged for a cut. Errors: STAGE_MISSING."""
        return self._stages.get(cut, bucket)

    def clear(self, cut: int) -> None:
        """Forget what was staged for this cut and those before it: it is kept elsewhere."""
        self._stages.clear(cut, self.ledger_path)

    def trim(self, before: int) -> None:
        """Forget the files that have nothing but lines before number `before`."""
        firsts = [first for first in self.firsts() if first <= self.ledger().first]
        for first, following in pairwise(firsts):
            if following > before:
                break
            durablefiles.remove(self.path(first))
        if firsts:
            durablefiles.sync_folder(self._target.parent)

    def ledger(self) -> Ledger:
        """As it is on the disk."""
        try:
            found: Ledger = durablefiles.read_note(self.ledger_path, Ledger)
        except FileNotFoundError:
            return Ledger(-1, 0, 0, 0)
        if found.lines >= 0:
            return found
        with self._target.open("rb") as file:
            return Ledger(found.cut, found.length, 0, file.read(found.length).count(b"\n"))

    def firsts(self) -> list[int]:
        """The numbers of the first lines of the files, in order."""
        stem, ending = self._target.stem, self._target.suffix
        found = [int(p.stem.removeprefix(f"{stem}-")) for p in self._target.parent.glob(f"{stem}-*{ending}")]
        return sorted([*found, 0] if self._target.exists() else found)

    def path(self, first: int) -> Path:
        """The file that begins with a line."""
        return self._target.with_stem(f"{self._target.stem}-{first:012d}") if first else self._target


class SegmentLog:
    """The reading side: see `nadi.io.contract.Log`; one partition, without an end."""

    def __init__(self, lines: SegmentedLines) -> None:
        self._lines = lines
        self._seen: tuple[int, int, int] | None = None
        self._ledger = Ledger(-1, 0, 0, 0)
        self._files: dict[int, LineLog] = {}
        self._changes = FileBell(lines.ledger_path)

    def partitions(self) -> int:
        return 1

    def beginning(self, partition: int) -> int:
        return self.oldest(partition)

    def oldest(self, partition: int) -> int:
        """The number of the first line that is not forgotten."""
        return min(self._lines.firsts(), default=0)

    def retention(self) -> Retention | None:
        """None: lines are kept for as long as revisions need them."""
        return None

    def end(self, partition: int) -> int:
        if self._changes.due():
            with self._changes.look():
                self._look()
        return self._ledger.first + self._ledger.lines

    def wake(self, tell: Tell) -> None:
        with contextlib.suppress(OSError, NadiError):  # where it cannot be made, it is not watched, but looked at
            durablefiles.make_folder(self._lines.ledger_path.parent)
        self._changes.register(tell)

    def next_look(self) -> float | None:
        return self._changes.next_look()

    def finished(self) -> bool:
        return False

    def times(self, partition: int, start: int, end: int) -> npt.NDArray[np.int64]:
        found = [log.times(0, low, high) for _first, log, low, high in self._pieces(start, min(end, self.end(0)))]
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def read(self, partition: int, start: int, end: int) -> Iterator[Messages]:
        """Errors: LOG_TRUNCATED where `start` was forgotten."""
        for first, log, low, high in self._pieces(start, end):
            for messages in log.read(0, low, high):
                yield dataclasses.replace(messages, positions=messages.positions + first)

    def acknowledge(self, partition: int, position: int) -> None:
        """Nothing: lines are forgotten with revisions."""

    def close(self) -> None:
        """No file is held open."""
        self._changes.close()

    def _pieces(self, start: int, end: int) -> Iterator[tuple[int, LineLog, int, int]]:
        """For each file with lines of [start, end): its first line, the file, and the lines by their places in it."""
        if start >= end:
            return
        self._look()
        firsts = [first for first in self._lines.firsts() if first <= self._ledger.first]
        if not firsts or start < firsts[0]:
            raise error("LOG_TRUNCATED", log="the fault log", position=start, first=min(firsts, default=self.end(0)))
        for first, following in pairwise([*firsts, sys.maxsize]):
            if start < following and first < end:
                yield first, self._file(first), max(start, first) - first, min(end, following) - first

    def _file(self, first: int) -> LineLog:
        if first not in self._files:
            self._files[first] = LineLog(self._lines.path(first), lambda: self._committed(first))
            for old in sorted(self._files)[:-OPEN_FILES]:
                if old != first:
                    del self._files[old]
        return self._files[first]

    def _committed(self, first: int) -> int:
        self._look()
        return self._ledger.length if first == self._ledger.first else sys.maxsize

    def _look(self) -> None:
        """Take over the ledger where it was replaced: each one is a file of its own."""
        try:
            told = self._lines.ledger_path.stat()
        except FileNotFoundError:
            return
        seen = (told.st_ino, told.st_mtime_ns, told.st_size)
        if seen != self._seen:
            self._ledger, self._seen = self._lines.ledger(), seen
