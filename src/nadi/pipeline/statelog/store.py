"""What a state log asks of a place for objects. It is little enough for folders, HDFS and object stores: no rename, no append, no lock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class ObjectStore(Protocol):
    """Objects by name. Names have no slash and begin with a letter.

    Raises:
        ConnectionUnavailableException: DISK_FULL from `put`; STATE_LOG_FAILED where the store fails or cannot be reached, from all.
    """

    @property
    def name(self) -> str:
        """Where it is, for messages; without passwords."""
        ...

    @property
    def ahead(self) -> int:
        """How many reads side by side are worth their while."""
        ...

    @property
    def forks(self) -> bool:
        """Whether a child that was forked from a process which uses it may `put`."""
        ...

    def put(self, name: str, pieces: Iterable[bytes]) -> None:
        """A new object, whole and durable when this returns. Where it fails there is none, or a torn one that nobody knows of.

        Errors also: FileExistsError for a name that was used, and whatever `pieces` raises.
        """
        ...

    def get(self, name: str, offset: int, length: int) -> bytes:
        """A part of an object; less than `length` where it ends before. Errors also: FileNotFoundError."""
        ...

    def list(self, prefix: str = "") -> list[str]:
        """The names that begin so, in order."""
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Remove objects; those that are gone already are no error."""
        ...

    def sweep(self) -> None:
        """Remove what writers that died left beside the objects."""
        ...
