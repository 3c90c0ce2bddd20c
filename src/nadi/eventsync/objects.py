"""Objects on their way from folder to folder: read in parts at the active node, written beside their place at the passive one, synced, and renamed into it."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from nadi.config.ownership import OWN_FILE
from nadi.eventsync.contract import SessionOver
from nadi.eventsync.wire import NUMBER, STEP, Kind, Wire
from nadi.io.durablefiles import make_folder, remove, rename, room_for, sync, sync_folder, write_all
from nadi.replica.contract import ObjectPut

TOGETHER = 16  # files on their way
SYNCED = 8 * 1024 * 1024  # bytes after which a large file is synced, so that others who sync do not wait for all of it


def path_in(folder: Path, path: str) -> Path:
    """Where an object lies. Errors: ValueError, for a path that leads out of the folder, or is the name of no object.

    >>> path_in(Path("/state"), "app/o-1")
    PosixPath('/state/app/o-1')
    >>> path_in(Path("/state"), "app/../../x")
    Traceback (most recent call last):
    ValueError: 'app/../../x' cannot be the path of an object
    """
    parts = path.split("/")
    if any(not part or part.startswith(".") or "\0" in part for part in parts):
        raise ValueError(f"{path!r} cannot be the path of an object")
    return folder.joinpath(*parts)


class ObjectSender:
    """Sends files over a connection, several beside each other, part by part in turn, so that a small one does not wait for a large one."""

    def __init__(self, folder: Path, wire: Wire) -> None:
        self._folder = folder
        self._wire = wire
        self._turn = asyncio.Lock()  # fair
        self._together = asyncio.Semaphore(TOGETHER)
        self._stored: dict[int, asyncio.Future[None]] = {}

    async def send(self, number: int, record: ObjectPut) -> None:
        """Returns when the other end has the file durably. A file that is not there any more is not needed. Errors: SessionOver, OSError, ValueError."""
        async with self._together:
            await self._send(number, record)

    async def _send(self, number: int, record: ObjectPut) -> None:
        path = path_in(self._folder, record.path)
        loop = asyncio.get_running_loop()
        try:
            descriptor = await loop.run_in_executor(None, os.open, path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        stored = self._stored[number] = loop.create_future()
        try:
            await self._say(Kind.OBJECT, NUMBER.pack(number), msgspec.msgpack.encode(record))
            at = 0
            while at < record.length:
                part = await loop.run_in_executor(None, os.pread, descriptor, min(STEP, record.length - at), at)
                if not part:
                    raise OSError(f"{path} has {at:,} bytes, not {record.length:,}")
                await self._say(Kind.PART, NUMBER.pack(number), part)
                at += len(part)
            await stored
        finally:
            os.close(descriptor)
            del self._stored[number]

    def stored(self, number: int) -> None:
        """The other end says so."""
        waiting = self._stored.get(number)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def over(self, reason: SessionOver) -> None:
        """The connection broke: whoever waits gets the reason."""
        for waiting in self._stored.values():
            if not waiting.done():
                waiting.set_exception(reason)
                waiting.exception()  # whoever is still sending hears it from the connection, and does not wait any more

    async def _say(self, kind: Kind, *body: bytes) -> None:
        async with self._turn:
            self._wire.say(kind, *body)
            await self._wire.drained()


class ObjectReceiver:
    """Writes what `ObjectSender` sends. `stored` is called with the number of each file that is durable; `failed` with why one cannot be."""

    def __init__(
        self, folder: Path, stored: Callable[[int], object], failed: Callable[[BaseException], object]
    ) -> None:
        self._folder = folder
        self._stored, self._failed = stored, failed
        self._files: dict[int, _Incoming] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def begin(self, body: bytes) -> None:
        """Errors: SessionOver, OSError, DISK_FULL."""
        number, record = _number_of(body), body[NUMBER.size :]
        try:
            put = msgspec.msgpack.decode(record, type=ObjectPut)
            path = path_in(self._folder, put.path)
        except (msgspec.MsgspecError, ValueError) as reason:
            raise SessionOver(f"the partner sends no object: {reason}") from reason
        if number in self._files:
            raise SessionOver(f"the partner sends two objects as {number}")
        run = asyncio.get_running_loop().run_in_executor
        self._files[number] = await run(None, _Incoming, path, put.length)
        if put.length == 0:
            self._end(number)

    async def part(self, body: bytes) -> None:
        """Errors: SessionOver, OSError, DISK_FULL."""
        number = _number_of(body)
        file = self._files.get(number)
        if file is None:
            raise SessionOver(f"the partner sends a part of no object: {number}")
        await asyncio.get_running_loop().run_in_executor(None, file.write, body[NUMBER.size :])
        if file.missing == 0:
            self._end(number)

    async def close(self) -> None:
        """What is not whole goes."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        for file in self._files.values():
            file.drop()
        self._files.clear()

    def _end(self, number: int) -> None:
        task = asyncio.get_running_loop().create_task(self._keep(number, self._files.pop(number)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _keep(self, number: int, file: _Incoming) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(None, file.keep)
        except Exception as reason:
            self._failed(reason)
        else:
            self._stored(number)


class _Incoming:
    """A file that is being written. All methods block. The name and the lock are those by which a `FolderStore` knows files of writers that died."""

    def __init__(self, path: Path, length: int) -> None:
        self._path = path
        self._beside = path.with_name(f".{path.name}-{os.urandom(4).hex()}.part")
        self.missing = length
        self._waiting = 0
        with room_for(path):
            make_folder(path.parent)
            self._descriptor = os.open(self._beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OWN_FILE)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def write(self, part: bytes) -> None:
        if len(part) > self.missing:
            raise SessionOver(f"the partner sends more of {self._path.name} than it said")
        with room_for(self._path):
            write_all(self._descriptor, part)
            self.missing -= len(part)
            self._waiting += len(part)
            if self._waiting >= SYNCED:
                sync(self._descriptor)
                self._waiting = 0

    def keep(self) -> None:
        try:
            with room_for(self._path):
                sync(self._descriptor)
                rename(self._beside, self._path)
                sync_folder(self._path.parent)
        finally:
            os.close(self._descriptor)

    def drop(self) -> None:
        os.close(self._descriptor)
        remove(self._beside)


def _number_of(body: bytes) -> int:
    if len(body) < NUMBER.size:
        raise SessionOver("the partner sends a frame without a number")
    number: int = NUMBER.unpack_from(body)[0]
    return number
