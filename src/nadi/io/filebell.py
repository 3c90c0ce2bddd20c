"""The doorbell of what is read from a folder: rung by Linux where it can be, else the folder is looked at again and again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nadi.io.folderwatch import Watch, watch_folder
from nadi.io.wakes import TRUSTED, Doorbell, Tell

LOOK_EVERY = 0.2
"""Seconds between two looks at a folder whose changes nobody tells."""


class FolderBell:
    """Rings when something may have changed in a folder, or in a file of this `name` in it.

    Where nobody waits (`register`), a look is due after `every` seconds; where somebody does and changes are not told (no `folder`, or nobody tells), after
    LOOK_EVERY. While much changes, looks take no more than a fifth of the time.
    """

    def __init__(
        self,
        folder: Path | None,
        name: str | None = None,
        every: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bell = Doorbell(clock)
        self._clock = clock
        self._pause_ends = 0.0
        self._folder = folder
        self._name = name
        self._every = every
        self._watch: Watch | None = None

    def register(self, tell: Tell) -> None:
        """See `Doorbell.register`."""
        self._bell.register(tell)

    def due(self) -> bool:
        """Whether to look."""
        return self._bell.due(self._age()) and (not self._bell.watched or self._clock() >= self._pause_ends)

    @contextmanager
    def look(self) -> Iterator[None]:
        """A look: what changes from here on is told."""
        began = self._clock()
        with self._bell.look():
            if self._bell.watched and self._folder is not None and not self._told():
                self._leave()
                self._watch = watch_folder(self._folder, self._bell.ring, self._name)
            yield
        ended = self._clock()
        self._pause_ends = ended + 4 * (ended - began)

    def next_look(self) -> float | None:
        """See `Wakes.next_look`."""
        if self._bell.rung:
            return self._pause_ends
        return None if self._told() else self._bell.looked + LOOK_EVERY

    def close(self) -> None:
        """Nobody waits any more."""
        self._bell.silence()
        self._leave()

    def _age(self) -> float:
        if not self._bell.watched:
            return self._every
        return TRUSTED if self._told() else LOOK_EVERY

    def _told(self) -> bool:
        return self._watch is not None and self._watch.alive

    def _leave(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None


class FileBell(FolderBell):
    """Rings when a file may have been written."""

    def __init__(self, path: Path) -> None:
        super().__init__(path.parent, path.name)
