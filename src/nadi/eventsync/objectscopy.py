"""The objects of a node, a folder: a copy has the same files by name and length. They are never replaced, so nothing else can differ.

The bytes of an `ObjectPut` do not go with the record: they are there, under the same name, before it is applied (`receive`). Files whose names begin with a dot
are being written.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

import msgspec

from nadi.config.ownership import OWN_FILE
from nadi.errors import error
from nadi.eventsync.contract import Keep
from nadi.io import durablefiles
from nadi.replica.contract import ObjectPut, ObjectsGone, Record

PIECE = 1024 * 1024  # bytes


class File(msgspec.Struct, frozen=True, tag=True):
    """The bytes of a file follow."""

    path: str
    length: int


class Part(msgspec.Struct, frozen=True, tag=True):
    """Some of them."""

    data: bytes


class Gone(msgspec.Struct, frozen=True, tag=True):
    """Files that the copy has and nobody needs."""

    paths: list[str]


_PIECES = msgspec.msgpack.Decoder(File | Part | Gone)


class ObjectsCopy:
    """Implements `nadi.eventsync.contract.Copy` for a folder. Errors of every method: OSError, DISK_FULL; COPY_DIFFERS from `apply` and `restore`."""

    kinds = (ObjectPut, ObjectsGone)

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        durablefiles.make_folder(folder)

    async def holds(self, record: Record) -> bool:
        """A put is whole before it is prepared; that something is kept for longer changes nothing."""
        return isinstance(record, ObjectsGone) or self._has(record)

    async def apply(self, record: Record) -> None:
        if isinstance(record, ObjectsGone):
            await asyncio.to_thread(self._remove, record.paths)
        elif not self._has(record):
            assert isinstance(record, ObjectPut)
            reason = f"{record.path} with {record.length} bytes did not come"
            raise error("COPY_DIFFERS", what="the objects", reason=reason)

    async def standing(self) -> bytes:
        return msgspec.msgpack.encode(await asyncio.to_thread(self._files))

    async def missing(self, standing: bytes) -> AsyncIterator[bytes]:
        theirs = msgspec.msgpack.decode(standing, type=dict[str, int])
        mine = await asyncio.to_thread(self._files)
        # of what the copy was sent meanwhile it did not tell
        yield msgspec.msgpack.encode(Gone(sorted(theirs.keys() - mine.keys())))
        for path, length in sorted(mine.items()):
            if theirs.get(path) != length:
                pieces = self._pieces(path)
                with suppress(FileNotFoundError):  # it was removed just now
                    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
                        yield piece

    async def restore(self, pieces: AsyncIterator[bytes], keep: Keep) -> None:
        """What is there and not at the active node goes: it belongs to a cut that nobody knows any more, and which the logs tell of."""
        writing: Receipt | None = None
        try:
            async for data in pieces:
                piece = _PIECES.decode(data)
                if isinstance(piece, Gone):
                    await asyncio.to_thread(self._remove, piece.paths)
                elif isinstance(piece, Part):
                    assert writing is not None
                    await asyncio.to_thread(writing.write, piece.data)
                else:
                    if writing is not None:
                        await asyncio.to_thread(writing.done)
                    writing = self.receive(piece.path, piece.length)
            if writing is not None:
                await asyncio.to_thread(writing.done)
        except BaseException:
            if writing is not None:
                writing.drop()
            raise

    def receive(self, path: str, length: int) -> Receipt:
        """A file that comes from the other node. Errors: COPY_DIFFERS, for a path that leaves the folder."""
        return Receipt(self._place(path), length)

    def place(self, path: str) -> Path:
        """Where an object is. Errors: COPY_DIFFERS, for a path that leaves the folder."""
        return self._place(path)

    def _pieces(self, path: str) -> Iterator[bytes]:
        with self._place(path).open("rb") as source:
            yield msgspec.msgpack.encode(File(path, os.fstat(source.fileno()).st_size))
            while data := source.read(PIECE):
                yield msgspec.msgpack.encode(Part(data))

    def _has(self, record: Record) -> bool:
        assert isinstance(record, ObjectPut)
        try:
            return self._place(record.path).stat().st_size == record.length
        except FileNotFoundError:
            return False

    def _files(self) -> dict[str, int]:
        """Length by path."""
        found: dict[str, int] = {}
        for folder, _, names in os.walk(self._folder):
            for name in names:
                if not name.startswith("."):
                    path = Path(folder) / name
                    with suppress(FileNotFoundError):  # it was removed just now
                        found[path.relative_to(self._folder).as_posix()] = path.stat().st_size
        return found

    def _remove(self, paths: Iterable[str]) -> None:
        for path in paths:
            durablefiles.remove(self._place(path))

    def _place(self, path: str) -> Path:
        parts = PurePosixPath(path).parts
        if not parts or path.startswith("/") or ".." in parts or "\0" in path:
            raise error("COPY_DIFFERS", what="the objects", reason=f"'{path[:100]}' is no name of an object")
        return self._folder.joinpath(*parts)


class Receipt:
    """A file that is written beside its place, and has its name when it is whole. Errors of every method: OSError, DISK_FULL."""

    def __init__(self, path: Path, length: int) -> None:
        durablefiles.make_folder(path.parent)
        self._path, self._length, self._written = path, length, 0
        self._temporary = path.with_name(f".{path.name}-{os.urandom(4).hex()}.part")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with durablefiles.room_for(path):
            self._descriptor = os.open(self._temporary, flags, OWN_FILE)
        self._is_open = True

    def write(self, data: bytes) -> None:
        with durablefiles.room_for(self._path):
            durablefiles.write_all(self._descriptor, data)
        self._written += len(data)

    def done(self) -> None:
        """All is there: durable when this returns. Errors also: COPY_DIFFERS, where it is not as long as was said."""
        if self._written != self._length:
            reason = f"{self._path.name} came with {self._written} of {self._length} bytes"
            raise error("COPY_DIFFERS", what="the objects", reason=reason)
        with durablefiles.room_for(self._path):
            durablefiles.sync(self._descriptor)
        self._close()
        durablefiles.rename(self._temporary, self._path)
        durablefiles.sync_folder(self._path.parent)

    def drop(self) -> None:
        """It does not come. Nothing happens where it has its name."""
        self._close()
        durablefiles.remove(self._temporary)

    def _close(self) -> None:
        if self._is_open:  # once: after that the number is that of somebody else's file
            self._is_open = False
            os.close(self._descriptor)
