"""What only the copy of a returning node had, until the active node has written it down: a file, so that a crash in between loses nothing.

An entry of the file is the length of its body (4 bytes), a check-sum of it (4), and the body: the body of a frame SURPLUS. A crash may leave a torn end, which
goes with the next entry: nothing of it was taken for kept, and its copy has it still. So what was kept just before a crash may be in the file twice.
"""

from __future__ import annotations

import os
import struct
import threading
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from nadi.eventsync.contract import Surplus
from nadi.io.durablefiles import append_durably, remove, room_for, write_after

TOGETHER = 1024 * 1024  # bytes of payloads in one entry
_HEAD = struct.Struct("!II")


class KeptSurplus:
    """All methods block; from any thread. Errors: OSError, DISK_FULL."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._end: int | None = None  # of what is whole; None: not looked at yet

    def add(self, found: Sequence[Surplus]) -> None:
        """Durable."""
        if not found:
            return
        entries = b"".join(_HEAD.pack(len(body), zlib.crc32(body)) + body for body in _bodies(found))
        with self._lock:
            if self._end is None:
                self._end = sum(_HEAD.size + len(body) for body in self.groups())
            if os.path.exists(self._path):
                with room_for(self._path):
                    write_after(self._path, self._end, entries)
            else:
                append_durably(self._path, entries)
            self._end += len(entries)

    def groups(self) -> Iterator[bytes]:
        """All of it, as bodies of frames, in order. To be read to its end before anything is added or cleared."""
        if not os.path.exists(self._path):
            return
        with self._path.open("rb") as file:
            while len(head := file.read(_HEAD.size)) == _HEAD.size:
                length, check = _HEAD.unpack(head)
                body = file.read(length)
                if len(body) < length or zlib.crc32(body) != check:
                    return
                yield body

    def clear(self) -> None:
        with self._lock:
            remove(self._path)
            self._end = 0


def _bodies(found: Sequence[Surplus]) -> Iterator[bytes]:
    group: list[Surplus] = []
    size = 0
    for each in found:
        group.append(each)
        size += len(each.payload)
        if size >= TOGETHER:
            yield msgspec.msgpack.encode(group)
            group, size = [], 0
    if group:
        yield msgspec.msgpack.encode(group)


def read_surplus(body: bytes) -> list[Surplus]:
    """Errors: msgspec.MsgspecError."""
    return msgspec.msgpack.decode(body, type=list[Surplus])
