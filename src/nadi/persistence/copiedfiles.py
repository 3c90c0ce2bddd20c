"""Revisions in files of a node whose partner has them, too: each file is at both nodes before anything relies on it, a manifest after its blobs.

The partner gets them like the objects of a state log (`nadi.eventsync.objectscopy`), under the same path below the folder of objects, and by name and length.
So no name is used twice: a blob has the time in its name, `segments/<address>-<time in ns, hexadecimal>.zst`. Of several of one address the newest counts, the
others were damaged. What is removed goes at the partner, too; where it is away, with the next catch-up.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from nadi.errors import NadiError, error
from nadi.persistence.files import BLOB, DAMAGED, FileStore, sync_folder
from nadi.replica import client
from nadi.replica.contract import ObjectPut, ObjectsGone

_DIGITS = 16
_HEXADECIMAL = frozenset("0123456789abcdef")
AT_ONCE = 10_000  # names of files in a record
LONGEST = 240  # bytes of a name: the partner writes it under a longer one first, and would never be in sync with one that it cannot write


class CopiedFileStore(FileStore):
    """A persistence store in a folder of the folder of objects. Errors of whatever writes besides: PERSISTENCE_STORE_FAILED, where the partner may not have
    it."""

    def __init__(self, location: Path, socket: Path) -> None:
        """`socket` is that of the event sync."""
        super().__init__(location)
        self._socket = socket

    def place(self, folder: Path, address: str) -> Path:
        plain = super().place(folder, address)
        found = sorted(plain.parent.glob(f"{address}-{'[0-9a-f]' * _DIGITS}{BLOB}"))
        return found[-1] if found else plain

    def new_place(self, folder: Path, address: str) -> Path:
        before = self.place(folder, address)
        number = max(time.time_ns(), _number(before.name) + 1)  # the clock may have been set back
        return before.with_name(f"{address}-{number:0{_DIGITS}x}{BLOB}")

    def wanted(self, names: Iterable[str], keep: frozenset[str]) -> set[str]:
        newest: dict[str, str] = {}
        for name in sorted(names, key=lambda name: (_number(name), name)):
            if name.endswith(BLOB):
                newest[_address(name)] = name
        return {name for address, name in newest.items() if address in keep}

    def came(self, path: Path) -> None:
        if len(path.name.encode()) > LONGEST:
            reason = f"the name of a file of it has more than {LONGEST} bytes: {path.name[:40]}…"
            raise error("PERSISTENCE_STORE_FAILED", store=self.name, reason=reason)
        sync_folder(path.parent)
        try:
            replica = client.blocking_replica(self._socket)
            replica.confirm(replica.prepare(ObjectPut(self._relative(path), path.stat().st_size)))
        except NadiError as reason:
            raise error("PERSISTENCE_STORE_FAILED", store=self.name, reason=reason) from reason

    def went(self, paths: Sequence[Path]) -> None:
        """A damaged file has another name here than at the partner, which may have it whole: both go."""
        names = [self._relative(path) for path in paths if not path.name.startswith(".")]
        names += [self._relative(path.with_suffix(BLOB)) for path in paths if path.suffix == DAMAGED]
        with suppress(NadiError):  # the next catch-up takes them
            replica = client.blocking_replica(self._socket)
            for begin in range(0, len(names), AT_ONCE):
                replica.confirm(replica.prepare(ObjectsGone(names[begin : begin + AT_ONCE])))

    def _relative(self, path: Path) -> str:
        return path.relative_to(self._location.parent).as_posix()


def _address(name: str) -> str:
    """
    >>> _address("ab12-00000000000000ff.zst"), _address("ab12.zst")
    ('ab12', 'ab12')
    """
    return name.removesuffix(BLOB).partition("-")[0]


def _number(name: str) -> int:
    """
    >>> _number("ab12-00000000000000ff.zst"), _number("ab12.zst"), _number(".ab12-x.zst.new")
    (255, 0, 0)
    """
    found = name.removesuffix(BLOB).partition("-")[2]
    return int(found, 16) if len(found) == _DIGITS and set(found) <= _HEXADECIMAL else 0
