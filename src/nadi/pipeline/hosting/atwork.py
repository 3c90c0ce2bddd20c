"""What a host is at, noted in a file of its folder (`<index>.work`), so that whoever sees it die knows which apps were at work just then.

The file is only for that: nobody reads it while the host lives, and no power cut matters. One write of some bytes per beginning and end of a cut.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

_LENGTH = struct.Struct("!I")
_PACK = msgspec.msgpack.Encoder().encode
_UNPACK = msgspec.msgpack.Decoder(tuple[int, list[str]]).decode


KERNEL = "kernel of "
MESSAGE = "message of "


def kernel_of(app: str, cut: int | str = "", ask: str = "") -> str:
    """What is noted, besides the app, while a kernel of it computes: a cut that waits for a sink is at work, too, but comes to an end. `ask` is the
    request that it computes for."""
    return f"{KERNEL}{app} at {cut}" + (f": {ask}" if ask else "")


def app_of(note: str) -> str:
    """The id of the app that a note is of.

    >>> [app_of(note) for note in ("a", kernel_of("a", 7, "2.1"), message_of("a", 7, 0, 1, 12))]
    ['a', 'a', 'a']
    """
    return cut_of(note).rpartition(" at ")[0] or note


def cut_of(note: str) -> str:
    """App and cut that a kernel is at: what stands between the first "of" and the request or the message; "" where a note is of an app only."""
    return note.partition(" of ")[2].partition(":")[0] if note.startswith((KERNEL, MESSAGE)) else ""


def message_of(app: str, cut: int, ordinal: int, partition: int, position: int) -> str:
    """What is noted while a kernel is at one message of a cut.

    >>> noted_message(["a", message_of("a", 7, 0, 1, 12)], "a", 7), noted_message(["a"], "a", 7)
    (((0, 1), 12), None)
    """
    return f"{MESSAGE}{app} at {cut}: {ordinal} {partition} {position}"


def noted_message(notes: Iterable[str], app: str, cut: int) -> tuple[tuple[int, int], int] | None:
    """Input partition and position of the message that a kernel was at."""
    head = f"{MESSAGE}{app} at {cut}: "
    for note in notes:
        if note.startswith(head):
            ordinal, partition, position = map(int, note.removeprefix(head).split())
            return (ordinal, partition), position
    return None


def work_file(folder: Path, index: int) -> Path:
    """Where host `index` notes it."""
    return folder / f"{index}.work"


class AtWork:
    """The notes of this process.

    >>> import tempfile
    >>> file = work_file(Path(tempfile.mkdtemp()), 0)
    >>> notes = AtWork(file)
    >>> with notes.during("prices"), notes.during("sums"):
    ...     read_at_work(file, os.getpid())
    ('prices', 'sums')
    >>> read_at_work(file, os.getpid()), read_at_work(file, 1)
    ((), ())
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._count: dict[str, int] = {}
        self._lock = threading.Lock()
        self._write()

    @contextmanager
    def during(self, app: str) -> Iterator[None]:
        """The app with this id is at work."""
        with self._lock:
            self._count[app] = self._count.get(app, 0) + 1
            self._write()
        try:
            yield
        finally:
            with self._lock:
                self._count[app] -= 1
                if not self._count[app]:
                    del self._count[app]
                self._write()

    def _write(self) -> None:
        """In one call, so that who dies has noted all or nothing."""
        packed = _PACK((os.getpid(), sorted(self._count)))
        os.pwrite(self._file, _LENGTH.pack(len(packed)) + packed, 0)


def read_at_work(path: Path, pid: int) -> tuple[str, ...]:
    """The ids of the apps that process `pid` was at when it died; none where another host has come since."""
    wrote, apps = _read(path)
    return tuple(apps) if wrote == pid else ()


def fatal_requests(path: Path) -> frozenset[str]:
    """The requests that kernels computed for when the host before this one died. None where it has left in peace.

    >>> import tempfile
    >>> file = work_file(Path(tempfile.mkdtemp()), 0)
    >>> with AtWork(file).during(kernel_of("a", 7, "2.1")):
    ...     fatal_requests(file)
    frozenset({'2.1'})
    >>> fatal_requests(file)
    frozenset()
    """
    return frozenset(note.rpartition(": ")[2] for note in _read(path)[1] if note.startswith(KERNEL) and ": " in note)


def _read(path: Path) -> tuple[int, list[str]]:
    """Who wrote, and what; (0, []) where nothing was noted."""
    try:
        noted = path.read_bytes()
    except FileNotFoundError:
        return 0, []
    if len(noted) < _LENGTH.size:
        return 0, []
    (size,) = _LENGTH.unpack_from(noted)
    return _UNPACK(noted[_LENGTH.size : _LENGTH.size + size])
