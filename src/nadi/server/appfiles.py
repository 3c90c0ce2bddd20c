"""The files of a worker's apps, `siddhi-files/<name>.siddhi`: read, written and removed as a whole, never by a name that leaves the folder."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from nadi.errors import error
from nadi.io.durablefiles import sync_folder

SUFFIX = ".siddhi"
RESERVED = frozenset({"revisions", "statistics"})
"""Paths of the REST API stand where the name of an app would: `DELETE /siddhi-apps/revisions` lets go of what all apps know."""
SETTLED = 2_000_000_000  # ns after which two changes of a file have two times, on all file systems
LONGEST = 100  # characters of a name: the tables of the reference have so many
_NAME = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_.\-]{{0,{LONGEST - 1}}}")


@dataclass(frozen=True, slots=True)
class AppFile:
    """A file of the folder: the name that the file has, without its ending, and what stands in it. `problem` says why it cannot be read."""

    name: str
    text: str
    problem: str = ""

    @property
    def mark(self) -> str:
        """A digest of the content: two files with the same mark are the same."""
        return blake2b(f"{self.problem}\0{self.text}".encode(), digest_size=16).hexdigest()


def check_name(name: str) -> str:
    """A name that an app of a worker may have. Errors: APP_NAME_INVALID, APP_NAME_RESERVED.

    >>> check_name("Orders_2.eu")
    'Orders_2.eu'
    """
    if _NAME.fullmatch(name) is None:
        raise error("APP_NAME_INVALID", name=name[:LONGEST], most=LONGEST)
    if name in RESERVED:
        raise error("APP_NAME_RESERVED", name=name)
    return name


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read of a file, what it was then, and when (ns)."""

    file: AppFile
    stat: tuple[int, int, int, int]
    at: int

    def holds(self, stat: tuple[int, int, int, int]) -> bool:
        """Whether the file is the same still. One that was changed shortly before it was read may have changed again in the same tick of its file system."""
        return stat == self.stat and self.at - stat[1] > SETTLED


class AppFiles:
    """The folder. What has not changed, by size and times, is not read again."""

    def __init__(self, folder: Path, largest: int) -> None:
        """`largest` is the size of a text, in bytes, that is still read."""
        self._folder = folder
        self._largest = largest
        self._known: Mapping[str, _Read] = {}

    @property
    def folder(self) -> Path:
        """The folder."""
        return self._folder

    def scan(self) -> dict[str, AppFile]:
        """The files by name. Files with other endings, links and folders do not count."""
        found: dict[str, _Read] = {}
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if (
                    entry.name.endswith(SUFFIX)
                    and not entry.name.startswith(".")
                    and entry.is_file(follow_symlinks=False)
                ):
                    name = entry.name.removesuffix(SUFFIX)
                    read = self._looked_at(name, entry)
                    if read is not None:
                        found[name] = read
        self._known = found
        return {name: read.file for name, read in found.items()}

    def _looked_at(self, name: str, entry: os.DirEntry[str]) -> _Read | None:
        """One file, read where it may have changed; None where it has just gone."""
        try:
            found = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return None
        stat, at = (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino), time.time_ns()
        known = self._known.get(name)
        if known is not None and known.holds(stat):
            return known
        read = self._read(name)
        return None if read is None else _Read(read, stat, at)

    def _read(self, name: str) -> AppFile | None:
        """One file; None where it has just gone."""
        try:
            with os.fdopen(os.open(self._path(name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
                data = file.read(self._largest + 1)
        except FileNotFoundError:
            return None
        except OSError as reason:
            return AppFile(name, "", f"it cannot be read: {reason.strerror}")
        if len(data) > self._largest:
            return AppFile(name, "", f"it has more than {self._largest:,} bytes")
        try:
            return AppFile(name, data.decode("utf-8-sig"))
        except UnicodeDecodeError as reason:
            return AppFile(name, "", f"it is no text in UTF-8: {reason}")

    def has(self, name: str) -> bool:
        """Whether there is a file of this name."""
        path = self._path(name)
        return _NAME.fullmatch(name) is not None and path.is_file() and not path.is_symlink()

    def write(self, name: str, text: str) -> None:
        """Put a file in place, whole or not at all, and on the disk. Errors: APP_NAME_INVALID, APP_NOT_SAVED."""
        path = self._path(check_name(name))
        fresh = self._folder / f".{secrets.token_hex(8)}.new"
        try:
            try:
                with os.fdopen(
                    os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb"
                ) as file:
                    file.write(text.encode())
                    file.flush()
                    os.fsync(file.fileno())
                fresh.replace(path)
                sync_folder(self._folder)
            finally:
                fresh.unlink(missing_ok=True)
        except OSError as reason:
            raise error("APP_NOT_SAVED", app=name, reason=reason.strerror) from reason

    def remove(self, name: str) -> bool:
        """Remove a file; whether it was there. Errors: APP_NAME_INVALID, APP_NOT_SAVED."""
        path = self._path(check_name(name))
        try:
            path.unlink()
            sync_folder(self._folder)
        except FileNotFoundError:
            return False
        except OSError as reason:
            raise error("APP_NOT_SAVED", app=name, reason=reason.strerror) from reason
        return True

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}{SUFFIX}"
