"""Changes in folders as Linux tells them (inotify): one thread for all folders of the process, which ends with the last of them.

What is told is that a name has come, or that a file which was open for writing was closed; never what becomes of a file meanwhile.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path

Told = Callable[[], None]

_CLOSE_WRITE, _MOVED_TO, _CREATE, _DELETE_SELF, _MOVE_SELF = 0x8, 0x80, 0x100, 0x400, 0x800
_UNMOUNT, _OVERFLOW, _IGNORED = 0x2000, 0x4000, 0x8000
_ONLYDIR = 0x01000000
_GONE = _DELETE_SELF | _MOVE_SELF | _UNMOUNT | _IGNORED
_MASK = _CLOSE_WRITE | _MOVED_TO | _CREATE | _DELETE_SELF | _MOVE_SELF | _ONLYDIR
_EVENT = struct.Struct("iIII")
_READ = 256 * 1024

LOCAL = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "tmpfs", "ramfs", "overlay"})
"""File systems that nobody else writes to: of what another machine does, inotify knows nothing."""


class Watch:
    """What one caller hears of a folder; `alive` until it is closed or the folder is gone (then it is told, once)."""

    def __init__(self, hub: _Hub, name: str | None, told: Told) -> None:
        self.alive = True
        self.name = name
        self.told = told
        self._hub = hub

    def close(self) -> None:
        self._hub.leave(self)


class _Hub:
    """One inotify instance and its thread."""

    def __init__(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._add, self._remove = libc.inotify_add_watch, libc.inotify_rm_watch
        self._descriptor = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._end, self._ender = os.pipe()
        self._watches: dict[int, set[Watch]] = {}
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="folder-watch", daemon=True)
        self._thread.start()

    def enter(self, folder: str, name: str | None, told: Told) -> Watch | None:
        with self._lock:
            number = self._add(self._descriptor, os.fsencode(folder), _MASK)
            if number < 0:
                return None  # it is not there, or there are more watches than the system allows
            made = Watch(self, name, told)
            self._watches.setdefault(number, set()).add(made)
            return made

    def leave(self, watch: Watch) -> None:
        with _LOCK:
            with self._lock:
                watch.alive = False
                for number, held in tuple(self._watches.items()):
                    held.discard(watch)
                    if not held:
                        del self._watches[number]
                        self._remove(self._descriptor, number)
            self.rest()

    def rest(self) -> None:
        """End the thread where nothing is watched. To be called under _LOCK."""
        if self._watches or _HUBS.get(os.getpid()) is not self:
            return
        del _HUBS[os.getpid()]
        os.write(self._ender, b"x")
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        poll.register(self._end, select.POLLIN)
        while self._end not in (ready := {found for found, _ in poll.poll()}):
            if self._descriptor in ready:
                for watch in self._heard(self._read()):
                    watch.told()
        for descriptor in (self._descriptor, self._end, self._ender):
            os.close(descriptor)

    def _read(self) -> bytes:
        try:
            return os.read(self._descriptor, _READ)
        except BlockingIOError:
            return b""

    def _heard(self, data: bytes) -> set[Watch]:
        """Whom the events concern, each once."""
        found: set[Watch] = set()
        at = 0
        with self._lock:
            while at < len(data):
                number, mask, _cookie, length = _EVENT.unpack_from(data, at)
                at += _EVENT.size + length
                if mask & _OVERFLOW:
                    found.update(*self._watches.values())
                    continue
                held = self._watches.get(number, set())
                if mask & _GONE:
                    self._watches.pop(number, None)
                    if not mask & (_IGNORED | _UNMOUNT):
                        self._remove(self._descriptor, number)
                    for watch in held:
                        watch.alive = False
                    found |= held
                    continue
                name = os.fsdecode(data[at - length : at].rstrip(b"\0"))
                found.update(w for w in held if w.name is None or w.name == name)
        return found


_HUBS: dict[int, _Hub] = {}  # by process: a forked one has no thread
_LOCK = threading.RLock()


def watch_folder(folder: Path, told: Told, name: str | None = None) -> Watch | None:
    """Have `told` called, from a thread of its own, when something may have changed in a folder, or a file of this name in it.

    None where it cannot be known: not on Linux, no such folder, a file system that others write to as well, too many watches.
    """
    if not sys.platform.startswith("linux") or not _is_local(folder):
        return None
    with _LOCK:
        hub = _HUBS.get(os.getpid())
        if hub is None:
            try:
                hub = _HUBS[os.getpid()] = _Hub()
            except OSError as reason:
                if reason.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSYS):
                    raise
                return None
        made = hub.enter(str(folder), name, told)
        hub.rest()
        return made


def _is_local(folder: Path) -> bool:
    return _kind_of(os.path.realpath(folder)) in LOCAL


def _kind_of(folder: str) -> str:
    """The type of the file system that a folder is on: of the innermost mount, and of several there the last one."""
    found = ("", "")
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
        for line in mounts:
            place, _, kind = line.partition(" - ")
            point = place.split()[4].replace("\\040", " ").rstrip("/")
            if (folder == point or folder.startswith(f"{point}/")) and len(point) >= len(found[0]):
                found = (point, kind.split()[0])
    return found[1]
