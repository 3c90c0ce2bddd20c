"""What a persistence store is: manifests by app and revision, and blobs by app and address. It does not know what is in them.

An address is the SHA-256 of a blob's content before compression, so that equal content is stored once, whatever revisions it belongs to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

SEPARATOR = "__"
_NAME = re.compile(r"(\d+)__(.+)", re.DOTALL)


def revision_name(app: str, ms: int) -> str:
    """The name of a revision: `<ms>__<app>`.

    >>> revision_name("Orders", 1700000000000)
    '1700000000000__Orders'
    """
    return f"{ms}{SEPARATOR}{app}"


def time_of_name(name: str, app: str) -> int | None:
    """The time in the name of a revision of an app, ms; None where it is none."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found is not None and found[2] == app else None


def in_order(names: Iterable[str], app: str) -> list[str]:
    """Those that are revisions of an app, oldest first."""
    dated = [(time, name) for name in names if (time := time_of_name(name, app)) is not None]
    return [name for _time, name in sorted(dated)]


class Sink(Protocol):
    """Where the bytes of a blob go."""

    def write(self, data: bytes, /) -> int: ...


class Writing(Protocol):
    """One writer's turn at an app: nobody else writes it meanwhile. What it did counts when the turn ends without an error."""

    def names(self) -> list[str]:
        """Revisions, oldest first."""
        ...

    def manifest(self, name: str) -> bytes:
        """As it was saved."""
        ...

    def size(self, address: str) -> int | None:
        """How many bytes a blob has as it is stored; None where there is none."""
        ...

    def blob(self, address: str) -> AbstractContextManager[Sink]:
        """A new blob, in the place of one of the same address."""
        ...

    def save(self, name: str, manifest: bytes) -> None:
        """A new revision. All its blobs are written."""
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Forget revisions."""
        ...

    def sweep(self, keep: frozenset[str]) -> None:
        """Forget all blobs but these, and what writers that died left behind."""
        ...


class Store(Protocol):
    """A persistence store.

    Raises:
        PersistenceStoreException: PERSISTENCE_STORE_FAILED, from all of it.
        ConnectionUnavailableException: DISK_FULL, from writing.
    """

    @property
    def name(self) -> str:
        """What it is, for messages; without passwords."""
        ...

    def apps(self) -> list[str]:
        """The apps with revisions, in order."""
        ...

    def names(self, app: str) -> list[str]:
        """The revisions of an app, oldest first."""
        ...

    def manifest(self, app: str, name: str) -> bytes | None:
        """As it was saved; None where there is none."""
        ...

    def blob(self, app: str, address: str) -> Iterator[bytes]:
        """Pieces of a blob; none where it is not there."""
        ...

    def set_aside(self, app: str, address: str) -> None:
        """A blob is damaged: let nobody use it again."""
        ...

    def writing(self, app: str) -> AbstractContextManager[Writing]:
        """A turn; waits for the one of another writer to end."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...
