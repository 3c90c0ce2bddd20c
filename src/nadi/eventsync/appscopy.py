"""The texts of a node's apps: a copy has the same ones."""

from __future__ import annotations

from collections.abc import AsyncIterator
from hashlib import blake2b
from typing import Protocol

import msgspec

from nadi.eventsync.contract import Keep
from nadi.replica.contract import AppFile, Record


class AppTexts(Protocol):
    """The folder of a node's apps, as `nadi.server` has it. Each change is durable when its call returns."""

    def names(self) -> list[str]:
        """The apps that have a text."""
        ...

    def read(self, name: str) -> str | None:
        """The text of an app, None where it has none."""
        ...

    def write(self, name: str, text: str) -> None:
        """Give an app its text."""
        ...

    def remove(self, name: str) -> None:
        """Remove the text of an app; nothing where there is none."""
        ...


class AppsCopy:
    """Implements `nadi.eventsync.contract.Copy`. Errors of every method: those of the folder."""

    kinds = (AppFile,)

    def __init__(self, texts: AppTexts) -> None:
        self._texts = texts

    async def holds(self, record: Record) -> bool:
        assert isinstance(record, AppFile)
        return self._texts.read(record.name) == record.text

    async def apply(self, record: Record) -> None:
        assert isinstance(record, AppFile)
        if self._texts.read(record.name) == record.text:
            return
        if record.text is None:
            self._texts.remove(record.name)
        else:
            self._texts.write(record.name, record.text)

    async def standing(self) -> bytes:
        return msgspec.msgpack.encode(self._digests())

    async def missing(self, standing: bytes) -> AsyncIterator[bytes]:
        theirs, mine = msgspec.msgpack.decode(standing, type=dict[str, bytes]), self._digests()
        for name in sorted(theirs.keys() - mine.keys()):
            yield msgspec.msgpack.encode(AppFile(name, None))
        for name, digest in sorted(mine.items()):
            if theirs.get(name) != digest:
                yield msgspec.msgpack.encode(AppFile(name, self._texts.read(name)))

    async def restore(self, pieces: AsyncIterator[bytes], keep: Keep) -> None:
        """Texts that only this node had go: which apps there are is said by the active one."""
        async for piece in pieces:
            await self.apply(msgspec.msgpack.decode(piece, type=AppFile))

    def _digests(self) -> dict[str, bytes]:
        texts = {name: self._texts.read(name) for name in self._texts.names()}
        return {
            name: blake2b(text.encode(), digest_size=16).digest() for name, text in texts.items() if text is not None
        }
