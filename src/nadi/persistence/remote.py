"""Revisions in what `pyarrow.fs` reaches: HDFS, object stores of the kinds of S3, Google and Azure.

`<url>/<app>/<revision>` is a manifest, `<url>/<app>/segments/<address>.zst` a blob, as in a folder (`nadi.persistence.files`); `<url>/<app>/turns/` has the
writer that writes (`nadi.persistence.remoteturns`).

A blob gets its name when it is whole, or what has the name is not the length that a manifest says; the manifest comes last. A writer whose turn has ended
meanwhile takes its manifest back. One that dies leaves the old revisions, and objects that nobody names: the next one removes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import unquote

from pyarrow import fs

from nadi.errors import NadiError, error
from nadi.io.remotefiles import shown, system_at
from nadi.io.remoteobjects import FAILURES, RemoteObjects
from nadi.persistence.contract import Sink, Writing, in_order
from nadi.persistence.files import file_name
from nadi.persistence.remoteturns import PATIENCE, Turn, Turns

SETTING = "state.persistence.config.location"
_READ = 1 << 20
_BLOB, _DAMAGED, _NEW = ".zst", ".damaged", ".new"


def store_at(url: str) -> RemoteRevisions:
    """The store at a URL. Errors: INVALID_SETTING."""
    system, path = system_at(url, SETTING)
    return RemoteRevisions(system, path, shown(url))


class RemoteRevisions:
    """A persistence store in the folder `path` of a file system. Implements `nadi.persistence.contract.Store`."""

    def __init__(self, system: Any, path: str, name: str = "", patience: float = PATIENCE) -> None:
        """`system` is a `pyarrow.fs.FileSystem`; a writer that says nothing for `patience` seconds is taken for dead."""
        self.objects = RemoteObjects(system)
        self._location = path.rstrip("/")
        self._name = name or path
        self._patience = patience

    @property
    def name(self) -> str:
        """The URL without what may be secret."""
        return self._name

    def folder(self, app: str) -> str:
        """Where all of an app is."""
        return f"{self._location}/{file_name(app)}"

    def apps(self) -> list[str]:
        with self.failing():
            found = [unquote(name) for name in self.objects.names(self._location, fs.FileType.Directory)]
        return sorted(app for app in found if self.names(app))

    def names(self, app: str) -> list[str]:
        with self.failing():
            return in_order(map(unquote, self.objects.names(self.folder(app))), app)

    def manifest(self, app: str, name: str) -> bytes | None:
        with self.failing():
            try:
                return b"".join(self.objects.pieces(f"{self.folder(app)}/{file_name(name)}", _READ))
            except FileNotFoundError:
                return None

    def blob(self, app: str, address: str) -> Iterator[bytes]:
        with self.failing():
            try:
                yield from self.objects.pieces(_blob(self.folder(app), address), _READ)
            except FileNotFoundError:
                return

    def set_aside(self, app: str, address: str) -> None:
        path = _blob(self.folder(app), address)
        with self.failing():
            if self.objects.length(path) is not None:
                self.objects.move(path, path.removesuffix(_BLOB) + _DAMAGED)

    @contextmanager
    def writing(self, app: str) -> Iterator[Writing]:
        folder = self.folder(app)
        with Turns(_Places(self, f"{folder}/turns"), self._patience).taken() as turn:
            writing = _Writing(self, app, folder, turn)
            try:
                yield writing
            except BaseException:
                with suppress(NadiError):  # what is left is for the next sweep
                    writing.undo()
                raise

    def close(self) -> None:
        """The client closes by itself."""

    @contextmanager
    def failing(self) -> Iterator[None]:
        """What the system refuses, by name."""
        try:
            yield
        except FAILURES as problem:
            raise error("PERSISTENCE_STORE_FAILED", store=self._name, reason=problem) from problem


class _Writing:
    """Implements `nadi.persistence.contract.Writing`."""

    def __init__(self, store: RemoteRevisions, app: str, folder: str, turn: Turn) -> None:
        self._store, self._objects, self._app, self._folder, self._turn = store, store.objects, app, folder, turn
        self._made: list[str] = []

    def undo(self) -> None:
        """Remove blobs that were written for nothing. Errors: PERSISTENCE_STORE_FAILED."""
        self._delete(self._made)

    def names(self) -> list[str]:
        return self._store.names(self._app)

    def manifest(self, name: str) -> bytes:
        return self._store.manifest(self._app, name) or b""

    def size(self, address: str) -> int | None:
        with self._store.failing():
            return self._objects.length(_blob(self._folder, address))

    @contextmanager
    def blob(self, address: str) -> Iterator[Sink]:
        path = _blob(self._folder, address)
        held = _Held()
        yield held
        with self._store.failing():
            if self._objects.length(path) is None:
                self._made.append(path)
                self._objects.put(path, held.pieces)
            else:  # other revisions may need it as it is
                self._objects.put(path + _NEW, held.pieces)
                self._objects.move(path + _NEW, path)

    def save(self, name: str, manifest: bytes) -> None:
        path = f"{self._folder}/{file_name(name)}"
        self._made.clear()  # if it is not known whether the manifest is there, its blobs have to stay
        with self._store.failing():
            self._objects.put(path, [manifest])
        if not self._turn.stands():
            with self._store.failing():
                self._objects.delete(path)
            raise self._late()

    def delete(self, names: Iterable[str]) -> None:
        self._delete([f"{self._folder}/{file_name(name)}" for name in names])

    def sweep(self, keep: frozenset[str]) -> None:
        wanted = {address + _BLOB for address in keep}
        segments = f"{self._folder}/segments"
        with self._store.failing():
            there = self._objects.names(segments)
        self._delete([f"{segments}/{name}" for name in there if name not in wanted])

    def _delete(self, paths: list[str]) -> None:
        """Another writer may need what this one does not know of: without the turn nothing is deleted."""
        if not paths:
            return
        if not self._turn.stands():
            raise self._late()
        with self._store.failing():
            self._objects.delete_all(paths)

    def _late(self) -> NadiError:
        reason = "this writer said nothing for too long, and another one took its turn"
        return error("PERSISTENCE_STORE_FAILED", store=self._store.name, reason=reason)


class _Held:
    """Bytes of a blob, which has a few MB: Arrow cannot give up a stream that is half written."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def write(self, data: bytes, /) -> int:
        self.pieces.append(data)
        return len(data)


class _Places:
    """Implements `nadi.persistence.remoteturns.Places` in a folder."""

    def __init__(self, store: RemoteRevisions, folder: str) -> None:
        self._store, self._objects, self._folder = store, store.objects, folder

    def put(self, name: str, content: bytes) -> None:
        with self._store.failing():
            self._objects.put(f"{self._folder}/{name}", [content])

    def names(self) -> list[str]:
        with self._store.failing():
            return self._objects.names(self._folder)

    def content(self, name: str) -> bytes | None:
        with self._store.failing():
            try:
                return b"".join(self._objects.pieces(f"{self._folder}/{name}", _READ))
            except FileNotFoundError:
                return None

    def delete(self, name: str) -> None:
        with self._store.failing():
            self._objects.delete(f"{self._folder}/{name}")


def _blob(folder: str, address: str) -> str:
    """Where a blob is. Nothing but an address is ever part of a path: who reads a manifest checks those in it (`nadi.persistence.pieces.check`)."""
    assert "/" not in address, address
    return f"{folder}/segments/{address}{_BLOB}"
