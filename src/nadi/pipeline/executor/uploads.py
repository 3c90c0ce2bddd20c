"""Objects that a forked child has written beside the host's sockets, on their way into a store whose client a child may not use: object stores have threads and
locks in their clients, which do not live on behind a fork. The host puts them there, in a thread."""

from __future__ import annotations

import shutil
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from nadi.pipeline.statelog.store import ObjectStore

BLOCK = 4 * 1024 * 1024  # bytes that are read at once

Paced = Callable[[Iterable[bytes]], Iterable[bytes]]


class Upload:
    """Puts the files of a folder into a store under their names, from its making on; then the folder goes. `close` gives it up."""

    def __init__(self, folder: Path, store: ObjectStore, paced: Paced) -> None:
        self._folder = folder
        self._store = store
        self._paced = paced
        self._given_up = threading.Event()
        self.failed = False
        self._thread = threading.Thread(target=self._run, name="upload", daemon=True)
        self._thread.start()

    @property
    def over(self) -> bool:
        """Whether all are there, or one of them could not be put (`failed`)."""
        return not self._thread.is_alive()

    def close(self) -> None:
        """Give it up; returns at once. What is there already is swept by the next run."""
        self._given_up.set()

    def _run(self) -> None:
        try:
            for path in sorted(self._folder.iterdir()):
                self._store.put(path.name, self._paced(self._blocks(path)))
        except _GivenUp:
            self.failed = True
        except Exception:  # whoever waits looks at `failed`, and makes another base
            traceback.print_exc()
            self.failed = True
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _blocks(self, path: Path) -> Iterator[bytes]:
        with path.open("rb") as source:
            while block := source.read(BLOCK):
                if self._given_up.is_set():
                    raise _GivenUp
                yield block


class _GivenUp(Exception):
    """Nobody wants it any more."""
