"""A folder of files that are named by people: read, written and removed as a whole, never by a name that leaves the folder, never through a link."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from nadi.config.ownership import OWN_FOLDER
from nadi.errors import error
from nadi.io.durablefiles import sync_folder, write_atomically

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\- ]{0,99}")


def is_name(name: str) -> bool:
    """Whether a file may have this name.

    >>> is_name("prices 2024.csv"), is_name("../prices.csv"), is_name(".prices.csv")
    (True, False, False)
    """
    return _NAME.fullmatch(name) is not None


class Shelf:
    """See the module's text. `suffix` ends the names of the files; what it lists and takes are names without it. Names are checked by whoever asks."""

    def __init__(self, folder: Path, suffix: str = "") -> None:
        self._folder = folder
        self._suffix = suffix

    def make(self) -> None:
        """Make the folder, for this user alone. Errors: FOLDER_NOT_MADE."""
        try:
            self._folder.mkdir(mode=OWN_FOLDER, parents=True, exist_ok=True)
        except OSError as reason:
            raise error("FOLDER_NOT_MADE", folder=self._folder, reason=reason.strerror) from reason

    def names(self) -> list[str]:
        """The files, sorted. Links, folders, and what has no such name do not count."""
        with os.scandir(self._folder) as entries:
            found = [e.name for e in entries if e.name.endswith(self._suffix) and e.is_file(follow_symlinks=False)]
        return sorted(name for name in (f.removesuffix(self._suffix) for f in found) if is_name(name))

    def has(self, name: str) -> bool:
        """Whether there is a file of this name."""
        path = self._path(name)
        return is_name(name) and path.is_file() and not path.is_symlink()

    @contextmanager
    def opened(self, name: str) -> Iterator[BinaryIO]:
        """A file to be read. Errors: SIMULATION_FILE."""
        if not is_name(name):
            raise error("SIMULATION_FILE", name=name[:100], reason="it has no name that a file may have here")
        try:
            descriptor = os.open(self._path(name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as reason:
            raise error("SIMULATION_FILE", name=name, reason=reason.strerror) from reason
        with os.fdopen(descriptor, "rb") as file:
            yield file

    def read(self, name: str) -> bytes:
        """The content of a file. Errors: SIMULATION_FILE."""
        with self.opened(name) as file:
            return file.read()

    def write(self, name: str, data: bytes) -> None:
        """Put a file in place, whole or not at all, and on the disk. Errors: SIMULATION_FILE, DISK_FULL."""
        if not is_name(name):
            raise error("SIMULATION_FILE", name=name[:100], reason="it has no name that a file may have here")
        try:
            write_atomically(self._path(name), data)
        except OSError as reason:
            raise error("SIMULATION_FILE", name=name, reason=reason.strerror) from reason

    def remove(self, name: str) -> bool:
        """Remove a file; whether it was there. Errors: SIMULATION_FILE."""
        if not self.has(name):
            return False
        try:
            self._path(name).unlink(missing_ok=True)
            sync_folder(self._folder)
        except OSError as reason:
            raise error("SIMULATION_FILE", name=name, reason=reason.strerror) from reason
        return True

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}{self._suffix}"
