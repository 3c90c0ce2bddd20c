"""A state log in a folder of which another node has a copy: an object is there, too, when it was put. Removals are sent along, and nobody waits for them.

An object is at the same place below the folder of objects at both nodes: `<app>/<what of it>/<name>`.
"""

from __future__ import annotations

import os
import queue
import shutil
import threading
from collections.abc import Iterable
from pathlib import Path

from nadi.errors import NadiError
from nadi.pipeline.statelog.folder import FolderStore
from nadi.replica import client
from nadi.replica.contract import ObjectPut, ObjectsGone

AT_ONCE = 10_000
"""Names in a record: one that has too many would be refused for ever, and each time with more of them."""


class CopiedFolderStore(FolderStore):
    """Implements `nadi.pipeline.statelog.store.ObjectStore`. Errors of `put` also: those of `nadi.replica.contract.Replica.prepare`."""

    def __init__(self, folder: Path, socket: Path) -> None:
        """`socket` is that of the event sync."""
        super().__init__(folder)
        self._socket = socket
        self._below = f"{folder.parent.name}/{folder.name}"

    def put(self, name: str, pieces: Iterable[bytes]) -> None:
        super().put(name, pieces)
        try:
            replica = client.blocking_replica(self._socket)
            replica.confirm(replica.prepare(ObjectPut(self._relative(name), self._path(name).stat().st_size)))
        except BaseException:
            super().delete([name])
            raise

    def delete(self, names: Iterable[str]) -> None:
        gone = list(names)
        super().delete(gone)
        if gone:
            _removals(self._socket).put([self._relative(name) for name in gone])

    def _relative(self, name: str) -> str:
        return f"{self._below}/{name}"


def remove_objects(folder: Path, socket: Path) -> None:
    """Remove the folder of an app below the folder of objects, at both nodes. Errors: OSError, FileNotFoundError; those of `Replica.prepare`."""
    if not folder.is_dir():
        raise FileNotFoundError(folder)
    paths = [path.relative_to(folder.parent).as_posix() for path in sorted(folder.rglob("*")) if path.is_file()]
    replica = client.blocking_replica(socket)
    ticket = replica.prepare(ObjectsGone(paths))
    shutil.rmtree(folder)
    replica.confirm(ticket)


_QUEUES: dict[tuple[Path, int], queue.SimpleQueue[list[str]]] = {}


def _removals(socket: Path) -> queue.SimpleQueue[list[str]]:
    """What takes removals to the other node, in a thread of this process."""
    key = (socket, os.getpid())
    if key not in _QUEUES:
        waiting: queue.SimpleQueue[list[str]] = queue.SimpleQueue()
        if _QUEUES.setdefault(key, waiting) is waiting:
            threading.Thread(target=_remove, args=(socket, waiting), name="removals", daemon=True).start()
    return _QUEUES[key]


def _remove(socket: Path, waiting: queue.SimpleQueue[list[str]]) -> None:
    left: list[str] = []
    while True:
        left += waiting.get()
        while not waiting.empty():
            left += waiting.get()
        try:
            replica = client.blocking_replica(socket)
            while left:
                replica.confirm(replica.prepare(ObjectsGone(left[:AT_ONCE])))
                del left[:AT_ONCE]
        except NadiError:
            continue  # they go with the next ones: until then, or until the next catch-up, they only take room
