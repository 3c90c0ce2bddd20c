"""The cut log of an execution group: every cut, durable before it is used, appended by one run only.

On one node it is a folder with

    epoch                   the epoch of the run that may append: a number, replaced atomically
    lock                    locked (flock) during every append and every change of the epoch
    cuts-<n of first>.jsonl  one cut per line, in order, without gaps; the newest one may be there again, with messages that are set aside

An append compares the epoch in the folder with its own and fails with CUT_FENCED where they differ: who cannot append cannot process.
A last line without an end was never acknowledged to anyone; the next append removes it.

Where nodes share it, it is in a database: `nadi.pipeline.cutting.cuttable`.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from nadi.config.ownership import OWN_FILE, make_folders, own_file
from nadi.errors import error
from nadi.io import durablefiles
from nadi.io.durablefiles import sync_folder
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.cutting.epochs import next_epoch

CUTS_PER_FILE = 20_000


class Cuts(Protocol):
    """The log as one run sees it, with the epoch that it was opened for; readers open it for epoch 0."""

    def last(self) -> Cut | None:
        """The newest cut."""
        ...

    def at(self, n: int) -> Cut | None:
        """Cut `n`, None where the log does not have it (any more)."""
        ...

    def append(self, cut: Cut) -> None:
        """Make a cut durable. Errors: CUT_FENCED, CUT_LOG_MISMATCH (not the next number; an empty log takes any), DISK_FULL, CONNECTION_UNAVAILABLE."""
        ...

    def amend(self, cut: Cut) -> None:
        """Make it durable that messages of the newest cut are set aside. Errors: CUT_FENCED, CUT_LOG_MISMATCH (it is not the newest), DISK_FULL,
        CONNECTION_UNAVAILABLE."""
        ...

    def trim(self, before: int) -> None:
        """Forget cuts before number `before`, so far as that costs little; the newest one stays."""
        ...


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Nobody else appends or takes over meanwhile."""
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWN_FILE)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def current_epoch(folder: Path) -> int:
    """The epoch that may append; 0 where none ever did."""
    try:
        return int(durablefiles.read_whole(folder / "epoch"))
    except FileNotFoundError:
        return 0


def take_over(folder: Path, owner: int = 0) -> int:
    """Begin a new epoch and return it; every run before can no longer append. Errors: CUT_FENCED, where a later owner has begun one."""
    make_folders(folder)
    with locked(folder):
        epoch = next_epoch(folder.parent.name, current_epoch(folder), owner)
        fresh = folder / "epoch.new"
        with open(fresh, "w", opener=own_file) as out:
            out.write(str(epoch))
            out.flush()
            os.fsync(out.fileno())
        fresh.replace(folder / "epoch")
        sync_folder(folder)
    return epoch


def newest_cut(folder: Path) -> Cut | None:
    """The last cut, without reading all others; None where there is none, or it cannot be read."""
    for path in sorted(folder.glob("cuts-*.jsonl"), reverse=True)[:2]:
        lines = path.read_bytes()[: whole_length(path)].splitlines()
        try:
            if lines:
                return Cut.from_offset(json.loads(lines[-1]))
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
    return None


class CutLog:
    """A cut log in a folder. Cuts are trimmed a file at a time."""

    def __init__(self, folder: Path, epoch: int) -> None:
        self._folder = folder
        self._epoch = epoch
        self._recent: dict[int, Cut] = {}
        self._last: Cut | None = None
        self._file: Path | None = None  # the one that is appended to, once there was an append …
        self._end = 0  # … and the bytes of it that are whole
        self._load(self._files()[-2:])  # the last may have been made by an append that got no further

    def last(self) -> Cut | None:
        """The newest cut."""
        return self._last

    def at(self, n: int) -> Cut | None:
        """Cut `n`, None where the log does not have it."""
        if n not in self._recent and self._last is not None and 0 <= n <= self._last.n:
            holding = [f for f in self._files() if _first_of(f) <= n]
            self._load(holding[-1:])
        return self._recent.get(n)

    def append(self, cut: Cut) -> None:
        """Make a cut durable. Errors: CUT_FENCED, CUT_LOG_MISMATCH (not the next number), DISK_FULL."""
        self._add(cut, cut.n if self._last is None else self._last.n + 1)

    def amend(self, cut: Cut) -> None:
        """Make it durable that messages of the newest cut are set aside. Errors: CUT_FENCED, CUT_LOG_MISMATCH (it is not the newest), DISK_FULL."""
        self._add(cut, -1 if self._last is None else self._last.n)

    def _add(self, cut: Cut, wanted: int) -> None:
        with locked(self._folder):
            current = current_epoch(self._folder)
            if current != self._epoch:
                raise error("CUT_FENCED", app=self._folder.parent.name, current=current, epoch=self._epoch)
            if cut.n != wanted:
                raise error("CUT_LOG_MISMATCH", folder=self._folder, last=wanted - 1, known=cut.n - 1)
            self._write(cut)
        self._recent[cut.n] = self._last = cut
        if len(self._recent) > 2 * CUTS_PER_FILE:
            self._recent = {n: c for n, c in self._recent.items() if n > cut.n - CUTS_PER_FILE}

    def trim(self, before: int) -> None:
        """Remove the files that have nothing but older cuts."""
        files = self._files()
        for path, following in pairwise(files):
            if _first_of(following) <= before:
                path.unlink()
        self._recent = {n: c for n, c in self._recent.items() if n >= before}
        sync_folder(self._folder)

    def _write(self, cut: Cut) -> None:
        """Add a line after what is whole. Nobody else has appended since this run did: its epoch is the current one."""
        if self._file is None:
            files = self._files()
            self._begin(files[-1] if files else self._new_file(cut.n))
        assert self._file is not None
        if cut.n - _first_of(self._file) >= CUTS_PER_FILE:
            self._begin(self._new_file(cut.n))
        line = json.dumps(cut.to_offset(), separators=(",", ":")).encode() + b"\n"
        try:
            durablefiles.write_after(self._file, self._end, line)
        except OSError as reason:
            raise error("DISK_FULL", path=f"{self._file} ({reason.strerror})") from reason
        self._end += len(line)

    def _begin(self, file: Path) -> None:
        self._file, self._end = file, whole_length(file)

    def _new_file(self, first: int) -> Path:
        path = self._folder / f"cuts-{first:012d}.jsonl"
        path.touch(OWN_FILE)
        sync_folder(self._folder)
        return path

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob("cuts-*.jsonl"))

    def _load(self, files: list[Path]) -> None:
        for path in files:
            expected = _first_of(path)
            for number, line in enumerate(path.read_bytes()[: whole_length(path)].splitlines(), 1):
                try:
                    cut = Cut.from_offset(json.loads(line))
                except (ValueError, KeyError, TypeError, RecursionError) as reason:
                    raise error("CUT_LOG_DAMAGED", path=path, line=number, reason=reason) from reason
                if cut.n == expected - 1:  # once more, with messages that are set aside
                    expected = cut.n
                if cut.n != expected:
                    raise error("CUT_LOG_DAMAGED", path=path, line=number, reason=f"cut {cut.n} for {expected}")
                self._recent[cut.n] = cut
                expected += 1
                if self._last is None or cut.n >= self._last.n:
                    self._last = cut


def _first_of(path: Path) -> int:
    return int(path.stem.removeprefix("cuts-"))


def whole_length(path: Path) -> int:
    """The length of the file without a last line that has no end."""
    size = path.stat().st_size
    with path.open("rb") as file:
        at = size
        while at > 0:
            step = min(65_536, at)
            file.seek(at - step)
            end = file.read(step).rfind(b"\n")
            if end >= 0:
                return at - step + end + 1
            at -= step
    return 0
