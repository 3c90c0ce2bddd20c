"""Bytes on disk that survive a crash: the few steps that everything durable here is made of.

Each primitive (`write`, `sync`, `rename`, `truncate`, `remove`) is one effect that happens or does not; the compound ones are written so that a
crash between any two leaves the old or the new content. A full disk is DISK_FULL, whichever step meets it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from nadi.config.ownership import OWN_FILE, OWN_FOLDER
from nadi.errors import error
from nadi.received import read_json

OUTPUT_FILE, OUTPUT_FOLDER = 0o666, 0o777
"""What users get of their apps is made with their own mask; all else is private."""
_READ = 65_536  # bytes
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write(descriptor: int, data: bytes) -> int:
    """Writes some of the bytes; how many comes back."""
    return os.write(descriptor, data)


def sync(descriptor: int) -> None:
    os.fsync(descriptor)


def rename(source: Path, target: Path) -> None:
    os.replace(source, target)


def truncate(descriptor: int, length: int) -> None:
    os.ftruncate(descriptor, length)


def remove(path: Path) -> None:
    path.unlink(missing_ok=True)


@contextmanager
def room_for(path: Path) -> Iterator[None]:
    """Turns a full disk into DISK_FULL."""
    try:
        yield
    except OSError as e:
        if e.errno not in _FULL:
            raise
        raise error("DISK_FULL", path=path) from e


def read_whole(path: Path) -> bytes:
    """The content of a small file. Python's own way of opening one asks the system nine things instead of four, which counts where a node commits hundreds of
    cuts a second."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(descriptor, _READ):
            parts.append(part)
            if len(part) < _READ:  # a file, so there is no more
                break
        return parts[0] if len(parts) == 1 else b"".join(parts)
    finally:
        os.close(descriptor)


def read_note(path: Path, of: Any = Any) -> Any:
    """The value in a small file of JSON, as nadi itself writes it. Errors: STATE_FILE_NOT_READABLE, FileNotFoundError."""
    try:
        return read_json(read_whole(path), of)
    except msgspec.DecodeError as problem:
        raise error("STATE_FILE_NOT_READABLE", path=path, reason=problem) from problem


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[write(descriptor, view) :]  # type: ignore[arg-type]  # os.write takes any buffer


def sync_folder(folder: Path) -> None:
    """Makes names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path, mode: int = OWN_FOLDER) -> None:
    """A folder with all above it, durable."""
    if folder.is_dir():
        return
    make_folder(folder.parent, mode)
    with room_for(folder):
        folder.mkdir(mode, exist_ok=True)
        sync_folder(folder.parent)


def write_atomically(path: Path, data: bytes, mode: int = OWN_FILE) -> None:
    """The file has the old content or all of the new, whatever happens and whoever else writes it; after the call the new is durable."""
    temporary = path.with_name(f".{path.name}-{os.getpid()}-{os.urandom(4).hex()}")
    with room_for(path):
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            try:
                write_all(descriptor, data)
                sync(descriptor)
            finally:
                os.close(descriptor)
            rename(temporary, path)
            sync_folder(path.parent)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise


def write_after(path: Path, end: int, data: bytes) -> None:
    """Adds to a file after the `end` bytes that are whole: what an attempt that was cut short has left behind them goes. Durable after the call."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        if os.fstat(descriptor).st_size != end:
            truncate(descriptor, end)
        os.lseek(descriptor, end, os.SEEK_SET)
        write_all(descriptor, data)
        sync(descriptor)
    finally:
        os.close(descriptor)


def append_durably(path: Path, data: bytes) -> None:
    """Adds to the end of a file that one process writes; a torn end after a crash is for the reader to ignore."""
    with room_for(path):
        fresh = not path.exists()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, OWN_FILE)
        try:
            write_all(descriptor, data)
            sync(descriptor)
        finally:
            os.close(descriptor)
        if fresh:
            sync_folder(path.parent)
