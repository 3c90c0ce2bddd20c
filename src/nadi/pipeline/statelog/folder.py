"""A state log in a folder: an object is a file.

It is written beside its place under a name that begins with a dot, synced, and renamed into it; then the folder is synced. A large one is synced in steps, so
that others who sync do not wait for all of it. Its writer holds a lock on it, by which `sweep` knows writers that died.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nadi.config.ownership import OWN_FILE
from nadi.errors import error
from nadi.io import durablefiles
from nadi.io.durablefiles import make_folder, room_for, sync_folder, write_all

STEP = 8 * 1024 * 1024  # bytes after which a large object is synced
_TEMPORARY = ".part"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]*")


class FolderStore:
    """Implements `nadi.pipeline.statelog.store.ObjectStore`."""

    ahead = 4
    forks = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def name(self) -> str:
        return str(self._folder)

    def put(self, name: str, pieces: Iterable[bytes]) -> None:
        path = self._path(name)
        temporary = path.with_name(f".{name}-{os.urandom(4).hex()}{_TEMPORARY}")
        with self._failing(FileExistsError), room_for(path):
            make_folder(self._folder)
            if path.exists():
                raise FileExistsError(f"{path} exists")
            made = temporary
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OWN_FILE)
            try:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
                    _write(descriptor, pieces)
                    durablefiles.rename(temporary, path)
                    made = path
                finally:
                    os.close(descriptor)
                sync_folder(self._folder)
            except BaseException:
                with suppress(OSError):  # the next sweep takes it
                    durablefiles.remove(made)
                raise

    def get(self, name: str, offset: int, length: int) -> bytes:
        with self._failing(FileNotFoundError):
            descriptor = os.open(self._path(name), os.O_RDONLY | os.O_CLOEXEC)
            try:
                return _read(descriptor, offset, length)
            finally:
                os.close(descriptor)

    def list(self, prefix: str = "") -> list[str]:
        with self._failing():
            try:
                names = os.listdir(self._folder)
            except FileNotFoundError:
                return []
        return sorted(name for name in names if name.startswith(prefix) and not name.startswith("."))

    def delete(self, names: Iterable[str]) -> None:
        """Without a sync: what a power cut brings back, a sweep finds."""
        with self._failing():
            for name in names:
                durablefiles.remove(self._path(name))

    def sweep(self) -> None:
        with self._failing():
            for path in self._folder.glob(f".*{_TEMPORARY}"):
                if _is_left(path):
                    durablefiles.remove(path)

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise ValueError(f"'{name}' cannot be the name of an object")
        return self._folder / name

    @contextmanager
    def _failing(self, passing: type[OSError] | tuple[()] = ()) -> Iterator[None]:
        """Turns what the system says into STATE_LOG_FAILED, but for what is the caller's to hear."""
        try:
            yield
        except passing:
            raise
        except OSError as reason:
            raise error("STATE_LOG_FAILED", store=self.name, reason=reason) from reason


def _write(descriptor: int, pieces: Iterable[bytes]) -> None:
    waiting = 0
    for piece in pieces:
        for start in range(0, len(piece), STEP):
            part = memoryview(piece)[start : start + STEP] if len(piece) > STEP else piece
            write_all(descriptor, part)  # type: ignore[arg-type]  # any buffer
            waiting += len(part)
            if waiting >= STEP:
                durablefiles.sync(descriptor)
                waiting = 0
    durablefiles.sync(descriptor)


def _read(descriptor: int, offset: int, length: int) -> bytes:
    found = os.pread(descriptor, length, offset)
    while len(found) < length and (more := os.pread(descriptor, length - len(found), offset + len(found))):
        found += more
    return found


def _is_left(path: Path) -> bool:
    """Whether nobody writes the file any more."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
