"""When each row was in its file: the folder of the outputs is watched with inotify, so that nothing has to be asked again and again."""

from __future__ import annotations

import ctypes
import os
import select
import struct
import threading
import time
from collections.abc import Collection
from pathlib import Path

import msgspec

_MODIFY, _CLOSE_WRITE, _MOVED_TO, _CREATE, _OVERFLOW = 0x2, 0x8, 0x80, 0x100, 0x4000
_EVENT = struct.Struct("iIII")
_BUFFER = 1 << 16

Place = tuple[int, int]
"""Number of the app, number of the event."""


class Row(msgspec.Struct):
    """What is read of a row."""

    id: int


class Message(msgspec.Struct):
    """A line of an output."""

    event: Row


class Outputs:
    """The rows that have come into `<number>.jsonl` files of a folder, each with its moment (`time.monotonic`); a row that came again keeps its first one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._watch = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        wanted = _MODIFY | _CLOSE_WRITE | _MOVED_TO | _CREATE
        if self._watch < 0 or self._libc.inotify_add_watch(self._watch, os.fsencode(folder), wanted) < 0:
            raise OSError(ctypes.get_errno(), "the folder cannot be watched", str(folder))
        self._read: dict[str, int] = {}
        self._came: dict[Place, float] = {}
        self._changed = threading.Condition()
        self._over = threading.Event()
        self._decode = msgspec.json.Decoder(Message).decode
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def __enter__(self) -> Outputs:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        os.close(self._watch)

    def came(self, place: Place) -> float | None:
        """When a row came; None where it has not."""
        with self._changed:
            return self._came.get(place)

    def missing(self, places: Collection[Place]) -> set[Place]:
        """Those that have not come."""
        with self._changed:
            return set(places) - self._came.keys()

    def wait(self, places: Collection[Place], within: float) -> bool:
        """Wait for some rows; whether all have come within so many seconds."""
        limit = time.monotonic() + within
        with self._changed:
            while set(places) - self._came.keys():
                left = limit - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def _listen(self) -> None:
        while not self._over.is_set():
            if select.select([self._watch], [], [], 0.1)[0]:
                now = time.monotonic()
                for name in self._names():
                    self._take(name, now)

    def _names(self) -> set[str]:
        """The files that have changed."""
        found: set[str] = set()
        data, at = os.read(self._watch, _BUFFER), 0
        while at < len(data):
            _, mask, _, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size + length
            if mask & _OVERFLOW:
                return {path.name for path in self._folder.glob("*.jsonl")}
            found.add(data[at - length : at].rstrip(b"\0").decode())
        return found

    def _take(self, name: str, now: float) -> None:
        stem, dot, ending = name.partition(".")
        if not stem.isdigit() or ending != "jsonl" or not dot:
            return
        try:
            with (self._folder / name).open("rb") as file:
                file.seek(self._read.get(name, 0))
                data = file.read()
        except FileNotFoundError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._read[name] = self._read.get(name, 0) + len(whole)
        events = [self._decode(line).event.id for line in whole.splitlines()]
        with self._changed:
            for event in events:
                self._came.setdefault((int(stem), event), now)
            self._changed.notify_all()
