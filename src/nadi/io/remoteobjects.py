"""Objects of a file system of `pyarrow.fs`: each is written whole under its own name.

An object is there when its stream was closed without an error. Arrow has no way to give a stream up: closed after an error it may publish a torn object
(apache/arrow#40502). So its length is asked for after the close; where anything fails it is deleted. What still slips through must be known to nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pyarrow as pa
from pyarrow import fs

from nadi.io.durablefiles import room_for

BUFFER = 8 * 1024 * 1024
"""Bytes that are handed to a stream at once: every write may be a request."""
AT_ONCE = 16
"""Requests side by side: these systems have one for each object."""

FAILURES = (OSError, pa.ArrowException)
"""What a file system raises."""


class RemoteObjects:
    """Objects by their paths. All methods raise what the file system does (`FAILURES`)."""

    def __init__(self, system: Any) -> None:
        """`system` is a `pyarrow.fs.FileSystem`."""
        self._system = system

    def put(self, path: str, pieces: Iterable[bytes]) -> int:
        """Write an object, in the place of one that is there; -> how many bytes it has."""
        try:
            with room_for(path):  # type: ignore[arg-type]  # only shown
                written = self._write(path, pieces)
                found = self.length(path)
                if found != written:
                    raise OSError(f"{path} has {found} bytes of {written} that were written")
        except BaseException:
            with suppress(*FAILURES):
                self.delete(path)
            raise
        return written

    def exists(self, path: str) -> bool:
        """As `length`, in one request less where nothing is there: that asks whether it is a folder then."""
        try:
            with self._system.open_input_file(path):
                return True
        except FileNotFoundError:
            return False

    def length(self, path: str) -> int | None:
        """How many bytes an object has; None where there is none."""
        info = self._system.get_file_info(path)
        if info.type == fs.FileType.NotFound:
            return None
        size: int = info.size
        return size

    def part(self, path: str, offset: int, length: int) -> bytes:
        """Some of an object, less where it ends. Raises FileNotFoundError."""
        with self._system.open_input_file(path) as source:
            found: bytes = source.read_at(length, offset) if offset < source.size() else b""
        return found

    def pieces(self, path: str, step: int) -> Iterator[bytes]:
        """All of an object, so many bytes at a time. Raises FileNotFoundError."""
        with self._system.open_input_file(path) as source:
            while data := source.read(step):
                yield bytes(data)

    def names(self, folder: str, kind: fs.FileType = fs.FileType.File) -> list[str]:
        """The names of what is in a folder, in order; none where there is no folder."""
        found = self._system.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        return sorted(info.base_name for info in found if info.type == kind)

    def move(self, source: str, target: str) -> None:
        """Give an object another name, in the place of one that has it."""
        try:
            self._system.move(source, target)
        except OSError:
            if self.length(target) is None or self.length(source) is None:
                raise
            self.delete(target)  # HDFS does not replace it
            self._system.move(source, target)

    def delete_all(self, paths: Iterable[str]) -> None:
        """Side by side; what is gone already is no error."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for done in [pool.submit(self.delete, path) for path in paths]:
                done.result()

    def delete(self, path: str) -> None:
        """What is gone already is no error."""
        try:
            self._system.delete_file(path)
        except FileNotFoundError:
            return
        except OSError:
            if self.length(path) is None:  # some systems say it in other words
                return
            raise

    def _write(self, path: str, pieces: Iterable[bytes]) -> int:
        written = 0
        out = self._open(path)
        try:
            for part in _gathered(pieces):
                out.write(part)
                written += len(part)
        except BaseException:
            # not as if it were whole: what the close publishes is deleted
            with suppress(*FAILURES):
                out.close()
            raise
        out.close()
        return written

    def _open(self, path: str) -> Any:
        try:
            return self._stream(path)
        except FileNotFoundError:  # a system with folders, which object stores do without
            self._system.create_dir(path.rpartition("/")[0], recursive=True)
            return self._stream(path)

    def _stream(self, path: str) -> Any:
        return self._system.open_output_stream(
            path, compression=None
        )  # else a name that ends with `.zst` has it compress


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
