"""What a node of a pair keeps on its own disk: the id of its store, the highest token that it has seen, and whether its copy is whole."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Protocol

import msgspec


class Memory(Protocol):
    """It goes where the store goes: a node that loses its disk begins with another `store` and the token 0."""

    @property
    def store(self) -> str: ...

    @property
    def token(self) -> int: ...

    @property
    def whole(self) -> bool:
        """Whether what is in the store belongs together. It does not while a copy is being made."""
        ...

    def note(self, token: int) -> None:
        """Keep a token that is higher than all before; durably, when this returns."""
        ...

    def mark(self, whole: bool) -> None:
        """Keep whether the copy is whole; durably, when this returns."""
        ...


class _Kept(msgspec.Struct):
    store: str
    token: int
    whole: bool = True


class DiskMemory:
    """Implements `Memory` in a file of the folder that has the store. The folder is made where it is missing.

    Errors: OSError where it cannot be read or written, msgspec.DecodeError where the file is something else.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "store.json"
        folder.mkdir(parents=True, exist_ok=True)
        if self._path.exists():
            self._kept = msgspec.json.decode(self._path.read_bytes(), type=_Kept)
        else:
            self._kept = _Kept(secrets.token_hex(16), 0)
            self._write()

    @property
    def store(self) -> str:
        return self._kept.store

    @property
    def token(self) -> int:
        return self._kept.token

    @property
    def whole(self) -> bool:
        return self._kept.whole

    def mark(self, whole: bool) -> None:
        if whole != self._kept.whole:
            self._kept.whole = whole
            self._write()

    def note(self, token: int) -> None:
        if token > self._kept.token:
            self._kept.token = token
            self._write()

    def _write(self) -> None:
        beside = self._path.with_suffix(".new")
        with beside.open("wb") as file:
            file.write(msgspec.json.encode(self._kept))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
