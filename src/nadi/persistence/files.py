"""Revisions in files: `<location>/<app>/<revision>` is a manifest, `<location>/<app>/segments/<address>.zst` a blob.

Folders and files are for this user only; a folder of an app that others own or may write to is neither read nor written (FOLDER_NOT_PRIVATE): what is in it
becomes the state of an app.

Each file is written beside its place, synced, and renamed into it; the manifest comes last, after the folder of the blobs is synced. A writer that dies leaves
the old revisions and files that nobody names; the next one removes them.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote, unquote

from nadi.config.ownership import OWN_FILE, OWN_FOLDER, check_own, own_file
from nadi.errors import error
from nadi.persistence.contract import Sink, Writing, in_order

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_READ = 1 << 20
BLOB, DAMAGED = ".zst", ".damaged"


class FileStore:
    """A persistence store in a folder."""

    def __init__(self, location: Path) -> None:
        self._location = location

    @property
    def name(self) -> str:
        """The folder."""
        return str(self._location)

    def _folder(self, app: str) -> Path:
        """The folder of an app. Errors: FOLDER_NOT_PRIVATE."""
        folder = self._location / file_name(app)
        check_own(folder)
        check_own(folder / "segments")
        return folder

    def apps(self) -> list[str]:
        with _failing(self.name):
            if not self._location.is_dir():
                return []
            found = [unquote(path.name) for path in self._location.iterdir() if path.is_dir()]
        return sorted(app for app in found if self.names(app))

    def names(self, app: str) -> list[str]:
        with _failing(self.name):
            folder = self._folder(app)
            return in_order((unquote(path.name) for path in folder.iterdir()), app) if folder.is_dir() else []

    def manifest(self, app: str, name: str) -> bytes | None:
        with _failing(self.name):
            try:
                return (self._folder(app) / file_name(name)).read_bytes()
            except FileNotFoundError:
                return None

    def blob(self, app: str, address: str) -> Iterator[bytes]:
        with _failing(self.name):
            try:
                file = self.place(self._folder(app), address).open("rb")
            except FileNotFoundError:
                return
            with file:
                while data := file.read(_READ):
                    yield data

    def set_aside(self, app: str, address: str) -> None:
        with _failing(self.name):
            path = self.place(self._folder(app), address)
            if path.exists():
                path.rename(path.with_suffix(DAMAGED))

    @contextmanager
    def writing(self, app: str) -> Iterator[Writing]:
        folder = self._folder(app)
        with _failing(self.name):
            _make_folder(folder / "segments")
            lock = open(folder / ".lock", "a", opener=own_file)  # noqa: SIM115 (closed below)
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            turn = _Turn(self, app, folder)
            try:
                yield turn
            except BaseException:
                turn.undo()
                raise

    def close(self) -> None:
        """Nothing is open."""

    # ---- where another store keeps what it has otherwise

    def place(self, folder: Path, address: str) -> Path:
        """Where a blob is, in the folder of an app, or would be."""
        return folder / "segments" / (_checked(address) + BLOB)

    def new_place(self, folder: Path, address: str) -> Path:
        """Where a new blob goes."""
        return self.place(folder, address)

    def wanted(self, names: Iterable[str], keep: frozenset[str]) -> set[str]:
        """Those of the names of blobs that stay, where these addresses are needed."""
        return {address + BLOB for address in keep}.intersection(names)

    def came(self, path: Path) -> None:
        """A file is there, whole; its name is durable when its folder is synced."""

    def went(self, paths: Sequence[Path]) -> None:
        """Files are not there any more."""


class _Turn:
    """Implements `nadi.persistence.contract.Writing`."""

    def __init__(self, store: FileStore, app: str, folder: Path) -> None:
        self._store, self._app, self._folder = store, app, folder
        self._made: list[Path] = []

    def undo(self) -> None:
        """Give back the room that blobs took for nothing; a disk that refuses this leaves it to the next sweep."""
        for path in self._made:
            with suppress(OSError):
                path.unlink(missing_ok=True)
        self._store.went(self._made)

    def names(self) -> list[str]:
        return self._store.names(self._app)

    def manifest(self, name: str) -> bytes:
        return self._store.manifest(self._app, name) or b""

    def size(self, address: str) -> int | None:
        try:
            return self._store.place(self._folder, address).stat().st_size
        except FileNotFoundError:
            return None

    @contextmanager
    def blob(self, address: str) -> Iterator[Sink]:
        path = self._store.new_place(self._folder, address)
        if not path.exists():
            self._made += [path, _temporary(path)]
        with _written(path) as sink:
            yield sink
        with _failing(self._store.name):
            self._store.came(path)

    def save(self, name: str, manifest: bytes) -> None:
        with _failing(self._store.name):
            sync_folder(self._folder / "segments")
        path = self._folder / file_name(name)
        self._made.append(_temporary(path))
        with _written(path) as sink:
            sink.write(manifest)
        self._made.clear()
        with _failing(self._store.name):
            sync_folder(self._folder)
            try:
                self._store.came(path)
            except BaseException:
                path.unlink(missing_ok=True)
                raise

    def delete(self, names: Iterable[str]) -> None:
        paths = [self._folder / file_name(name) for name in names]
        with _failing(self._store.name):
            for path in paths:
                path.unlink(missing_ok=True)
            sync_folder(self._folder)
        self._store.went(paths)

    def sweep(self, keep: frozenset[str]) -> None:
        with _failing(self._store.name):
            there = {path.name: path for path in (self._folder / "segments").iterdir()}
            gone = [there[name] for name in sorted(there.keys() - self._store.wanted(there, keep))]
            for path in gone:
                path.unlink()
            self._store.went(gone)
            for path in self._folder.glob(".*.new"):
                path.unlink()


def file_name(name: str) -> str:
    """A name as that of a file: `/` and what else may not stand there in hexadecimal."""
    made = quote(name, safe=" ()[]{}!@#$&+,;=~")
    return made.replace(".", "%2E") if made.startswith(".") else made


def _checked(address: str) -> str:
    """Nothing but an address is ever part of a path: who reads a manifest checks those in it (`nadi.persistence.pieces.check`)."""
    assert "/" not in address, address
    return address


def _temporary(path: Path) -> Path:
    """Where a file is written first. There is one writer at a time: the next one takes it over."""
    return path.with_name(f".{path.name}.new")


class _File:
    """A file that is being written."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def write(self, data: bytes, /) -> int:
        view = memoryview(data)
        while view:
            view = view[os.write(self.descriptor, view) :]
        return len(data)


@contextmanager
def _written(path: Path) -> Iterator[_File]:
    """A file that is there, whole and durable, once this ends without an error; but for its name, which is durable when its folder is synced."""
    temporary = _temporary(path)
    with _failing(str(path)):
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, OWN_FILE)
        try:
            yield _File(descriptor)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(OWN_FOLDER, exist_ok=True)
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _failing(where: str) -> Iterator[None]:
    """What the disk refuses, by name."""
    try:
        yield
    except OSError as problem:
        if problem.errno in _FULL:
            raise error("DISK_FULL", path=where) from problem
        raise error("PERSISTENCE_STORE_FAILED", store=where, reason=problem.strerror or str(problem)) from problem
