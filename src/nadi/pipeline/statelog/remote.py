"""A state log in what `pyarrow.fs` reaches: HDFS, object stores of the kinds of S3, Google and Azure.

An object is written under its own name and is there when its stream was closed without an error. Arrow has no way to give a stream up: closed after an error
it may publish a torn object (apache/arrow#40502). So its length is asked for after the close; where anything fails it is deleted. What still slips through is
known to no commit record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
from pyarrow import fs

from nadi.errors import NadiError, error
from nadi.io.remotefiles import shown, system_at
from nadi.io.staging import room_for

BUFFER = 8 * 1024 * 1024
"""Bytes that are handed to a stream at once: every write may be a request."""


def store_at(url: str) -> RemoteStore:
    """The store at a URL. Errors: INVALID_SETTING."""
    system, path = system_at(url)
    return RemoteStore(system, path, shown(url))


class RemoteStore:
    """Implements `nadi.pipeline.statelog.store.ObjectStore` in the folder `path` of a file system."""

    ahead = 16
    forks = False  # the clients have threads

    def __init__(self, system: Any, path: str, name: str = "") -> None:
        """`system` is a `pyarrow.fs.FileSystem`."""
        self._system = system
        self._folder = path.rstrip("/")
        self._name = name or path

    @property
    def name(self) -> str:
        return self._name

    def put(self, name: str, pieces: Iterable[bytes]) -> None:
        path = self._path(name)
        with self._failing(FileExistsError):
            if self._exists(path):
                raise FileExistsError(f"{path} exists")
            try:
                with room_for(path):  # type: ignore[arg-type]  # only shown
                    written = self._write(path, pieces)
                    found = self._length(path)
                    if found != written:
                        raise OSError(f"{path} has {found} bytes of {written} that were written")
            except BaseException:
                self._give_up(path)
                raise

    def get(self, name: str, offset: int, length: int) -> bytes:
        with self._failing(FileNotFoundError), self._system.open_input_file(self._path(name)) as source:
            found: bytes = source.read_at(length, offset) if offset < source.size() else b""
        return found

    def list(self, prefix: str = "") -> list[str]:
        with self._failing():
            found = self._system.get_file_info(fs.FileSelector(self._folder, allow_not_found=True))
        names = (info.base_name for info in found if info.type == fs.FileType.File)
        return sorted(name for name in names if name.startswith(prefix))

    def delete(self, names: Iterable[str]) -> None:
        """Side by side: these systems have one request for each."""
        with self._failing(), ThreadPoolExecutor(self.ahead) as pool:
            for done in [pool.submit(self._delete, self._path(name)) for name in names]:
                done.result()

    def sweep(self) -> None:
        """Nothing lies beside the objects: torn ones have names like others."""

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def _exists(self, path: str) -> bool:
        """As `_length`, in one request less where nothing is there: that asks whether it is a folder then."""
        try:
            with self._system.open_input_file(path):
                return True
        except FileNotFoundError:
            return False

    def _length(self, path: str) -> int | None:
        info = self._system.get_file_info(path)
        if info.type == fs.FileType.NotFound:
            return None
        size: int = info.size
        return size

    def _write(self, path: str, pieces: Iterable[bytes]) -> int:
        written = 0
        out = self._open(path)
        try:
            for part in _gathered(pieces):
                out.write(part)
                written += len(part)
        except BaseException:
            # not as if it were whole: what the close publishes is deleted
            with suppress(OSError, pa.ArrowException):
                out.close()
            raise
        out.close()
        return written

    def _open(self, path: str) -> Any:
        try:
            return self._system.open_output_stream(path)
        except FileNotFoundError:  # a system with folders, which object stores do without
            self._system.create_dir(self._folder, recursive=True)
            return self._system.open_output_stream(path)

    def _give_up(self, path: str) -> None:
        with suppress(OSError, pa.ArrowException, NadiError):
            self._delete(path)

    def _delete(self, path: str) -> None:
        try:
            self._system.delete_file(path)
        except FileNotFoundError:
            return
        except OSError:
            if self._length(path) is None:  # some systems say it in other words
                return
            raise

    @contextmanager
    def _failing(self, passing: type[OSError] | tuple[()] = ()) -> Iterator[None]:
        """Turns what the system says into STATE_LOG_FAILED, but for what is the caller's to hear."""
        try:
            yield
        except passing:
            raise
        except (OSError, pa.ArrowException) as reason:
            raise error("STATE_LOG_FAILED", store=self._name, reason=reason) from reason


def _gathered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Pieces in larger parts, as they come."""
    held = bytearray()
    for piece in pieces:
        if not held and len(piece) >= BUFFER:
            yield piece
            continue
        held += piece
        if len(held) >= BUFFER:
            yield bytes(held)
            held.clear()
    if held:
        yield bytes(held)
